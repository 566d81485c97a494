"""Discrete likelihoods: labels."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.likelihoods.likelihood import Likelihood, all_true, check_tensor, sum_events
from dubio.likelihoods.quantiles import empirical_quantile
from dubio.noise.vectorised import is_vectorised

OutputKind = Literal["logits", "probabilities"]
_NO_LABEL = -(2**62)
_ROUNDING = torch.finfo(torch.bfloat16).eps  # of sums; what was bfloat16 once may be float32 now


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

    def entropy(self, outputs: Tensor) -> Tensor:
        """That of every draw."""
        p = self.mean(outputs)
        entropies: Tensor = self.marginal_entropy(p.flatten(0, 1)).unflatten(0, p.shape[:2])
        return entropies

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """The empirical quantile over draws of the probabilities: it shows epistemic spread."""
        return empirical_quantile(self.mean(outputs), q)


@final
@dataclass(frozen=True)
class Categorical(_Discrete):
    """One of K classes for each row, or for each pixel.

    Attributes:
        dim: The class dimension of one output `(B, ...)`: 1 for a segmentation (B, K, H, W).
        outputs: "logits" (log-softmax outputs are logits too) or "probabilities", for a network
            that ends in a softmax already; a second softmax would flatten its predictions.
        void: The label of rows or pixels that do not count, such as -100 or CamVid's 11. They add
            nothing to `log_prob`; `ELBO` averages over the rows that have a label, so its
            ``num_data`` is the number of these. Calibration and metrics leave them out.
    """

    dim: int = -1
    outputs: OutputKind = "logits"
    void: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.void is not None and (
            isinstance(self.void, bool) or not isinstance(self.void, int)
        ):
            raise ValueError(f"void: expected an integer label or None, got {self.void!r}")

    def known(self, y: Tensor) -> Tensor | None:
        """Where labels are not void."""
        return None if self.void is None else y != self.void

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
            advice = (
                "pass outputs='logits' for raw or log-softmax outputs, or another dim than "
                f"{self.dim} if that is not the classes'"
            )
            check_probabilities(outputs, axis, "outputs", advice)

    def broken(self, outputs: Tensor) -> Tensor:
        """A score of minus infinity rules a class out, which is fine but for all classes."""
        best = outputs.amax(self._axis(outputs))  # NaN, if there is one
        return super().broken(best)

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

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """The logarithm of the mean, exact where a probability underflows.

        A probability of zero has a gradient of zero, so that it spoils no other.
        """
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores.where(scores > 0, 0).log()
        return scores.log_softmax(self._axis(outputs))

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """The sum over classes of -p log p, where 0 log 0 = 0."""
        terms: Tensor = torch.special.entr(mean)
        return terms.sum(self.dim)

    def labels(self, mean: Tensor) -> Tensor:
        """The likeliest class: `(B, ...)`."""
        return mean.argmax(self.dim)

    def votes(self, outputs: Tensor) -> Tensor:
        """Draws for which each class is the likeliest: `(B, ..., K)`."""
        axis = self._axis(outputs)
        labels = self._read(outputs).argmax(axis).movedim(0, -1)  # (B, ..., S)
        counts = labels.new_zeros((*labels.shape[:-1], outputs.shape[axis]))
        return counts.scatter_add(-1, labels, torch.ones_like(labels))  # (B, ..., K)

    def by_label(self, mean: Tensor) -> Tensor:
        """The classes last."""
        return mean.movedim(self.dim, -1)

    def log_by_label(self, outputs: Tensor) -> Tensor:
        """The classes last."""
        return self.log_probabilities(outputs).movedim(self._axis(outputs), -1).double()

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Log probabilities are logits."""
        return Categorical(self.dim, void=self.void), logs.movedim(-1, self.dim)

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Integer labels, one in place of the classes."""
        axis = self._axis(means)
        classes = means.shape[axis]
        if isinstance(y, Tensor) and y.shape == means.shape[1:]:
            raise ValueError(
                f"y: expected one label in place of {classes} classes, got shape {tuple(y.shape)}; "
                f"pass y.argmax({self.dim}) of one-hot targets"
            )
        check_tensor(y, means.shape[1:axis] + means.shape[axis + 1 :], means)
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
            raise ValueError(f"y: expected integer class labels, got {y.dtype}; pass y.long()")
        if is_vectorised(y):  # labels of many networks at once are taken on trust
            return
        known = self.known(y)
        labels = y if known is None else y.where(known, 0)
        low, high = map(int, labels.aminmax())
        if low < 0 or high >= classes:
            raise ValueError(
                f"y: expected class labels from 0 to {classes - 1}, got labels from {low} to "
                f"{high}; relabel, or pass void= for the label of what does not count"
            )

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The log probability of integer labels `y`, `(B, ...)`, summed over pixels."""
        logs, axis = self.log_probabilities(outputs), self._axis(outputs)
        self.check_targets(y, logs)
        known = self.known(y)
        labels = y.long() if known is None else y.long().where(known, 0)
        index = labels.expand(len(logs), *y.shape).unsqueeze(axis)  # (S, B, ..., 1, ...)
        chosen = logs.gather(axis, index)
        return sum_events(chosen if known is None else chosen.where(known.unsqueeze(axis - 1), 0))

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The cross-entropy of logits, or the same as for all likelihoods."""
        plain = self.outputs == "logits" and outputs.dim() == 2 and self.dim in (-1, 1)
        if not plain or self.dim == 0:
            return super().losses(outputs, y)
        scores = self._read(outputs[None])[0] if outputs.dtype.itemsize < 4 else outputs
        self.check(outputs[None])
        self.check_targets(y, outputs[None])
        ignored = _NO_LABEL if self.void is None else self.void
        return F.cross_entropy(scores, y.long(), reduction="none", ignore_index=ignored)

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
        if self.outputs == "probabilities" and not all_true((outputs >= 0) & (outputs <= 1)):
            _check_nan(outputs, "outputs")
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

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Of every element: -p log p - (1 - p) log (1 - p), where 0 log 0 = 0."""
        terms: Tensor = torch.special.entr(torch.stack([mean, 1 - mean]))
        return terms.sum(0)

    def labels(self, mean: Tensor) -> Tensor:
        """1 where that is likelier than 0: `(B, *E)`."""
        return (mean > 0.5).to(mean.dtype)

    def votes(self, outputs: Tensor) -> Tensor:
        """Draws that prefer 0 and 1 for every element: `(B, *E, 2)`."""
        threshold = 0.5 if self.outputs == "probabilities" else 0.0
        yes = (self._read(outputs) > threshold).sum(0)  # (B, *E)
        return torch.stack([len(outputs) - yes, yes], dim=-1)

    def by_label(self, mean: Tensor) -> Tensor:
        """No, then yes."""
        return torch.stack([1 - mean, mean], dim=-1)

    def log_by_label(self, outputs: Tensor) -> Tensor:
        """No, then yes."""
        self.check(outputs)
        yes = outputs.double()
        if self.outputs == "probabilities":
            return self.by_label(yes).log()
        return F.logsigmoid(torch.stack([-yes, yes], dim=-1))

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Logits are differences of log probabilities."""
        return Bernoulli(), logs[..., 1] - logs[..., 0]

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Also checks that they are 0 or 1."""
        super().check_targets(y, means)
        if not all_true((y == 0) | (y == 1)):
            raise ValueError(
                f"y: expected only 0 and 1, got values in [{float(y.min()):.4g}, "
                f"{float(y.max()):.4g}]; threshold soft labels"
            )

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Sums log p where y is 1 and log (1 - p) where it is 0 over the event."""
        scores = self._read(outputs)
        self.check_targets(y, scores)
        if self.outputs == "probabilities":
            return sum_events(torch.where(y == 1, scores, 1 - scores).log())
        return sum_events(F.logsigmoid(torch.where(y == 1, scores, -scores)))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A 0.0 or 1.0 for each draw, row and element: `(S, B, *E)`."""
        return torch.bernoulli(self.mean(outputs), generator=generator)


def check_probabilities(values: Tensor, axis: int, name: str, advice: str) -> None:
    """Complain about what cannot be the probabilities of classes along an axis."""
    sums = values.float().sum(axis)
    if not all_true((values >= 0).all() & ((sums - 1).abs() <= _ROUNDING).all()):
        _check_nan(values, name)
        raise ValueError(
            f"{name}: expected probabilities >= 0 that sum to 1 over the classes, got values from "
            f"{float(values.min()):.4g} and sums in [{float(sums.min()):.4g}, "
            f"{float(sums.max()):.4g}]; {advice}"
        )


def _check_nan(values: Tensor, name: str) -> None:
    count = int(values.isnan().sum())
    if count:
        raise ValueError(
            f"{name}: expected probabilities, got NaN in {count} of {values.numel()} entries; find "
            "out where they come from, or remove these rows"
        )
