"""The network of a denoising autoencoder for histories."""

from typing import final

import torch
from torch import Tensor, nn

from dubio.masks import Mask
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.masked_input import MaskedInput
from dubio.recommend.output import ItemLikelihood, Output
from dubio.recommend.rates import RateEstimator
from dubio.recommend.sparse import SparseRows
from dubio.recommend.step_noise import StepNoise, step_noise


@final
class DenoisingNetwork(nn.Module):
    """I → hidden → I, trained to restore a history from its masked version.

    h = tanh(a) with a from `MaskedInput`; with vectors v of users h = σ(a + v).

    Args:
        num_items: I.
        hidden: H.
        mask: On the input.
        estimator: Of the gradient for learned rates; see `MaskedInput`.
        likelihood: Of the history.
        users: How many users have a vector of their own that is added to the input of the hidden
            layer; 0 for none.
    """

    def __init__(
        self,
        num_items: int,
        hidden: int,
        mask: Mask | None,
        *,
        estimator: RateEstimator = "trapezoid",
        likelihood: ItemLikelihood = "multinomial",
        users: int = 0,
    ) -> None:
        super().__init__()
        self.input = MaskedInput(num_items, hidden, mask, estimator)
        self.output = Output(hidden, num_items, likelihood)
        self.users = nn.Parameter(torch.zeros(users, hidden)) if users else None

    def noise(self, rows: SparseRows, seeds: Seeds) -> StepNoise:
        """Return the noise of a step of training."""
        return step_noise(rows, seeds, self.input.mask)

    def noise_of_draw(self, rows: SparseRows, seeds: Seeds) -> StepNoise:
        """Return the noise of a draw, which is that of a step."""
        return self.noise(rows, seeds)

    def forward(self, rows: SparseRows, noise: StepNoise, beta: float) -> Tensor:
        """Return −log p(x | masked x) for each history; ``beta`` has nothing to weigh."""  # (B,)
        a = self.input(rows, noise.masks)[:, 0]  # (P, B, H)
        losses = self.output.negative_log_likelihood(self._hidden(a, rows), rows)
        return self.input.average(losses, rows, noise.masks)

    @torch.no_grad()
    def scores(self, rows: SparseRows, noise: StepNoise | None) -> Tensor:
        """Return probabilities of items, without noise if there is none."""  # (B, I)
        a = self.input.once(rows, () if noise is None else noise.masks)
        return self.output.probabilities(self._hidden(a, rows))

    @torch.no_grad()
    def embed(self, rows: SparseRows) -> Tensor:
        """Return the hidden layer without noise."""  # (B, H)
        return self._hidden(self.input.once(rows, ()), rows)

    def _hidden(self, a: Tensor, rows: SparseRows) -> Tensor:  # (…, B, H)
        if self.users is None:
            return torch.tanh(a)
        assert rows.users is not None
        known = (rows.users >= 0).to(a.dtype)[:, None]
        return torch.sigmoid(a + known * self.users.index_select(0, rows.users.clamp(min=0)))
