"""Extend this to write a likelihood of labels by their probabilities."""

from abc import abstractmethod

import torch
from torch import Tensor

from dubio.likelihoods.categorical import Categorical
from dubio.likelihoods.discrete import Discrete
from dubio.likelihoods.likelihood import Likelihood
from dubio.noise.float64 import placed


class LabelLikelihood(Discrete):
    """One of K labels for each row, by probabilities of any form.

    A new one implements `log_by_label`; everything else is that of `Categorical` on these
    logarithms.
    """

    outputs = "logits"

    @abstractmethod
    def log_by_label(self, outputs: Tensor) -> Tensor:
        """Return the log probabilities of all labels per draw, `(S, B, K)`, in float64.

        By `dubio.noise.float64.in_float64`, for devices that have none.
        """

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the probabilities of the labels."""
        return self.log_by_label(outputs).exp().to(self._read(outputs[:1, :1]))

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log probability of integer labels `y`, `(B,)`."""
        by_label = self.log_by_label(outputs)
        logs = Categorical().log_prob(by_label, y.to(by_label.device))
        return logs.to(self._read(outputs[:1, :1]))

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample one label for each draw and row: `(S, B)`."""
        logs = self.log_by_label(outputs)
        return Categorical().sample(placed(logs, outputs.device), generator)

    def check_targets(self, y: Tensor, means: Tensor) -> None:
        """Check that targets are integer labels, one for each row."""
        Categorical().check_targets(y, means)

    def marginal_entropy(self, mean: Tensor) -> Tensor:
        """Return the sum over labels of -p log p, where 0 log 0 = 0."""
        return Categorical().marginal_entropy(mean)

    def labels(self, mean: Tensor) -> Tensor:
        """Return the likeliest label: `(B,)`."""
        return mean.argmax(-1)

    def votes(self, outputs: Tensor) -> Tensor:
        """Count the draws for which each label is the likeliest: `(B, K)`."""
        return Categorical().votes(self.log_by_label(outputs)).to(outputs.device)

    def by_label(self, mean: Tensor) -> Tensor:
        """Return the mean itself."""
        return mean

    def from_log_by_label(self, logs: Tensor) -> tuple[Likelihood, Tensor]:
        """Return a `Categorical` and the log probabilities, which are logits."""
        return Categorical(), logs
