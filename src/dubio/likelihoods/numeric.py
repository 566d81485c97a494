"""The base class of likelihoods of numbers, element by element."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from dubio.likelihoods.likelihood import Likelihood, all_true, check_tensor, sum_events
from dubio.likelihoods.quantiles import check_level, solve_cdf
from dubio.noise.float64 import has_float64, in_float64

Missing = Literal["error", "ignore"]


class Numeric(Likelihood):
    """Targets are numbers, shaped as the mean, and independent given the draw.

    A new one implements `mean`, `variance`, `log_density` and `cdf`; quantiles and samples are
    derived from the `cdf`, and every metric, interval and deferral of numbers follows. With
    `with_mean` and `rescaled` it can be calibrated by a factor, too.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore" for targets that are missing.
            They add nothing to `log_prob`, and metrics and calibration leave them out.
    """

    noisy = True
    missing: Missing = "error"
    advice = (
        "a mixture of such noise has no entropy in closed form, and no classes to vote for: use "
        "variance or interval(), or average -log_prob(y) over targets y from sample()"
    )

    def __post_init__(self) -> None:
        """Check the fields of a dataclass."""
        check_missing(self.missing)

    @abstractmethod
    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log density of each element of targets `(B, *E)`: `(S, B, *E)`."""

    def known(self, y: Tensor) -> Tensor | None:
        """Return where targets are not missing."""
        return ~y.isnan() if self.missing == "ignore" else None

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check that targets have the shape of the means, and NaN only if ignored."""
        check_tensor(y, means.shape[1:], means, missing=self.missing == "ignore")

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the sum of `log_density` over the elements that are known."""
        mean = self.mean(outputs)
        self.check_targets(y, mean)
        known = self.known(y)
        targets = y.to(mean.dtype)
        if known is None:
            return sum_events(self.log_density(outputs, targets))
        return sum_events(self.log_density(outputs, targets.where(known, 0)).where(known, 0))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample one target for each draw and row, `(S, B, *E)`, by inverting the cdf."""
        wide, like = in_float64(outputs), self._read(outputs[:1])
        mean = self.mean(wide)
        dtype = mean.dtype if has_float64(like.device) else like.dtype
        levels = torch.rand(mean.shape, generator=generator, dtype=dtype, device=like.device)
        found = solve_cdf(
            lambda y: self.cdf(wide, y),
            levels.to(mean),
            mean,
            self.variance(wide).sqrt(),
            whole=self.whole,
        )
        return found.to(like)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the quantile of the mixture over draws: where the mean of their `cdf` passes q."""
        check_level(q)
        wide = in_float64(outputs)
        means = self.mean(wide)
        center = means.mean(0)
        reach = (means - center).abs().amax(0) + self.variance(wide).sqrt().amax(0)
        found = solve_cdf(
            lambda y: self.cdf(wide, y).mean(0),
            torch.full_like(center, q),
            center,
            reach,
            whole=self.whole,
        )
        return found.to(self._read(outputs[:1]))


class Counts(Numeric):
    """Whole numbers from 0: F(y) is the probability of at most y."""

    whole = True

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check also that the targets are counts."""
        super().check_targets(y, means)
        check_counts(y if (known := self.known(y)) is None else y.where(known, 0))


def check_missing(missing: str) -> None:
    """Raise an error unless this is "error" or "ignore"."""
    if missing not in ("error", "ignore"):
        raise ValueError(
            f"missing: expected 'error' or 'ignore', got {missing!r}; pass 'ignore' if NaN marks "
            "missing targets"
        )


def check_counts(y: Tensor) -> None:
    """Raise an error unless these are whole numbers from 0."""
    whole = (y == y.round()) & y.isfinite() if y.is_floating_point() else y == y
    if not all_true((y >= 0) & whole):
        raise ValueError(
            f"y: expected counts, whole numbers >= 0, got values in [{float(y.min()):.4g}, "
            f"{float(y.max()):.4g}]; count events, or threshold ratings"
        )


def split(outputs: Tensor, names: tuple[str, ...]) -> tuple[Tensor, ...]:
    """Split the last dimension into equal parts, `(S, B, ..., D)` each."""
    parts = len(names)
    if outputs.ndim < 3 or outputs.shape[-1] % parts:
        raise ValueError(
            f"outputs: expected (draws, batch, ..., {parts} * D) with D "
            f"{' and then D '.join(names)}, got shape {tuple(outputs.shape)}; make the last layer "
            f"return {parts} numbers a target"
        )
    return outputs.chunk(parts, dim=-1)
