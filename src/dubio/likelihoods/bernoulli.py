"""Yes or no for every element."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio.likelihoods.discrete import Discrete, OutputKind, as_weights, check_nan
from dubio.likelihoods.likelihood import Likelihood, all_true, check_tensor, sum_events
from dubio.noise.float64 import in_float64
from dubio.noise.vectorised import is_vectorised


@final
@dataclass(frozen=True)
class Bernoulli(Discrete):
    """A yes or no for every element: binary and multi-label problems.

    Attributes:
        outputs: "logits", or "probabilities" for a network that ends in a sigmoid.
        pos_weight: Weight of a yes in `losses`, for training only: a number, or one for each
            element of the last dimension.
    """

    rowwise = True
    outputs: OutputKind = "logits"
    pos_weight: float | Sequence[float] | Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pos_weight is not None:
            weights = as_weights(self.pos_weight, "pos_weight")
            object.__setattr__(self, "pos_weight", weights)

    def check(self, outputs: Tensor) -> None:
        """Check also that probabilities are valid."""
        super().check(outputs)
        if self.outputs == "probabilities" and not all_true((outputs >= 0) & (outputs <= 1)):
            check_nan(outputs, "outputs")
            raise ValueError(
                f"outputs: expected probabilities in [0, 1], got values in "
                f"[{float(outputs.min()):.4g}, {float(outputs.max()):.4g}]; pass outputs='logits' "
                "for raw outputs"
            )

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the probability of 1."""
        scores = self._read(outputs)
        if self.outputs == "probabilities":
            return scores
        # sigmoid rounds by position, so equal draws would differ
        return F.logsigmoid(scores).exp()

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Return -p log p - (1 - p) log (1 - p) of every element, where 0 log 0 = 0."""
        terms: Tensor = torch.special.entr(torch.stack([mean, 1 - mean]))
        return terms.sum(0)

    def labels(self, mean: Tensor) -> Tensor:
        """Return 1 where that is likelier than 0: `(B, *E)`."""
        return (mean > 0.5).to(mean.dtype)

    def votes(self, outputs: Tensor) -> Tensor:
        """Count the draws that prefer 0 and 1 for every element: `(B, *E, 2)`."""
        threshold = 0.5 if self.outputs == "probabilities" else 0.0
        yes = (self._read(outputs) > threshold).sum(0)  # (B, *E)
        return torch.stack([len(outputs) - yes, yes], dim=-1)

    def by_label(self, mean: Tensor) -> Tensor:
        """Return the probabilities of no and yes, in this order."""
        return torch.stack([1 - mean, mean], dim=-1)

    def log_by_label(self, outputs: Tensor) -> Tensor:
        """Return the log probabilities of no and yes, in this order."""
        self.check(outputs)
        yes = in_float64(outputs)
        if self.outputs == "probabilities":
            return self.by_label(yes).log()
        return F.logsigmoid(torch.stack([-yes, yes], dim=-1))

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return logits: differences of log probabilities."""
        return replace(self, outputs="logits"), logs[..., 1] - logs[..., 0]

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check also that targets are 0 or 1."""
        super().check_targets(y, means)
        if not all_true((y == 0) | (y == 1)):
            raise ValueError(
                f"y: expected only 0 and 1, got values in [{float(y.min()):.4g}, "
                f"{float(y.max()):.4g}]; threshold soft labels, which only ELBO accepts"
            )

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Sum log p where y is 1 and log (1 - p) where it is 0 over the event."""
        scores = self._read(outputs)
        self.check_targets(y, scores)
        if self.outputs == "probabilities":
            return sum_events(torch.where(y == 1, scores, 1 - scores).log())
        return sum_events(F.logsigmoid(torch.where(y == 1, scores, -scores)))

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the binary cross-entropy, summed over the event: what `ELBO` minimises.

            loss = −Σ_d w_d y_d log p_d + (1 − y_d) log (1 − p_d)

        Soft labels, y in [0, 1], are fine. Without a weight, 0 and 1 have the loss −`log_prob`.
        Numbers are those of ``F.binary_cross_entropy_with_logits(…, pos_weight=w,
        reduction="none")``.
        """
        if self.pos_weight is None and not _may_be_soft(y):
            return super().losses(outputs, y)
        self.check(outputs[None])
        check_tensor(y, outputs.shape, outputs)
        if not all_true((y >= 0) & (y <= 1)):
            raise ValueError(
                f"y: expected values in [0, 1], got some in [{float(y.min()):.4g}, "
                f"{float(y.max()):.4g}]; pass labels 0 and 1, or probabilities of yes"
            )
        scores = self._read(outputs[None])  # (1, B, *E)
        if self.outputs == "probabilities":
            yes, no = scores.log(), (1 - scores).log()
        else:
            yes, no = F.logsigmoid(scores), F.logsigmoid(-scores)
        y = y.to(scores.dtype)
        gains = (self._weights(scores) * y * yes).where(y > 0, 0) + ((1 - y) * no).where(y < 1, 0)
        return -sum_events(gains)[0]

    def _weights(self, scores: Tensor) -> Tensor:
        """Return those of yes, one or one for each question."""
        if self.pos_weight is None:
            return scores.new_ones(1)
        weights = torch.tensor(self.pos_weight, dtype=scores.dtype, device=scores.device)
        questions = scores.shape[-1] if scores.ndim > 2 else 1
        if len(weights) not in (1, questions):
            raise ValueError(
                f"pos_weight: expected a number or {questions}, one for each question along the "
                f"last dimension, got {len(weights)}; pass as many"
            )
        return weights

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return a 0.0 or 1.0 for each draw, row and element: `(S, B, *E)`."""
        return torch.bernoulli(self.mean(outputs), generator=generator)


def _may_be_soft(y: Tensor) -> bool:
    """Return whether there are other labels than 0 and 1; of many networks at once nobody looks."""
    if not isinstance(y, Tensor) or not y.is_floating_point():
        return False
    return is_vectorised(y) or not bool(((y == 0) | (y == 1)).all())
