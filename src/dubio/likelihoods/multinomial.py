"""The multinomial likelihood: counts of events in K categories."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods.categorical import Categorical
from dubio.likelihoods.discrete import OutputKind
from dubio.likelihoods.likelihood import Likelihood, sum_events
from dubio.likelihoods.numeric import check_counts
from dubio.likelihoods.quantiles import empirical_quantile


@final
@dataclass(frozen=True)
class Multinomial(Likelihood):
    """Counts of K categories: words of a document, items of a user.

    Targets are counts in the shape of the outputs; their total may differ from row to row.

    Attributes:
        total_count: Number of events n for `mean`, `variance`, `quantile` and `sample`. With 1 the
            mean holds the probabilities of the next event. `log_prob` takes the total from its
            targets.
        dim: The dimension of the categories in one output `(B, ...)`.
        outputs: "logits" or "probabilities", as for `Categorical`.
        coefficient: Whether `log_prob` includes the multinomial coefficient n! / prod_k n_k!.
            Without it, it is sum_k n_k log pi_k, which recommenders train with and report (Liang et
            al. 2018). Gradients are the same.
    """

    total_count: int = 1
    dim: int = -1
    outputs: OutputKind = "logits"
    coefficient: bool = True

    noisy = True
    rowwise = True
    advice = (
        "the entropy of counts has no closed form, and counts do not vote: use Categorical() on "
        "the same outputs for one event, or average -log_prob(y) over targets y from sample()"
    )

    def __post_init__(self) -> None:
        if isinstance(self.total_count, bool) or not isinstance(self.total_count, int):
            raise TypeError(
                f"total_count: expected an int, got {self.total_count!r}; totals that differ by "
                "row are taken from the targets of log_prob"
            )
        if self.total_count < 1:
            raise ValueError(
                f"total_count: expected at least 1, got {self.total_count}; pass the number of "
                "events to predict"
            )
        _ = self._event  # complains about outputs

    @property
    def _event(self) -> Categorical:
        """One event: the counts are the sum of independent one-hot vectors."""
        return Categorical(self.dim, self.outputs)

    def check(self, outputs: Tensor) -> None:
        """Check also the dimension of the categories, and that probabilities are valid."""
        self._event.check(outputs)

    def broken(self, outputs: Tensor) -> Tensor:
        """Return invalid rows, as for a single event."""
        return self._event.broken(outputs)

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the probabilities times `total_count`: n pi_k."""
        return self.total_count * self._event.mean(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the variance of each count, n pi_k (1 - pi_k)."""
        return self.total_count * self._event.variance(outputs)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Return the quantile of the mean over draws, which shows epistemic spread."""
        return empirical_quantile(self.mean(outputs), q)

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check also that the targets are counts."""
        super().check_targets(y, means)
        check_counts(y)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log probability of counts `y`, `(B, ..., K, ...)`: sum_k n_k log pi_k.

        Plus log n! - sum_k log n_k! with the coefficient; 0 log 0 = 0.
        """
        logs = self._event.log_probabilities(outputs)  # (S, B, ..., K, ...)
        self.check_targets(y, logs)
        counts = y.to(logs.dtype)
        joint = sum_events(torch.where(counts == 0, 0, counts * logs))  # (S, B)
        if not self.coefficient:
            return joint
        totals = counts.sum(self.dim, keepdim=True)
        orders = (totals + 1).lgamma().flatten(1).sum(1) - (counts + 1).lgamma().flatten(1).sum(1)
        return joint + orders

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample counts of `total_count` events per draw and row, shaped like the outputs."""
        axis = self.dim + 1 if self.dim >= 0 else self.dim
        p = self._event.mean(outputs).movedim(axis, -1)  # (S, B, ..., K)
        rows = p.reshape(-1, p.shape[-1])
        events = torch.multinomial(rows, self.total_count, replacement=True, generator=generator)
        counts = torch.zeros_like(rows).scatter_add_(1, events, rows.new_ones(events.shape))
        return counts.reshape(p.shape).movedim(-1, axis)
