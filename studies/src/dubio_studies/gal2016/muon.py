"""Muon (Jordan et al. 2024): momentum whose directions all count alike.

A network learns the trend of a curve at once and its seasons hardly: the problem is badly
conditioned. Orthogonalised momentum is not held up by that. `torch.optim.Muon` computes in
bfloat16, which takes more than ten times as long on processors without it, and has no rule for
vectors.
"""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # the authors': five steps bring singular values near 1


@final
class Muon(Optimizer):
    """Orthogonalised momentum for hidden matrices; Adam, at half the rate, for all else.

    Weight decay is part of the gradient, so that the minimised loss has the term wd/2·‖w‖².

    Args:
        params: The parameters.
        lr: Learning rate.
        weight_decay: wd.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = parameter.grad + group["weight_decay"] * parameter
                    matrix = parameter.ndim == 2 and min(parameter.shape) > 1
                    rule = orthogonal if matrix else adam
                    parameter.sub_(rule(gradient, self.state[parameter]), alpha=group["lr"])


def orthogonal(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    """Nesterov momentum, with all of its singular values made about equal to one."""
    momentum: Tensor = state.setdefault("momentum", torch.zeros_like(gradient))
    momentum.mul_(0.95).add_(gradient)
    direction: Tensor = gradient + 0.95 * momentum
    direction = direction / (direction.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(5):  # an odd polynomial of the singular values
        square = direction @ direction.T
        direction = a * direction + (b * square + c * square @ square) @ direction
    return direction


def adam(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    """Half of Adam's direction."""
    state["step"] = state.get("step", 0) + 1
    first: Tensor = state.setdefault("first", torch.zeros_like(gradient))
    second: Tensor = state.setdefault("second", torch.zeros_like(gradient))
    first.lerp_(gradient, 0.1)
    second.lerp_(gradient.square(), 0.001)
    scale = (second / (1 - 0.999 ** state["step"])).sqrt() + 1e-8
    return first.div(scale).mul(0.5 / (1 - 0.9 ** state["step"]))
