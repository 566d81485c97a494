"""Gaussian likelihoods: real targets with noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods.likelihood import Likelihood
from dubio.likelihoods.numeric import Missing, Numeric
from dubio.likelihoods.quantiles import mixture_quantile


class _Normal(Numeric):
    """A Gaussian for every element of the target, independent given the draw."""

    gaussian = True
    advice = (
        "the entropy of a mixture of Gaussians has no closed form, and it has no classes to vote "
        "for: use variance or interval(), or average -log_prob(y) over targets y from sample()"
    )

    @abstractmethod
    def _std(self, outputs: Tensor) -> Tensor:
        """Return the standard deviation, broadcasting to `(S, B, *E)`."""

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the summand of Gal & Ghahramani 2016, eq. 13, for each of D = prod(*E) elements.

        log N(y; f, tau^-1 I) = -tau/2 |y - f|^2 - D/2 log 2 pi + D/2 log tau. The paper prints
        the constants for D = 1.
        """
        mean, std = self.mean(outputs), self._std(outputs)
        scaled = (y - mean) / std  # (S, B, *E)
        return -0.5 * (scaled.square() + math.log(2 * math.pi)) - std.log()

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return Phi((y - f) / std)."""
        scaled = (self.mean(outputs) - y) / self._std(outputs)
        return 0.5 * torch.erfc(scaled / math.sqrt(2))

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of every element: 1/2 log 2 pi e + log std."""
        std = self._std(outputs).expand_as(self.mean(outputs))
        return 0.5 * math.log(2 * math.pi * math.e) + std.log()

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return one Gaussian target for each draw and row: `(S, B, *E)`."""
        mean = self.mean(outputs)
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + self._std(outputs) * noise  # (S, B, *E)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the exact quantile of the mixture over draws of the conditional Gaussians."""
        mean = self.mean(outputs)
        return mixture_quantile(mean, self._std(outputs).expand_as(mean), q)


class Homoscedastic(_Normal):
    """Outputs are the mean; the noise has one precision everywhere.

    Gal & Ghahramani 2016, section 4.
    """

    @abstractmethod
    def _precision(self, like: Tensor) -> Tensor:
        """Tau, with the dtype and device of `like`; its shape broadcasts to the event."""

    def check(self, outputs: Tensor) -> None:
        """Check also that the precision broadcasts against the event."""
        super().check(outputs)
        event = tuple(outputs.shape[2:])
        shape = tuple(self._precision(outputs).shape)
        pairs = zip(reversed(shape), reversed(event), strict=False)
        if len(shape) > len(event) or any(size not in (1, full) for size, full in pairs):
            raise ValueError(
                f"noise_precision: expected a shape that broadcasts to the event {event} of "
                f"outputs {tuple(outputs.shape)}, got {shape}; pass a float or one value an output"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the outputs."""
        return self._read(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the inverse of the precision, the same for all draws and rows."""
        mean = self._read(outputs)
        return self._precision(mean).reciprocal().expand_as(mean)

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return the mean: the noise is not in the outputs."""
        return mean

    def with_noise(self, outputs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return the log variances beside the outputs."""
        joint = HeteroscedasticGaussian(missing=self.missing, scalar=outputs.ndim == 2)
        return joint, joint.joined(self._read(outputs), self.variance(outputs).log())

    def _std(self, outputs: Tensor) -> Tensor:
        return self._precision(self._read(outputs)).rsqrt()


@final
@dataclass(frozen=True, eq=False)
class Gaussian(Homoscedastic):
    """Gaussian noise of known precision: y ~ N(f(x), 1/τ).

    Gal & Ghahramani 2016, section 4.

    Attributes:
        noise_precision: τ > 0, in units of 1 / y²; a tensor broadcasts against the event.
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
    """

    rowwise = True
    noise_precision: float | Tensor
    missing: Missing = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_precision(self.noise_precision)

    def rescaled(self, scale: float | Tensor) -> Gaussian:
        """Return the likelihood of the targets scale * y + shift: its precision is τ / scale².

        If targets were standardised for training, pass their standard deviation to get the
        likelihood in the original units.
        """
        if not bool((torch.as_tensor(scale) > 0).all()):
            raise ValueError(
                f"scale: expected > 0, got {scale}; pass what the targets were divided by, such "
                "as their standard deviation"
            )
        return Gaussian(self.noise_precision / scale**2, self.missing)

    def _precision(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.noise_precision, dtype=like.dtype, device=like.device)


def check_precision(noise_precision: float | Tensor) -> None:
    """Raise an error unless this can be a precision."""
    tau = noise_precision
    try:
        known = tau if isinstance(tau, Tensor) else torch.tensor(tau, dtype=torch.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"noise_precision: expected a number or a tensor, got {tau!r}; pass 1 / noise variance"
        ) from None
    if not bool(((known > 0) & known.isfinite()).all()):
        raise ValueError(
            f"noise_precision: expected finite and > 0, got {tau}; pass 1 / noise variance"
        )


@final
@dataclass(frozen=True)
class HeteroscedasticGaussian(_Normal):
    """Gaussian noise whose variance is predicted: outputs hold D means and then D log variances.

    The last dimension of the outputs is 2D wide. A log variance s needs no constraint: the variance
    is exp(s) > 0. In float32 the variance is finite and positive for |s| < 87, and `log_prob`,
    which uses exp(s / 2), for |s| < 174.

    Attributes:
        missing: What NaN among targets means: "error", or "ignore" for missing targets.
        scalar: Whether the target of a row is a single number without a dimension of its own: the
            outputs are `(S, B, ..., 2)` and targets `(B, ...)`.
    """

    rowwise = True
    missing: Missing = "error"
    scalar: bool = False

    def check(self, outputs: Tensor) -> None:
        """Check also that the last dimension has two halves."""
        super().check(outputs)
        if self.scalar and (outputs.ndim < 3 or outputs.shape[-1] != 2):
            raise ValueError(
                "outputs: expected (draws, batch, ..., 2) with a mean and a log variance for "
                f"scalar=True, got shape {tuple(outputs.shape)}; leave scalar out for targets with "
                "a dimension of their own"
            )
        if outputs.ndim < 3 or outputs.shape[-1] % 2:
            raise ValueError(
                "outputs: expected (draws, batch, ..., 2 * D) with means and then log variances, "
                f"got shape {tuple(outputs.shape)}; make the last layer return an even number"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the first half of the outputs."""
        return self._halves(outputs)[0]

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the exponential of the second half."""
        return self._halves(outputs)[1].exp()

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return the mean beside the rescaled log variances."""
        return self.joined(mean, self._halves(outputs)[1].to(mean.dtype) + 2 * math.log(scale))

    def joined(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """Return the outputs that hold these means and log variances, `(S, B, *E)` each."""
        join = torch.stack if self.scalar else torch.cat
        return join([mean, log_variance], dim=-1)

    def rescaled(self, scale: float | Tensor) -> HeteroscedasticGaussian:
        """Return the likelihood itself: the noise is in the outputs."""
        return self

    def _std(self, outputs: Tensor) -> Tensor:
        return (0.5 * self._halves(outputs)[1]).exp()

    def _halves(self, outputs: Tensor) -> tuple[Tensor, ...]:
        values = self._read(outputs)
        return values.unbind(-1) if self.scalar else values.chunk(2, dim=-1)
