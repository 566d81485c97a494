"""Check the arguments of a bandit and copy them to tensors."""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from dubio.likelihoods import Likelihood

ArrayLike: TypeAlias = Any  # a tensor, an array of numpy, a column of a frame, or nested lists


def as_tensor(name: str, values: ArrayLike) -> Tensor:
    """Return a tensor of these values."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise TypeError(f"{name}: expected real numbers, got {values.dtype}; pass their parts")
        return values.detach()
    array = np.asarray(values)  # numbers of Python become float64
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name}: expected numbers, got {type(values).__name__} of {array.dtype}; pass a "
            "tensor or an array of numbers"
        )
    return torch.as_tensor(array if array.flags.writeable else array.copy())


def check_number_of_actions(actions: int, like: Tensor) -> None:
    """Raise an error if action numbers are too large for the type of the network."""
    most = int(2 / torch.finfo(like.dtype).eps) + 1
    if actions > most:
        raise ValueError(
            f"actions: expected at most {most} for a network of {like.dtype}, which has no larger "
            f"whole numbers, got {actions}; use a network of float32"
        )


def check_likelihood(given: object) -> None:
    """Raise an error unless this is a likelihood."""
    if not isinstance(given, Likelihood):
        raise TypeError(
            f"likelihood: expected an instance from dubio.likelihoods, such as Gaussian(1.0) or "
            f"Bernoulli(), got {given!r}"
        )


def members_of(net: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    """Return the networks, one or several."""
    several = isinstance(net, nn.ModuleList) or not isinstance(net, nn.Module)
    nets: list[nn.Module] = list(net) if several else [net]  # type: ignore[arg-type, list-item]
    if not nets or not all(isinstance(one, nn.Module) for one in nets):
        raise TypeError(f"net: expected an nn.Module or several, got {net!r}")
    if len(set(nets)) != len(nets):
        raise ValueError(
            f"net: expected different networks, got {len(nets)} of which {len(set(nets))} are; "
            "build each member anew, or copy.deepcopy it and give it new weights"
        )
    return nets


def action_features_of(
    given: Literal["one-hot"] | Tensor | None, actions: int, like: Tensor
) -> Tensor | None:  # (A, F)
    """Return the features of each action; None if there are none."""
    if given is None:
        return None
    if isinstance(given, str):
        if given != "one-hot":
            raise ValueError(
                f"action_features: expected 'one-hot', a tensor or None, got {given!r}"
            )
        return torch.eye(actions, dtype=like.dtype, device=like.device)
    features = as_tensor("action_features", given)
    if features.ndim != 2 or len(features) != actions or not bool(features.isfinite().all()):
        raise ValueError(
            f"action_features: expected finite numbers of shape ({actions}, F), a row for each "
            f"action, got shape {tuple(features.shape)}"
        )
    return features.to(like.device, like.dtype).clone()


def read_allowed(values: ArrayLike, rows: int, actions: int, device: torch.device) -> Tensor:
    """Return which actions each row may take, `(B, A)` bool."""
    allowed = as_tensor("allowed", values)
    if allowed.dtype != torch.bool or allowed.shape not in ((actions,), (rows, actions)):
        raise ValueError(
            f"allowed: expected True or False of shape ({actions},) or ({rows}, {actions}), got "
            f"{allowed.dtype} of shape {tuple(allowed.shape)}"
        )
    allowed = allowed.to(device).expand(rows, actions)
    none = (~allowed.any(1)).nonzero().flatten().tolist()
    if none:
        raise ValueError(
            f"allowed: expected at least one action in every row, got none in {len(none)} rows, "
            f"first in row {none[0]}; leave these rows out"
        )
    return allowed.clone()


def read_actions(values: ArrayLike, rows: int, actions: int, device: torch.device) -> Tensor:
    """Actions that were taken, `(B,)` int64."""
    taken = as_tensor("actions", values)
    if taken.is_floating_point() or taken.dtype == torch.bool or taken.shape != (rows,):
        raise ValueError(
            f"actions: expected {rows} whole numbers, got {taken.dtype} of shape "
            f"{tuple(taken.shape)}; pass one for each context"
        )
    if rows and not 0 <= int(taken.min()) <= int(taken.max()) < actions:
        raise ValueError(
            f"actions: expected numbers from 0 to {actions - 1}, got some from {int(taken.min())} "
            f"to {int(taken.max())}; number the actions from 0"
        )
    return taken.to(device, torch.int64)


def read_numbers(name: str, values: ArrayLike, rows: int) -> Tensor:
    """Return one finite number for each row, `(B,)` float64; one alone if there is one row."""
    numbers = as_tensor(name, values)
    if numbers.ndim == 0 and rows == 1:
        numbers = numbers[None]
    if numbers.shape != (rows,):
        raise ValueError(
            f"{name}: expected {rows} numbers, got shape {tuple(numbers.shape)}; pass one for each "
            "choice"
        )
    numbers = numbers.to("cpu", torch.float64)
    wrong = int((~numbers.isfinite()).sum())
    if wrong:
        raise ValueError(
            f"{name}: expected finite numbers, got {wrong} that are NaN or infinite; leave out "
            "rewards that are not known yet"
        )
    return numbers


def read_ids(values: ArrayLike) -> list[int]:
    """Return ids of choices."""
    ids = as_tensor("ids", values)
    if ids.numel() == 0:
        return []
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 1:
        raise ValueError(
            f"ids: expected whole numbers, got {ids.dtype} of shape {tuple(ids.shape)}; pass "
            "choice.id or some of it"
        )
    return [int(one) for one in ids.reshape(-1).tolist()]


def all_finite(values: Tensor) -> bool:
    """Return whether all numbers are finite; usually a sum is enough to tell."""
    return math.isfinite(values.sum()) or bool(values.isfinite().all())
