"""Real targets whose noise is correlated: a Gaussian with a full covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dubio.likelihoods.numeric import Missing, Numeric


@final
@dataclass(frozen=True)
class MultivariateGaussian(Numeric):
    """A Gaussian for all D outputs of a row together, with covariance L Lᵀ.

    The last dimension of the outputs, D + D(D + 1)/2 wide, holds D means, the D logarithms of the
    diagonal of L, and its D(D − 1)/2 entries below the diagonal, row by row. `log_prob` is joint;
    `variance`, `cdf` and `quantile` are those of each element by itself.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore": then `log_prob` is that of the
            elements that are known.
    """

    rowwise = True
    missing: Missing = "error"

    advice = (
        "a mixture of Gaussians has no entropy in closed form, and no classes to vote for: use "
        "variance or interval(), or average -log_prob(y) over targets y from sample()"
    )

    def check(self, outputs: Tensor) -> None:
        """Check also that the last dimension fits some D."""
        super().check(outputs)
        if outputs.ndim < 3 or _targets(outputs.shape[-1]) is None:
            raise ValueError(
                "outputs: expected (draws, batch, ..., D + D (D + 1) / 2) with means and a "
                f"Cholesky factor, got shape {tuple(outputs.shape)}; make the last layer return 2 "
                "numbers for one target, 5 for two, 9 for three"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the first D outputs."""
        return self._parts(outputs)[0]

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the diagonal of the covariance, the squared norms of the rows of L."""
        return self.factor(outputs).square().sum(-1)

    def factor(self, outputs: Tensor) -> Tensor:
        """Return the lower Cholesky factor L: `(S, B, ..., D, D)`."""
        _, log_diagonal, below = self._parts(outputs)
        size = log_diagonal.shape[-1]
        rows, columns = torch.tril_indices(size, size, -1, device=outputs.device)
        places: Tensor = one_hot(rows * size + columns, size * size).to(below)
        strict: Tensor = (below @ places).unflatten(-1, (size, size))
        return log_diagonal.exp().diag_embed() + strict

    def covariance(self, outputs: Tensor) -> Tensor:
        """Return L Lᵀ: `(S, B, ..., D, D)`."""
        factor = self.factor(outputs)
        return factor @ factor.mT

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return -½ |L⁻¹(y - f)|² - Σ_d log L_dd - D/2 log 2π over the known elements."""
        mean = self.mean(outputs)
        self.check_targets(y, mean)
        known = self.known(y)
        errors, factor = y.to(mean.dtype) - mean, self.factor(outputs)
        elements = torch.ones_like(mean) if known is None else known.to(mean.dtype).expand_as(mean)
        if known is not None:
            # a missing element becomes one of its own, without error and of variance 1
            errors = errors.where(known, 0)
            both = elements.unsqueeze(-1) * elements.unsqueeze(-2)
            alone = (1 - elements).diag_embed()
            factor = torch.linalg.cholesky(factor @ factor.mT * both + alone)
        scaled = torch.linalg.solve_triangular(factor, errors.unsqueeze(-1), upper=False)
        logs: Tensor = (
            -0.5 * scaled.squeeze(-1).square()
            - factor.diagonal(dim1=-2, dim2=-1).log()
            - 0.5 * math.log(2 * math.pi) * elements
        )
        return logs.flatten(2).sum(-1)

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the marginal log density of each element."""
        variance = self.variance(outputs)
        squares = (y - self.mean(outputs)).square() / variance
        return -0.5 * (squares + (2 * math.pi * variance).log())

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the marginal cdf of each element, Phi((y - f) / std)."""
        scaled = (self.mean(outputs) - y) / self.variance(outputs).sqrt()
        return 0.5 * torch.erfc(scaled / math.sqrt(2))

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the joint entropy of the last dimension, D/2 log 2πe + Σ_d log L_dd."""
        log_diagonal = self._parts(outputs)[1]
        size = log_diagonal.shape[-1]
        return 0.5 * size * math.log(2 * math.pi * math.e) + log_diagonal.sum(-1)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample f + L ε for each draw and row: `(S, B, ..., D)`."""
        mean = self.mean(outputs)
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + (self.factor(outputs) @ noise.unsqueeze(-1)).squeeze(-1)

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return the mean beside the factor, which is multiplied by the scale."""
        _, log_diagonal, below = self._parts(outputs)
        parts = log_diagonal + math.log(scale), below * scale
        return torch.cat([mean, *(part.to(mean.dtype) for part in parts)], dim=-1)

    def rescaled(self, scale: float | Tensor) -> MultivariateGaussian:
        """Return the likelihood itself: the noise is in the outputs."""
        return self

    def _parts(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Return means, logarithms of the diagonal, and what is below it."""
        outputs = self._read(outputs)
        size = _targets(outputs.shape[-1]) or 0
        return tuple(outputs.split([size, size, size * (size - 1) // 2], dim=-1))


def _targets(width: int) -> int | None:
    """Return the D with D + D(D + 1)/2 = width, if there is one."""
    size = (math.isqrt(9 + 8 * width) - 3) // 2
    return size if size > 0 and size * (size + 3) // 2 == width else None
