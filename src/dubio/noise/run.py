"""One pass of a network under the noise of one draw: what it meets, and what is drawn there."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Self, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from dubio.native.masked import serves
from dubio.noise.eager import without_compilation
from dubio.noise.expectation import Expectation
from dubio.noise.finding import follow_rows
from dubio.noise.following import tensors_in
from dubio.noise.interceptor import Interceptor
from dubio.noise.layout import Layout, Placement, rows_on
from dubio.noise.modes import all_modules, sampling_mode
from dubio.noise.perturbations import Draw
from dubio.noise.placing import RowPlaces
from dubio.noise.plainly import Plainly
from dubio.noise.protocols import Executor, Perturbation, RandomNumbers
from dubio.noise.requests import OwnSite, Request, doubled, for_half
from dubio.noise.seeds import as_generator
from dubio.noise.sites import (
    Namer,
    Site,
    Sites,
    calls_at_work,
    inside_checkpoint,
    matches,
    outermost_call,
)
from dubio.noise.tracking import RowTracker
from dubio.noise.undrawn import Undrawn
from dubio.noise.upkeep import Upkeep

_Result = TypeVar("_Result")


class UnplacedError(ValueError):
    """Nobody can tell where the rows of the batch are."""


BatchAxes: TypeAlias = Mapping[str, int | None]  # by patterns for the names of sites

_PLAINLY = Plainly()
_current: ContextVar["Pass | None"] = ContextVar("pass", default=None)


def current_pass() -> "Pass | None":
    """Return the pass at work around the caller, if any."""
    return _current.get()


def put_in_charge(running: "Pass | None") -> None:
    """Let another pass, or none, be at work around the caller from now on."""
    _current.set(running)


@contextmanager
def outside_of_passes() -> Iterator[None]:
    """Let torch functions be called as they are, whatever pass is at work."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def no_gradients() -> Iterator[None]:
    """No gradients, and the same operations inside of inference mode as outside."""
    with torch.inference_mode(False), torch.no_grad():
        yield


class Pass:
    """Everything inside of this context runs under the noise of one draw.

    Modules with noise of their own ask for it. All other noise is put in place by an interceptor.

    Args:
        numbers: The random numbers of that draw.
        intercept: Whether noise that is not dubio's is replaced as well.
        roots: The networks that run, for the names of sites; None if nobody will read them.
        chosen: Which sites are noisy; None for all.
        batch: What is known of the batch. If None and rows are to share noise, they are followed
            from the inputs of the outermost module on.
        batch_axis: Where the batch is at some sites, by patterns for their names.
        executor: How functions are carried out.
        evaluating: Whether batch normalisation must use its statistics and leave them alone.
        watching: Whether the pass is only to be looked at, and no site noisy: random numbers that
            the network draws itself are replaced by their means.
        learning: Whether divergences at the noise of this pass will be asked for after it.
        trains: Whether it is a pass of an objective, after which weights are trained.
        gate: How learnable masks make zeros and ones of their noise; None for their own way.
        at_masks: What is called when the first learnable mask is met, if there is a gate.
        again: A pass whose own noise this one has, too.
        twice: The batch, if it holds all rows twice, which have the same noise both times.

    Attributes:
        sites: The sites reached so far.
        places: Shapes at the sites that were not chosen, and where rows are, if rows are followed.
        own: What modules with noise of their own have drawn.
        memory: What modules have computed once for all of their calls in this pass.
        first_input: What the first learnable mask was called with, if there is a gate.
        check: What complains if a site is reached from where it must not be.
        at_first: What looks at the first network that calls a torch function, and says that it has.
        is_over: Whether its noise was left for good.
    """

    def __init__(
        self,
        numbers: RandomNumbers,
        *,
        intercept: bool = True,
        roots: Sequence[nn.Module] | None = (),
        chosen: Callable[[Site], bool] | None = None,
        batch: RowPlaces | None = None,
        batch_axis: BatchAxes | None = None,
        executor: Executor = _PLAINLY,
        evaluating: bool = False,
        watching: bool = False,
        learning: bool = False,
        trains: bool = False,
        gate: Any = None,
        at_masks: Callable[[], None] | None = None,
        again: Self | None = None,
        twice: Tensor | None = None,
    ) -> None:
        self.evaluating = evaluating
        self.watching = watching
        self.learning = learning
        self.trains = trains
        self.gate = gate
        self.first_input: Tensor | None = None
        self._at_masks = at_masks
        self.sites = Sites()
        self.places: list[tuple[torch.Size, Placement]] = []
        self.own: dict[nn.Module, OwnSite] = {} if again is None else again.own
        self.memory: dict[nn.Module, Any] = {} if again is None else dict(again.memory)
        self._numbers = numbers
        self._twice = twice
        self._intercept = intercept
        self._namer = None if roots is None else Namer(roots)
        self._chosen = chosen
        if batch is None and numbers.shared and intercept:
            batch = RowTracker()
        self._batch = batch
        self._tracker = batch if isinstance(batch, RowTracker) else None
        self._batch_axis = batch_axis or {}
        self._executor = Expectation() if watching else executor
        self._seen_apart: dict[nn.Module, list[tuple[Site, Placement]]] = {}
        self._own_sites: dict[nn.Module, int] = {}
        self._own_calls: dict[nn.Module, int] = {}
        # whether nobody will ask for sites, and so none need be noted
        self._unseen = not intercept and roots is None and chosen is None and not watching
        self._left: list[Callable[[], None]] = []
        self._learning_around = False
        self._calls_around = 0  # modules that were at work already
        self.check: Callable[[], None] | None = None
        self.at_first: Callable[[], bool] | None = None
        self.is_over = False

    def __enter__(self) -> Self:
        outer = _current.get()
        _current.set(self)
        self._learning_around = torch.is_grad_enabled()
        if not self._intercept:
            self._left.append(lambda: put_in_charge(outer))
            return self
        stack = ExitStack()
        stack.callback(put_in_charge, outer)
        stack.enter_context(without_compilation())
        if self._tracker is not None and not self._left:
            self._calls_around = sum(1 for _ in calls_at_work())
            stack.enter_context(self._tracker)
        stack.enter_context(Interceptor(self))
        self._left.append(stack.close)
        return self

    def __exit__(self, *exception: object) -> None:
        self._left.pop()()
        if self._tracker is not None and not self._left:
            self._tracker.remember()

    @property
    def in_charge(self) -> bool:
        """Whether it is the innermost pass at work."""
        return _current.get() is self

    @property
    def numbers(self) -> RandomNumbers:
        """The random numbers of the draw."""
        return self._numbers

    @property
    def shared(self) -> bool:
        """Whether all rows of a batch share the noise."""
        return self._numbers.shared

    @property
    def plain(self) -> bool:
        """Whether functions are carried out for this draw alone, and not recorded for others."""
        return isinstance(self._executor, Plainly)

    def repeats(self, x: Tensor) -> bool:
        """Return whether x is the batch, and holds all rows twice."""
        return x is self._twice

    def draws_late(self, request: Request) -> bool:
        """Return whether numbers can stay undrawn until a kernel makes them, one per entry.

        That is not so where functions are recorded, and where rows have numbers in common.
        """
        if not self.plain or request.rows is None:
            return self.plain
        seen = type(self._executor) is not Plainly or torch._C._len_torch_dispatch_stack() > 0
        return not (seen or self._twice is not None or self._numbers.shared)

    @contextmanager
    def recalled(self) -> Iterator[None]:
        """Let modules ask for the noise of this pass again, after it; nothing is intercepted."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a torch function that is not to be intercepted again."""
        if self.at_first is not None and self.at_first():
            self.at_first = None
        if self._tracker is not None:
            self._tracker.see(function, args)
        return self._executor.call(function, args, kwargs)

    def reach(
        self,
        kind: str,
        x: Tensor,
        rate: float | None,
        owner: nn.Module | None = None,
    ) -> Site | None:
        """Note that a site is reached; None if it was not chosen to be noisy."""
        self.check_checkpoint(kind)
        if self.check is not None:
            self.check()
        name, module = (kind, owner) if self._namer is None else self._namer.name(kind, owner)
        site = Site(len(self.sites), name, kind, rate, tuple(x.shape), module)
        self.sites.append(site)
        if not self.watching and (self._chosen is None or self._chosen(site)):
            return site
        if self._tracker is not None:
            self.places.append((x.shape, self._tracker.at(site.index, x)))
        return None

    def layout(self, site: Site, shape: torch.Size, x: Tensor) -> Layout:
        """Return how noise of this shape, without sharing, is drawn at a site that acts on x."""
        if not self._numbers.shared or not shape:
            return Layout(shape)
        assert self._batch is not None
        found, rows = self._batch.at(site.index, x), self._batch.rows
        if isinstance(x, nn.Parameter) and found.axis is None:  # and not the input
            return Layout(shape)
        for pattern, axis in self._batch_axis.items():
            if matches(site, pattern):
                axis = _checked(site, x, axis, rows)
                return rows_on(axis, x.shape, rows, grows=found.grows).layout(shape, x.shape)
        if not found.found:
            found = self._look_again(site, found)
        if not found.found:
            raise UnplacedError(
                f"shared=True: expected to find the {rows} rows of the batch in the tensor of "
                f"shape {tuple(x.shape)} at site {site.name!r}, got one that does not come from "
                f"the inputs, from all rows alike; say where they are with "
                f"batch_axis={{{site.name!r}: 0}}, or None in place of 0 if they are nowhere; a "
                f"network that takes rows one by one must take them at once"
            )
        return found.layout(shape, x.shape)

    def _look_again(self, site: Site, place: Placement) -> Placement:
        """Return where rows are at a site, by a separate run of the outermost module."""
        call = outermost_call(self._calls_around)
        if self._tracker is None or call is None:
            return place
        if call[0] not in self._seen_apart:  # one such run tells about all sites
            self._seen_apart[call[0]] = self._run_apart(self._tracker.rows, *call)
        for other, found in self._seen_apart[call[0]][site.index : site.index + 1]:
            same = (other.kind, other.shape) == (site.kind, site.shape)
            if same and other.module is site.module:
                self._tracker.settle(site.index, found)
                return found
        return place

    def _run_apart(
        self, rows: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[Site, Placement]]:
        """Return the sites of a module and their rows; nothing if it does not run again."""
        batch = [x for x in tensors_in(args, kwargs) if x.dim() and len(x) == rows]
        noisy = {part for part in module.modules() if part.training} - set(_norms(module))
        watched: list[Pass] = []

        def watch(order: Tensor | None, places: RowPlaces) -> Pass:
            def some(x: Any) -> Any:
                return x[order] if any(x is each for each in batch) else x

            def run() -> None:
                given = tree_map(some, (args, kwargs))
                module(*given[0], **given[1])

            roots = None if self._namer is None else ()
            running = Pass(
                self._numbers.alone(), roots=roots, batch=places, evaluating=True, watching=True
            )
            upkeep = Upkeep(all_modules([module]), rewind=True)
            run_pass(run, running, gates=([module], noisy), around=[upkeep])
            watched.append(running)
            return running

        try:
            with outside_of_passes(), _disable_current_modes():
                known = follow_rows(watch, batch, rows)
        except Exception:  # it does not run again
            return []
        return [(s, place) for s, (_, place) in zip(watched[0].sites, known.places, strict=True)]

    def undrawn_noise(
        self,
        module: nn.Module,
        requests: tuple[Request, ...],
        x: Tensor,
        rate: Callable[[], float | None],
        owner: nn.Module,
    ) -> tuple[Tensor | Undrawn, ...] | None:
        """Return the noise of a module, the same however often it is called; None if left out.

        All noises of an owner are one site. It is not drawn yet where nobody has to see it.
        """
        if self.check is not None:
            self.check()
        if self._twice is not None:
            noises = self._own_noise(module, tuple(map(for_half, requests)), x, rate, owner)
            return None if noises is None else tuple(map(doubled, noises, requests))
        return self._own_noise(module, requests, x, rate, owner)

    def _own_noise(
        self,
        module: nn.Module,
        requests: tuple[Request, ...],
        x: Tensor,
        rate: Callable[[], float | None],
        owner: nn.Module,
    ) -> tuple[Tensor | Undrawn, ...] | None:
        index = self._own_sites.get(owner)
        if index is None:  # also in a pass that has its noise from another
            index = self._own_sites[owner] = self._reach_own(owner, x, rate)
        known = self.own.get(module)
        if known is not None:
            self.check_checkpoint(known.name)
            self._check_same_shape(known, requests)
            if known.place is None or known.given:
                return tuple(map(_for_gradients, known.given))
        if index < 0:
            return None
        precise = x if x.dtype.itemsize >= 4 else x.float()  # rates are not to be rounded
        unrecorded = isinstance(self._executor, Plainly) and self._tracker is None and serves(x)
        noises: list[Tensor | Undrawn] = []
        for distribution, shape, rows, _ in requests:
            if rows is not None and self._numbers.shared:
                shape = torch.Size([*shape[:rows], 1, *shape[rows + 1 :]])
            if known is not None and known.place is not None:
                call = known.place[1]
            else:
                call = self._next_call(owner)
            stream = self._numbers.stream((index, call)) if unrecorded else None
            if stream is not None:
                noises.append(Undrawn(stream, distribution, shape))
            else:
                noises.append(self.perturb(Draw(index, call, distribution, Layout(shape)), precise))
        name = type(owner).__name__ if self._unseen else self.sites[index].name
        place = None if known is None else known.place
        known = self.own[module] = OwnSite(name, requests, tuple(noises), place)
        return known.given

    def own_place(
        self,
        module: nn.Module,
        request: Request,
        x: Tensor,
        rate: Callable[[], float | None],
        owner: nn.Module,
    ) -> tuple[int, int] | None:
        """Return where the one noise of a module is, for a module that does not need it by itself.

        None if it was left out, or is there already. `undrawn_noise` takes it from the same place.
        """
        if self.check is not None:
            self.check()
        index = self._own_sites.get(owner)
        if index is None:
            index = self._own_sites[owner] = self._reach_own(owner, x, rate)
        known = self.own.get(module)
        if known is None:
            if index < 0:
                return None
            name = type(owner).__name__ if self._unseen else self.sites[index].name
            place = index, self._next_call(owner)
            known = self.own[module] = OwnSite(name, (request,), (), place)
        else:
            self.check_checkpoint(known.name)
            self._check_same_shape(known, (request,))
        return None if known.given else known.place

    def _next_call(self, owner: nn.Module) -> int:
        call = self._own_calls.get(owner, 0)
        self._own_calls[owner] = call + 1
        return call

    def meet_mask(self, x: Tensor) -> None:
        """Take note that a learnable mask is called with x."""
        if self.first_input is None:
            self.first_input = x
            if self._at_masks is not None:
                self._at_masks()

    def _reach_own(self, owner: nn.Module, x: Tensor, rate: Callable[[], float | None]) -> int:
        """Return the number of a module's own site; negative if it was not chosen to be noisy."""
        if self._unseen:
            self.check_checkpoint(type(owner).__name__)
            return len(self._own_sites)
        known_rate = None if self._namer is None else rate()
        site = self.reach(type(owner).__name__, x, known_rate, owner)
        return -1 if site is None else site.index

    def check_checkpoint(self, kind: str) -> None:
        """Raise an error for noise in a block that torch computes again for the gradient.

        Torch has hooks at work there; in its reentrant form gradients are off inside of the block,
        and on around it.
        """
        if torch.is_grad_enabled():
            suspected = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        else:
            suspected = self._learning_around
        if suspected and inside_checkpoint():
            raise NotImplementedError(
                f"{kind}: noise inside of torch.utils.checkpoint would be drawn anew when the "
                f"block is computed again for the gradient, outside of this noise; leave "
                f"checkpointing out, or enter the noise without gradients"
            )

    def _check_same_shape(self, known: OwnSite, requests: tuple[Request, ...]) -> None:
        for (_, first, rows, _), (_, shape, _, _) in zip(known.requests, requests, strict=True):
            if self._numbers.shared and rows is not None:  # the number of rows is free
                first, shape = (torch.Size([*s[:rows], 1, *s[rows + 1 :]]) for s in (first, shape))
            if first != shape:
                raise ValueError(
                    f"{known.name}: one mask is used for tensors of different shapes, "
                    f"{tuple(first)} and {tuple(shape)}; give each layer a mask of its own, with "
                    f"mask.tied() if they are to share a rate"
                )

    def perturb(self, perturbation: Perturbation, x: Tensor) -> Tensor:
        """Apply noise to x."""
        if not self._intercept:
            return self._executor.perturb(perturbation, self._numbers, x)
        with outside_of_passes(), self._unfollowed():
            result = self._executor.perturb(perturbation, self._numbers, x)
        if self._tracker is not None:
            self._tracker.stands_for(result, x)
        return result

    def perturb_in_place(self, perturbation: Perturbation, x: Tensor) -> Tensor:
        """Apply noise to x itself."""
        with outside_of_passes(), self._unfollowed():
            return self._executor.perturb_in_place(perturbation, self._numbers, x)

    def _unfollowed(self) -> AbstractContextManager[Any]:
        """Out of sight of who follows rows."""
        return nullcontext() if self._tracker is None else torch._C._DisableTorchDispatch()

    def own_randomness(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Random numbers that the network draws by itself, by a function of torch."""
        self._executor.own_randomness(f"torch's {getattr(function, '__name__', 'random')}")
        if kwargs.get("generator") is None:
            seed = self._numbers.seeds(-2, len(self.sites))[0]
            generator = as_generator(seed, _device_of(args, kwargs))
            kwargs = {**kwargs, "generator": generator}
        if isinstance(self._executor, Expectation):
            return self._executor.draw(function, args, kwargs)
        return self.call(function, args, kwargs)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return where a random function of torch puts its numbers."""
    given = [arg for arg in (kwargs.get("out"), *args, *kwargs.values()) if isinstance(arg, Tensor)]
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    with torch._C._DisableTorchDispatch():
        return given[0].device if given else torch.get_default_device()


def _norms(module: nn.Module) -> list[nn.Module]:
    """Return modules that keep statistics in train mode."""
    return [part for part in module.modules() if isinstance(part, _NormBase)]


def _checked(site: Site, x: Tensor, axis: int | None, rows: int) -> int | None:
    """Return where somebody has said that rows are, counted from the front."""
    if axis is None:
        return None
    if not -x.dim() <= axis < x.dim() or x.shape[axis] % rows:
        raise ValueError(
            f"batch_axis[{site.name!r}]: expected an axis whose length is {rows}, the number of "
            f"rows, or a multiple of it, got axis {axis} of a tensor of shape {tuple(x.shape)}"
        )
    return axis % x.dim()


def run_pass(
    network: Callable[[], _Result],
    running: Pass,
    *,
    gates: tuple[Sequence[nn.Module], Collection[nn.Module]] | None = None,
    around: Sequence[AbstractContextManager[Any]] = (),
) -> _Result:
    """Run a network once, under the noise of a pass: all that dubio does comes down to this.

    Args:
        network: Calls the network.
        running: The pass.
        gates: The networks that are sampled, and the modules among theirs that see their flag up:
            all others run in eval mode, and without gradients. If None, as they are.
        around: Further contexts.
    """
    if gates is None and not around:
        with running:
            return network()
    with ExitStack() as stack:
        if gates is not None:
            stack.enter_context(sampling_mode(*gates))
            stack.enter_context(no_gradients())
        for context in around:
            stack.enter_context(context)
        stack.enter_context(running)
        return network()


def _for_gradients(noise: Tensor | Undrawn) -> Tensor | Undrawn:
    """Return the noise as a tensor that gradients can go through."""
    if isinstance(noise, Undrawn):
        return noise
    if noise.is_inference() and not torch.is_inference_mode_enabled():
        return noise.clone()
    return noise
