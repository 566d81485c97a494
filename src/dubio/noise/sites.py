"""Sites: the places where noise enters a network, and how to select them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeVar

from torch import nn

from dubio.report.tables import table

_CALL = nn.Module._call_impl.__code__
NOISE_MODULES = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)


@dataclass(frozen=True)
class Site:
    """A place where noise enters: one call of a stochastic function in one forward pass.

    Attributes:
        index: Position in the order of execution; the noise of a site depends on it.
        name: Path of the module, followed by the function's name if a plain function was called,
            and by ``#2``, ``#3``… if the same place is reached again.
        kind: The kind of noise, e.g. ``dropout``, ``dropout2d``, ``lstm``, ``attention``.
        rate: The dropout rate, or None if there is none.
        shape: Shape of the tensor that the noise acts on, for one draw.
        module: The innermost running module, or None outside of any.
    """

    index: int
    name: str
    kind: str
    rate: float | None
    shape: tuple[int, ...]
    module: nn.Module | None


class Located(Protocol):
    """Something that has a name and a module in a network."""

    @property
    def name(self) -> str:
        """Its dotted path."""
        ...

    @property
    def module(self) -> nn.Module | None:
        """The module there."""
        ...


LocatedT = TypeVar("LocatedT", bound=Located)
Where: TypeAlias = (
    str
    | nn.Module
    | type[nn.Module]
    | Callable[[LocatedT], bool]
    | Iterable[str | nn.Module | type[nn.Module] | Callable[[LocatedT], bool]]
    | None
)


class Sites(list[Site]):
    """A list of sites that prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "no stochastic sites"
        header = ("site", "kind", "rate", "shape")
        rows = [
            (
                site.name,
                site.kind,
                "-" if site.rate is None else f"{site.rate:g}",
                " x ".join(map(str, site.shape)),
            )
            for site in self
        ]
        return table(header, rows)

    __repr__ = __str__


def chooser(where: Where[LocatedT]) -> Callable[[LocatedT], bool]:
    """Turn ``where=`` into a predicate on sites, or on whatever else has a name and a module.

    It can be copied and pickled, together with the modules that it is about.
    """
    if where is None:
        return _any_place
    if isinstance(where, str):
        return partial(matches, pattern=where)
    if isinstance(where, type):
        if not issubclass(where, nn.Module):
            raise TypeError(
                f"where: expected a module class such as nn.Dropout, got {where.__name__}"
            )
        return partial(_is_of, where)
    if isinstance(where, nn.Module):
        return partial(_is_among, set(where.modules()))
    if callable(where):
        return where
    if isinstance(where, Iterable):
        return partial(_is_chosen, [chooser(choice) for choice in where])
    raise TypeError(
        f"where: expected a glob pattern for names, a module or module class, a predicate or a "
        f"list of those, got {type(where).__name__}"
    )


def _any_place(place: Located) -> bool:
    return True


def _is_of(kind: type[nn.Module], place: Located) -> bool:
    return isinstance(place.module, kind)


def _is_among(modules: set[nn.Module], place: Located) -> bool:
    return place.module in modules


def _is_chosen(choices: list[Callable[[Any], bool]], place: Located) -> bool:
    return any(choice(place) for choice in choices)


def matches(place: Located, pattern: str) -> bool:
    """Return whether a pattern fits a name, or fits it without the number of a repeat."""
    return fnmatchcase(place.name, pattern) or fnmatchcase(place.name.split("#")[0], pattern)


class Namer:
    """Names the sites of one forward pass by looking at the modules at work on the stack.

    Only looks: no hook is put on any module, so nothing has to be taken off again and two threads
    may run the same network.
    """

    def __init__(self, roots: Sequence[nn.Module]) -> None:
        self._roots = roots
        self._paths = {
            id(module): path for root in reversed(roots) for path, module in root.named_modules()
        }
        self._calls: Counter[str] = Counter()

    def name(self, kind: str, owner: nn.Module | None = None) -> tuple[str, nn.Module | None]:
        """Return the name of the site reached now, and its owner or the innermost module."""
        stack = self._modules()
        if owner is not None and owner not in stack[:1]:
            stack = [owner, *stack]
        module = stack[0] if stack else None
        is_noise = isinstance(module, NOISE_MODULES) or type(module).__name__ == kind
        parts = [] if is_noise else [kind]
        for candidate in stack:
            if id(candidate) in self._paths:
                parts.append(self._paths[id(candidate)])
                break
            parts.append(type(candidate).__name__)
        name = ".".join(part for part in reversed(parts) if part) or kind
        self._calls[name] += 1
        repeat = self._calls[name]
        return (name if repeat == 1 else f"{name}#{repeat}"), module

    def _modules(self) -> list[nn.Module]:
        """Return modules whose forward is running, innermost first, up to the root."""
        modules: list[nn.Module] = []
        for call in calls_at_work():
            modules.append(call.f_locals["self"])
            if any(modules[-1] is root for root in self._roots):
                break
        return modules


def inside_checkpoint() -> bool:
    """Return whether torch is at work on a block that it will compute again for the gradient."""
    if "torch.utils.checkpoint" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            return True
        frame = frame.f_back
    return False


def outermost_call(around: int = 0) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None:
    """Return the outermost module at work inside of so many others, and what it was called with."""
    calls = list(calls_at_work())
    if len(calls) <= around:
        return None
    seen = calls[-1 - around].f_locals
    return seen["self"], seen["args"], seen["kwargs"]


def calls_at_work() -> Iterator[FrameType]:
    """Frames of the calls of modules that are running, innermost first.

    The locals of each hold the module as ``self`` and its inputs as ``args`` and ``kwargs``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            yield frame
        frame = frame.f_back
