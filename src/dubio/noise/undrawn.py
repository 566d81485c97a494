"""Noise that is drawn only when its numbers are requested."""

from typing import final

import torch
from torch import Tensor

from dubio.native.stream import Stream
from dubio.noise.protocols import Distribution

_FLOAT32 = torch.empty(0, dtype=torch.float32, device="cpu")


@final
class Undrawn:
    """The noise of a module in one draw, in float32 on the CPU.

    Kernels make what they need of its stream. All others ask for the numbers, which are then kept.

    Args:
        stream: Where the numbers come from, one draw.
        distribution: What they are.
        shape: Their shape.

    Attributes:
        twice_on: The axis along which the same numbers stand twice, if they do.
        shape: The shape of all.
    """

    __slots__ = ("_distribution", "_drawn", "_half", "shape", "stream", "twice_on")

    def __init__(self, stream: Stream, distribution: Distribution, shape: torch.Size) -> None:
        self.stream = stream
        self.shape = shape
        self.twice_on: int | None = None
        self._distribution: Distribution = distribution
        self._half: Undrawn | None = None
        self._drawn: Tensor | None = None

    def doubled(self, axis: int) -> "Undrawn":
        """Return the same numbers twice along an axis."""
        shape = torch.Size([*self.shape[:axis], 2 * self.shape[axis], *self.shape[axis + 1 :]])
        both = Undrawn(self.stream, self._distribution, shape)
        both.twice_on, both._half = axis, self
        return both

    def tensor(self) -> Tensor:
        """Return the numbers."""
        if self._drawn is None:
            self._drawn = self._draw()
        if self._drawn.is_inference() and not torch.is_inference_mode_enabled():
            self._drawn = self._drawn.clone()
        return self._drawn

    def _draw(self) -> Tensor:
        if self._half is not None:
            assert self.twice_on is not None
            half = self._half.tensor()
            return torch.cat([half, half], self.twice_on)
        match self._distribution:
            case "uniform":
                return self.stream.uniform(self.shape, _FLOAT32)[0]
            case "normal":
                return self.stream.normal(self.shape, _FLOAT32)[0]
            case "bernoulli":
                return self.stream.bernoulli(0.5, self.shape, _FLOAT32)[0]


def drawn(noise: Tensor | Undrawn) -> Tensor:
    """Return the numbers of a noise."""
    return noise.tensor() if isinstance(noise, Undrawn) else noise
