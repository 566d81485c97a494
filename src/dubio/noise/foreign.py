"""Find modules that may have noise that is not dubio's own."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from dubio.noise.register import anything_registered, runs_registered
from dubio.noise.stochastic import Noisy

_RANDOM = (nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_quiet: dict[type[nn.Module], bool] = {}


def may_be_noisy(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Return the modules whose own code may draw random numbers that are not dubio's own.

    What torch's modules and dubio's do is known; of all others nothing is, nor of hooks.
    """
    return [
        module
        for module in modules
        if (not (_quiet.get(type(module)) or _is_quiet(type(module))) and _has_a_rate(module))
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._compiled_call_impl is not None
        or "forward" in module.__dict__
        or (anything_registered() and runs_registered(module))
    ]


def _is_quiet(kind: type[nn.Module]) -> bool:
    """Return whether the code of a class never draws random numbers that are not dubio's own."""
    torchs = kind.__module__.startswith("torch.nn.") and not issubclass(
        kind, (_DropoutNd, nn.RNNBase, nn.MultiheadAttention, *_RANDOM)
    )
    ours = issubclass(kind, Noisy) or kind.__module__.startswith("dubio.objectives.")
    _quiet[kind] = torchs or ours
    return _quiet[kind]


def _has_a_rate(module: nn.Module) -> bool:
    """Return whether a module that may drop something does; what subclasses do is not known."""
    if not type(module).__module__.startswith("torch.nn."):
        return True
    match module:
        case _DropoutNd():
            rate = module.p
        case nn.RNNBase():
            rate = module.dropout if module.num_layers > 1 else 0.0
        case nn.MultiheadAttention():
            rate = module.dropout
        case _:
            return True
    return isinstance(rate, Tensor) or rate > 0  # those of many networks, or one
