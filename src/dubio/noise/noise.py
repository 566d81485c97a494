"""Noise as a value, which makes a stochastic network a deterministic function.

Every method of the library computes ``y = f(x; theta, g(noise))``. A `Noise` fixes that third
argument: the numbers at a site are a pure function of (seed, site, draw). So the same noise can be
played again, cut into chunks, or indexed, and gives the same bits.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from operator import index
from typing import Self, SupportsIndex

import torch

from dubio.noise import entered
from dubio.noise.numbers import Numbers
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes, Pass, current_pass, outside_of_passes
from dubio.noise.seeds import Seed, as_generator

_origin: ContextVar[Callable[[range, bool], RandomNumbers] | None] = ContextVar(
    "origin", default=None
)


@contextmanager
def noise_from(origin: Callable[[range, bool], RandomNumbers]) -> Iterator[None]:
    """Let every new `Noise` take its random numbers from here, in place of a seed.

    Args:
        origin: Gives the numbers of some draws, which rows of a batch share or not.
    """
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def noise_is_given() -> bool:
    """Return whether a new `Noise` would take its numbers from elsewhere than a seed."""
    return _origin.get() is not None


def check_batch_axis(batch_axis: BatchAxes | None) -> BatchAxes:
    """Check ``batch_axis`` and return it."""
    axes = {} if batch_axis is None else batch_axis
    if not isinstance(axes, Mapping) or not all(
        isinstance(name, str) and (axis is None or type(axis) is int) for name, axis in axes.items()
    ):
        raise TypeError(
            f"batch_axis: expected a dict of ints or None by the names of sites, such as "
            f"{{'drop': 0}}, got {batch_axis!r}; dubio.sites lists the names"
        )
    return axes


class Noise:
    """The noise of ``draws`` stochastic passes, as an immutable value.

    ``noise[k]`` is the noise of the k-th draw and ``noise[a:b]`` that of some draws. As a context,
    the noise of one draw is what every stochastic site sees, in train and in eval mode; entering it
    twice gives the same numbers twice::

        noise = dubio.Noise(draws=3, shared=True, generator=0)
        with noise[0]:
            y = net(x)  # the first of three functions

    Args:
        draws: Number of draws.
        shared: Whether one draw uses one mask for all rows of a batch, so that a draw is one
            function of x, instead of a mask per row.
        generator: Source of the seed. It advances by one number. An int n means
            ``torch.Generator().manual_seed(n)``. By default torch's global generator.
        batch_axis: With ``shared``, the batch axis at sites where it cannot be found, by patterns
            for their names; None for no batch axis. An error says where it is needed.
    """

    def __init__(
        self,
        draws: int = 1,
        *,
        shared: bool = False,
        generator: Seed = None,
        batch_axis: BatchAxes | None = None,
    ) -> None:
        if type(draws) is not int:  # a look at types that takes its time
            if isinstance(draws, bool) or not isinstance(draws, SupportsIndex):
                raise ValueError(f"draws: expected a positive int, got {draws!r}; try draws=100")
            draws = index(draws)
        if draws < 1:
            raise ValueError(f"draws: expected a positive int, got {draws!r}; try draws=100")
        if not isinstance(shared, bool):
            raise TypeError(f"shared: expected True or False, got {shared!r}")
        generator = as_generator(generator)
        self._batch_axis = check_batch_axis(batch_axis)
        origin = _origin.get()
        if origin is not None:
            self._numbers: RandomNumbers = origin(range(draws), shared)
            return
        with outside_of_passes() if current_pass() is not None else nullcontext():
            if generator is None:
                seed = torch.randint(2**63 - 1, ())
            else:
                seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
        self._numbers = Numbers(int(seed), range(draws), shared)

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(self._numbers.indices)

    @property
    def shared(self) -> bool:
        """Whether all rows of a batch share one mask per draw."""
        return self._numbers.shared

    @property
    def numbers(self) -> RandomNumbers:
        """The random numbers of the noise."""
        return self._numbers

    def __len__(self) -> int:
        return self.draws

    def __getitem__(self, key: int | slice) -> Self:
        draws = range(self.draws)
        if isinstance(key, slice):
            chosen = draws[key]
        elif -self.draws <= key < self.draws:
            chosen = range(draws[key], draws[key] + 1)
        else:
            chosen = range(0)
        if not chosen or chosen.step != 1:
            raise IndexError(f"expected some consecutive draws out of {self.draws}, got {key}")
        part = object.__new__(type(self))
        part._numbers = self._numbers.part(chosen.start, chosen.stop)
        part._batch_axis = self._batch_axis
        return part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noise) and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        first, last = self._numbers.indices[0], self._numbers.indices[-1]
        which = f"draw {first}" if first == last else f"draws {first} to {last}"
        return f"Noise({which}, shared={self.shared}, seed={self._numbers.seed})"

    def __enter__(self) -> Self:
        if self.draws != 1:
            raise ValueError(
                f"a context holds one draw, got a Noise with {self.draws}; enter "
                f"`with noise[k]:`, or call dubio.predict for all draws at once"
            )
        entered.enter(self, Pass(self._numbers, batch_axis=self._batch_axis), sys._getframe(1))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        entered.leave(self, kind)
