"""Many networks of one structure as one: their parameters, buffers and numbers, stacked."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.rnn import RNNBase, RNNCellBase
from torch.nn.utils.parametrize import type_before_parametrizations

from dubio.objectives.elbo import ELBO
from dubio.population.sameness import Sameness, behind_functions
from dubio.population.settings import MISSING, differ, settings_of, shown, with_numbers

_Result = TypeVar("_Result")
Tensors = dict[str, Tensor]


class _Held(nn.Module):
    """Lets any function of a module be called with other tensors in it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, function: Callable[[nn.Module], _Result]) -> _Result:
        return function(self.module)


@final
@dataclass(frozen=True)
class Stack:
    """Members of one structure. All tensors have a first axis for the member.

    Attributes:
        skeleton: A module of that structure, whose own tensors do not count.
        learned: Parameters that learn.
        fixed: All other parameters, and buffers.
        numbers: Settings that are numbers, and differ among members, by their path.
    """

    skeleton: nn.Module
    learned: Tensors
    fixed: Tensors
    numbers: Tensors

    @classmethod
    def of(cls, members: Sequence[nn.Module]) -> Self:
        """Stack modules, which must be equal but for their tensors and numbers."""
        first = members[0]
        _check_supported(first)
        modules = [dict(member.named_modules()) for member in members]
        tensors = [_tensors(own) for own in modules]
        layout = _layout(modules[0], tensors[0])
        for index, (own, parts) in enumerate(zip(modules, tensors, strict=True)):
            _check_same(layout, _layout(own, parts), index)
        _check_apart(tensors)
        settings = [dict(settings_of(own)) for own in modules]
        _check_functions(modules, tensors, settings)
        same = [Sameness(modules[0], own) for own in modules]
        like = next(first.parameters())
        numbers: Tensors = {}
        for path in dict.fromkeys(path for own in settings for path in own):
            values = [own.get(path, MISSING) for own in settings]
            if not differ(path, values, same):
                continue
            numbers[path] = (
                torch.stack(values)
                if isinstance(values[0], Tensor)
                else torch.tensor(values, dtype=like.dtype, device=like.device)
            )
        learned: Tensors = {}
        fixed: Tensors = {}
        for name, tensor in tensors[0].items():
            stacked = torch.stack([own[name].detach() for own in tensors])
            (learned if tensor.requires_grad else fixed)[name] = stacked
        return cls(_copied(first), learned, fixed, numbers)

    def __len__(self) -> int:
        return len(next(iter(self.learned.values())))

    def take(self, members: Tensor) -> Self:
        """Return some of the members, as a stack of its own: nothing is shared."""
        learned, fixed, numbers = (
            {name: tensor.detach()[members] for name, tensor in group.items()}
            for group in (self.learned, self.fixed, self.numbers)
        )
        return type(self)(_copied(self.skeleton), learned, fixed, numbers)

    def with_own_skeleton(self) -> Self:
        """Return the same members with modes of their own; the tensors are shared."""
        return type(self)(_copied(self.skeleton), self.learned, self.fixed, self.numbers)

    def each(
        self, function: Callable[..., _Result], *args: Any, in_dims: Sequence[int | None]
    ) -> _Result:
        """Call ``function(member, *args)`` for all members at once.

        Args:
            function: What to compute of a module.
            args: Its arguments, trees of tensors.
            in_dims: The axis of members in each argument; None if it is the same for all.
        """
        held = _Held(self.skeleton)

        def call(tensors: Tensors, numbers: Tensors, *own: Any) -> _Result:
            named = {f"module.{name}": tensor for name, tensor in tensors.items()}
            with with_numbers(self.skeleton, numbers):
                result: _Result = functional_call(held, named, (lambda m: function(m, *own),))
            return result

        tensors = {**self.learned, **self.fixed}
        with _notes_undone(list(self.skeleton.modules())):
            result: _Result = torch.vmap(call, in_dims=(0, 0, *in_dims), randomness="error")(
                tensors, self.numbers, *args
            )
        return result

    def write(self, members: Sequence[nn.Module]) -> None:
        """Give members the parameters and buffers that are stacked here."""
        unstacked = {
            name: tensor.detach().unbind()
            for name, tensor in {**self.learned, **self.fixed}.items()
        }
        with torch.no_grad():
            for index, member in enumerate(members):
                for name, tensor in _tensors(dict(member.named_modules())).items():
                    tensor.copy_(unstacked[name][index])


@contextmanager
def _notes_undone(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Take back attributes that became tensors: those of a vmap mean nothing after it.

    Parameters too: torch puts those back only once that two tied modules hold in one dictionary.
    """
    before = [(module, dict(vars(module)), dict(module._parameters)) for module in modules]
    try:
        yield
    finally:
        for module, attributes, parameters in before:
            module._parameters.update(parameters)
            for name, value in vars(module).items():
                if isinstance(value, Tensor) and value is not attributes.get(name):
                    vars(module)[name] = attributes.get(name)


def _copied(module: nn.Module) -> nn.Module:
    """Return a copy that shares generators alone, which cannot be copied."""
    generators = [m.generator for m in module.modules() if isinstance(m, ELBO)]
    return copy.deepcopy(module, {id(generator): generator for generator in generators})


def _tensors(modules: Mapping[str, nn.Module]) -> Tensors:
    """Return parameters and buffers, each under its first name."""
    named = {
        f"{name}.{key}" if name else key: tensor
        for name, module in modules.items()
        for key, tensor in (*module._parameters.items(), *module._buffers.items())
        if tensor is not None
    }
    first = {id(tensor): name for name, tensor in reversed(named.items())}
    return {name: tensor for name, tensor in named.items() if first[id(tensor)] == name}


def _layout(modules: Mapping[str, nn.Module], tensors: Tensors) -> dict[str, Any]:
    """Return what must be the same in all members: modules, and shapes of tensors."""
    return {
        **{f"{name} (module)": type_before_parametrizations(m) for name, m in modules.items()},
        **{
            name: (tuple(tensor.shape), tensor.dtype, tensor.device, tensor.requires_grad)
            for name, tensor in tensors.items()
        },
    }


def _check_same(expected: dict[str, Any], got: dict[str, Any], index: int) -> None:
    if list(expected.items()) == list(got.items()):
        return
    if expected == got:
        name, other = next((a, b) for a, b in zip(expected, got, strict=True) if a != b)
        raise ValueError(
            f"members: expected modules in one order, got {name} in member 0 where {other} is in "
            f"member {index}; put each order into a population of its own"
        )
    name = next(n for n in (*expected, *got) if expected.get(n) != got.get(n))
    raise ValueError(
        f"members: expected modules of one structure, got {name} as {expected.get(name)} in member "
        f"0 and {got.get(name)} in member {index}; put each structure into a population of its own"
    )


def _check_apart(members: Sequence[Tensors]) -> None:
    """Raise an error for a parameter that two members would learn."""
    owners: dict[int, int] = {}
    for index, tensors in enumerate(members):
        for name, tensor in tensors.items():
            other = owners.setdefault(tensor.data_ptr(), index) if tensor.requires_grad else index
            if other != index and tensor.numel():
                raise ValueError(
                    f"members: expected parameters of their own, got {name} of member {index} in "
                    f"member {other} too; make a copy of it with copy.deepcopy"
                )


def _check_functions(
    modules: Sequence[Mapping[str, nn.Module]],
    tensors: Sequence[Tensors],
    settings: Sequence[Mapping[str, Any]],
) -> None:
    """Raise an error for functions that refer to parts of a member."""
    parts: list[Mapping[str, Any]] = [*modules, *tensors]
    names = {id(part): name for named in parts for name, part in named.items()}
    for index, own in enumerate(settings):
        for path, value in own.items():
            for thing in behind_functions(value):
                if id(thing) in names:
                    raise ValueError(
                        f"members: expected functions without references to their member, got "
                        f"{shown(path)} in member {index}, which refers to "
                        f"{names[id(thing)] or 'the member'}, even in a copy; make it a method, or "
                        f"use the module that is passed to a hook"
                    )


def _check_supported(member: nn.Module) -> None:
    for name, module in member.named_modules():
        if isinstance(module, RNNBase | RNNCellBase):
            raise ValueError(
                f"members: expected layers that torch.vmap can compute at once, got {name} "
                f"({type(module).__name__}); train networks with recurrent layers one by one with "
                f"dubio.fit"
            )
        if isinstance(module, _NormBase) and module.track_running_stats:
            raise ValueError(
                f"members: expected layers without running statistics, got {name}, a "
                f"{type(module).__name__}; use LayerNorm or GroupNorm, or "
                f"track_running_stats=False"
            )
    if not any(parameter.requires_grad for parameter in member.parameters()):
        raise ValueError(
            f"members: expected parameters that require a gradient, got a "
            f"{type(member).__name__} without any; make the network an attribute of it"
        )
