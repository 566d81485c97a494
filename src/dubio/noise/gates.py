"""Gates: modules that hide their dropout in eval mode, and so must run with their flag up.

Most are found by a look at their code. Others are suspected because a dropout of theirs was not
reached, and are tried.
"""

from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import TypeVar
from weakref import WeakSet

from torch import nn

from dubio.noise.modes import all_modules
from dubio.noise.numbers import Numbers
from dubio.noise.placing import RowPlaces
from dubio.noise.register import is_registered
from dubio.noise.run import Pass, run_pass
from dubio.noise.sites import Site, Sites

_Result = TypeVar("_Result")
_found_gates: WeakSet[nn.Module] = WeakSet()
_gated_methods: dict[type[nn.Module], list[set[str]]] = {}

_FUNCTIONS = frozenset(
    {"scaled_dot_product_attention", "dropout", "dropout1d", "dropout2d", "dropout3d"}
    | {"alpha_dropout", "feature_alpha_dropout", "feature_dropout"}
    | {"rand", "rand_like", "randn", "randn_like", "bernoulli", "bernoulli_", "uniform_", "normal_"}
)


def behind_gates(
    attempt: Callable[[set[nn.Module]], tuple[_Result, Sites]],
    network: Callable[[], object],
    roots: Sequence[nn.Module],
) -> tuple[_Result, set[nn.Module]]:
    """Run a network with all gates open: once, and again if the first time has missed some.

    Args:
        attempt: Runs it with some modules' flags up, and tells which sites it has reached.
        network: Calls it, whatever the result.
        roots: The networks.

    Returns:
        The result of the last attempt, and the modules whose flags were up.
    """
    raised = gates(roots)
    result, sites = attempt(raised)
    found = find_gates(network, roots, raised, sites)
    return (attempt(raised | found)[0] if found else result), raised | found


def watch(
    network: Callable[[], object],
    roots: Sequence[nn.Module],
    raised: set[nn.Module],
    batch: RowPlaces | None = None,
) -> Pass:
    """Run a network without noise, and see which sites it reaches, and where rows are there."""
    numbers = Numbers(0, range(1), shared=False)
    running = Pass(numbers, roots=roots, batch=batch, evaluating=True, watching=True)
    run_pass(network, running, gates=(roots, raised))
    return running


def find_gates(
    network: Callable[[], object], roots: Sequence[nn.Module], raised: set[nn.Module], sites: Sites
) -> set[nn.Module]:
    """Modules whose flag must be up for their dropout modules to be reached.

    Suspects are those that own a dropout that was not reached; they are tried.
    """
    suspects = _missed_gates(roots, sites) - raised
    if not suspects:
        return set()
    try:
        seen = watch(network, roots, raised | suspects).sites
    except Exception:
        return set()
    found = suspects - _missed_gates(roots, seen)
    _found_gates.update(found)
    return found


def gates(roots: Iterable[nn.Module]) -> set[nn.Module]:
    """Modules one of whose methods reads ``self.training`` next to noise of its own.

    Dropout submodules need no such help, nor do the modules of torch itself.
    """
    return {
        module
        for module in all_modules(roots)
        if (methods := _methods_with_gates(type(module)))
        and not is_registered(module)
        and (
            module in _found_gates
            or any(any(_is_dropout(module, name, names) for name in names) for names in methods)
        )
    }


def _missed_gates(roots: Iterable[nn.Module], sites: Iterable[Site]) -> set[nn.Module]:
    """Modules that read ``self.training`` and own a dropout module that was not reached."""
    reached = {site.module for site in sites}
    return {
        module
        for module in all_modules(roots)
        if _methods_with_gates(type(module))
        and any(
            isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 and part not in reached
            for part in module.children()
        )
    }


def _methods_with_gates(kind: type[nn.Module]) -> list[set[str]]:
    """The names used in each method of a class that reads ``training``."""
    if kind not in _gated_methods:
        _gated_methods[kind] = _find_methods_with_gates(kind)
    return _gated_methods[kind]


def _find_methods_with_gates(kind: type[nn.Module]) -> list[set[str]]:
    if kind.__module__.startswith("torch.nn."):
        return []
    methods = [
        _names(getattr(method, "__code__", None))
        for ancestor in kind.__mro__
        if ancestor is not nn.Module and issubclass(ancestor, nn.Module)
        for method in vars(ancestor).values()
    ]
    return [names for names in methods if "training" in names]


def _is_dropout(module: nn.Module, name: str, names: set[str]) -> bool:
    """Whether a name stands for a dropout function or for the rate of one."""
    part = getattr(module, name, None) if "drop" in name else None
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return "p" in names  # self.dropout.p is passed on; self.dropout(x) would be no secret
    return (name in _FUNCTIONS and part is None) or isinstance(part, float)


def _names(code: CodeType | None) -> set[str]:
    """All global and attribute names in a piece of code, nested functions included."""
    if code is None:
        return set()
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
