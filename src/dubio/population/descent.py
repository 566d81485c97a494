"""Adam or plain gradient descent for stacked parameters, with a learning rate for every member."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.optim.adam import adam

Optimizer: TypeAlias = Literal["adam", "sgd"]


@final
class Descent:
    """Steps w − η_m·d with a learning rate η_m for every member, and a direction d.

    That of Adam (Kingma and Ba 2015) does not depend on η: torch's fused Adam moves zeros with a
    rate of one, which gives −d. That of plain gradient descent is the gradient, plus the weight
    decay times w for weights; biases and other parameters of one axis do not decay.

    Args:
        parameters: Stacked leaves.  # (M, …) each
        learning_rate: η of each member.  # (M,)
        optimizer: Which direction.
        weight_decay: Of plain gradient descent.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        learning_rate: Tensor,
        optimizer: Optimizer = "adam",
        weight_decay: float = 0.0,
    ) -> None:
        self._parameters = [parameter.detach() for parameter in parameters]
        self._optimizer: Optimizer = optimizer
        self._weight_decay = weight_decay
        self._rate = learning_rate
        self._moves, self._means, self._squares = (
            [torch.zeros_like(p, memory_format=torch.contiguous_format) for p in self._parameters]
            for _ in range(3)
        )
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=p.device) for p in self._parameters
        ]
        self._by_member = [move.view(len(move), -1) for move in self._moves]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], fine: Tensor) -> Tensor:  # (M,)
        """Move members down; those that are not fine, or would not be, stay where they are.

        Args:
            gradients: One for each stack of parameters.
            fine: Whether each member is known to be fine so far.  # (M,)

        Returns:
            Whether each member is still fine: its step is finite.
        """
        torch._foreach_zero_(self._moves)
        if self._optimizer == "adam":
            self._turn_to_adam(gradients)
        else:
            self._turn_downhill(gradients)
        finite = torch.stack([m.sum(1) for m in self._by_member]).sum(0).isfinite() & fine
        if not bool(finite.all()):
            for move in self._moves:
                move[~finite] = 0
        torch._foreach_addcmul_(self._parameters, self._moves, self._rates)
        return finite

    def _turn_downhill(self, gradients: Sequence[Tensor]) -> None:
        torch._foreach_sub_(self._moves, list(gradients))
        if self._weight_decay:
            for move, parameter in zip(self._moves, self._parameters, strict=True):
                if parameter.dim() > 2:  # (M, …) of more than one axis
                    move.sub_(parameter, alpha=self._weight_decay)

    def _turn_to_adam(self, gradients: Sequence[Tensor]) -> None:
        adam(
            self._moves,
            [gradient.contiguous() for gradient in gradients],  # which fused Adam takes for granted
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

    @property
    def rate(self) -> Tensor:  # (M,)
        """The learning rate of each member."""
        return self._rate

    @rate.setter
    def rate(self, rate: Tensor) -> None:
        self._rate = rate
        self.__dict__.pop("_rates", None)

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
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, with the same members."""
        self.rate, self._steps = state["rate"], state["steps"]
        self._means, self._squares = state["means"], state["squares"]

    def take(self, parameters: Sequence[Tensor], members: Tensor) -> "Descent":
        """Go on with some members, whose parameters these are."""
        part = Descent(parameters, self._rate[members], self._optimizer, self._weight_decay)
        part._means = [mean[members] for mean in self._means]
        part._squares = [square[members] for square in self._squares]
        part._steps = self._steps
        return part
