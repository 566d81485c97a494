"""Draws of all members at once, in pieces that bound the memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Generic, NamedTuple, TypeVar, final

import torch
from torch import Tensor, nn

from dubio.noise import inputs
from dubio.noise.finding import follow_rows
from dubio.noise.gates import find_gates
from dubio.noise.modes import raising
from dubio.noise.numbers import Numbers
from dubio.noise.placing import KnownRows, RowPlaces
from dubio.noise.run import Pass, run_pass
from dubio.objectives.elbo import ELBO
from dubio.population.given import (
    NoisePlace,
    NoiseRequests,
    NumberSource,
    Origin,
    SourcedNumbers,
    answers,
)
from dubio.population.stack import Stack
from dubio.population.streams import MemberStream, Streams
from dubio.population.watching import watch

ROWS_AT_A_TIME = 2**16  # members × draws × rows: some MiB for each layer of a small network
_DRAWS_AT_A_TIME = 32
_Result = TypeVar("_Result")


class DrawBlock(NamedTuple, Generic[_Result]):
    """Some draws of some members."""

    members: slice
    draws: int
    result: _Result  # what was asked for, with an axis for the member


@final
class MemberDraws:
    """Runs the networks of a stack of `ELBO` objectives under noise.

    What a pass needs is found at the first one for as many rows, and kept.

    Args:
        stack: The members, with the weights that they have when draws are made.
        shared: Whether one draw uses one mask for all rows.
    """

    def __init__(self, stack: Stack, *, shared: bool) -> None:
        if not isinstance(stack.skeleton, ELBO):
            raise TypeError(
                f"members: expected dubio.ELBO objectives, which know the network and the "
                f"likelihood, got {type(stack.skeleton).__name__}; predict with each network"
            )
        self._stack = stack.with_own_skeleton()
        self._stack.skeleton.eval()
        self._shared = shared
        self._shape = torch.Size()  # of the rows of one member
        self._gates: tuple[str, ...] = ()  # the modules of a network that must see their flag up
        self._rows = KnownRows(0)
        self._requests = NoiseRequests()

    @torch.no_grad()
    def pieces(
        self,
        x: Tensor,
        rows: Tensor,  # (M, B)
        seeds: Sequence[tuple[int, ...]],
        draws: int,
        summarise: Callable[[ELBO, Tensor, Tensor], _Result],
        y: Tensor | None = None,
    ) -> Iterator[DrawBlock[_Result]]:
        """Go through members and draws.

        Args:
            x: All data.
            seeds: What tells the noise of one member from that of others.
            rows: Those of each member.
            draws: How many draws; one suffices for networks without noise.
            summarise: Called with a member, its outputs (S, B, …) and its rows of y.
            y: All targets.
        """
        self._prepare(x[rows[0]])
        requests = self._requests
        draws = draws if len(requests) else 1
        at_a_time = min(draws, _DRAWS_AT_A_TIME)
        members = min(len(rows), max(1, ROWS_AT_A_TIME // (rows.shape[1] * at_a_time)))
        at_a_time = min(draws, max(1, ROWS_AT_A_TIME // (rows.shape[1] * members)))
        sizes = requests.sizes()
        for start in range(0, len(rows), members):
            part = slice(start, min(start + members, len(rows)))
            stack = self._stack
            if members < len(rows):
                stack = self._stack.take(torch.arange(part.start, part.stop))
                stack.skeleton.eval()
            streams = Streams([MemberStream(*own) for own in seeds[part]])
            own_x, own_y = x[rows[part]], (x if y is None else y)[rows[part]]
            for first in range(0, draws, at_a_time):
                count = min(at_a_time, draws - first)
                noise = requests.split(streams.noise(count, sizes, x))  # (M, S, *shape)
                result = stack.each(
                    lambda elbo, x, y, noise: summarise(elbo, self._draw(elbo, x, noise), y),
                    own_x,
                    own_y,
                    noise,
                    in_dims=(0, 0, 0),
                )
                yield DrawBlock(part, count, result)

    def noise(
        self, x: Tensor, seeds: Sequence[tuple[int, ...]], draws: int
    ) -> dict[NoisePlace, Tensor]:  # (M, S, *shape) each
        """Return what draws of all members need; nothing for networks without noise.

        Args:
            x: Rows of each member, (M, B, …).
            seeds: What tells the noise of one member from that of others.
            draws: S.
        """
        self._prepare(x[0])
        if not len(self._requests):
            return {}
        streams = Streams([MemberStream(*own) for own in seeds])
        return self._requests.split(streams.noise(draws, self._requests.sizes(), x))

    def run(self, stack: Stack, x: Tensor, noise: dict[NoisePlace, Tensor]) -> Tensor:
        """Return the outputs (M, S, B, …) of such members for rows (M, B, …), under this noise."""
        return stack.each(self._draw, x, noise, in_dims=(0, 0))

    def _prepare(self, x: Tensor) -> None:
        """Find the noise requests of a pass over one member's rows."""
        if x.shape == self._shape:
            return
        self._gates = _names_of_gates(self._stack, x)
        self._rows = self._find_rows(x)
        self._requests = watch(
            self._stack,
            x,
            lambda elbo, source: self._outputs(elbo, x, source),
            training=False,
        )
        self._shape = x.shape

    def _draw(self, elbo: ELBO, x: Tensor, noise: dict[NoisePlace, Tensor]) -> Tensor:
        """Return the outputs of one member: (S, B, …)."""
        if not noise:
            return self._outputs(elbo, x, answers({}))[None]
        outputs: Tensor = torch.vmap(
            lambda own: self._outputs(elbo, x, answers(own)), randomness="error"
        )(noise)
        return outputs

    def _outputs(self, elbo: nn.Module, x: Tensor, source: NumberSource) -> Tensor:
        """Return what the network of an objective gives under the noise of one draw."""
        assert isinstance(elbo, ELBO)
        numbers: SourcedNumbers = Origin(source)(range(1), self._shared)
        running = Pass(numbers, roots=None, batch=self._rows, evaluating=True)
        return run_pass(
            lambda: inputs.choose(inputs.call(elbo.model, x), elbo.select),
            running,
            around=[self._raised(elbo)],
        )

    def _raised(self, elbo: ELBO) -> AbstractContextManager[None]:
        """Return a context in which the flags of gates are up."""
        return raising([elbo.model.get_submodule(name) for name in self._gates])

    def _find_rows(self, x: Tensor) -> KnownRows:
        """Return where rows are in the network of a member, if they are to share noise."""
        if not self._shared:
            return KnownRows(len(x))
        elbo = self._stack.take(torch.arange(1)).skeleton.eval()
        assert isinstance(elbo, ELBO)

        def watch_rows(order: Tensor | None, places: RowPlaces) -> Pass:
            numbers = Numbers(0, range(1), shared=True)
            running = Pass(numbers, roots=None, batch=places, evaluating=True, watching=True)
            run_pass(
                lambda: inputs.call(elbo.model, x, order), running, around=[self._raised(elbo)]
            )
            return running

        return follow_rows(watch_rows, [x], len(x))


@torch.no_grad()
def outputs_of_members(
    member_draws: MemberDraws,
    x: Tensor,
    rows: Tensor,  # (M, B)
    seeds: Sequence[tuple[int, ...]],
    draws: int,
) -> Tensor:  # (M, S, B, …)
    """Return the outputs of all members, for their rows of the data."""
    found: dict[int, list[Tensor]] = {}
    for piece in member_draws.pieces(x, rows, seeds, draws, lambda elbo, outputs, y: outputs):
        found.setdefault(piece.members.start, []).append(piece.result)
    parts = [own[0] if len(own) == 1 else torch.cat(own, dim=1) for own in found.values()]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _names_of_gates(stack: Stack, x: Tensor) -> tuple[str, ...]:
    """Return the modules of a network that must see their flag up for their noise to show."""
    elbo = stack.take(torch.arange(1)).skeleton
    assert isinstance(elbo, ELBO)
    gates = find_gates(elbo.model, [elbo.model], x, elbo.select)
    gates.check()
    return tuple(name for name, part in elbo.model.named_modules() if part in gates.raised)
