"""The whole idea of dubio in one file: noise is a value.

Every method of the library computes one deterministic function of parameters and of noise that has
no parameters,

    y = f(x; θ, g_φ(ε)),   ε ~ p(ε) fixed.

- `RandomNumbers` are ε: a function of (seed, site, draw), and of nothing else. The same noise can
  be played again, cut into chunks, or handed from one pass to another.
- A `Perturbation` is g_φ: what noise does to a tensor at one site, for many draws at once.
- An `Executor` carries a pass of the network out: plainly, or recorded on a tape as well, so that
  more draws, other inputs or other masks come from playing the tape.
- A `DrawSource` gives many outputs of the network, y₁ … y_S; `dubio.Predictive` is what they say.

Around these: `dubio.noise.run` runs one pass under the noise of one draw, `dubio.draws` makes many
draws of it, `dubio.masks` and `dubio.layers` are modules with noise of their own, and
`dubio.objectives` trains them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from dubio.native.stream import Stream
from dubio.noise.layout import Layout

Distribution: TypeAlias = Literal["uniform", "normal", "bernoulli"]  # the last a fair coin


class RandomNumbers(Protocol):
    """The random numbers of some consecutive draws, the same whenever they are asked for."""

    @property
    def seed(self) -> int:
        """What tells these numbers from others."""
        ...

    @property
    def indices(self) -> range:
        """Which draws."""
        ...

    @property
    def shared(self) -> bool:
        """Whether all rows of a batch share the numbers of a draw."""
        ...

    def part(self, start: int, stop: int) -> Self:
        """Return some of the draws."""
        ...

    def alone(self) -> Self:
        """Return the numbers of the first of all draws."""
        ...

    def for_batch(self, index: int) -> Self:
        """Return the numbers for the index-th batch of a stream: the same if shared, else fresh."""
        ...

    def stream(self, site: tuple[int, ...]) -> Stream | None:
        """Return the undrawn numbers at a site; None if they do not come from the seed."""
        ...

    def bernoulli(
        self, site: tuple[int, ...], keep: float, shape: torch.Size, like: Tensor
    ) -> Tensor:  # (S, *shape)
        """Return zeros and ones with ``P(1) = keep``, in the dtype and device of ``like``."""
        ...

    def uniform(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return uniform numbers in [0, 1)."""  # (S, *shape)
        ...

    def normal(self, site: tuple[int, ...], shape: torch.Size, like: Tensor) -> Tensor:
        """Return standard normal numbers."""  # (S, *shape)
        ...

    def seeds(self, *site: int) -> list[int]:
        """Return one seed per draw at a site, for random numbers that others draw."""
        ...


class Perturbation(Protocol):
    """Noise applied to a tensor."""

    @property
    def layout(self) -> Layout:
        """How the noise is drawn."""
        ...

    def __call__(
        self, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:  # (B, …) or (S, B, …) -> (S, B, …)
        """Return the perturbed tensor of every draw."""
        ...


class Executor(Protocol):
    """How the functions of a pass are carried out: plainly, or recorded as well."""

    def perturb(self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor) -> Tensor:
        """Apply noise."""
        ...

    def perturb_in_place(
        self, perturbation: Perturbation, numbers: RandomNumbers, x: Tensor
    ) -> Tensor:
        """Apply noise to x itself."""
        ...

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a torch function."""
        ...

    def own_randomness(self, name: str) -> None:
        """Take note of random numbers that the network draws by itself."""
        ...


class DrawSource(Protocol):
    """Where raw network outputs come from, a chunk of draws at a time."""

    @property
    def num_draws(self) -> int:
        """S, the number of draws of every row."""
        ...

    @property
    def num_rows(self) -> int:
        """B, the number of rows."""
        ...

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows and some of their draws, `(S, B, ...)`.

        Blocks of rows follow one another; all the draws of a block come in order before the next.
        """
        ...
