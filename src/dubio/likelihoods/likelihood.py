"""The base class of all likelihoods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from dubio.noise.vectorised import is_vectorised


class Likelihood(ABC):
    """The conditional distribution p(y | x, omega) of a target, given the outputs of one draw.

    Instances are cheap immutable values, but for those that learn: they are modules as well. Every
    method checks its outputs.

    Attributes:
        noisy: Whether p(y | x, omega) has a variance of its own.
        discrete: Whether its mean is a probability, so that entropies and votes exist.
        gaussian: Whether the elements of a target are Gaussian and independent given the draw, so
            that closed forms hold.
        whole: Whether targets are whole numbers from 0.
        rowwise: Whether the loss of a row depends on the outputs of that row alone, for certain.
            Every class says it for itself: one that is derived from it may do anything.
        advice: What to do about a quantity that is not defined.
    """

    noisy: ClassVar[bool] = True
    discrete: ClassVar[bool] = False
    gaussian: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    rowwise: ClassVar[bool] = False
    advice: ClassVar[str] = "implement it, or choose a likelihood of dubio.likelihoods that has it"

    def __init_subclass__(cls) -> None:
        """Reset `rowwise` in a derived class, which may do anything."""
        super().__init_subclass__()
        if "rowwise" not in vars(cls):
            cls.rowwise = False

    def check(self, outputs: Tensor) -> None:
        """Raise a ValueError if the outputs `(S, B, ...)` do not fit this likelihood."""
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

    def broken(self, outputs: Tensor) -> Tensor:
        """Return which rows `(B,)` of outputs `(S, B, ...)` are invalid in some draw."""
        return ~outputs.isfinite().transpose(0, 1).flatten(1).all(1)

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Raise an error if targets do not belong to these means `(S, B, *E)`."""
        check_tensor(y, means.shape[1:], means)

    def known(self, y: Tensor) -> Tensor | None:
        """Return which targets count, in the shape of `y`; None if all do."""
        return None

    def undefined(self, quantity: str) -> TypeError:
        """Return the error for a quantity that this likelihood does not define."""
        return TypeError(f"{quantity}: not defined for {self!r}; {self.advice}")

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """Return E[y | x, omega] per draw: `(S, B, *E)`; of a class, its one-hot vector's mean."""

    @abstractmethod
    def variance(self, outputs: Tensor) -> Tensor:
        """Return Var[y | x, omega] per draw and element: `(S, B, *E)`."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log of p(y | x, omega) per draw, joint over the event dimensions: `(S, B)`."""

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each row that `ELBO` minimises, from the outputs of one draw: `(B,)`.

        This is −log p(y | x, omega), unless the likelihood weights classes or smooths labels.
        """
        return -self.log_prob(outputs[None], y)[0]

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return P(Y <= y | x, omega) per draw and element, `(S, B, *E)`, for numeric targets.

        `y` may have any shape that broadcasts against the means.
        """
        raise self.undefined("cdf")

    @abstractmethod
    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample one target for each draw and row: `(S, B, ...)`, shaped like `y`."""

    @abstractmethod
    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the q-quantile over draws, element by element: `(B, *E)`."""

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return H[y | x, omega] in nats per draw, for each label or number."""
        raise self.undefined("entropy")

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Return the entropy in nats of averaged probabilities `(B, *E)`, if discrete."""
        raise self.undefined("entropy")

    def labels(self, mean: Tensor) -> Tensor:
        """Return the likeliest label given averaged probabilities `(B, *E)`, shaped as targets."""
        raise self.undefined("labels")

    def votes(self, outputs: Tensor) -> Tensor:
        """Count the draws that prefer each label: `(B, ..., labels)`, if discrete."""
        raise self.undefined("votes")

    def by_label(self, mean: Tensor) -> Tensor:
        """Return probabilities with labels last, `(B, ..., labels)`, from a mean `(B, *E)`."""
        raise self.undefined("probabilities of labels")

    def log_by_label(self, outputs: Tensor) -> Tensor:
        """Return their logarithms per draw, `(S, B, ..., labels)`, in float64."""
        raise self.undefined("probabilities of labels")

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return the likelihood and the outputs of one draw that have these logarithms."""
        raise self.undefined("probabilities of labels")

    def rescaled(self, scale: float | Tensor) -> Likelihood:
        """Return the likelihood of the targets scale * y + shift, for real targets.

        It rescales the noise that the likelihood itself holds. Noise that is part of the outputs is
        rescaled by `with_mean`.
        """
        raise self.undefined("rescaled")

    def with_mean(self, outputs: Tensor, mean: Tensor, scale: float) -> Tensor:
        """Return outputs with the mean `(S, B, *E)`; noise in them is multiplied by scale."""
        raise self.undefined("with_mean")

    def with_noise(self, outputs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return an equivalent likelihood and outputs that contain the noise as well.

        Used for ensembles whose members each have their own noise.
        """
        return self, outputs

    def maximise(self, statistics: Tensor, num_targets: Tensor) -> None:
        """Run the M-step: set this likelihood's parameters to their optimum."""
        raise self.undefined("maximise, the M-step")

    def statistics(self, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `maximise` needs from some rows, `(S, *T)`, and the number of targets."""
        raise self.undefined("statistics, the M-step")

    def log_prior(self) -> Tensor:
        """Return the log prior of this likelihood's parameters; `ELBO` adds it once."""
        return torch.zeros(())

    def frozen(self) -> Likelihood:
        """Return this likelihood with its current parameters fixed, for predictions."""
        return self

    def _read(self, outputs: Tensor) -> Tensor:
        self.check(outputs)
        return outputs.float() if outputs.dtype.itemsize < 4 else outputs


def check_tensor(y: Tensor, shape: torch.Size, outputs: Tensor, *, missing: bool = False) -> None:
    """Raise an error unless targets are numbers of this shape on the device of the outputs."""
    if not isinstance(y, Tensor):
        raise TypeError(
            f"y: expected a tensor, got {type(y).__name__}; make one with torch.as_tensor"
        )
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
    if not y.dtype.is_floating_point or all_true(~y.isinf() if missing else y.isfinite()):
        return
    if not missing and not all_true(~y.isnan()):
        raise ValueError(
            "y: expected numbers, got NaN; remove or impute the missing targets, or pass "
            "missing='ignore' to a likelihood of numbers"
        )
    raise ValueError("y: expected finite numbers, got infinite ones; remove these rows")


def all_true(condition: Tensor) -> bool:
    """Return whether a condition holds for all values; large tensors are not checked."""
    return is_vectorised(condition) or bool(condition.all())


def sum_events(values: Tensor) -> Tensor:
    """Sum over the event dimensions."""
    return values if values.dim() == 2 else values.flatten(2).sum(-1)  # (S, B, ...) -> (S, B)
