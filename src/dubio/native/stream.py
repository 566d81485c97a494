"""The seam: random numbers as a function of (key, draw, entry), by the kernels or by torch.

The rest of dubio takes its noise from here and does not know who makes it. Both give the same
zeros and ones, and the same normal numbers up to rounding, for any number of threads and any
division into draws. On a CPU the kernels serve float32; all else is torch's.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.native import philox
from dubio.native.library import LOADED, MaskDescription

_UNIFORM, _NORMAL = range(2)


@final
@dataclass(frozen=True, slots=True)
class Stream:
    """The random numbers of consecutive draws.

    The entries of a draw are those of a tensor in order, however many there are: a longer tensor
    begins with the numbers of a shorter one.

    Attributes:
        key: What tells these numbers from others, 64 bits.
        first: The first draw.
        draws: How many draws.
    """

    key: int
    first: int
    draws: int

    def uniform(self, shape: torch.Size, like: Tensor) -> Tensor:  # (S, *shape)
        """Return uniform numbers in [0, 1), in the dtype and on the device of ``like``."""
        return self._fill(_UNIFORM, shape, like)

    def normal(self, shape: torch.Size, like: Tensor) -> Tensor:  # (S, *shape)
        """Return standard normal numbers."""
        return self._fill(_NORMAL, shape, like)

    def bernoulli(self, keep: float, shape: torch.Size, like: Tensor) -> Tensor:  # (S, *shape)
        """Return zeros and ones, 1[u < keep] for 32 bits of uniform u."""
        if not 0.0 < keep < 1.0:
            return like.new_full((self.draws, *shape), float(keep >= 1.0))
        if LOADED is not None and like.is_cpu and like.dtype.itemsize <= 4:
            made = torch.empty((self.draws, *shape), dtype=torch.float32, device="cpu")
            if _has_memory(made):
                self._multiply(keep, 1.0, shape.numel(), None, 0, made)
                return made if like.dtype == torch.float32 else made.to(like.dtype)
        bits = philox.bits(self.key, self.first, self.draws, shape.numel(), like.device)
        kept = bits <= philox.limit(torch.tensor(keep, dtype=torch.float64, device="cpu")).item()
        return kept.to(like.dtype).view(self.draws, *shape)

    def drop(self, keep: float, scale: float, x: Tensor, *, apart: bool) -> Tensor:  # (S, …)
        """Multiply x with a mask of zeros and ``scale``, without a graph.

        Args:
            keep: The probability that an entry is kept.
            scale: Its factor then.
            x: What is multiplied: the same for all draws, or with draws on its first axis.
            apart: Whether it has draws on its first axis.
        """
        shape = x.shape[1:] if apart else x.shape
        if usable(x) and 0.0 < keep < 1.0:
            made = torch.empty((self.draws, *shape), dtype=torch.float32, device="cpu")
            if _has_memory(made):
                size = shape.numel()
                self._multiply(keep, scale, size, x.contiguous(), size if apart else 0, made)
                return made
        mask = self.bernoulli(keep, shape, x).mul_(scale)
        return mask.mul_(x) if _has_memory(x) else mask * x

    def _multiply(
        self, keep: float, scale: float, size: int, x: Tensor | None, stride: int, out: Tensor
    ) -> None:
        assert LOADED is not None
        description = MaskDescription(None, keep, scale, 1, 0.0, 0, 0, 0)
        LOADED.dubio_masked(
            description, self.key, self.first, self.draws, size,
            None if x is None else x.data_ptr(), stride, out.data_ptr(), torch.get_num_threads(),
        )  # fmt: skip

    def _fill(self, kind: int, shape: torch.Size, like: Tensor) -> Tensor:
        if LOADED is not None and like.is_cpu and like.dtype.itemsize <= 4:
            made = torch.empty((self.draws, *shape), dtype=torch.float32, device="cpu")
            if _has_memory(made):
                LOADED.dubio_fill(
                    kind, self.key, self.first, self.draws, shape.numel(), made.data_ptr(),
                    torch.get_num_threads(),
                )  # fmt: skip
                return made if like.dtype == torch.float32 else _rounded(made, like.dtype, kind)
        make = philox.uniform if kind == _UNIFORM else philox.normal
        dtype = like.dtype if like.dtype.itemsize >= 4 else torch.float32
        made = make(self.key, self.first, self.draws, shape.numel(), dtype, like.device)
        made = made.view(self.draws, *shape)
        return made if made.dtype == like.dtype else _rounded(made, like.dtype, kind)


def usable(x: Tensor) -> bool:
    """Return whether the kernels can read a tensor: plain numbers of the CPU, in float32."""
    if torch.compiler.is_compiling():  # which cannot look any further
        return False
    plain = x.is_cpu and x.dtype == torch.float32 and _has_memory(x)
    return plain and LOADED is not None and x.layout == torch.strided and not x.is_neg()


def _has_memory(x: Tensor) -> bool:
    """Return whether a tensor has memory of its own: no transform or tracer replaced it."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    many = torch._C._functorch.is_legacy_batchedtensor(x)  # gradients, several at once
    return type(x) is Tensor and not wrapped and not many


def _rounded(made: Tensor, dtype: torch.dtype, kind: int) -> Tensor:
    """In a narrower type; uniform numbers stay below one."""
    rounded = made.to(dtype)
    if kind == _UNIFORM:
        rounded = rounded.clamp_(max=1.0 - torch.finfo(dtype).eps / 2)
    return rounded
