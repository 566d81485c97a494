"""Settings: what modules keep that is no tensor of theirs, found by path and replaced for a call.

A path is that of a module, a colon, an attribute, and fields of dataclasses inside of it.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dubio.objectives.elbo import ELBO
from dubio.population.sameness import Sameness

# What modules keep about themselves, beside their settings.
_OF_MODULES = set(vars(nn.Module()))
_OF_OBJECTIVES = {
    "nll", "kl", "log_prior", "step", "_meetings", "_kept", "_parts", "_trunk", "generator",
}  # fmt: skip


class _Missing:
    """What a setting is in members that have none of that name."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def settings_of(modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, Any]]:
    """Attributes of modules that are no tensors of theirs, and of plain values in them; hooks."""
    own = set(modules.values())
    for name, module in modules.items():
        skipped = _OF_MODULES | _OF_OBJECTIVES if isinstance(module, ELBO) else _OF_MODULES
        for attribute, value in vars(module).items():
            if attribute not in skipped:
                for path, setting in _inside(f"{name}:{attribute}", value):
                    if not isinstance(setting, nn.Module) or setting not in own:
                        yield path, setting
        if module._forward_pre_hooks:
            yield (
                f"{name}:forward_pre_hooks",
                [
                    (hook, key in module._forward_pre_hooks_with_kwargs)
                    for key, hook in module._forward_pre_hooks.items()
                ],
            )
        if module._forward_hooks:
            yield (
                f"{name}:forward_hooks",
                [
                    (hook, key in module._forward_hooks_with_kwargs)
                    for key, hook in module._forward_hooks.items()
                ],
            )


def shown(path: str) -> str:
    """Return the path of a setting as written in code."""
    return path.replace(":", ".").lstrip(".")


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type | nn.Module):
        yield path, type(value)
        for field in fields(value):
            yield from _inside(f"{path}.{field.name}", getattr(value, field.name))
    else:
        yield path, value


@contextmanager
def with_numbers(skeleton: nn.Module, numbers: Mapping[str, Tensor]) -> Iterator[None]:
    """Give modules other numbers; where these are in values, copies of the values with them."""
    before: list[tuple[nn.Module, str, Any]] = []
    try:
        for path, number in numbers.items():
            name, _, setting = path.partition(":")
            attribute, *inside = setting.split(".")
            module = skeleton.get_submodule(name)
            value = vars(module)[attribute]
            before.append((module, attribute, value))
            vars(module)[attribute] = _with(number, inside, value)
        yield
    finally:
        for module, attribute, value in reversed(before):
            vars(module)[attribute] = value


def _with(number: Tensor, inside: Sequence[str], value: Any) -> Any:
    """Return a value with a number replaced somewhere inside.

    `dataclasses.replace` would check the number, which stands for those of many members.
    """
    if not inside:
        return number
    name, *further = inside
    changed = copy.copy(value)
    object.__setattr__(changed, name, _with(number, further, getattr(value, name)))
    return changed


def differ(path: str, values: Sequence[Any], same: Sequence[Sameness]) -> bool:
    """Return whether a setting is a number, or a tensor, that members differ in.

    Args:
        path: Where it is.
        values: Its value in each member.
        same: Compares the first member with each.

    Raises:
        ValueError: If they differ in anything else.
    """
    first = values[0]
    if all(value is first for value in values):
        return False
    if all(
        isinstance(value, Tensor) and (value.shape, value.dtype) == (first.shape, first.dtype)
        for value in values
    ):
        return any(not torch.equal(value, first) for value in values)
    if all(isinstance(v, float | int) and not isinstance(v, bool) for v in values):
        return any(value != first for value in values)
    for index, (value, agree) in enumerate(zip(values, same, strict=True)):
        if not agree(first, value):
            raise ValueError(
                f"members: expected settings that are the same but for numbers, got "
                f"{shown(path)} as {first!r} in member 0 and {value!r} in member {index}; put them "
                f"into populations of their own"
            )
    return False
