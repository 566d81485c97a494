"""A Gaussian likelihood whose noise precision is learned, by maximum likelihood or MAP."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from dubio.likelihoods.normal import Gaussian, Homoscedastic, check_precision
from dubio.likelihoods.numeric import Missing, check_missing


@final
@dataclass(frozen=True)
class GammaPrior:
    """A Gamma prior on a precision: p(τ) = rate^shape τ^(shape − 1) exp(−rate·τ) / Γ(shape).

    Gal et al. 2017 (appendix D) takes Gamma(0.1, 0.01) and does not say whether 0.01 is a rate or a
    scale; a rate makes that prior wide, with mean 10 and standard deviation 32.

    Attributes:
        shape: a > 0.
        rate: b > 0, in units of y².
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        for name, value in (("shape", self.shape), ("rate", self.rate)):
            if not (0 < value < math.inf):
                raise ValueError(
                    f"{name}: expected finite and > 0, got {value}; leave the prior out for "
                    "maximum likelihood"
                )

    def log_prob(self, precision: Tensor) -> Tensor:
        """Return the log density at each precision."""
        normaliser = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return normaliser + (self.shape - 1) * precision.log() - self.rate * precision


@final
class LearnedGaussian(nn.Module, Homoscedastic):
    """Gaussian noise whose precision is learned: one for all outputs, or one for each.

    ``elbo.parameters()`` contains its logarithm, so any optimiser learns it with the network, and
    `dubio.m_step` sets it to its optimum given the network. Without a prior this is maximum
    likelihood, with a prior MAP (Gal et al. 2017, appendix D).

    The MAP estimate depends on the parametrisation: here it is the mode of τ, although log τ is the
    trained parameter. The mode of log τ would have shape in place of shape − 1.

    Args:
        noise_precision: Initial precision, in units of 1 / y². A number gives one precision for all
            outputs; a tensor, which must broadcast against the event, one for each of its elements.
            An untrained network has large errors: start low, as the paper advises.
        prior: The prior of each precision, if any.
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True

    def __init__(
        self,
        noise_precision: float | Tensor = 1.0,
        *,
        prior: GammaPrior | None = None,
        missing: Missing = "error",
    ) -> None:
        super().__init__()
        check_missing(missing)
        self.missing = missing
        check_precision(noise_precision)
        if isinstance(noise_precision, Tensor):
            start = noise_precision.detach().log()
        else:
            start = torch.tensor(math.log(noise_precision))
        self.log_noise_precision = nn.Parameter(start)
        self.prior = prior

    @property
    def noise_precision(self) -> Tensor:
        """The current precision, in the shape that it was given; detached."""
        return self.log_noise_precision.detach().exp()

    def log_prior(self) -> Tensor:
        """Return Σ log p(τ) over the precisions, as densities of τ rather than of log τ."""
        if self.prior is None:
            return super().log_prior()
        return self.prior.log_prob(self.log_noise_precision.exp()).sum()

    def frozen(self) -> Gaussian:
        """Return the Gaussian with the current precision."""
        return Gaussian(self.noise_precision, self.missing)

    def rescaled(self, scale: float | Tensor) -> Gaussian:
        """Return the Gaussian with the current precision for targets scale * y + shift."""
        return self.frozen().rescaled(scale)

    def statistics(self, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return ‖y − f‖² over all rows, per draw, and the number of targets, for each precision.

        Shapes are `(S, *T)` and `(*T)` for precisions `(*T)`.
        """
        mean = self.mean(outputs)
        self.check_targets(y, mean)
        squares = (y.to(mean.dtype) - mean).square()  # (S, B, *E)
        known = self.known(y)
        counts = torch.ones_like(squares[:1]) if known is None else known[None].to(squares)
        squares = squares if known is None else squares.where(known, 0)
        return self._by_precision(squares.sum(1)), self._by_precision(counts.sum(1))[0]

    def _by_precision(self, sums: Tensor) -> Tensor:
        """Sum over the elements `(S, *E)` that share a precision: `(S, *T)`."""
        shape = self.log_noise_precision.shape
        ones = [1] * (sums.ndim - 1 - len(shape))
        return sums.sum_to_size(len(sums), *ones, *shape).reshape(len(sums), *shape)

    @torch.no_grad()
    def maximise(self, statistics: Tensor, num_targets: Tensor) -> None:
        """Run the M-step in closed form: set the precision to the maximum of ELBO + log p(τ).

            τ = (n/2 + a − 1) / (½ E‖y − f‖² + b)

        n is the number of targets for each precision, N·D if N rows of D outputs share one. Maximum
        likelihood has a = 1 and b = 0. The expectation is over draws, so the spread of the draws
        counts as noise, as it does in the ELBO.

        Args:
            statistics: E‖y − f‖² over all data, for each precision.
            num_targets: n, for each precision.
        """
        prior = self.prior
        shape, rate = (1.0, 0.0) if prior is None else (prior.shape, prior.rate)
        weight = 0.5 * num_targets + shape - 1
        error = 0.5 * statistics + rate
        if not bool((weight > 0).all()):
            raise ValueError(
                f"num_targets: expected more than {2 * (1 - shape):.4g} for each precision, got "
                f"{num_targets.tolist()}; with so few the density has no mode but 0: pass more "
                "data, or a prior with shape >= 1"
            )
        if not bool(((error > 0) & error.isfinite()).all()):
            advice = "the precision of a perfect fit is infinite: pass a prior"
            if not bool(error.isfinite().all()):
                advice = "remove or scale infinite and huge targets, and look for diverged weights"
            raise ValueError(
                f"squared errors: expected finite and > 0, got {statistics.tolist()}; {advice}"
            )
        self.log_noise_precision.copy_((weight / error).log())

    def extra_repr(self) -> str:
        """Return the precision and the prior."""
        prior = "" if self.prior is None else f", prior={self.prior}"
        return f"noise_precision={self.noise_precision.tolist()}{prior}"

    def _precision(self, like: Tensor) -> Tensor:
        return self.log_noise_precision.exp().to(like)
