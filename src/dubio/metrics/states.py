"""States of metrics on torchmetrics: sums of a fixed size, a mean, or all numbers.

All of it adds up over batches and processes. Sums are in float64, so that long runs lose nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torchmetrics import Metric

from dubio.noise.float64 import has_float64, in_float64


def average(values: Tensor, name: str) -> Tensor:
    """Return the mean in float64; raise an error if there are no values."""
    check_counted(values.numel(), name)
    return in_float64(values).mean()


def check_counted(count: int, name: str) -> None:
    """Raise an error if there is nothing to average."""
    if count == 0:
        raise ValueError(
            f"{name}: expected at least one case, got none; pass data to it first, and labels that "
            "are not all void"
        )


class _InFloat64(Metric):
    """A metric whose state is in float64, and so stays off devices that have none."""

    full_state_update = False
    is_differentiable = False

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ()) -> Module:
        if not has_float64(fn(torch.zeros(1, device=self.device)).device):
            return self
        return super()._apply(fn, exclude_state)


class Summed(_InFloat64):
    """A metric that adds up a tensor: its state does not grow with the data.

    Args:
        shape: Shape of the tensor.
        kwargs: Options of torchmetrics.
    """

    sums: Tensor

    def __init__(self, *shape: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        zeros = torch.zeros(shape, dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")


class Average(_InFloat64):
    """A mean over cases, whose state is a sum and a count."""

    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def add(self, values: Tensor) -> None:
        """Add some cases."""
        self.total = self.total + in_float64(values).sum()
        self.count = self.count + values.numel()

    def compute(self) -> Tensor:
        """Return the mean so far, a float64."""
        check_counted(int(self.count), type(self).__name__)
        return self.total / self.count


class KeptCases(_InFloat64):
    """A metric that needs all cases at once and keeps numbers of each, 8 bytes per number.

    Args:
        names: Names of the lists of float64 vectors, which are concatenated over processes.
        kwargs: Options of torchmetrics, such as `compute_on_cpu`.
    """

    def __init__(self, *names: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._names = names
        for name in names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def keep(self, **values: Tensor) -> None:
        """Add numbers to the lists of these names."""
        for name, numbers in values.items():
            getattr(self, name).append(in_float64(numbers.detach()).flatten())

    def kept(self, name: str) -> Tensor:
        """Return all numbers of that name so far, a vector."""
        state: Tensor | list[Tensor] = getattr(self, name)
        if isinstance(state, list):  # or joined already, by sync
            state = torch.cat(state) if state else self._nothing()
        check_counted(len(state), type(self).__name__)
        return state

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Join the lists of all processes, also of one that has seen no data."""
        for name in self._names:
            if isinstance(state := getattr(self, name), list) and not state:
                state.append(self._nothing())  # torchmetrics would send float32
        super().sync(*args, **kwargs)

    def _nothing(self) -> Tensor:
        return torch.empty(0, dtype=torch.float64, device=self.device)
