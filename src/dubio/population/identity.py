"""The identity of a run: structure, settings and data, in words and checksums."""

import zlib
from collections.abc import Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.parametrize import type_before_parametrizations

from dubio.objectives.elbo import ELBO
from dubio.population.sameness import bound_in, values_of
from dubio.population.settings import settings_of, shown
from dubio.population.stack import Stack

_IN_WORDS = (bool, int, float, str, type(None), torch.dtype, torch.device)


def identity_of(stack: Stack) -> dict[str, str]:
    """By name: classes of modules, settings, and tensors; of those that learn the shapes alone."""
    modules = dict(stack.skeleton.named_modules())
    return {
        **{
            f"{name or 'member'} (module)": _class(type_before_parametrizations(module))
            for name, module in modules.items()
        },
        **{
            f"{name}.step".lstrip("."): str(module.step)
            for name, module in modules.items()
            if isinstance(module, ELBO) and module.scheduled
        },
        **{shown(path): described(value) for path, value in settings_of(modules)},
        **{shown(name): described(t) for name, t in (stack.fixed | stack.numbers).items()},
        **{name: str(tuple(tensor.shape)) for name, tensor in stack.learned.items()},
    }


def described(value: Any) -> str:
    """Return a value in words that are the same in every process."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} with checksum {checksum(value)}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(described, value))})"
    if isinstance(value, Mapping):
        return described(list(value.items()))
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}{described(values_of(value))}"
    if isinstance(value, MethodType | partial):
        return described(bound_in(value))
    if isinstance(value, type):
        return _class(value)
    return repr(value) if isinstance(value, _IN_WORDS) else _class(type(value))


def checksum(*arrays: Any) -> int:
    """Tell these numbers, in these shapes, from others."""
    found = 0
    for array in arrays:
        plain = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)
        found = zlib.crc32(f"{plain.shape}{plain.dtype}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(plain).tobytes(), found)
    return found


def _class(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
