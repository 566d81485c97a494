"""The stack of members, its training steps, and an optimiser."""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from dubio.population.descent import Descent, Optimizer
from dubio.population.given import NoisePlace
from dubio.population.recording import Steps
from dubio.population.stack import Stack


@final
class Learning:
    """A stack of members that go down their gradients, each by itself.

    Args:
        stack: The members; what they learn is written over its tensors.
        learning_rate: That of each member.  # (M,)
        changing: Which of the stack's numbers are written over between steps.
        optimizer: By which they go down.
        weight_decay: Of plain gradient descent.

    Attributes:
        stack: The members, in train mode.
        descent: The optimiser.
    """

    def __init__(
        self,
        stack: Stack,
        learning_rate: Tensor,
        changing: Sequence[str] = (),
        optimizer: Optimizer = "adam",
        weight_decay: float = 0.0,
    ) -> None:
        for tensor in stack.learned.values():
            tensor.requires_grad_()
        stack.skeleton.train()
        self.stack = stack
        learned = list(stack.learned.values())
        self.descent = Descent(learned, learning_rate, optimizer, weight_decay)
        self._changing = changing
        self._steps = Steps(stack, changing)

    def step(
        self, x: Tensor, y: Tensor, noise: dict[NoisePlace, Tensor]
    ) -> tuple[Tensor, Tensor]:  # (M,), (M,)
        """Let every member do a step: losses before it, and who is still finite after it."""
        loss, gradients = self._steps(x, y, noise)
        return loss, self.descent.step(gradients, loss.isfinite())

    def take(self, members: Tensor) -> "Learning":
        """Return some of the members, which go on; nothing is shared."""
        part = Learning(self.stack.take(members), self.descent.rate[members], self._changing)
        part.descent = self.descent.take(list(part.stack.learned.values()), members)
        return part
