"""Likelihoods: what the raw outputs of a network say about the target, p(y | x, omega).

A likelihood reads raw outputs with the draws in front, `(S, B, ...)`, in float32 or better, and
returns one value per draw: averaging over draws is the work of `dubio.summary`, averaging over
examples the work of the objectives. Event dimensions `*E` are those of one target.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from torch import Tensor
from torch.nn import functional as F

OutputKind = Literal["logits", "probabilities"]


class Likelihood(ABC):
    """The conditional distribution p(y | x, omega) of a target, given the outputs of one draw.

    Instances are cheap immutable values. Every method checks its outputs.

    Attributes:
        noisy: Whether p(y | x, omega) has a variance of its own.
        discrete: Whether its mean is a probability, so that entropies and votes exist.
        advice: What to do about a quantity that is not defined.
    """

    noisy: ClassVar[bool]
    discrete: ClassVar[bool]
    advice: ClassVar[str]

    def check(self, outputs: Tensor) -> None:
        """Raises a ValueError if the outputs `(S, B, ...)` do not fit this likelihood."""
        shape = tuple(outputs.shape)
        if not outputs.is_floating_point():
            raise ValueError(
                f"outputs: expected floating-point network outputs, got {outputs.dtype}; "
                "pass the raw scores, not labels"
            )
        if len(shape) < 2 or outputs.numel() == 0:
            raise ValueError(
                f"outputs: expected a non-empty tensor (draws, batch, ...), got shape {shape}; "
                "put the draws in front, at least one, and pass at least one row"
            )

    def undefined(self, quantity: str) -> TypeError:
        """The error for a quantity that this likelihood does not define."""
        return TypeError(f"{quantity}: not defined for {self!r}; {self.advice}")

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """E[y | x, omega] per draw: `(S, B, *E)`; of a class, its one-hot vector's mean."""

    @abstractmethod
    def variance(self, outputs: Tensor) -> Tensor:
        """Var[y | x, omega] per draw and element: `(S, B, *E)`."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The log of p(y | x, omega) per draw, joint over the event dimensions: `(S, B)`."""

    @abstractmethod
    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One target for each draw and row: `(S, B, ...)`, shaped as `log_prob` takes `y`."""

    @abstractmethod
    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The q-quantile over draws, element by element: `(B, *E)`."""

    def entropy(self, outputs: Tensor) -> Tensor:
        """H[y | x, omega] in nats per draw; discrete likelihoods only."""
        raise self.undefined("entropy")

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Entropy in nats given averaged probabilities `(B, *E)`; discrete likelihoods only."""
        raise self.undefined("entropy")

    def votes(self, outputs: Tensor) -> Tensor:
        """Draws that prefer each label, labels last: `(B, ..., labels)`; discrete ones only."""
        raise self.undefined("votes")

    def _read(self, outputs: Tensor) -> Tensor:
        self.check(outputs)
        return outputs.float() if torch.finfo(outputs.dtype).bits < 32 else outputs


class _Normal(Likelihood):
    """A Gaussian for every element of the target, independent given the draw."""

    noisy = True
    discrete = False
    advice = (
        "the entropy of a mixture of Gaussians has no closed form, and it has no classes to vote "
        "for: use variance or interval(), or average -log_prob(y) over targets y from sample()"
    )

    @abstractmethod
    def _std(self, outputs: Tensor) -> Tensor:
        """Standard deviation, broadcasting to `(S, B, *E)`."""

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Log density of D = prod(*E) elements, the summand of paper 002, eq. 13.

        log N(y; f, tau^-1 I) = -tau/2 |y - f|^2 - D/2 log 2 pi + D/2 log tau. The paper prints
        the constants for D = 1.
        """
        mean, std = self.mean(outputs), self._std(outputs)
        _check_targets(y, mean.shape[1:], mean)
        scaled = (y.to(mean.dtype) - mean) / std  # (S, B, *E)
        return _sum_events(-0.5 * (scaled.square() + math.log(2 * math.pi)) - std.log())

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One Gaussian target for each draw and row: `(S, B, *E)`."""
        mean = self.mean(outputs)
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + self._std(outputs) * noise  # (S, B, *E)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The exact quantile of the mixture over draws of the conditional Gaussians."""
        mean = self.mean(outputs)
        return _mixture_quantile(mean, self._std(outputs).expand_as(mean), q)


@final
@dataclass(frozen=True, eq=False)
class Gaussian(_Normal):
    """Outputs are the mean; the noise has a fixed precision (paper 002, section 4).

    Attributes:
        noise_precision: Tau > 0, in units of 1 / y^2; a tensor broadcasts against the event.
    """

    noise_precision: float | Tensor

    def __post_init__(self) -> None:
        tau = self.noise_precision
        known = tau if isinstance(tau, Tensor) else torch.tensor(tau, dtype=torch.float64)
        if not bool(((known > 0) & known.isfinite()).all()):
            raise ValueError(
                f"noise_precision: expected finite and > 0, got {tau}; pass 1 / noise variance"
            )

    def check(self, outputs: Tensor) -> None:
        """Also checks that the precision broadcasts to the event."""
        super().check(outputs)
        event = tuple(outputs.shape[2:])
        shape = tuple(torch.as_tensor(self.noise_precision).shape)
        pairs = zip(reversed(shape), reversed(event), strict=False)
        if len(shape) > len(event) or any(size not in (1, full) for size, full in pairs):
            raise ValueError(
                f"noise_precision: expected a shape that broadcasts to the event {event} of "
                f"outputs {tuple(outputs.shape)}, got {shape}; pass a float or one value an output"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """The outputs."""
        return self._read(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """The inverse of the precision, everywhere the same for all draws and rows."""
        mean = self._read(outputs)
        return self._precision(mean).reciprocal().expand_as(mean)

    def _std(self, outputs: Tensor) -> Tensor:
        return self._precision(self._read(outputs)).rsqrt()

    def _precision(self, mean: Tensor) -> Tensor:
        return torch.as_tensor(self.noise_precision, dtype=mean.dtype, device=mean.device)


@final
@dataclass(frozen=True)
class HeteroscedasticGaussian(_Normal):
    """The last dimension of the outputs, 2D wide, holds D means and then D log variances.

    A log variance s needs no constraint: the variance is exp(s) > 0. In float32 the variance is
    finite and positive for |s| < 87, and `log_prob`, which uses exp(s / 2), for |s| < 174.
    """

    def check(self, outputs: Tensor) -> None:
        """Also checks that the last dimension has two halves."""
        super().check(outputs)
        if outputs.ndim < 3 or outputs.shape[-1] % 2:
            raise ValueError(
                "outputs: expected (draws, batch, ..., 2 * D) with means and then log variances, "
                f"got shape {tuple(outputs.shape)}; let the last layer give an even number"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """The first half of the outputs."""
        return self._read(outputs).chunk(2, dim=-1)[0]

    def variance(self, outputs: Tensor) -> Tensor:
        """The exponential of the second half."""
        return self._log_variance(outputs).exp()

    def _std(self, outputs: Tensor) -> Tensor:
        return (0.5 * self._log_variance(outputs)).exp()

    def _log_variance(self, outputs: Tensor) -> Tensor:
        return self._read(outputs).chunk(2, dim=-1)[1]


class _Discrete(Likelihood):
    """Labels: the mean is a probability and everything else follows from it."""

    noisy = True
    discrete = True
    outputs: OutputKind

    def __post_init__(self) -> None:
        if self.outputs not in ("logits", "probabilities"):
            raise ValueError(
                f"outputs: expected 'logits' or 'probabilities', got {self.outputs!r}; "
                "say 'probabilities' only if the network itself ends in a softmax or sigmoid"
            )

    def variance(self, outputs: Tensor) -> Tensor:
        """Of the 0/1 indicator of each label: p (1 - p)."""
        p = self.mean(outputs)
        return p * (1 - p)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The empirical quantile over draws of the probabilities: it shows epistemic spread."""
        return _empirical_quantile(self.mean(outputs), q)


@final
@dataclass(frozen=True)
class Categorical(_Discrete):
    """One of K classes for each row, or for each pixel.

    Attributes:
        dim: The class dimension of one output `(B, ...)`: 1 for a segmentation (B, K, H, W).
        outputs: "logits" (log-softmax outputs are logits too) or "probabilities", for a network
            that ends in a softmax already; a second softmax would flatten its predictions.
    """

    dim: int = -1
    outputs: OutputKind = "logits"

    def check(self, outputs: Tensor) -> None:
        """Also checks the class dimension and the probabilities, if they are."""
        super().check(outputs)
        shape, axis = tuple(outputs.shape), self._axis(outputs)
        if not 2 <= axis < len(shape):
            raise ValueError(
                f"outputs: expected classes along dim={self.dim} of (batch, ...), got shape "
                f"{shape} with the draws in front; pass the dim of the classes, never the batch's"
            )
        if shape[axis] < 2:
            raise ValueError(
                f"outputs: expected at least 2 classes along dim={self.dim}, got shape {shape}; "
                "use Bernoulli for one logit"
            )
        if self.outputs == "probabilities":
            sums = outputs.float().sum(axis)
            tolerance = max(1e-4, 2 * torch.finfo(outputs.dtype).eps)
            if not bool((outputs >= 0).all() and ((sums - 1).abs() <= tolerance).all()):
                raise ValueError(
                    f"outputs: expected probabilities >= 0 that sum to 1 along dim={self.dim}, "
                    f"got values from {float(outputs.min()):.4g} and sums in "
                    f"[{float(sums.min()):.4g}, {float(sums.max()):.4g}]; pass outputs='logits' "
                    "for raw or log-softmax outputs"
                )

    def mean(self, outputs: Tensor) -> Tensor:
        """The class probabilities."""
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores.clamp(max=1)
        axis = self._axis(outputs)
        if axis == scores.ndim - 1:
            return scores.softmax(axis)
        # softmax over an inner dimension rounds by position, so equal draws would differ
        return scores.log_softmax(axis).exp()

    def entropy(self, outputs: Tensor) -> Tensor:
        """The sum over classes of -p log p, where 0 log 0 = 0."""
        terms: Tensor = torch.special.entr(self.mean(outputs))
        return terms.sum(self._axis(outputs))

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """The same for averaged probabilities, without a draw axis."""
        terms: Tensor = torch.special.entr(mean)
        return terms.sum(self.dim)

    def votes(self, outputs: Tensor) -> Tensor:
        """Draws for which each class is the likeliest: `(B, ..., K)`."""
        axis = self._axis(outputs)
        labels = self._read(outputs).argmax(axis).movedim(0, -1)  # (B, ..., S)
        counts = labels.new_zeros((*labels.shape[:-1], outputs.shape[axis]))
        return counts.scatter_add(-1, labels, torch.ones_like(labels))  # (B, ..., K)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The log probability of integer labels `y`, `(B, ...)`, summed over pixels."""
        scores, axis = self._read(outputs), self._axis(outputs)
        classes = scores.shape[axis]
        _check_targets(y, scores.shape[1:axis] + scores.shape[axis + 1 :], scores)
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
            raise ValueError(
                f"y: expected integer class labels, got {y.dtype}; pass y.long(), or y.argmax of "
                "one-hot targets"
            )
        if not bool(((y >= 0) & (y < classes)).all()):
            raise ValueError(
                f"y: expected class labels from 0 to {classes - 1}, got labels from "
                f"{int(y.min())} to {int(y.max())}; relabel or remove the rows"
            )
        logs = scores.log() if self.outputs == "probabilities" else scores.log_softmax(axis)
        index = y.long().expand(len(scores), *y.shape).unsqueeze(axis)  # (S, B, ..., 1, ...)
        return _sum_events(logs.gather(axis, index))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One label for each draw and row: `(S, B, ...)` without the classes."""
        p = self.mean(outputs).movedim(self._axis(outputs), -1)  # (S, B, ..., K)
        labels = torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=generator)
        return labels.reshape(p.shape[:-1])

    def _axis(self, outputs: Tensor) -> int:
        """The class dimension, counted with the draws in front."""
        return self.dim + 1 if self.dim >= 0 else self.dim + outputs.ndim


@final
@dataclass(frozen=True)
class Bernoulli(_Discrete):
    """A yes or no for every element: binary and multi-label problems.

    Attributes:
        outputs: "logits", or "probabilities" for a network that ends in a sigmoid already.
    """

    outputs: OutputKind = "logits"

    def check(self, outputs: Tensor) -> None:
        """Also checks the probabilities, if they are."""
        super().check(outputs)
        if self.outputs == "probabilities" and not bool(((outputs >= 0) & (outputs <= 1)).all()):
            raise ValueError(
                f"outputs: expected probabilities in [0, 1], got values in "
                f"[{float(outputs.min()):.4g}, {float(outputs.max()):.4g}]; pass outputs='logits' "
                "for raw outputs"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """The probability of 1."""
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores
        # sigmoid rounds by position, so equal draws would differ
        return F.logsigmoid(scores).exp()

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of every element: -p log p - (1 - p) log (1 - p), where 0 log 0 = 0."""
        return self.marginal_entropy(self.mean(outputs))

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """The same for averaged probabilities."""
        terms: Tensor = torch.special.entr(torch.stack([mean, 1 - mean]))
        return terms.sum(0)

    def votes(self, outputs: Tensor) -> Tensor:
        """Draws that prefer 0 and 1 for every element: `(B, *E, 2)`."""
        threshold = 0.5 if self.outputs == "probabilities" else 0.0
        yes = (self._read(outputs) > threshold).sum(0)  # (B, *E)
        return torch.stack([len(outputs) - yes, yes], dim=-1)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Sums log p where y is 1 and log (1 - p) where it is 0 over the event."""
        scores = self._read(outputs)
        _check_targets(y, scores.shape[1:], scores)
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError(
                f"y: expected only 0 and 1, got values in [{float(y.min()):.4g}, "
                f"{float(y.max()):.4g}]; threshold soft labels"
            )
        if self.outputs == "probabilities":
            return _sum_events(torch.where(y == 1, scores, 1 - scores).log())
        return _sum_events(F.logsigmoid(torch.where(y == 1, scores, -scores)))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A 0.0 or 1.0 for each draw, row and element: `(S, B, *E)`."""
        return torch.bernoulli(self.mean(outputs), generator=generator)


@final
@dataclass(frozen=True)
class Point(Likelihood):
    """No likelihood: the outputs are function values, and only their spread is known."""

    noisy = False
    discrete = False
    advice = (
        "pass likelihood= to say how outputs give targets: Gaussian(noise_precision), "
        "HeteroscedasticGaussian(), Categorical() or Bernoulli()"
    )

    def mean(self, outputs: Tensor) -> Tensor:
        """The outputs."""
        return self._read(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Not defined."""
        raise self.undefined("aleatoric variance")

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Not defined."""
        raise self.undefined("log_prob")

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The outputs."""
        return self._read(outputs)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The empirical quantile over draws of the function values."""
        return _empirical_quantile(self._read(outputs), q)


def _check_targets(y: Tensor, shape: torch.Size, outputs: Tensor) -> None:
    if y.shape != shape:
        raise ValueError(
            f"y: expected shape {tuple(shape)} for outputs {tuple(outputs.shape)}, got "
            f"{tuple(y.shape)}; reshape y, targets are never broadcast"
        )
    if y.device != outputs.device:
        raise ValueError(
            f"y: expected device {outputs.device} of the outputs, got {y.device}; move it with "
            f"y.to({str(outputs.device)!r})"
        )
    if bool(y.isnan().any()):
        raise ValueError("y: expected numbers, got NaN; remove or impute the missing targets")


def _sum_events(values: Tensor) -> Tensor:
    return values.reshape(*values.shape[:2], -1).sum(-1)  # (S, B, ...) -> (S, B)


def _check_level(q: float) -> None:
    if not 0 <= q <= 1:
        raise ValueError(f"q: expected a level in [0, 1], got {q}; divide percentages by 100")


def _empirical_quantile(values: Tensor, q: float) -> Tensor:
    """Linear interpolation between the order statistics at q (S - 1), numpy's default."""
    _check_level(q)
    ordered = values.sort(dim=0).values  # (S, B, *E)
    place = q * (len(values) - 1)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[math.ceil(place)], place - below)


def _mixture_quantile(mean: Tensor, std: Tensor, q: float) -> Tensor:
    """Solves 1/S sum_t Phi((y - mean_t) / std_t) = q for y by bisection.

    The quantiles of the components bracket that of their mixture. Phi(z) = erfc(-z / sqrt 2) / 2
    keeps its relative precision in the lower half; the upper half is mirrored to it.
    """
    _check_level(q)
    if q > 0.5:
        return -_mixture_quantile(-mean, std, 1 - q)
    z = float(torch.special.ndtri(torch.tensor(q, dtype=torch.float64)))
    parts = mean + z * std  # (S, B, *E)
    low, high = parts.amin(0), parts.amax(0)
    eps, scale = torch.finfo(mean.dtype).eps, std.amin(0)
    while bool((high - low > eps * torch.maximum(scale, high.abs())).any()):
        middle = low + (high - low) / 2
        below = torch.erfc((mean - middle) / (math.sqrt(2) * std)).mean(0) < 2 * q
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high  # (B, *E)
