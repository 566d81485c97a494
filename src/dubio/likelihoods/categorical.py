"""One of K classes: labels, soft labels, and losses with weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import SupportsIndex, final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.likelihoods.discrete import Discrete, OutputKind, as_weights, check_probabilities
from dubio.likelihoods.likelihood import Likelihood, check_tensor, sum_events
from dubio.noise.float64 import in_float64
from dubio.noise.vectorised import is_vectorised

_NO_LABEL = -(2**62)


@final
@dataclass(frozen=True)
class Categorical(Discrete):
    """One of K classes for each row, or for each pixel.

    Attributes:
        dim: The class dimension of one output `(B, ...)`: 1 for a segmentation (B, K, H, W).
        outputs: "logits" (log-softmax outputs are logits too), or "probabilities" for a network
            that ends in a softmax; a second softmax would flatten its predictions.
        void: The label of rows or pixels to ignore, such as -100 or CamVid's 11. They add nothing
            to `log_prob`; `ELBO` averages over the labelled rows, so its ``num_data`` is their
            number. Calibration and metrics ignore them too.
        class_weights: Weight of each class in `losses`, for training only.
        smoothing: Label smoothing ε in `losses`: the share of each label spread over all classes.
    """

    rowwise = True
    dim: int = -1
    outputs: OutputKind = "logits"
    void: int | None = None
    class_weights: Sequence[float] | Tensor | None = None
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.void is not None:
            if isinstance(self.void, bool) or not isinstance(self.void, SupportsIndex):
                raise ValueError(
                    f"void: expected an integer label or None, got {self.void!r}; pass the label "
                    "to ignore, such as -100"
                )
            object.__setattr__(self, "void", index(self.void))  # of NumPy, too
        if self.class_weights is not None:
            weights = as_weights(self.class_weights, "class_weights")
            object.__setattr__(self, "class_weights", weights)
        if not (isinstance(self.smoothing, float | int) and 0 <= self.smoothing <= 1):
            raise ValueError(
                f"smoothing: expected a share in [0, 1], got {self.smoothing!r}; 0.1 is common"
            )

    def known(self, y: Tensor) -> Tensor | None:
        """Return which labels are not void; soft labels always count."""
        if self.void is None or y.is_floating_point():
            return None
        return y.long() != self.void  # a byte would be compared with the void label modulo 256

    def check(self, outputs: Tensor) -> None:
        """Check also the class dimension, and that probabilities are valid."""
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
        """Return invalid rows; a logit of −∞ rules a class out and is valid unless all are."""
        best = outputs.amax(self._axis(outputs))  # NaN, if there is one
        return super().broken(best)

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the class probabilities."""
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores.clamp(max=1)
        axis = self._axis(outputs)
        if axis == scores.ndim - 1:
            return scores.softmax(axis)
        # softmax over an inner dimension rounds by position, so equal draws would differ
        return scores.log_softmax(axis).exp()

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Return the log probabilities, exact where a probability underflows.

        A probability of zero has a gradient of zero, so that it does not spoil the others.
        """
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores.where(scores > 0, 0).log()
        return scores.log_softmax(self._axis(outputs))

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Return the sum over classes of -p log p, where 0 log 0 = 0."""
        terms: Tensor = torch.special.entr(mean)
        return terms.sum(self.dim)

    def labels(self, mean: Tensor) -> Tensor:
        """Return the likeliest class: `(B, ...)`."""
        return mean.argmax(self.dim)

    def votes(self, outputs: Tensor) -> Tensor:
        """Count the draws for which each class is the likeliest: `(B, ..., K)`."""
        axis = self._axis(outputs)
        labels = self._read(outputs).argmax(axis).movedim(0, -1)  # (B, ..., S)
        counts = labels.new_zeros((*labels.shape[:-1], outputs.shape[axis]))
        return counts.scatter_add(-1, labels, torch.ones_like(labels))  # (B, ..., K)

    def by_label(self, mean: Tensor) -> Tensor:
        """Return the probabilities with classes last."""
        return mean.movedim(self.dim, -1)

    def log_by_label(self, outputs: Tensor) -> Tensor:
        """Return the log probabilities with classes last."""
        return in_float64(self.log_probabilities(outputs).movedim(self._axis(outputs), -1))

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return a `Categorical` and the log probabilities, which are logits."""
        return replace(self, outputs="logits"), logs.movedim(-1, self.dim)

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check that targets are integer labels of the right shape."""
        axis = self._axis(means)
        classes = means.shape[axis]
        if isinstance(y, Tensor) and y.shape == means.shape[1:]:
            raise ValueError(
                f"y: expected one label in place of {classes} classes, got shape {tuple(y.shape)}; "
                f"pass y.argmax({self.dim}) of one-hot targets. ELBO and metrics.nll take soft "
                "labels, probabilities as floats."
            )
        wanted = means.shape[1:axis] + means.shape[axis + 1 :]
        if isinstance(y, Tensor) and y.shape != wanted:
            self._check_dim(y, means)
        check_tensor(y, wanted, means)
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
            raise ValueError(f"y: expected integer class labels, got {y.dtype}; pass y.long()")
        if is_vectorised(y):  # labels of many networks at once are taken on trust
            return
        known = self.known(y)
        labels = y.long() if known is None else y.long().where(known, 0)
        low, high = map(int, labels.aminmax())
        if low < 0 or high >= classes:
            raise ValueError(
                f"y: expected class labels from 0 to {classes - 1}, got labels from {low} to "
                f"{high}; relabel, or pass void= for the label of what does not count"
            )

    def _check_dim(self, y: Tensor, means: Tensor) -> None:
        """Say so if labels would fit these outputs with their classes along another dimension."""
        shape = means.shape[1:]
        fitting = [d for d in range(1, len(shape)) if shape[:d] + shape[d + 1 :] == y.shape]
        if fitting:
            raise ValueError(
                f"y: expected labels for outputs {tuple(shape)} with their classes along "
                f"dim={self.dim}, got shape {tuple(y.shape)}, which has them along "
                f"dim={fitting[0]}; use Categorical(dim={fitting[0]})"
            )

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log probability of integer labels `y`, `(B, ...)`, summed over pixels."""
        logs, axis = self.log_probabilities(outputs), self._axis(outputs)
        self.check_targets(y, logs)
        known = self.known(y)
        labels = y.long() if known is None else y.long().where(known, 0)
        index = labels.expand(len(logs), *y.shape).unsqueeze(axis)  # (S, B, ..., 1, ...)
        chosen = logs.gather(axis, index)
        return sum_events(chosen if known is None else chosen.where(known.unsqueeze(axis - 1), 0))

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of each row, summed over pixels: what `ELBO` minimises.

            loss = −Σ_k w_k ((1 − ε) y_k + ε/K) log p_k

        For labels, y is one-hot. Soft labels are floats in the shape of the outputs that sum to 1
        over the classes. Without weights and smoothing the loss is −`log_prob`. The numbers equal
        ``F.cross_entropy(…, weight=w, label_smoothing=ε, reduction="none")``. Smoothing is from
        Szegedy et al. 2016, section 7.
        """
        plain = self.class_weights is None and self.smoothing == 0
        soft = isinstance(y, Tensor) and y.is_floating_point() and y.shape == outputs.shape
        if soft or not plain:
            return self._weighted(outputs, y, soft)
        if self.outputs != "logits" or outputs.dim() != 2 or self.dim not in (-1, 1):
            return super().losses(outputs, y)
        scores = self._read(outputs[None])[0] if outputs.dtype.itemsize < 4 else outputs
        self.check(outputs[None])
        self.check_targets(y, outputs[None])
        ignored = _NO_LABEL if self.void is None else self.void
        return F.cross_entropy(scores, y.long(), reduction="none", ignore_index=ignored)

    def _weighted(self, outputs: Tensor, y: Tensor, soft: bool) -> Tensor:
        """Return the same in general, class by class."""
        logs = self.log_probabilities(outputs[None])
        axis = self._axis(logs) - 1
        logs = logs[0].movedim(axis, -1)  # (B, ..., K)
        weighted = logs * self._weights(logs)
        known: Tensor | None = None
        if soft:
            check_tensor(y, outputs.shape, outputs)
            check_probabilities(y, axis, "y", "pass integer labels, or normalise soft ones")
            share = y.to(logs.dtype).movedim(axis, -1)
            losses = -(share * weighted).where(share > 0, 0).sum(-1)
        else:
            self.check_targets(y, outputs[None])
            known = self.known(y)
            labels = y.long() if known is None else y.long().where(known, 0)
            losses = -weighted.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        if self.smoothing > 0:
            losses = torch.lerp(losses, -weighted.mean(-1), self.smoothing)
        losses = losses if known is None else losses.where(known, 0)
        return sum_events(losses[None])[0]

    def _weights(self, logs: Tensor) -> Tensor:
        """Return those of the classes, `(K,)`."""
        if self.class_weights is None:
            return logs.new_ones(logs.shape[-1])
        weights = torch.tensor(self.class_weights, dtype=logs.dtype, device=logs.device)
        if len(weights) != logs.shape[-1]:
            raise ValueError(
                f"class_weights: expected one for each of {logs.shape[-1]} classes along "
                f"dim={self.dim}, got {len(weights)}; pass as many, or another dim"
            )
        return weights

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample one label for each draw and row: `(S, B, ...)` without the class dimension."""
        p = self.mean(outputs).movedim(self._axis(outputs), -1)  # (S, B, ..., K)
        labels = torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=generator)
        return labels.reshape(p.shape[:-1])

    def _axis(self, outputs: Tensor) -> int:
        """Return the class dimension, counted with the draws in front."""
        return self.dim + 1 if self.dim >= 0 else self.dim + outputs.ndim
