"""Reuse memory: large tensors cost more to allocate than to fill."""

from typing import final

import torch
from torch import Tensor, nn


@final
class SpareMemory:
    """At most one spare tensor.

    Whoever takes it owns it until it is given back. A second one who asks meanwhile gets a new
    tensor, so nobody writes over numbers that are still needed.
    """

    def __init__(self) -> None:
        self._spare: Tensor | None = None

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a tensor with arbitrary content, of the dtype and on the device of ``like``."""
        spare, self._spare = self._spare, None
        size = torch.Size(shape).numel()
        fits = (
            spare is not None
            and spare.numel() >= size
            and spare.dtype == like.dtype
            and spare.device == like.device
        )
        if spare is None or not fits:
            spare = like.new_empty(size)
        return spare.view(-1)[:size].view(shape) if spare.numel() > size else spare.view(shape)

    def give(self, spare: Tensor | None) -> None:
        """Keep a tensor that is no longer needed, for reuse."""
        self._spare = spare

    def recycle(self, parameter: nn.Parameter) -> None:
        """Take the gradient of a parameter away, as memory for its next one."""
        self._spare, parameter.grad = parameter.grad, None
