"""Adam for stacked parameters, with a learning rate for every member."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Adam


@final
class Descent:
    """Adam (Kingma and Ba 2015) with a learning rate η_m for every member.

    Adam's step is η·d with a direction d that does not depend on η. So torch's fused Adam moves
    zeros with a rate of one, which gives −d, and parameters move by η_m times that.

    Args:
        parameters: Stacked leaves.  # (M, …) each
        learning_rate: η of each member.  # (M,)
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: Tensor) -> None:
        self._parameters = list(parameters)
        self._rate = learning_rate
        self._moves = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self._adam = Adam(self._moves, lr=1.0, fused=True)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], fine: Tensor) -> Tensor:  # (M,)
        """Move members down; those that are not fine, or would not be, stay where they are.

        Args:
            gradients: One for each stack of parameters.
            fine: Whether each member is known to be fine so far.  # (M,)

        Returns:
            Whether each member is still fine: its step is finite.
        """
        for move, gradient in zip(self._moves, gradients, strict=True):
            move.zero_()
            move.grad = gradient.contiguous()  # which fused Adam takes for granted
        self._adam.step()
        finite = (
            torch.stack([m.reshape(len(m), -1).sum(1) for m in self._moves]).sum(0).isfinite()
            & fine
        )
        all_finite = bool(finite.all())
        for parameter, move in zip(self._parameters, self._moves, strict=True):
            if not all_finite:
                move[~finite] = 0
            rate = self._rate.to(move.dtype).view(-1, *[1] * (move.dim() - 1))
            parameter.addcmul_(move, rate)
        return finite

    def halt(self, members: Tensor) -> None:
        """Let some members stay where they are from now on."""
        self._rate[members] = 0

    def state_dict(self) -> dict[str, Any]:
        """Learning rates, and the moments of Adam."""
        return {"rate": self._rate, "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self._rate = state["rate"]
        self._adam.load_state_dict(state["adam"])

    def take(self, parameters: Sequence[Tensor], members: Tensor) -> "Descent":
        """Go on with some members, whose parameters these are."""
        part = Descent(parameters, self._rate[members])
        for new, old in zip(part._moves, self._moves, strict=True):
            part._adam.state[new] = {
                name: value if value.dim() == 0 else value[members]
                for name, value in self._adam.state[old].items()
            }
        return part
