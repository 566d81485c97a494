"""The likelihood of a reward, given the outputs for all actions and the action that was taken."""

from typing import final

import torch
from torch import Tensor, nn

from dubio.likelihoods.likelihood import Likelihood


@final
class RewardOfAction(nn.Module, Likelihood):
    """p(reward | outputs, action): only the outputs of the chosen action enter.

    Targets are rows (action, reward, weight), `(B, 3)`, as one tensor; the log density of a row is
    multiplied by its weight. Outputs `(S, B, k·A)` hold k numbers for each of A actions: all first
    numbers, then all second ones, as `HeteroscedasticGaussian` has them. If ``actions`` is None the
    network was given the action, and its outputs `(S, B, k)` or `(S, B)` are those of its reward.

    Args:
        rewards: The likelihood of one reward.
        actions: A, if the network gives outputs for all actions.

    Attributes:
        weighted: Whether any weight differs from one. If not, weights are not looked at.
    """

    noisy = True

    def __init__(self, rewards: Likelihood, actions: int | None) -> None:
        super().__init__()
        self.rewards = rewards
        self.actions = actions
        self.weighted = False

    @property
    def rowwise(self) -> bool:  # type: ignore[override]
        """As with the rewards' likelihood."""
        return self.rewards.rowwise

    @property
    def advice(self) -> str:  # type: ignore[override]
        """That of the rewards' likelihood."""
        return self.rewards.advice

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the expected reward of every action `(S, B, A)`, or of the given one."""
        return self.rewards.mean(outputs)

    def variance(self, outputs: Tensor) -> Tensor:
        """Return the variance of the reward of every action, or of the given one."""
        return self.rewards.variance(outputs)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the log density of the reward of the chosen action, times its weight: `(S, B)`."""
        outputs = outputs.unsqueeze(-1) if outputs.ndim == 2 else outputs
        logs = self.rewards.log_prob(self._chosen(outputs, y), y[:, 1:2])
        return logs * y[:, 2] if self.weighted else logs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return those of the rewards' likelihood, times the weights: `(B,)`."""
        outputs = outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs
        losses = self.rewards.losses(self._chosen(outputs, y), y[:, 1:2])
        return losses * y[:, 2] if self.weighted else losses

    def log_prior(self) -> Tensor:
        """Return that of the rewards' likelihood."""
        return self.rewards.log_prior()

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return a reward for every action, or for the given one."""
        return self.rewards.sample(outputs, generator)

    def quantile(self, outputs: Tensor, q: float) -> Tensor:
        """Of the reward of every action, or of the given one."""
        return self.rewards.quantile(outputs, q)

    def _chosen(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the outputs of the chosen actions, `(..., B, k)`."""
        if self.actions is None:
            return outputs
        index = y[:, :1].long()  # (B, 1)
        if outputs.shape[-1] == self.actions:
            return outputs.gather(-1, index.expand(*outputs.shape[:-1], 1))
        parts = outputs.unflatten(-1, (-1, self.actions))  # (..., B, k, A)
        chosen: Tensor = parts.gather(-1, index[:, None].expand(*parts.shape[:-1], 1)).squeeze(-1)
        return chosen
