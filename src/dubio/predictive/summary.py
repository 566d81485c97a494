"""Streaming statistics over draws, in memory that does not grow with their number.

Chunks of draws arrive one after another and are forgotten. No variance is taken as
E[x^2] - E[x]^2, which cancels: means are measured from the first draw, and chunks merge as in
Chan, Golub and LeVeque (1983). Identical draws therefore spread by exactly zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from dubio.likelihoods import Likelihood


@final
class Summary:
    """The moments, entropies and votes of a block of rows, draw by draw.

    What the likelihood does not define is not accumulated; asking for it raises its TypeError.

    Args:
        likelihood: How the outputs give targets.

    Attributes:
        num_draws: How many draws have been added.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood
        self.num_draws = 0
        self._state: dict[str, Tensor] = {}  # each (B, ...)

    def update(self, outputs: Tensor) -> None:
        """Add a chunk of draws of these rows: raw network outputs `(S, B, ...)`."""
        likelihood, state = self.likelihood, self._state
        mean = likelihood.mean(outputs)  # (S, B, *E)
        if not state:
            zero = torch.zeros_like(mean[0])
            state.update(first=mean[0].clone(), shift=zero, spread=zero)
        elif mean.shape[1:] != state["first"].shape:
            raise ValueError(
                f"outputs: expected more draws of rows {tuple(state['first'].shape)}, got "
                f"{tuple(mean.shape[1:])}; give other rows a Summary of their own and join them "
                "with Summary.concatenate"
            )
        before, draws = self.num_draws, len(outputs)
        self.num_draws = total = before + draws

        moved = mean - state["first"]  # (S, B, *E)
        shift = moved.mean(0)
        step = shift - state["shift"]
        state["shift"] = state["shift"] + step * (draws / total)
        state["spread"] = (
            state["spread"]
            + (moved - shift).square().sum(0)
            + step.square() * (before * draws / total)
        )
        if likelihood.noisy:
            self._average("aleatoric", likelihood.variance(outputs))
        if likelihood.discrete:
            self._average("expected_entropy", likelihood.entropy(outputs))
            votes = likelihood.votes(outputs)
            state["votes"] = state["votes"] + votes if "votes" in state else votes

    @property
    def mean(self) -> Tensor:
        """Mean over draws of E[y | x, omega], `(B, *E)`: Gal & Ghahramani 2016, eq. 11."""
        mean = self._read("first") + self._read("shift")
        return mean.clamp(0, 1) if self.likelihood.discrete else mean  # rounding may pass 1

    @property
    def epistemic(self) -> Tensor:
        """Variance over draws of E[y | x, omega], `(B, *E)`, over S (Gal & Ghahramani 2016)."""
        return self._read("spread") / self.num_draws

    @property
    def aleatoric(self) -> Tensor:
        """Mean over draws of Var[y | x, omega], `(B, *E)`."""
        return self._read("aleatoric")

    @property
    def expected_entropy(self) -> Tensor:
        """Mean over draws of H[y | x, omega]: `(B, ...)`, without the class dimension."""
        return self._read("expected_entropy")

    @property
    def votes(self) -> Tensor:
        """How many draws prefer each label, labels last: `(B, ..., labels)`."""
        return self._read("votes")

    @classmethod
    def concatenate(cls, blocks: Sequence[Summary]) -> Summary:
        """Return the summary of all rows, from summaries of the same draws for blocks of rows."""
        if len({(block.likelihood, block.num_draws) for block in blocks}) != 1:
            raise ValueError(
                "blocks: expected summaries of one likelihood and number of draws, got "
                f"{[(block.likelihood, block.num_draws) for block in blocks]}; add every draw to "
                "every block"
            )
        joined = cls(blocks[0].likelihood)
        joined.num_draws = blocks[0].num_draws
        joined._state = {
            name: torch.cat([block._state[name] for block in blocks]) for name in blocks[0]._state
        }
        return joined

    def _average(self, name: str, values: Tensor) -> None:
        """Move a running mean towards new values `(S, B, ...)`; equal values leave it as it is."""
        mean = self._state.get(name, values[0])
        self._state[name] = mean + (values - mean).sum(0) / self.num_draws

    def _read(self, name: str) -> Tensor:
        if not self._state:
            raise ValueError("Summary: expected at least one draw, got none; call update first")
        if name not in self._state:
            raise self.likelihood.undefined(name.replace("_", " "))
        return self._state[name]
