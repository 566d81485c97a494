"""Gates: modules that hide noise in eval mode, and so must see their flag up.

A raised flag may change what else a module does: logits in place of probabilities, further heads,
statistics. So a gate is opened only if the network, without noise, gives the same as in eval mode.
That is tried out: once in eval mode, once with all flags up that anybody reads, and if the outputs
differ, with as many of them as can be up together. What the network writes meanwhile is put back.
Noise that stays behind a gate is an error, unless it was not asked for.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, final
from weakref import WeakKeyDictionary

from torch import nn

from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.libraries import is_known
from dubio.noise.likeness import likeness
from dubio.noise.modes import all_modules
from dubio.noise.numbers import Numbers
from dubio.noise.opening import ELSEWHERE, Closed, Trials
from dubio.noise.placing import RowPlaces
from dubio.noise.run import Pass, run_pass
from dubio.noise.sites import Site
from dubio.noise.upkeep import Upkeep

_MOST = 16  # results that are remembered of one network

logger = logging.getLogger("dubio")


class GateError(RuntimeError):
    """Raised if noise cannot be reached without changing what else the network does."""


@final
@dataclass(frozen=True)
class Gates:
    """Which flags must be up for a network to show its noise.

    Attributes:
        raised: The modules that must see their flag up.
        closed: The noise that stays hidden.
        written: The modules that are not to change, if raised flags let them.
        keeping: All modules and the function that calls them, if something is kept from one pass
            to the next in any case.
        reads: Whether anybody reads flags.
        lock: What to hold while the network's tensors are used, if passes write over them.
        draws: Whether it draws random numbers from generators of Python or numpy, or of its own.
    """

    raised: frozenset[nn.Module] = frozenset()
    closed: tuple[Closed, ...] = ()
    written: tuple[nn.Module, ...] = ()
    keeping: tuple[Any, ...] = ()
    reads: bool = False
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    draws: bool = False

    @property
    def exclusive(self) -> bool:
        """Whether passes of several threads must not run at once."""
        return not isinstance(self.lock, nullcontext)

    def around(self) -> list[AbstractContextManager[Any]]:
        """Contexts for a pass."""
        locked = [self.lock] if self.exclusive else []
        return [*locked, Upkeep(self.written)] if self.written else locked

    def check(self, chosen: Callable[[Site], bool] = lambda site: True) -> None:
        """Raise an error if chosen sites stay hidden."""
        hidden = [closed for closed in self.closed if chosen(closed.site)]
        if hidden:
            raise GateError(complaint(hidden))


def complaint(closed: Sequence[Closed]) -> str:
    """Return the message about gates that cannot be opened."""
    names = ", ".join(f"{site.name} ({site.kind})" for site, _ in closed)
    why = "; ".join(dict.fromkeys(why for _, why in closed))
    return (
        f"expected noise that can be switched on by itself, got some behind a flag of train mode "
        f"that changes more than the noise: {names}. {why}.\n"
        f"What to do: call the dropout without checking the flag (nn.Dropout, or F.dropout with "
        f"self.training as an argument), move it to a module of its own, or dubio.register the "
        f"module that hides it; or leave it out with where=."
    )


@final
@dataclass(frozen=True)
class _IndexedGates:
    """Gates without a hold on the network: modules by their numbers among all."""

    raised: tuple[int, ...] = ()
    closed: tuple[tuple[Closed, int | None], ...] = ()
    written: bool = False
    keeps: bool = False
    reads: bool = False
    locked: bool = False
    draws: bool = False

    def of(
        self,
        model: Network,
        modules: list[nn.Module],
        quiet: list[nn.Module],
        lock: AbstractContextManager[Any],
    ) -> Gates:
        """Return the same for the modules themselves; the quiet ones are not meant to change."""
        return Gates(
            frozenset(modules[i] for i in self.raised),
            tuple(
                Closed(replace(site, module=None if i is None else modules[i]), why)
                for (site, why), i in self.closed
            ),
            tuple(quiet) if self.written else (),
            (*modules, model) if self.keeps else (),
            self.reads,
            lock if self.locked else nullcontext(),
            self.draws,
        )


class _KnownGates:
    """What is known of one network.

    Attributes:
        lock: What to hold while the network is tried out.
        volatile: Attributes that change in every pass, and so tell nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.volatile: set[tuple[int, Any]] = set()
        self._known: OrderedDict[Hashable, _IndexedGates] = OrderedDict()
        self._uses: dict[_IndexedGates, int] = {}

    def get(self, key: Hashable) -> _IndexedGates | None:
        """Return the entry of a key."""
        return self._known.get(key)

    def is_due(self, known: _IndexedGates) -> bool:
        """Return whether the network is to be tried out again, on another batch.

        What flags change may depend on values. So they are tried out again, ever more rarely: at
        the second use, the fourth, the eighth, ….
        """
        self._uses[known] = self._uses.get(known, 1) + 1
        return self._uses[known].bit_count() == 1

    def put(self, key: Hashable, known: _IndexedGates) -> None:
        """Add an entry, and forget the oldest."""
        self._known[key] = known
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


NO_GATES = Gates()
_memories: WeakKeyDictionary[Any, _KnownGates] = WeakKeyDictionary()
_to_look = threading.Lock()


def find_gates(
    model: Network,
    roots: Sequence[nn.Module],
    batch: Inputs,
    select: Select = None,
    *,
    whole: bool = False,
    as_it_is: bool = False,
) -> Gates:
    """Return which flags must be up for a network to show its noise, tried out once per structure.

    Args:
        model: The network, or a function that calls networks.
        roots: The network, or the networks that it calls.
        batch: What it is called with.
        select: Which part of the output must stay the same.
        whole: Whether all of the output must, whatever it is.
        as_it_is: Whether other flags stay as they are, or are those of eval mode.
    """
    modules = all_modules(roots)
    if isinstance(model, nn.Module) and all(map(is_known, modules)):
        return NO_GATES
    if not as_it_is:
        _check_modes(modules)
    memory = _memory_of(roots[0] if roots else getattr(model, "__code__", None))

    def key() -> Hashable:
        return whole, as_it_is, likeness(model, select, modules, batch, as_it_is, memory.volatile)

    with memory.lock:  # or others would see the network while it is tried out
        known = memory.get(key())
        if known is None or memory.is_due(known):
            trials = Trials(model, roots, batch, select, whole=whole, as_it_is=as_it_is)
            found = _found(trials, modules, known)
            if trials.plain.error is None:
                memory.volatile |= trials.plain.changed
                memory.put(key(), found)
            known = found
    quiet = [module for module in modules if not module.training] if as_it_is else modules
    return known.of(model, modules, quiet, memory.lock)


def watch(
    network: Callable[[], object],
    roots: Sequence[nn.Module],
    gates: Gates,
    batch: RowPlaces | None = None,
    *,
    trace: bool = True,
) -> Pass:
    """Run a network without noise, and see which sites it reaches, and where rows are there.

    Args:
        network: Calls it.
        roots: The networks.
        gates: Which flags must be up.
        batch: What finds rows.
        trace: Whether it may leave one: what a network does in eval mode, too.
    """
    numbers = Numbers(0, range(1), shared=False)
    running = Pass(numbers, roots=roots, batch=batch, evaluating=True, watching=True)
    around = gates.around() if trace else [gates.lock, Upkeep(all_modules(roots), rewind=True)]
    run_pass(network, running, gates=(roots, gates.raised), around=around)
    return running


def _check_modes(modules: Iterable[nn.Module]) -> None:
    """Raise an error for a mode that is more than a flag."""
    for module in modules:
        if type(module).train is not nn.Module.train and module.training and not is_known(module):
            kind = type(module).__name__
            raise ValueError(
                f"model: expected a network in eval mode, since {kind}.train does more than set "
                f"flags, got one in train mode; call .eval() before"
            )


def _memory_of(owner: Any) -> _KnownGates:
    if owner is None:
        return _KnownGates()
    with _to_look:
        return _memories.setdefault(owner, _KnownGates())


def _found(trials: Trials, modules: list[nn.Module], known: _IndexedGates | None) -> _IndexedGates:
    """Return what trials have shown, and what others have before."""
    raised = () if known is None else known.raised
    opened, closed = trials.open(frozenset(modules[i] for i in raised))
    if known is None:
        _tell_left_alone(trials, modules, opened.raised)
    numbers = {module: i for i, module in enumerate(modules)}
    hidden = {
        (site.name, site.kind): (
            Closed(replace(site, module=None), why),
            None if site.module is None else numbers.get(site.module),
        )
        for site, why in closed
    }
    for (site, why), i in () if known is None else known.closed:  # it was hidden on other batches
        hidden.setdefault((site.name, site.kind), (Closed(site, why), i))
    return _IndexedGates(
        tuple(sorted(numbers[module] for module in opened.raised)),
        tuple(hidden.values()),
        bool(opened.changed - trials.plain.changed),
        bool(trials.plain.changed),
        bool(trials.plain.read),
        trials.writes or bool(trials.plain.changed),
        draws=bool(trials.plain.drawn & ELSEWHERE),
    )


def _tell_left_alone(
    trials: Trials, modules: Iterable[nn.Module], raised: frozenset[nn.Module]
) -> None:
    """Log the modules that ask for train mode and see eval mode: what they do then is left out."""
    left = [m for m in modules if m in trials.plain.read and m not in raised and not is_known(m)]
    if left:
        kinds = ", ".join(dict.fromkeys(type(module).__name__ for module in left))
        logger.info(
            "modules that read self.training see eval mode, and what they do in train mode alone "
            "is left out (%s)",
            kinds,
        )
