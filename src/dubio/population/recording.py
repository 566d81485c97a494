"""A step of all members, recorded as a flat list of tensor operations and played again.

Of the time that a step of small networks takes, most is Python's: `torch.vmap`, modules, the ELBO,
autograd. Yet every step does the same tensor operations in the same order, those of the gradients
included, since under `torch.vmap` no decision can hang on values. So after some steps one is
recorded on a tape, and further ones are its operations alone: of the same kernels, with the same
bits.

What is no tensor becomes a constant of the recording. So it is made only where all code of a step
is torch's or dubio's, which is known to keep no other state than the step of a schedule; everything
else is computed as the first steps are. See `repeats`.
"""

from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.parametrize import type_before_parametrizations

from dubio.draws.program import Program, record
from dubio.noise.register import runs_registered
from dubio.objectives.elbo import ELBO
from dubio.population.given import NoisePlace
from dubio.population.losses import gradients
from dubio.population.settings import settings_of
from dubio.population.stack import Stack

TensorLayouts: TypeAlias = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]
Gradients: TypeAlias = tuple[Tensor, Sequence[Tensor]]  # losses (M,), and (M, …) for each parameter

STEPS_BEFORE = 10  # take about as long as a recording is in the making
RECORDINGS = 8
_LARGE_BLOCK = 2**25 - 2**16  # bytes; from 2**25 on glibc learns nothing
_PLAIN = (bool, int, float, str, Tensor, torch.Size, torch.Generator, torch.dtype, torch.device)


@final
class Steps:
    """Computes losses and gradients of a stack, step after step.

    There is a recording for each layout of batches and noise, of the last few that were used.

    Args:
        stack: Members, whose learned tensors are written over between steps.
        changing: Which of its numbers are written over, too; others are constants of a recording.
    """

    def __init__(self, stack: Stack, changing: Sequence[str] = ()) -> None:
        self._stack = stack
        self._changing = list(changing)
        self._learned = list(stack.learned.values())
        self._kept = [*self._learned, *(stack.numbers[name] for name in changing)]
        self._repeats = repeats(stack.skeleton)
        self._times: dict[TensorLayouts, int] = {}  # that a layout was computed
        self._recordings: dict[TensorLayouts, Program] = {}
        # glibc returns memory to the system, and faults it in again, at every step, unless it has
        # seen a large block freed: then it keeps twice as much (see M_MMAP_THRESHOLD in mallopt)
        torch.empty(_LARGE_BLOCK, dtype=torch.uint8)

    def __call__(self, x: Tensor, y: Tensor, noise: dict[NoisePlace, Tensor]) -> Gradients:
        """Return losses on batches, and gradients."""
        given = [x, y, *noise.values()]
        layout = tuple((t.shape, t.stride(), t.dtype) for t in given)
        if (recording := self._recordings.get(layout)) is not None:
            with torch.no_grad():
                loss, *found = recording([*self._kept, *given])
            return loss, found
        computed = gradients(self._stack, x, y, noise)
        self._times[layout] = self._times.get(layout, 0) + 1
        if self._repeats and self._times[layout] >= STEPS_BEFORE:
            recording = self._record(given, list(noise), computed)
            self._repeats = recording is not None
            if recording is not None:
                if len(self._recordings) == RECORDINGS:
                    del self._recordings[next(iter(self._recordings))]
                self._recordings[layout] = recording
        return computed

    def _record(
        self, given: list[Tensor], places: list[NoisePlace], computed: Gradients
    ) -> Program | None:
        """Return a step like the one that was computed; None if it would be another."""
        copy = self._stack.take(torch.arange(len(self._stack)))
        copy.skeleton.train()

        def step(tensors: Sequence[Tensor]) -> list[Tensor]:
            learned = [t.detach().requires_grad_() for t in tensors[: len(self._learned)]]
            changing = tensors[len(self._learned) : len(self._kept)]
            x, y, *noise = tensors[len(self._kept) :]
            named = dict(zip(copy.learned, learned, strict=True))
            numbers = copy.numbers | dict(zip(self._changing, changing, strict=True))
            stack = Stack(copy.skeleton, named, copy.fixed, numbers)
            loss, found = gradients(stack, x, y, dict(zip(places, noise, strict=True)))
            return [loss, *found]

        tensors = [t.detach() for t in (*self._kept, *given)]
        program = record(step, list(map(halves, tensors)))
        if program is None:
            return None
        with torch.no_grad():
            again = program(tensors)
        same = zip(again, (computed[0], *computed[1]), strict=True)
        return program if all(torch.equal(one, other) for one, other in same) else None


def halves(x: Tensor) -> Tensor:
    """Return a tensor laid out like another: what is recorded of it is then compared with that."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).fill_(0.5)


def repeats(skeleton: nn.Module) -> bool:
    """Return whether a pass is known to depend on tensors and on what stays the same.

    So it is if no code but torch's and dubio's takes part, be it as a module, by `dubio.register`,
    as a hook, a function or an object that is an attribute, and the weight of the KL has no
    schedule.
    """
    modules = dict(skeleton.named_modules())
    return (
        not any(isinstance(module, ELBO) and module.scheduled for module in modules.values())
        and not any(m._forward_hooks or m._forward_pre_hooks for m in modules.values())
        and not _has_any_global_hook()
        and not any(map(runs_registered, modules.values()))
        and all(_known(type_before_parametrizations(module)) for module in modules.values())
        and all(_known(value) for _, value in settings_of(modules))
    )


def _known(value: Any) -> bool:
    """Return whether a setting brings no code of others with it."""
    if value is None or type(value) in _PLAIN:
        return True
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_known, value))
    if isinstance(value, dict):
        return all(map(_known, value.values()))
    code = value if isinstance(value, type | FunctionType | BuiltinFunctionType) else type(value)
    return str(code.__module__).partition(".")[0] in ("torch", "dubio")
