"""Checks of a population's arguments, and rows and steps of every member."""

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from dubio.masks import LearnableBernoulli
from dubio.objectives.elbo import ELBO
from dubio.population.descent import Optimizer

MemberRows: TypeAlias = Tensor | Sequence[Tensor] | None


def rows_of_members(
    name: str, rows: MemberRows, members: int, count: int
) -> list[np.ndarray[Any, Any]]:
    """Return the rows of each member."""
    if rows is None:
        return [np.arange(count)] * members
    if len(rows) != members:
        raise ValueError(
            f"{name}: expected indices of rows for each of {members} members, got "
            f"{len(rows)}; pass a tensor (members, rows), or a list of tensors"
        )
    own = [np.asarray(torch.as_tensor(r).cpu()) for r in rows]
    for index, r in enumerate(own):
        if r.ndim != 1 or not len(r) or r.dtype.kind not in "iu" or r.min() < 0 or r.max() >= count:
            raise ValueError(
                f"{name}: expected whole numbers from 0 to {count - 1} for each member, got "
                f"shape {r.shape}, {r.dtype} for member {index}"
            )
    return own


def budget_of_members(
    steps: SupportsIndex | None,
    epochs: SupportsIndex | None,
    rows: list[np.ndarray[Any, Any]],
    batch_size: int,
) -> Tensor:  # (M,)
    """Return the largest number of steps of each member."""
    if (steps is None) == (epochs is None):
        raise ValueError(f"steps, epochs: expected one of them, got {steps} and {epochs}")
    if steps is not None:
        return torch.full((len(rows),), counted("steps", steps))
    assert epochs is not None
    times = counted("epochs", epochs)
    return torch.tensor([-(-times * len(own) // batch_size) for own in rows])


def rates_of_members(learning_rate: float | Tensor | Sequence[float], members: int) -> Tensor:
    """Return the learning rate of each member."""
    rates = torch.as_tensor(learning_rate, dtype=torch.float64).detach()
    if rates.shape not in ((), (members,)) or not bool(((rates > 0) & rates.isfinite()).all()):
        raise ValueError(
            f"learning_rate: expected a positive number, or one for each of {members} members, "
            f"got {learning_rate!r}"
        )
    return rates.expand(members).clone()


def check_optimizer(optimizer: str, weight_decay: float) -> None:
    """Raise an error for an unknown optimiser, or a decay that it does not support."""
    if optimizer not in get_args(Optimizer):
        known = " or ".join(map(repr, get_args(Optimizer)))
        raise ValueError(f"optimizer: expected {known}, got {optimizer!r}")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay: expected a number >= 0, got {weight_decay!r}")
    if weight_decay and optimizer != "sgd":
        raise ValueError(
            f"weight_decay: expected 0 with {optimizer!r}, got {weight_decay!r}; use "
            "optimizer='sgd', or a length scale, which is the prior of dubio's layers"
        )


def num_data_of_members(num_data: int | Sequence[int] | Tensor, members: int) -> Tensor:  # (M,)
    """Return how many rows each member learns from."""
    counts = torch.as_tensor(num_data).detach().cpu()
    whole = not counts.is_floating_point() and counts.dtype != torch.bool
    if not whole or counts.shape not in ((), (members,)) or not bool((counts >= 1).all()):
        raise ValueError(
            f"num_data: expected the number of training rows, or one for each of {members} "
            f"members, got {num_data!r}"
        )
    return counts.long().expand(members).clone()


def check_estimators(members: Sequence[nn.Module]) -> None:
    """Raise an error for gradients that need passes of one network at a time."""
    for module in members[0].modules():
        if (
            isinstance(module, ELBO)
            and module.estimator not in ("trapezoid", "trapezoid_once")
            and any(isinstance(m, LearnableBernoulli) for m in module.modules())
        ):
            raise ValueError(
                f"members: expected the estimator 'trapezoid' or 'trapezoid_once', got "
                f"{module.estimator!r}, which cannot be computed for many networks at once; "
                f"choose one of those, or train them one by one with dubio.fit"
            )


def check_steps(members: Sequence[nn.Module]) -> None:
    """Raise an error for members at different steps of a schedule."""
    elbos = [member for member in members if isinstance(member, ELBO) and member.scheduled]
    steps = {elbo.step for elbo in elbos}
    if len(steps) > 1:
        raise ValueError(
            f"members: expected all at the same step, as the weight of their KL has a schedule, "
            f"got steps from {min(steps)} to {max(steps)}; assign to member.step"
        )


def check_num_data(members: Sequence[nn.Module], rows: list[np.ndarray[Any, Any]]) -> None:
    """Raise an error if ``num_data`` is not the number of rows, a common mistake."""
    for index, (member, own) in enumerate(zip(members, rows, strict=True)):
        if isinstance(member, ELBO) and member.num_data != len(own):
            raise ValueError(
                f"members[{index}].num_data: expected {len(own)}, the rows that it learns from, "
                f"got {member.num_data}; assign to it, and weigh the KL on purpose by "
                f"kl_weight"
            )


def check_hooks(members: Sequence[nn.Module]) -> None:
    """Raise an error for hooks on gradients, which would not be called."""
    for number, member in enumerate(members):
        hooked = [
            *(n for n, m in member.named_modules() if m._backward_hooks or m._backward_pre_hooks),
            *(
                name
                for name, parameter in member.named_parameters()
                if parameter._backward_hooks or parameter._post_accumulate_grad_hooks
            ),
        ]
        if hooked:
            raise ValueError(
                f"members[{number}]: expected no hooks on gradients, which are computed for all "
                f"members at once, got one on {hooked[0]}; remove it, or train members one by one "
                f"with dubio.fit"
            )


def check_data(like: Tensor, **tensors: Tensor) -> None:
    """Raise an error for data that members cannot learn from."""
    for name, data in tensors.items():
        if not isinstance(data, Tensor) or data.dim() == 0:
            raise TypeError(
                f"{name}: expected a tensor with rows first, got {type(data).__name__}; make one "
                f"with torch.as_tensor"
            )
        if data.device != like.device:
            raise ValueError(
                f"{name}: expected a tensor on {like.device}, where the members are, got one on "
                f"{data.device}; move it with .to()"
            )
        if bool(data.isnan().any()):
            raise ValueError(f"{name}: expected numbers, got NaN; drop or impute these rows")
    (_, first), *others = tensors.items()
    for name, data in others:
        if len(data) != len(first):
            raise ValueError(f"{name}: expected {len(first)} rows, as x has, got {len(data)}")


def check_batches(axes: Sequence[str], members: int, **tensors: Tensor) -> None:
    """Raise an error unless batches have these axes first and the right number of members."""
    (_, first), *_ = tensors.items()
    for name, data in tensors.items():
        if not isinstance(data, Tensor):
            raise TypeError(
                f"{name}: expected a tensor, got {type(data).__name__}; make one with "
                f"torch.as_tensor"
            )
        shape = data.shape[: len(axes)]
        if len(shape) < len(axes) or shape[axes.index("members")] != members:
            raise ValueError(
                f"{name}: expected axes ({', '.join(axes)}, …) with {members} members, got "
                f"{tuple(data.shape)}; stack the rows of each member"
            )
        if shape != first.shape[: len(axes)] or 0 in shape:
            raise ValueError(
                f"{name}: expected at least one of ({', '.join(axes)}), as many as x has, "
                f"{tuple(first.shape[: len(axes)])}, got {tuple(shape)}"
            )


def seeds_of_members(
    seeds: Sequence[SupportsIndex], members: int, name: str = "seeds"
) -> list[int]:
    """Return the seed of each member."""
    if len(seeds) != members:
        raise ValueError(f"{name}: expected {members}, one a member, got {len(seeds)}")
    return [counted(f"{name}[{m}]", seed, least=0) for m, seed in enumerate(seeds)]


def counted(name: str, value: SupportsIndex, least: int = 1) -> int:
    """Return a number that counts something, as an int."""
    whole = isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if not whole or operator.index(value) < least:
        raise ValueError(f"{name}: expected an int of at least {least}, got {value!r}")
    return operator.index(value)
