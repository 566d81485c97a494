"""The interceptor: sees every torch function that a network calls and puts noise where it enters.

It works on networks as they are, in train or eval mode: `F.dropout` and its relatives go through
``__torch_function__`` whoever calls them, so a dropout counts wherever it stands. What it does at
each function is written in the catalogue (`dubio.noise.handlers.dropout`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dubio.noise.eager import without_compilation
from dubio.noise.layout import (
    BatchAxis,
    Layout,
    Probe,
    likely_batch_axis,
)
from dubio.noise.numbers import Numbers
from dubio.noise.perturbations import Draw, Perturbation
from dubio.noise.sites import (
    Namer,
    Site,
    Sites,
    inside_checkpoint,
    rows_of_outermost_call,
)

Handler = Callable[["Interceptor", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

HANDLERS: dict[Callable[..., Any], Handler] = {}

_current: ContextVar["Interceptor | None"] = ContextVar("interceptor", default=None)


def handles(*functions: Callable[..., Any]) -> Callable[[Handler], Handler]:
    """Enter a handler for some torch functions into the catalogue."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return enter


def transparent(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same Python function, but with its inner torch calls visible to the interceptor.

    Functions of `torch.nn.functional` hand themselves over whole to an active interceptor as their
    first step; here they are told that there is none, and so reach their inner calls.
    """
    assert isinstance(function, FunctionType)
    unaware = {
        name: (lambda *args: False)
        for name in (
            "has_torch_function",
            "has_torch_function_unary",
            "has_torch_function_variadic",
        )
    }
    return FunctionType(
        function.__code__,
        {**function.__globals__, **unaware},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def current_interceptor() -> "Interceptor | None":
    """The interceptor at work around the caller, if any."""
    return _current.get()


@contextmanager
def no_interception() -> Iterator[None]:
    """Let torch functions be called as they are, whatever noise is around."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


class Executor(Protocol):
    """How functions are carried out: plainly, or recorded as well."""

    def perturb(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply noise."""
        ...

    def perturb_in_place(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
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


class Plainly:
    """Carries functions out as they are, for one draw."""

    def perturb(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw."""
        return perturbation(numbers, x)[0]

    def perturb_in_place(self, perturbation: Perturbation, numbers: Numbers, x: Tensor) -> Tensor:
        """Apply the noise of the one draw to x itself."""
        return x.copy_(perturbation(numbers, x)[0])

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function."""
        return function(*args, **kwargs)

    def own_randomness(self, name: str) -> None:
        """Nothing to note: the next draw calls the network again."""


@dataclass(frozen=True)
class OwnSite:
    """A module's own site, the noise of one draw there, and its axes of rows and of units.

    The shape is that without sharing.

    Noise of weights has no axis of rows: it is the same for the whole batch.
    """

    site: Site
    noise: Tensor
    shape: torch.Size
    rows: int | None
    units: int


@dataclass(frozen=True)
class BatchSize:
    """What is known of the batch: its rows, and what passes over few of them have shown."""

    rows: int
    probes: tuple[Probe, ...] = ()

    def axis(self, site: int, shape: torch.Size) -> BatchAxis | None:
        """The axis of the batch in the noise of a site; None if there is none."""
        if site < len(self.probes) and self.probes[site].forwards.dim() == len(shape):
            return self.probes[site].batch_axis(shape, self.rows)
        return likely_batch_axis(shape, self.rows)


class Interceptor(TorchFunctionMode):
    """Puts the noise of one draw into everything that runs inside its context.

    Args:
        numbers: The random numbers of that draw.
        roots: The networks that run, for the names of sites; None if nobody will read them.
        chosen: Which sites are noisy.
        batch: What is known of the batch.
        executor: How functions are carried out.
        evaluating: Whether batch normalisation must use its statistics and leave them alone.
        watching: Whether the pass is only to be looked at, and no site noisy.
        learning: Whether divergences at the noise of this pass will be asked for after it.

    Attributes:
        sites: The sites reached so far.
        noise_shapes: The shape of the noise at each of them, before any sharing.
        tensors: What noise would have acted on at the sites that were not chosen.
        own: What modules with noise of their own have drawn.
        memory: What modules have computed once for all of their calls in this pass.
    """

    def __init__(
        self,
        numbers: Numbers,
        *,
        roots: Sequence[nn.Module] | None = (),
        chosen: Callable[[Site], bool] = lambda site: True,
        batch: BatchSize | None = None,
        executor: Executor | None = None,
        evaluating: bool = False,
        watching: bool = False,
        learning: bool = False,
    ) -> None:
        super().__init__()
        self.evaluating = evaluating
        self.watching = watching
        self.learning = learning
        self.sites = Sites()
        self.noise_shapes: list[torch.Size] = []
        self.tensors: list[Tensor] = []
        self._numbers = numbers
        self._namer = None if roots is None else Namer(roots)
        self._chosen = chosen
        self._batch = batch
        self._executor = Plainly() if executor is None else executor
        self.own: dict[nn.Module, OwnSite] = {}
        self._own_sites: dict[nn.Module, Site | None] = {}
        self.memory: dict[nn.Module, Any] = {}
        self._tokens: list[Token[Interceptor | None]] = []
        self._eager: list[AbstractContextManager[None]] = []
        self._learning_around = False

    def __enter__(self) -> "Interceptor":
        self._tokens.append(_current.set(self))
        self._learning_around = torch.is_grad_enabled()
        self._eager.append(without_compilation())
        self._eager[-1].__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self._eager.pop().__exit__(None, None, None)
        _current.reset(self._tokens.pop())

    @property
    def shared(self) -> bool:
        """Whether all rows of a batch share the noise."""
        return self._numbers.shared

    @contextmanager
    def recalled(self) -> Iterator[None]:
        """Let modules ask for the noise of this pass again, after it; nothing is intercepted."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Send a torch function to its handler, or let it be called as it is."""
        if _current.get() is not self:  # an inner one, or none, is in charge
            return func(*args, **(kwargs or {}))
        handler = HANDLERS.get(func)
        if handler is None:
            return self._executor.call(func, args, kwargs or {})
        return handler(self, func, args, kwargs or {})

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a torch function that is not to be intercepted again."""
        return self._executor.call(function, args, kwargs)

    def reach(
        self,
        kind: str,
        x: Tensor,
        rate: float | None,
        noise_shape: torch.Size | None = None,
        owner: nn.Module | None = None,
    ) -> Site | None:
        """Note that a site is reached; None if it was not chosen to be noisy."""
        self.check_checkpoint(kind)
        name, module = (kind, owner) if self._namer is None else self._namer.name(kind, owner)
        site = Site(len(self.sites), name, kind, rate, tuple(x.shape), module)
        self.sites.append(site)
        self.noise_shapes.append(x.shape if noise_shape is None else noise_shape)
        if self._chosen(site) and not self.watching:
            return site
        self.tensors.append(x)
        return None

    def layout(self, site: Site, shape: torch.Size, x: Tensor, axis: int | None = None) -> Layout:
        """How noise of this shape, without sharing, is drawn at a site that acts on x.

        ``axis`` is the axis of the batch where the caller knows it.
        """
        if not self._numbers.shared or isinstance(x, nn.Parameter) or not shape:
            return Layout(shape)
        found = self._axis_of_batch(site, shape) if axis is None else BatchAxis(axis)
        return Layout(shape) if found is None else found.layout(shape, x.device)

    def _axis_of_batch(self, site: Site, shape: torch.Size) -> BatchAxis | None:
        batch = self._batch or BatchSize(rows_of_outermost_call() or shape[0])
        return batch.axis(site.index, shape)

    def own_noise(
        self,
        module: nn.Module,
        distribution: Literal["uniform", "normal", "bernoulli"],
        shape: torch.Size,
        x: Tensor,
        rows: int | None,
        units: int,
        rate: Callable[[], float | None],
        owner: nn.Module,
    ) -> Tensor | None:
        """The noise of a module, the same however often it is called; None if left out.

        All noises of an owner are one site.
        """
        known = self.own.get(module)
        if known is not None:
            self.check_checkpoint(known.site.kind)
            self._check_same_shape(known, shape)
            return _for_gradients(known.noise)
        if owner not in self._own_sites:
            known_rate = None if self._namer is None else rate()
            self._own_sites[owner] = self.reach(type(owner).__name__, x, known_rate, shape, owner)
        site = self._own_sites[owner]
        if site is None:
            return None
        before = sum(other.site is site for other in self.own.values())
        layout = Layout(shape) if rows is None else self.layout(site, shape, x, axis=rows)
        precise = x if torch.finfo(x.dtype).bits >= 32 else x.float()  # rates are not to be rounded
        noise = self.perturb(Draw(site.index, before, distribution, layout, keep=0.5), precise)
        self.own[module] = OwnSite(site, noise, shape, rows, units)
        return noise

    def check_checkpoint(self, kind: str) -> None:
        """Complain about noise in a block that torch will compute again for the gradient.

        In its reentrant form gradients are off inside of the block, so that those around tell.
        """
        if (torch.is_grad_enabled() or self._learning_around) and inside_checkpoint():
            raise NotImplementedError(
                f"{kind}: noise inside of torch.utils.checkpoint would be drawn anew when the "
                f"block is computed again for the gradient, outside of this noise; leave "
                f"checkpointing out, or enter the noise without gradients."
            )

    def _check_same_shape(self, known: OwnSite, shape: torch.Size) -> None:
        first = known.shape
        if self._numbers.shared and known.rows is not None:  # the number of rows is free
            first, shape = (
                torch.Size([*s[: known.rows], 1, *s[known.rows + 1 :]]) for s in (first, shape)
            )
        if first != shape:
            raise ValueError(
                f"{known.site.name}: one mask is used for tensors of different shapes, "
                f"{tuple(first)} and {tuple(shape)}; give each layer a mask of its own, with "
                f"mask.tied() if they are to share a rate."
            )

    def packed_layout(self, x: Tensor, batch_sizes: Tensor) -> Layout:
        """How noise is drawn for a packed sequence: if shared, one row of it per time step."""
        if not self._numbers.shared:
            return Layout(x.shape)
        steps = torch.arange(len(batch_sizes), device=x.device)
        return Layout(
            torch.Size([len(batch_sizes), *x.shape[1:]]),
            axis=0,
            index=steps.repeat_interleave(batch_sizes.to(x.device)),
        )

    def perturb(self, perturbation: Perturbation, x: Tensor) -> Tensor:
        """Apply noise to x."""
        with no_interception():
            return self._executor.perturb(perturbation, self._numbers, x)

    def perturb_in_place(self, perturbation: Perturbation, x: Tensor) -> Tensor:
        """Apply noise to x itself."""
        with no_interception():
            return self._executor.perturb_in_place(perturbation, self._numbers, x)

    def own_randomness(self, function: Callable[..., Any]) -> torch.Generator:
        """What random numbers that the network draws by itself are to come from."""
        self._executor.own_randomness(f"torch's {getattr(function, '__name__', 'random')}")
        return torch.Generator().manual_seed(self._numbers.seeds(-2, len(self.sites))[0])


def _for_gradients(noise: Tensor) -> Tensor:
    """The noise, as a tensor that gradients can go through if it was drawn in inference mode."""
    if noise.is_inference() and not torch.is_inference_mode_enabled():
        return noise.clone()
    return noise
