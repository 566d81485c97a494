"""Passes of a network under given noise: as they are, or while they become a graph."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy
import torch
from torch import Tensor, nn
from torch.utils._pytree import (
    GetAttrKey,
    MappingKey,
    SequenceKey,
    tree_flatten_with_path,
    tree_unflatten,
)

from dubio.exporting.errors import ExportError
from dubio.noise import inputs
from dubio.noise.gates import find_gates
from dubio.noise.generators import unmoved
from dubio.noise.inputs import Inputs, Select
from dubio.noise.modes import all_modules, sampling_mode
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import Pass, no_gradients, run_pass
from dubio.noise.sites import Site, Sites
from dubio.noise.upkeep import Upkeep


@final
class ExportPasses:
    """A network and the form of its inputs, to run under given noise.

    Args:
        model: The network.
        batch: A batch.
        chosen: Which sites are noisy.
        select: Which part of the output is meant; None for all of it.

    Attributes:
        names: The names of the tensors that it is called with: ``x`` for a single one, else
            ``x.0``, ``x.1``… or ``x.`` and the name of the argument.
        with_rows: Which of them have a row for each row of the batch, on their first axis.
        output_names: Those of what it returns, in the same manner with ``y``: after a pass.
    """

    def __init__(
        self, model: nn.Module, batch: Inputs, chosen: Callable[[Site], bool], select: Select
    ) -> None:
        inputs.check(model, batch)
        self._rows = inputs.count_rows(batch)
        self._model = model
        self._select = select
        self.chosen = chosen
        self._gates = find_gates(model, [model], batch, select, whole=select is None)
        self._gates.check(chosen)
        if self._gates.draws:
            raise ExportError(
                "model: expected noise from dropout or from dubio's own layers, got a network that "
                "draws random numbers of Python, of numpy or of a generator of its own, which "
                "would be constants in a graph; dubio.register the module, or use dubio's masks"
            )
        leaves, self._form = tree_flatten_with_path(inputs.opened(batch))
        self._leaves = [leaf for _, leaf in leaves]
        found = [(path, leaf) for path, leaf in leaves if isinstance(leaf, Tensor)]
        self._batch = [leaf for _, leaf in found]
        self.names = [_name("x", path) for path, _ in found]
        self.with_rows = [x.dim() > 0 and len(x) == self._rows for x in self._batch]
        self.output_names: list[str] = []

    def rows(self, count: int) -> list[Tensor]:
        """Return the tensors of the batch, cut or repeated to some number of rows."""
        order = torch.arange(count) % self._rows
        return [
            x.detach()[order.to(x.device)] if rowwise else x.detach()
            for x, rowwise in zip(self._batch, self.with_rows, strict=True)
        ]

    def run(self, tensors: Sequence[Tensor], numbers: RandomNumbers) -> tuple[list[Tensor], Sites]:
        """Return the outputs and sites under the noise of one draw; the network is unchanged."""
        root = self._model
        running = Pass(numbers, roots=[root], chosen=self.chosen, evaluating=True)
        around = [self._gates.lock, Upkeep(all_modules([root]), rewind=True)]
        gates = ([root], self._gates.raised)
        result = run_pass(lambda: self._call(tensors), running, gates=gates, around=around)
        return result, running.sites

    def inside(
        self, tensors: Sequence[Tensor], numbers: RandomNumbers, chosen: Callable[[Site], bool]
    ) -> list[Tensor]:
        """Return the outputs while a graph is made, inside `evaluating`; sites are unnamed."""
        with Pass(numbers, roots=None, chosen=chosen, evaluating=True):
            return self._call(tensors)

    def evaluating(self) -> ExitStack:
        """No gradients, and all flags as they have to be; afterwards all is as it was."""
        with ExitStack() as stack:
            stack.enter_context(_without_a_trace(all_modules([self._model])))
            stack.enter_context(sampling_mode([self._model], self._gates.raised))
            stack.enter_context(no_gradients())
            return stack.pop_all()

    def _call(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        given = iter(tensors)
        leaves = [
            next(given).clone() if isinstance(leaf, Tensor) else leaf for leaf in self._leaves
        ]
        output = inputs.apply(self._model, tree_unflatten(leaves, self._form))
        if self._select is not None:
            output = inputs.choose(output, self._select)
        found = [(path, leaf) for path, leaf in tree_flatten_with_path(output)[0]]
        for _, leaf in found:
            if not isinstance(leaf, Tensor) and leaf is not None:
                raise ExportError(
                    f"model: expected tensors as output, alone or in tuples, lists and dicts, got "
                    f"{type(leaf).__name__} among them; pass select= with a key, an index or a "
                    f"function that picks the tensor"
                )
        self.output_names = [_name("y", path) for path, leaf in found if leaf is not None]
        return [leaf for _, leaf in found if leaf is not None]


@contextmanager
def _without_a_trace(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Modules have the same objects as attributes afterwards, and generators are where they were.

    torch.export leaves copies of lists and tuples in modules.
    """
    before = [dict(vars(module)) for module in modules]
    generators = random.getstate(), numpy.random.get_state()
    try:
        with unmoved():
            yield
    finally:
        random.setstate(generators[0])
        numpy.random.set_state(generators[1])
        for module, attributes in zip(modules, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)


def _name(letter: str, path: Sequence[Any]) -> str:
    """Return a letter, and the way to a tensor from there."""
    steps = [letter]
    for key in path:
        match key:
            case MappingKey():
                steps.append(str(key.key))
            case SequenceKey():
                steps.append(str(key.idx))
            case GetAttrKey():
                steps.append(key.name)
            case _:
                steps.append(str(key))
    return ".".join(steps)
