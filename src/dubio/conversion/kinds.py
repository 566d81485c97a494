"""Whether a module behaves as its class suggests.

A subclass may behave differently from the torch class that it extends, and so may a module whose
`forward` was replaced. Neither counts as that class.
"""

from types import UnionType

from torch import nn

_COMPUTING = ("__call__", "forward", "_conv_forward", "__iter__", "__getattr__", "__getattribute__")
_Kinds = type[nn.Module] | UnionType | tuple[type[nn.Module], ...]


def is_plain(module: nn.Module, kinds: _Kinds) -> bool:
    """Return whether a module is of one of these torch classes, without an own forward."""
    if not isinstance(module, kinds) or is_patched(module):
        return False
    kind = type(module)
    of_torch = next(c for c in kind.__mro__ if c.__module__.startswith("torch.nn.modules."))
    return all(getattr(kind, name, None) is getattr(of_torch, name, None) for name in _COMPUTING)


def is_patched(module: nn.Module) -> bool:
    """Return whether a method of the module was replaced on the module itself."""
    kind = type(module)
    return any(callable(v) and callable(getattr(kind, k, None)) for k, v in vars(module).items())


def is_hooked(module: nn.Module) -> bool:
    """Return whether hooks may change the module's inputs or outputs."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
