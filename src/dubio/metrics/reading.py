"""Inputs of metrics, checked and laid out: probabilities with labels, label maps, scores.

A prediction is a `Predictive`, or a tensor of probabilities with its classes along dimension 1, as
`torch.nn.functional.cross_entropy` has them: (B, K) for rows, (B, K, H, W) for pixels. `*P` stands
for the places of one example, such as its pixels; a row has none.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dubio.likelihoods.discrete import check_probabilities
from dubio.noise.float64 import in_float64, with_float64
from dubio.predictive.predictive import Predictive

Classifiable = Predictive | Tensor  # a prediction of labels, or probabilities (B, K, *P)


@dataclass(frozen=True)
class Classified:
    """Class probabilities and the labels that they are about.

    Attributes:
        probabilities: Classes last, in float32 or float64: `(B, *P, K)`.
        labels: `(B, *P)`; anything where the label is void.
        known: Where the label is not void: `(B, *P)`.
    """

    probabilities: Tensor
    labels: Tensor
    known: Tensor

    @cached_property
    def predicted(self) -> Tensor:
        """The likeliest class, the first of them if there are several: `(B, *P)`."""
        return self.probabilities.argmax(-1)

    @cached_property
    def accurate(self) -> Tensor:
        """Where that is the label: `(B, *P)`."""
        return self.predicted == self.labels

    @cached_property
    def entropy(self) -> Tensor:
        """Of every single prediction, in nats and in float64: `(B, *P)`.

        Terms are added in the order of their size, so that predictions which differ in the order
        of their classes alone have the same entropy to the last bit; two terms always have.
        """
        terms: Tensor = torch.special.entr(in_float64(self.probabilities))
        return (terms if terms.shape[-1] <= 2 else terms.sort(-1).values).sum(-1)

    @cached_property
    def rows(self) -> tuple[Tensor, Tensor]:
        """Probabilities `(N, K)` and labels `(N,)` of all places that have a label."""
        return self.probabilities[self.known], self.labels[self.known]

    def doubt(self, uncertainty: Tensor | None) -> Tensor:
        """Return the given uncertainty, or else the entropy: `(B, *P)`."""
        if uncertainty is None:
            return self.entropy
        check_shape(uncertainty, self.labels.shape, "uncertainty", "the targets")
        if bool(uncertainty.isinf().any()):
            raise ValueError("uncertainty: expected finite numbers, got infinite ones; clamp them")
        return check_numbers(uncertainty, "uncertainty")


def read_classified(
    prediction: Classifiable, target: Tensor, void: int | None = None
) -> Classified:
    """Check probabilities against labels, which may be floats where each element has its own."""
    if isinstance(prediction, Tensor) and isinstance(target, Tensor):
        _check_averaged(prediction, target)
    probabilities = _read_probabilities(prediction)  # (B, *P, K)
    _check_tensor(target, "target")
    target = with_float64(target)
    if target.shape != probabilities.shape[:-1]:
        if isinstance(prediction, Predictive):
            prediction.check_targets(target)  # which knows better what is wrong
        raise ValueError(
            f"target: expected shape {tuple(probabilities.shape[:-1])}, one label for every "
            f"prediction, got {tuple(target.shape)}; probabilities have their classes along "
            "dimension 1, and one probability of yes becomes torch.stack([1 - p, p], 1)"
        )
    each = isinstance(prediction, Predictive) and probabilities.ndim > prediction.mean.ndim
    labels = target.long() if each and bool((target == target.long()).all()) else target
    counted = None
    if void is None and isinstance(prediction, Predictive):
        counted = prediction.likelihood.known(labels)
    labels = labels if counted is None else labels.where(counted, 0)
    known = check_labels(labels, probabilities.shape[-1], void)
    known = known if counted is None else counted
    return Classified(probabilities, labels.long().where(known, 0), known)


def read_soft(prediction: Classifiable, target: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return probabilities and soft labels, each `(N, K)`; None if targets are labels.

    Soft labels are floats shaped as the prediction is, which sum to 1 over the classes.
    """
    shape = (prediction.mean if isinstance(prediction, Predictive) else prediction).shape
    if not (isinstance(target, Tensor) and target.is_floating_point() and target.shape == shape):
        return None
    probabilities = _read_probabilities(prediction)
    if probabilities.ndim != target.ndim:  # each element has a label of its own
        return None
    soft = check_numbers(target, "target")
    soft = prediction.likelihood.by_label(soft) if isinstance(prediction, Predictive) else (
        soft.movedim(1, -1)
    )  # fmt: skip
    check_probabilities(soft, -1, "target", "pass integer labels, or normalise soft ones")
    return probabilities.flatten(0, -2), soft.flatten(0, -2)


def check_labels(labels: Tensor, classes: int, void: int | None, name: str = "target") -> Tensor:
    """Check labels, and return where they are not void."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(
            f"{name}: expected integer class labels, got {labels.dtype}; pass {name}.long(), or "
            f"{name}.argmax(1) of one-hot vectors"
        )
    labels = labels.long()  # bytes would be compared with numbers modulo 256
    known = torch.ones_like(labels, dtype=torch.bool) if void is None else labels != void
    wrong = known & ((labels < 0) | (labels >= classes))
    if bool(wrong.any()):
        raise ValueError(
            f"{name}: expected class labels from 0 to {classes - 1}, got "
            f"{int(labels[wrong][0])}; relabel, or pass void= for the label of what does not count"
        )
    return known


def check_classes(found: int, expected: int) -> None:
    """Raise an error unless the number of classes is the announced one."""
    if found != expected:
        raise ValueError(
            f"prediction: expected {expected} classes, got {found}; pass their number as "
            "num_classes"
        )


def check_numbers(numbers: Tensor, name: str) -> Tensor:
    """Check that numbers are real and finite; half precision becomes float32.

    Numbers of a device without float64 go to the CPU.
    """
    _check_tensor(numbers, name)
    if not numbers.is_floating_point():
        raise ValueError(
            f"{name}: expected floating-point numbers, got {numbers.dtype}; pass {name}.float()"
        )
    if bool(numbers.isnan().any()):
        raise ValueError(
            f"{name}: expected numbers, got {int(numbers.isnan().sum())} NaN among "
            f"{numbers.numel()}; find out where they come from, or remove these rows"
        )
    numbers = numbers.float() if torch.finfo(numbers.dtype).bits < 32 else numbers
    return with_float64(numbers)


def check_shape(found: Tensor, shape: torch.Size, name: str, owner: str) -> None:
    """Raise an error unless the shape is that of the owner."""
    if found.shape != shape:
        raise ValueError(
            f"{name}: expected shape {tuple(shape)} of {owner}, got {tuple(found.shape)}; reshape "
            "it, nothing is broadcast"
        )


def _check_tensor(found: Tensor, name: str) -> None:
    if not isinstance(found, Tensor):
        raise TypeError(
            f"{name}: expected a tensor, got {type(found).__name__}; make one with torch.as_tensor"
        )
    if found.numel() == 0:
        raise ValueError(
            f"{name}: expected at least one row, got shape {tuple(found.shape)}; skip empty batches"
        )


def _check_averaged(prediction: Tensor, target: Tensor) -> None:
    if prediction.ndim == target.ndim + 2:
        raise ValueError(
            f"prediction: expected probabilities (B, K, ...) of targets {tuple(target.shape)}, got "
            f"shape {tuple(prediction.shape)}, as of draws (S, B, K, ...); pass the Predictive "
            "itself, or the mean of its draws' probabilities: draws.softmax(-1).mean(0) of logits"
        )


def _read_probabilities(prediction: Classifiable) -> Tensor:
    """Classes last: `(B, *P, K)`."""
    if isinstance(prediction, Predictive):
        likelihood, mean = prediction.likelihood, check_numbers(prediction.mean, "prediction")
        if not likelihood.discrete:
            raise TypeError(
                f"prediction: expected classes, got {likelihood!r}; predict with "
                "likelihood=dubio.likelihoods.Categorical() or Bernoulli()"
            )
        return likelihood.by_label(mean)
    given = check_numbers(prediction, "prediction")
    if given.ndim < 2:
        raise ValueError(
            f"prediction: expected probabilities (B, K, ...) with classes along dimension 1, got "
            f"shape {tuple(given.shape)}; one probability of yes becomes "
            "torch.stack([1 - p, p], 1)"
        )
    tolerance = torch.finfo(torch.bfloat16).eps  # what was bfloat16 once may be float32 now
    sums = given.sum(1)
    low, high = (float(end) for end in given.detach().aminmax())
    if low < 0 or high > 1 + tolerance:
        logs = high <= tolerance and bool(((given.exp().sum(1) - 1).abs() <= 1e-2).all())
        kind, remedy = ("log-probabilities", "exp()") if logs else ("logits", "softmax(1)")
        if low >= 0 and bool((given == given.round()).all()):
            kind, remedy = "whole numbers", "long() if they are labels"
        raise ValueError(
            f"prediction: expected probabilities, got {kind}, values from {low:.4g} to "
            f"{high:.4g}; pass prediction.{remedy}"
        )
    if bool(((sums - 1).abs() > tolerance).any()):
        raise ValueError(
            f"prediction: expected probabilities that sum to 1 along dimension 1, got sums from "
            f"{float(sums.min()):.4g} to {float(sums.max()):.4g}; move the classes to dimension 1 "
            "or normalise them"
        )
    return given.movedim(1, -1)
