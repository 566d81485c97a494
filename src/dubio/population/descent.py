"""Adam for stacked parameters, with a learning rate for every member."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adam import adam


@final
class Descent:
    """Adam (Kingma and Ba 2015) with a learning rate η_m for every member.

    Adam's step is η·d with a direction d that does not depend on η. So torch's fused Adam moves
    zeros with a rate of one, which gives −d, and parameters move by η_m times that.

    Gradients of matrices come transposed in memory, and fused Adam needs everything in one order.
    At the first step parameters are laid out as their gradients are, in place, so that later steps
    copy nothing.

    Args:
        parameters: Stacked leaves.  # (M, …) each
        learning_rate: η of each member.  # (M,)
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: Tensor) -> None:
        self._parameters = list(parameters)
        self._rate = learning_rate
        self._moves, self._means, self._squares = (
            [torch.zeros_like(p, memory_format=torch.contiguous_format) for p in parameters]
            for _ in range(3)
        )
        self._steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]
        self._laid_out = False

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], fine: Tensor) -> Tensor:  # (M,)
        """Move members down; those that are not fine, or would not be, stay where they are.

        Args:
            gradients: One for each stack of parameters.
            fine: Whether each member is known to be fine so far.  # (M,)

        Returns:
            Whether each member is still fine: its step is finite.
        """
        if not self._laid_out:
            self._lay_out(gradients)
        torch._foreach_zero_(self._moves)
        adam(
            self._moves,
            [_ordered(g, move) for g, move in zip(gradients, self._moves, strict=True)],
            self._means,
            self._squares,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1.0,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
        finite = torch.stack([m.sum(1) for m in self._by_member]).sum(0).isfinite() & fine
        if not bool(finite.all()):
            for move in self._moves:
                move[~finite] = 0
        torch._foreach_addcmul_(self._detached, self._moves, self._rates)
        return finite

    @property
    def rate(self) -> Tensor:  # (M,)
        """The learning rate of each member."""
        return self._rate

    @rate.setter
    def rate(self, rate: Tensor) -> None:
        self._rate = rate
        self._forget("_rates")

    def _lay_out(self, gradients: Sequence[Tensor]) -> None:
        """Bring parameters, moments and moves into the order of the gradients in memory."""
        for index, gradient in enumerate(gradients):
            if _is_dense(gradient):
                for tensors in (self._moves, self._means, self._squares):
                    tensors[index] = _ordered(tensors[index], gradient)
                parameter = self._parameters[index]
                parameter.data = _ordered(parameter.detach(), gradient)
        self._forget("_by_member", "_detached")
        self._laid_out = True

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    @cached_property
    def _detached(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self._parameters]

    @cached_property
    def _by_member(self) -> list[Tensor]:  # (M, n) each
        """The moves, in the order that they have in memory."""
        size = [move[0].numel() for move in self._moves]
        return [m.as_strided((len(m), n), (n, 1)) for m, n in zip(self._moves, size, strict=True)]

    @cached_property
    def _rates(self) -> list[Tensor]:
        """The learning rates in the shape of each stack: (M, 1, …)."""
        return [self._rate.to(m.dtype).view(-1, *[1] * (m.dim() - 1)) for m in self._moves]

    def halt(self, members: Tensor) -> None:
        """Let some members stay where they are from now on."""
        self.rate = self._rate.masked_fill(members.to(self._rate.device), 0)

    def state_dict(self) -> dict[str, Any]:
        """Learning rates, and the moments of Adam."""
        return {
            "rate": self._rate,
            "means": self._means,
            "squares": self._squares,
            "steps": self._steps,
            "laid_out": self._laid_out,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self.rate, self._steps = state["rate"], list(state["steps"])
        self._means, self._squares = list(state["means"]), list(state["squares"])
        self._moves = [torch.zeros_like(mean) for mean in self._means]
        self._laid_out = state["laid_out"]
        self._forget("_by_member", "_detached")

    def take(self, parameters: Sequence[Tensor], members: Tensor) -> "Descent":
        """Go on with some members, whose parameters these are."""
        part = Descent(parameters, self._rate[members])
        part._means = [mean[members] for mean in self._means]
        part._squares = [square[members] for square in self._squares]
        part._moves = [torch.zeros_like(mean) for mean in part._means]
        part._steps = self._steps
        return part


def _is_dense(x: Tensor) -> bool:
    """Whether a stack fills its memory, one member after the other."""
    return x.stride(0) * len(x) == x.numel() and torch.empty_like(x).stride() == x.stride()


def _ordered(x: Tensor, like: Tensor) -> Tensor:
    """The same numbers, in the order in memory of another tensor, as fused Adam takes for granted."""
    return x if x.stride() == like.stride() else torch.empty_like(like).copy_(x)
