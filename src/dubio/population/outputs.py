"""Repeated outputs of members for their own rows, while they learn."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from dubio.draws.program import Program, record
from dubio.population.given import NoisePlace
from dubio.population.prediction import ROWS_AT_A_TIME, MemberDraws, outputs_of_members
from dubio.population.recording import RECORDINGS, STEPS_BEFORE, TensorLayouts, halves, repeats
from dubio.population.stack import Stack


@final
class MemberOutputs:
    """Passes of all members under noise, recorded as steps are and played again.

    Args:
        stack: Members, whose learned tensors are written over between passes.
        shared: Whether one draw uses one mask for all rows.
    """

    def __init__(self, stack: Stack, *, shared: bool) -> None:
        self._stack = stack
        self._draws = MemberDraws(stack, shared=shared)
        self._learned = list(stack.learned.values())
        self._repeats = repeats(stack.skeleton)
        self._times: dict[TensorLayouts, int] = {}  # that a layout was computed
        self._recordings: dict[TensorLayouts, Program] = {}

    @torch.no_grad()
    def __call__(
        self, x: Tensor, seeds: Sequence[tuple[int, ...]], draws: int
    ) -> Tensor:  # (M, B, …) -> (M, S, B, …)
        """Return the outputs of all members, each for its rows."""
        members, rows = x.shape[:2]
        if members * rows * draws > ROWS_AT_A_TIME:  # to be computed in pieces
            own = torch.arange(members * rows, device=x.device).view(members, rows)
            return outputs_of_members(self._draws, x.flatten(0, 1), own, seeds, draws)
        noise = self._draws.noise(x, seeds, draws)
        given = [x, *noise.values()]
        layout = tuple((t.shape, t.stride(), t.dtype) for t in given)
        if (recording := self._recordings.get(layout)) is not None:
            return recording([*self._learned, *given])[0]
        stack = self._stack.with_own_skeleton()
        stack.skeleton.eval()
        outputs = self._draws.run(stack, x, noise)
        self._times[layout] = self._times.get(layout, 0) + 1
        if self._repeats and self._times[layout] >= STEPS_BEFORE:
            recording = self._record(given, list(noise), outputs)
            self._repeats = recording is not None
            if recording is not None:
                if len(self._recordings) == RECORDINGS:
                    del self._recordings[next(iter(self._recordings))]
                self._recordings[layout] = recording
        return outputs

    def _record(
        self, given: list[Tensor], places: list[NoisePlace], outputs: Tensor
    ) -> Program | None:
        """Return a pass like the one that was computed; None if it would be another."""
        copy = self._stack.take(torch.arange(len(self._stack)))
        copy.skeleton.eval()

        def one_pass(tensors: Sequence[Tensor]) -> list[Tensor]:
            learned = dict(zip(copy.learned, tensors[: len(self._learned)], strict=True))
            x, *noise = tensors[len(self._learned) :]
            stack = Stack(copy.skeleton, learned, copy.fixed, copy.numbers)
            return [self._draws.run(stack, x, dict(zip(places, noise, strict=True)))]

        tensors = [t.detach() for t in (*self._learned, *given)]
        program = record(one_pass, list(map(halves, tensors)))
        if program is None or not torch.equal(program(tensors)[0], outputs):
            return None
        return program
