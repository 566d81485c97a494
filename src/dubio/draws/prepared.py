"""A network prepared for many predictions: recorded once for each form of its inputs.

The tape begins at the inputs, so that further calls run torch operations and nothing else.
Before each call the network is looked at (`dubio.draws.structure`); if it has changed, it is
recorded anew.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from dubio.draws.engine import Engine, fitting
from dubio.draws.given import GivenNumbers, NoiseIndex, NotedNumbers, check_given, named
from dubio.draws.slopes import same_slopes
from dubio.draws.starting import engine_for
from dubio.draws.structure import Structure
from dubio.draws.surroundings import quietly
from dubio.draws.tape import Tape
from dubio.draws.trust import agree
from dubio.noise import inputs
from dubio.noise.autocast import Autocast
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import BatchAxes
from dubio.noise.sites import Site, Sites

MOST_TAPES = 8

_PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device)


@final
class Recording:
    """A tape that serves for other inputs, and the sites on it.

    Until that is proven it serves for the inputs that it was recorded with. If the network reads
    flags, what they do is looked at again, ever more rarely, and if weights change.
    """

    def __init__(
        self, tape: Tape, engine: Engine, inputs: list[Tensor], weights: list[Tensor]
    ) -> None:
        self.tape = tape
        self._weights = weights if engine.reads_flags else None
        self._versions = self._count()
        self._uses = 1
        self.sites = engine.sites
        self.chunk = fitting(tape)
        self._inputs = None if engine.proven else [x.clone() for x in inputs] * engine.varied
        self.slopes: dict[tuple[bool, ...], bool] = {}  # whether gradients are right, by what has

    def serves(self, leaves: list[Tensor]) -> bool:
        """Return whether it can be trusted for these inputs."""
        if self._weights is not None:
            self._uses += 1
            if self._uses.bit_count() == 1 or self._count() != self._versions:
                return False
        if self._inputs is None:
            return True
        return bool(self._inputs) and all(map(torch.equal, self._inputs, leaves))

    def looked_at(self) -> None:
        """Note that the effect of flags was checked."""
        self._versions = self._count()

    def _count(self) -> list[int]:
        """Return how often weights were written to."""
        return [x._version for x in self._weights or () if not x.is_inference()]

    def prove(self, engine: Engine, leaves: list[Tensor], numbers: RandomNumbers) -> bool:
        """Return whether it gives what a pass over other inputs has given."""
        with quietly():
            fixed = self.tape.start(leaves)
            if not self.tape.sees_the_same(fixed):
                return True  # and will not be used
            repeated = self.tape.play(fixed, numbers.part(0, 1))[0]
        if not agree(repeated, engine.first):
            return False
        if engine.varied and self._inputs:
            self._inputs = None
            engine.trust()
        return True

    def chunks(
        self, leaves: list[Tensor], numbers: RandomNumbers, chunk: int | None
    ) -> Iterator[Tensor] | None:  # each (s, B, …)
        """Yield all draws in order, ``chunk`` (or as many as fit the budget) at a time.

        None if the network would go another way now than when it was recorded.
        """
        size = chunk or self.chunk
        with quietly():
            fixed = self.tape.start(leaves)
            if not self.tape.sees_the_same(fixed):
                return None
            first = self.tape.play(fixed, numbers.part(0, size))

        def following() -> Iterator[Tensor]:
            yield first
            for start in range(size, len(numbers.indices), size):
                with quietly():
                    part = self.tape.play(fixed, numbers.part(start, start + size))
                yield part

        return following()

    def differentiable(self, leaves: list[Tensor], numbers: RandomNumbers) -> Tensor | None:
        """Return all draws at once, (S, B, …), with a graph; None as for `chunks`."""
        with quietly(gradients=True):
            fixed = self.tape.start(leaves)
            if not self.tape.sees_the_same(fixed):
                return None
            return self.tape.play(fixed, numbers)


@final
class Prepared:
    """A network, and its recordings for some forms of inputs.

    Args:
        model: The network, or a function that calls networks.
        chosen: Which sites are noisy.
        select: Which part of the output is meant.
        batch_axis: Where the batch is at some sites.
    """

    def __init__(
        self,
        model: Network,
        chosen: Callable[[Site], bool],
        select: Select,
        batch_axis: BatchAxes,
    ) -> None:
        self._model = model
        self._chosen = chosen
        self._select = select
        self._batch_axis = batch_axis
        self._structure: Structure | None = None
        self._unstable = 0  # how many passes in a row have changed the network
        self._recordings: OrderedDict[Hashable, Recording | None] = OrderedDict()
        self._to_record = threading.Lock()
        self._to_look = threading.Lock()

    def __reduce__(self) -> tuple[type["Prepared"], tuple[Any, ...]]:
        """Return the state of a copy, which has nothing recorded yet."""
        return Prepared, (self._model, self._chosen, self._select, self._batch_axis)

    def chunks(
        self, batch: Inputs, numbers: RandomNumbers, chunk: int | None
    ) -> tuple[Iterator[Tensor], Sites]:
        """Return all draws in order, ``chunk`` (or as many as fit) at a time; and the sites."""
        form = _form(batch, numbers.shared)
        if form is None:
            return self._anew(batch, numbers, chunk)
        known, recording = self._find(form.key)
        if recording is not None and recording.serves(form.tensors):
            if any(map(inputs.may_hold_nan, form.tensors)):
                inputs.check(self._model, batch)
            draws = recording.chunks(form.tensors, numbers, chunk)
            if draws is not None:
                return draws, recording.sites
            self._forget(form.key, recording)
            recording = None
        elif known and recording is None:
            return self._anew(batch, numbers, chunk)
        with self._to_record:
            known, latest = self._find(form.key)
            known = known and latest is not recording
            engine = None if known else self._record(form, batch, numbers, recording)
        if engine is None:  # another thread was faster
            return self.chunks(batch, numbers, chunk)
        known, recording = self._find(form.key)
        if known and recording is not None:
            draws = recording.chunks(form.tensors, numbers, chunk)
            if draws is not None:
                return draws, recording.sites
        return engine.chunks(chunk), engine.sites

    def differentiable(self, batch: Inputs, numbers: RandomNumbers) -> Tensor:  # (S, B, …)
        """Return all draws with gradients, from a recording if it has the right ones."""
        form = _form(batch, numbers.shared)
        if form is not None:
            known, recording = self._find(form.key)
            if not known or (recording is not None and not recording.serves(form.tensors)):
                self.chunks(batch, numbers, 1)  # makes one, if there can be one
                _, recording = self._find(form.key)
            if recording is not None and self._has_slopes(recording, form.tensors, batch, numbers):
                if any(map(inputs.may_hold_nan, form.tensors)):
                    inputs.check(self._model, batch)
                draws = recording.differentiable(form.tensors, numbers)
                if draws is not None:
                    return draws
        return self._plainly(batch, numbers)

    def _plainly(self, batch: Inputs, numbers: RandomNumbers) -> Tensor:
        """Return all draws, by a pass for each that leaves a graph behind."""
        with torch.enable_grad():
            return torch.stack(list(self._engine(batch, numbers).differentiable()))

    def _has_slopes(
        self, recording: Recording, leaves: list[Tensor], batch: Inputs, numbers: RandomNumbers
    ) -> bool:
        """Return whether a recording has the gradients of plain passes, by a look at two draws."""
        networks = inputs.networks(self._model)
        variables = [*leaves, *(x for network in networks for x in network.parameters())]
        wanted = tuple(x.requires_grad for x in variables)
        if wanted not in recording.slopes:
            few = numbers.part(0, 2)

            def played() -> Tensor:
                draws = recording.differentiable(leaves, few)
                if draws is None:
                    raise RuntimeError("the network goes another way now")
                return draws

            recording.slopes[wanted] = same_slopes(
                played,
                lambda: self._plainly(batch, few),
                [x for x, counts in zip(variables, wanted, strict=True) if counts],
            )
        return recording.slopes[wanted]

    def _forget(self, key: Hashable, recording: Recording) -> None:
        with self._to_look:
            if self._recordings.get(key) is recording:
                del self._recordings[key]

    def _anew(
        self, batch: Inputs, numbers: RandomNumbers, chunk: int | None
    ) -> tuple[Iterator[Tensor], Sites]:
        engine = self._engine(batch, numbers)
        return engine.chunks(chunk), engine.sites

    def noise(
        self, batch: Inputs, numbers: RandomNumbers, chunk: int | None
    ) -> tuple[dict[str, Tensor], dict[str, NoiseIndex]]:
        """Return these numbers at every site, draws first, and the place of each."""
        noting = NotedNumbers(numbers.seed, numbers.indices, numbers.shared)
        chunks, sites = self.chunks(batch, noting, chunk)
        for _ in chunks:
            pass
        names = named(noting.noted, sites, len(numbers.indices))
        rows = {name: noting.noted[place] for name, place in names.items()}
        return {
            name: torch.stack([row[draw] for draw in numbers.indices]) for name, row in rows.items()
        }, names

    def given(
        self, batch: Inputs, given: Mapping[str, Tensor], numbers: RandomNumbers, chunk: int | None
    ) -> GivenNumbers:
        """Given noise as numbers, if it is such as these numbers would give."""
        expected, names = self.noise(batch, numbers, chunk)
        places = check_given(given, expected, names)
        return GivenNumbers(numbers.seed, numbers.indices, numbers.shared, places)

    def _find(self, key: Hashable) -> tuple[bool, Recording | None]:
        """Return whether inputs of this form are known, and their recording if there can be one."""
        with self._to_look:
            structure = self._structure
            if self._unstable > 1 or (structure is not None and structure.doubt is not None):
                return True, None
            if structure is None or not structure.same() or key not in self._recordings:
                return False, None
            self._recordings.move_to_end(key)
            return True, self._recordings[key]

    def _record(
        self, form: "_Form", batch: Inputs, numbers: RandomNumbers, before: Recording | None
    ) -> Engine:
        """Run the network, and keep the recording if it serves for other inputs.

        One from before that could not be trusted so far is compared with it.
        """
        with self._to_look:
            if self._structure is None or not self._structure.same():
                self._structure = Structure(self._model)
                self._recordings.clear()
            structure = self._structure
        if structure.doubt is not None:
            return self._engine(batch, numbers)
        copy = form.copy()
        engine = self._engine(copy.batch, numbers, copy.tensors, structure.tensors)
        tape = engine.tape
        with self._to_look:
            if not structure.same():
                self._unstable += 1
                self._structure = None
                return engine
            self._unstable = 0
            usable = tape is not None and tape.doubt is None and engine.for_other_inputs
            usable = usable and (before is None or before.prove(engine, form.tensors, numbers))
            recording = None
            if tape is not None and usable:
                weights = structure.tensors
                recording = before or Recording(tape, engine, form.tensors, weights)
                recording.looked_at()
            self._recordings[form.key] = recording
            while len(self._recordings) > MOST_TAPES:
                self._recordings.popitem(last=False)
        return engine

    def _engine(
        self,
        batch: Inputs,
        numbers: RandomNumbers,
        tensors: list[Tensor] | None = None,
        owned: list[Tensor] | None = None,
    ) -> Engine:
        return engine_for(
            self._model,
            batch,
            self._select,
            numbers,
            self._chosen,
            self._batch_axis,
            tensors,
            owned or (),
        )


@final
class _Form:
    """Inputs taken apart: what two batches must have in common, and their tensors."""

    def __init__(self, leaves: list[Any], spec: Any, shared: bool) -> None:
        self.batch: Any = tree_unflatten(leaves, spec) if spec is not None else leaves[0]
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self._leaves = leaves
        self._spec = spec
        self.key: Hashable = (
            spec,
            shared,
            Autocast.now(),
            torch.get_default_dtype(),
            *(_leaf_form(leaf) for leaf in leaves),
        )

    def copy(self) -> "_Form":
        """Return the same inputs, as tensors that nobody else knows."""
        leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        return _Form(leaves, self._spec, False)


def _leaf_form(leaf: Any) -> Hashable:
    if isinstance(leaf, Tensor):
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.device
    return type(leaf), leaf


def _form(batch: Inputs, shared: bool) -> _Form | None:
    """Return the form of a batch, if batches of the same form can be told."""
    if isinstance(batch, Tensor):
        leaves, spec = [batch], None
    else:
        leaves, spec = tree_flatten(inputs.opened(batch))
    strided = all(
        (type(leaf) in (Tensor, torch.nn.Parameter) and leaf.layout == torch.strided)
        or isinstance(leaf, _PLAIN)
        for leaf in leaves
    )
    tensors = any(isinstance(leaf, Tensor) for leaf in leaves)
    return _Form(leaves, spec, shared) if strided and tensors else None
