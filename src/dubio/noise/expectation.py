"""A network without its noise: in place of random numbers it gets what they are on average.

A dropout lets everything through. Random numbers that a network draws by itself are replaced by
their mean, and so is what is commonly made of uniform numbers: with u ~ U(0, 1),

    E 1[u < keep] = keep,   E floor(keep + u) = keep,

so that stochastic depth in all its spellings, ``x * mask / keep``, gives x.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dubio.noise.plainly import Plainly

_BELOW = frozenset({"lt", "__lt__", "le", "__le__"})
_ABOVE = frozenset({"gt", "__gt__", "ge", "__ge__"})
_SUM = frozenset({"add", "__add__", "__radd__", "add_", "__iadd__"})
_DIFFERENCE = frozenset({"sub", "__sub__", "sub_", "__isub__"})
_PRODUCT = frozenset({"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply"})
_QUOTIENT = frozenset({"div", "__truediv__", "div_", "__itruediv__", "true_divide"})
_NOT = frozenset({"logical_not", "__invert__", "bitwise_not"})
_FLOOR = frozenset({"floor", "floor_"})
_FORM = frozenset(
    {"view", "reshape", "expand", "expand_as", "unsqueeze", "squeeze", "clone", "detach"}
    | {"contiguous", "flatten", "repeat"}
)
_CAST = frozenset({"to", "float", "double", "half", "bfloat16", "type", "type_as"})


class _Uniform(NamedTuple):
    """A tensor that stands for uniform numbers in a range."""

    tensor: Tensor
    low: float
    high: float


class _Chance(NamedTuple):
    """A mask of zeros and ones, and the probabilities of a one that it stands for."""

    tensor: Tensor
    chance: Tensor


class Expectation(Plainly):
    """Carries functions out as they are, and gives means in place of random numbers."""

    def __init__(self) -> None:
        self._uniform: dict[int, _Uniform] = {}  # by id, which holds while tensors are kept
        self._chances: dict[int, _Chance] = {}

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function, or give what it is on average where it acts on random numbers."""
        if self._uniform and args:
            name = getattr(function, "__name__", "")
            if id(args[0]) in self._uniform:
                return self._of_uniform(name, function, args, kwargs)
            if len(args) > 1 and id(args[1]) in self._uniform:
                return self._of_two(name, function, args, kwargs)
            if self._chances and any(id(arg) in self._chances for arg in args):
                return self._of_chances(name, function, args, kwargs)
        return function(*args, **kwargs)

    def draw(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return what a random function of torch gives on average; else what it gives."""
        name = function.__name__
        out = function(*args, **kwargs)
        if not out.is_floating_point():
            return out
        match name:
            case "rand":
                return self._note_uniform(out.fill_(0.5), 0.0, 1.0)
            case "uniform_":
                low, high = _parameters(args, kwargs, ("from", 0.0), ("to", 1.0))
                return self._note_uniform(out.fill_((low + high) / 2), low, high)
            case "randn":
                return out.zero_()
            case "normal":
                mean = args[0] if args else kwargs["mean"]
                return out.zero_().add_(mean)
            case "normal_" | "cauchy_":
                return out.fill_(_parameters(args, kwargs, (_LOCATION[name], 0.0))[0])
            case "log_normal_":
                mean, std = _parameters(args, kwargs, ("mean", 1.0), ("std", 2.0))
                return out.fill_(math.exp(mean + std**2 / 2))
            case "exponential_":
                return out.fill_(1 / _parameters(args, kwargs, ("lambd", 1.0))[0])
            case "geometric_":
                return out.fill_(1 / _parameters(args, kwargs, ("p", 0.5))[0])
            case "bernoulli_":
                (p,) = _parameters(args, kwargs, ("p", 0.5))
                return out.copy_(p) if isinstance(p, Tensor) else out.fill_(p)
            case "bernoulli" | "poisson":
                rate = args[0] if args else kwargs["input"]
                (p,) = _parameters(args, kwargs, ("p", rate))
                return out.copy_(p) if isinstance(p, Tensor) else out.fill_(p)
            case _:
                return out

    def _note_uniform(self, x: Tensor, low: float, high: float) -> Tensor:
        self._uniform[id(x)] = _Uniform(x, low, high)
        return x

    def _note_chance(self, chance: Tensor) -> Tensor:
        """Return the mask that is likeliest, which stands for probabilities."""
        mask = chance >= 0.5
        self._chances[id(mask)] = _Chance(mask, chance)
        return mask

    def _of_uniform(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        x, low, high = self._uniform[id(args[0])]
        if name in _FORM or name in _CAST:
            out = function(*args, **kwargs)
            return self._note_uniform(out, low, high) if out.is_floating_point() else out
        if name in _FLOOR and math.isclose(high - low, 1.0):
            self._uniform.pop(id(x)) if name == "floor_" else None
            return x.fill_(low) if name == "floor_" else torch.full_like(x, low)
        if len(args) != 2 or kwargs:
            return function(*args, **kwargs)
        other = args[1]
        if name in _BELOW or name in _ABOVE:
            below = ((torch.as_tensor(other).to(x) - low) / (high - low)).clamp(0.0, 1.0)
            chance = below if name in _BELOW else 1 - below
            return self._note_chance(chance.expand_as(x + below).clone())
        out = function(*args)
        if not isinstance(other, int | float):
            return out
        if name in _SUM or name in _DIFFERENCE:
            shift = other if name in _SUM else -other
            return self._note_uniform(out, low + shift, high + shift)
        if (name in _PRODUCT or name in _QUOTIENT) and other > 0:
            factor = other if name in _PRODUCT else 1 / other
            return self._note_uniform(out, low * factor, high * factor)
        return out

    def _of_two(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the uniform numbers come second: keep > u is u < keep, and 1 + u is u + 1."""
        turned = {**dict.fromkeys(_ABOVE, "lt"), **dict.fromkeys(_BELOW, "gt")}
        if name in turned:
            other: Callable[..., Any] = getattr(Tensor, turned[name])
            return self._of_uniform(turned[name], other, (args[1], args[0]), kwargs)
        return function(*args, **kwargs)

    def _of_chances(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = self._chances
        chances = [known[id(arg)].chance if id(arg) in known else arg for arg in args]
        if name in _FORM:
            return self._note_chance(function(*chances, **kwargs))
        if name in _CAST and chances[0] is not args[0]:
            like = function(*args, **kwargs)
            return chances[0].to(like) if like.is_floating_point() else like
        if name in _NOT:
            return self._note_chance(1 - chances[0])
        if name in _PRODUCT or name in _QUOTIENT:
            return function(*chances, **kwargs)
        if name == "where" and len(args) == 3:
            return chances[0] * args[1] + (1 - chances[0]) * args[2]
        if name in ("masked_fill", "masked_fill_") and len(args) == 3:
            x, chance, value = args[0], chances[1], args[2]
            mean = x * (1 - chance) + value * chance if value else x * (1 - chance)
            return x.copy_(mean) if name.endswith("_") else mean
        return function(*args, **kwargs)


_LOCATION = {"normal_": "mean", "cauchy_": "median"}


def _parameters(
    args: tuple[Any, ...], kwargs: dict[str, Any], *defaults: tuple[str, Any]
) -> list[Any]:
    """Return parameters of a function by position behind the tensor, by name, or by default."""
    return [
        args[i + 1] if i + 1 < len(args) else kwargs.get(name, default)
        for i, (name, default) in enumerate(defaults)
    ]
