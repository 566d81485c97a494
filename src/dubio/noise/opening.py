"""Which gates of a network can be opened, tried out on a batch."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dubio.noise import inputs
from dubio.noise.equality import equal_up_to
from dubio.noise.inputs import Inputs, Network, Select
from dubio.noise.modes import all_modules, noting_reads, raising
from dubio.noise.numbers import Numbers
from dubio.noise.register import is_registered
from dubio.noise.run import Pass, no_gradients, run_pass
from dubio.noise.sites import Site, Sites
from dubio.noise.stochastic import Noisy
from dubio.noise.threads import Lookout, unmarked
from dubio.noise.upkeep import Upkeep

_NUMBERS = Numbers(0, range(1), shared=False)
ELSEWHERE = frozenset({"random", "numpy.random", "a generator of its own"})
_Place = tuple[str, str]  # the path of a module and function, and the kind of noise


class Closed(NamedTuple):
    """Noise behind a gate that cannot be opened."""

    site: Site
    why: str


@dataclass
class Trial:
    """A pass with some flags up.

    Attributes:
        raised: Whose flags were up.
        output: What the network gave.
        sites: The sites that it reached.
        read: The modules whose flags somebody reads.
        drawn: Random operations out of sight.
        changed: What it wrote over, all of which was put back.
        error: Why there is no output.
    """

    raised: frozenset[nn.Module]
    output: Any = None
    sites: Sites = field(default_factory=Sites)
    read: frozenset[nn.Module] = frozenset()
    drawn: set[str] = field(default_factory=set)
    changed: set[tuple[int, Any]] = field(default_factory=set)
    error: str | None = None

    @property
    def noise(self) -> Counter[_Place]:
        """Its noise, by place."""
        return Counter([*map(_place, self.sites), *(("", name) for name in self.drawn)])


@final
class Trials:
    """A network on a batch, tried out with flags up and without noise.

    The arguments are those of `dubio.noise.gates.find_gates`.

    Attributes:
        writes: Whether the network wrote over something with flags up that it leaves alone else.
    """

    def __init__(
        self,
        model: Network,
        roots: Sequence[nn.Module],
        batch: Inputs,
        select: Select,
        *,
        whole: bool,
        as_it_is: bool,
    ) -> None:
        self._model = model
        self._roots = roots
        self._modules = all_modules(roots)
        self._batch = batch
        self._select = select
        self._whole = whole
        self._as_it_is = as_it_is
        self.writes = False
        self.plain = self._first()

    def open(self, known: frozenset[nn.Module]) -> tuple[Trial, list[Closed]]:
        """Return the trial with the fewest raised flags that shows all noise; and the rest.

        Args:
            known: Flags that have shown noise on other batches, and are harmless there.
        """
        suspects = self._suspects(self.plain)
        if not suspects or self.plain.error is not None:
            return self.plain, []
        every = self._try(frozenset(suspects))
        unseen = [module for module in suspects if module not in every.read]  # another way
        if every.error is None and not every.noise - self.plain.noise and not unseen:
            harmless = known <= every.raised and self._differs(every) is None
            return replace(self.plain, raised=known) if harmless else self.plain, []
        best, blocked = self.plain, []
        waiting = [list(suspects)]
        if every.error is None:
            waiting += [[module] for module in unseen]  # to begin with
        while waiting:
            group = waiting.pop()
            raised = best.raised | {*group}
            trial = every if raised == every.raised else self._try(raised)
            if self._differs(trial) is None and not best.noise - trial.noise:
                best = trial
            elif len(group) == 1:
                blocked += group
            else:
                half = len(group) // 2
                waiting += [group[half:], group[:half]]
        if known and not known <= best.raised:
            with_known = self._try(best.raised | known)
            best = with_known if self._differs(with_known) is None else best
        closed = [place for module in blocked for place in self._hidden(module, best)]
        if not best.noise - self.plain.noise:
            return self.plain, closed
        return self._fewest(best), closed

    def _suspects(self, trial: Trial) -> list[nn.Module]:
        """Return modules whose flags are read, but for those that are known, or are up anyway."""
        return [
            module
            for module in self._modules
            if module in trial.read
            and not is_registered(module)
            and not isinstance(module, Noisy)
            and not (self._as_it_is and module.training)
        ]

    def _first(self) -> Trial:
        """Return the network as it is without raised flags; complains about threads of its own."""
        lookout = Lookout()
        trial = self._try(frozenset(), mark=lookout.mark)
        lookout.check()
        return trial if trial.error is None else self._try(frozenset())

    def _fewest(self, best: Trial) -> Trial:
        """Return the same noise with the flags up of those modules alone that have some in them."""
        new = best.noise - self.plain.noise
        at_work = {site.module for site in best.sites if _place(site) in new}
        few = frozenset(m for m in best.raised if not at_work.isdisjoint(all_modules([m])))
        if few == best.raised:
            return best
        trial = self._try(few)
        same = self._differs(trial) is None and not best.noise - trial.noise
        return trial if same else best

    def _hidden(self, module: nn.Module, best: Trial) -> list[Closed]:
        """Return the noise that a flag would show which must stay down."""
        trial = self._try(best.raised | {module})
        new = trial.noise - best.noise
        if not new or not self._matters(trial, new):
            return []
        why = f"With the flag of {type(module).__name__} up {self._differs(trial)}"
        first: dict[_Place, Site] = {}
        for site in trial.sites:
            if _place(site) in new:
                first.setdefault(_place(site), site)
        unseen = [Site(-1, name, name, None, (), module) for path, name in new if not path]
        return [Closed(site, why) for site in (*first.values(), *unseen)]

    def _matters(self, trial: Trial, new: Counter[_Place]) -> bool:
        """Return whether noise may act on the output that is meant, and not on others only."""
        if trial.error is not None or any(not path for path, _ in new):
            return True
        noisy = self._try(trial.raised, chosen=lambda site: _place(site) in new)
        if noisy.error is not None:
            return True
        still, moved = _tensors(trial.output), _tensors(noisy.output)
        if len(still) != len(moved):
            return True
        for meant in self._meant(self.plain.output):
            if not any(
                _close(one, meant) and _close(other, one)
                for one, other in zip(still, moved, strict=True)
            ):
                return True
        return False

    def _try(
        self,
        raised: frozenset[nn.Module],
        *,
        mark: Callable[[Any], Any] = lambda x: x,
        chosen: Callable[[Site], bool] | None = None,
    ) -> Trial:
        trial = self._pass(raised, mark, chosen)
        if trial.drawn & ELSEWHERE:  # perhaps by others meanwhile
            trial.drawn &= self._pass(raised, mark, chosen).drawn
        if raised and trial.changed - self.plain.changed:
            self.writes = True
        return trial

    def _pass(
        self,
        raised: frozenset[nn.Module],
        mark: Callable[[Any], Any],
        chosen: Callable[[Site], bool] | None,
    ) -> Trial:
        running = Pass(
            _NUMBERS,
            roots=self._roots,
            chosen=chosen,
            evaluating=not self._as_it_is,
            watching=chosen is None,
        )
        upkeep = Upkeep([*self._modules, self._model], rewind=True)
        trial = Trial(raised, sites=running.sites)
        given: Any = tree_map(mark, inputs.copied(self._batch))
        read: dict[nn.Module, None] = {}

        def network() -> Any:
            nonlocal read
            with noting_reads(self._modules) as read:
                return inputs.apply(self._model, given)

        try:
            if self._as_it_is:
                with no_gradients():
                    output = run_pass(network, running, around=[raising(raised), upkeep])
            else:
                output = run_pass(network, running, gates=(self._roots, raised), around=[upkeep])
            if not self._whole and not raised:
                self._meant(output)  # complains if there is no such thing
            trial.output = output
        except Exception as error:  # whatever it is, a pass that somebody waits for tells it
            trial.error = f"{type(error).__name__}: {error}"
        trial.read = frozenset(read)
        trial.drawn, trial.changed = set(upkeep.drawn), upkeep.changed
        return trial

    def _meant(self, output: Any) -> list[Tensor]:
        """Return the part of an output that must stay the same."""
        if self._whole:
            return _tensors(output)
        return [unmarked(inputs.choose(output, self._select))]

    def _differs(self, trial: Trial) -> str | None:
        """Return how a trial differs from the network without raised flags, or None."""
        if trial.error is not None:
            return f"the network fails ({trial.error})"
        if unseen := trial.drawn - self.plain.drawn:
            return f"random numbers are drawn out of sight ({', '.join(sorted(unseen))})"
        try:
            one, other = self._meant(trial.output), self._meant(self.plain.output)
        except Exception as error:
            return f"the output has another form ({error})"
        if [x.shape for x in one] != [x.shape for x in other]:
            shapes = [[tuple(x.shape) for x in some] for some in (one, other)]
            return f"the output has shape {shapes[0]} in place of {shapes[1]}"
        for with_flag, without in zip(one, other, strict=True):
            if not _close(with_flag, without):
                return "the output is another than in eval mode, although all noise is off"
        return None


def _place(site: Site) -> _Place:
    return site.name.split("#")[0], site.kind


def _tensors(output: Any) -> list[Tensor]:
    return [unmarked(x) for x in inputs.tensors(output)]


def _close(one: Tensor, other: Tensor) -> bool:
    """Return whether tensors differ by no more than rounding."""
    loose = {8: 1e-9, 4: 1e-4}.get(other.dtype.itemsize, 2e-2)
    return equal_up_to(loose, *(x[None] if x.dim() == 0 else x for x in (one, other)))
