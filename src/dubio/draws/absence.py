"""What to say when a network has no noise to sample."""

from collections import Counter
from collections.abc import Callable, Sequence

from torch import nn

from dubio.noise.sites import Site, Sites


class NoSitesError(RuntimeError):
    """Raised if no noise enters the output, so that there is nothing to sample."""


def no_sites(
    roots: Sequence[nn.Module], sites: Sites, chosen: Callable[[Site], bool]
) -> NoSitesError:
    """Return the error, which says what was checked and what to do."""
    if sites and not any(map(chosen, sites)):
        return NoSitesError(
            f"where= chose none of the {len(sites)} stochastic sites:\n{sites}\n"
            f"Pass a glob pattern that matches one of these names (wildcards: * ? [ ]), a module "
            f"class, or a predicate"
        )
    if sites:
        return NoSitesError(
            f"the selected output does not depend on any of the {len(sites)} stochastic sites:\n"
            f"{sites}\nPass select= for an output behind one of them"
        )
    return NoSitesError(
        f"no stochastic site was reached, so all draws would be equal.\n"
        f"Looked at: {_modules(roots)}.\n"
        f"Looked for: torch's dropout functions and the modules that call them, attention with "
        f"dropout_p, dropout between layers of LSTM, GRU and RNN, random numbers drawn in forward, "
        f"modules entered by dubio.register.\n"
        f"{_hints(roots)}"
    )


def _modules(roots: Sequence[nn.Module]) -> str:
    if not roots:
        return "a function that is no nn.Module"
    counts = Counter(type(module).__name__ for root in roots for module in root.modules())
    listed = ", ".join(f"{name} ({count})" for name, count in counts.most_common(12))
    return f"{sum(counts.values())} modules: {listed}{', …' if len(counts) > 12 else ''}"


def _hints(roots: Sequence[nn.Module]) -> str:
    modules = [named for root in roots for named in root.named_modules()]
    hints = [
        f"{name or type(module).__name__} has a dropout rate of 0"
        if _rate(module) == 0
        else f"{name or type(module).__name__} was not called in this pass"
        for name, module in modules
        if _rate(module) is not None
    ]
    if any(isinstance(module, nn.RNNBase) and module.num_layers == 1 for _, module in modules):
        hints.append("recurrent layers drop only between layers, and one has a single layer")
    found = f"Found: {'; '.join(hints[:8])}.\n" if hints else ""
    return (
        f"{found}What to do: give the network dropout before it is trained (nn.Dropout before a "
        f"weight layer, or dubio.convert with rules.mask_inputs), or dubio.register your own noise "
        f"module."
    )


def _rate(module: nn.Module) -> float | None:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return float(module.dropout)
    return None
