"""The catalogue of dropout functions: every one that torch has, and what it does."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.noise.interceptor import Args, Function, Kwargs, handles
from dubio.noise.perturbations import Dropout, alpha_dropout, plain_dropout
from dubio.noise.run import Pass
from dubio.noise.vectorised import is_vectorised

_Maker = Callable[[int, float, Any], Dropout]

# Function -> (kind, what it does to an entry, dimensions that one mask entry does not span).
# None means an entry of its own for every element; k means that the last k dimensions share one.
_DROPOUTS: dict[Function, tuple[str, _Maker, Callable[[int], int]]] = {}


def _elementwise(dims: int) -> int:
    return 0


def _beyond_channel(dims: int) -> int:
    """Dropout of whole channels of (batch, channel, …)."""
    return max(dims - 2, 0)


def _spatial(spatial: int) -> Callable[[int], int]:
    """Dropout of whole channels of (batch, channel, …) or, without a batch, of (channel, …)."""
    return lambda dims: spatial


for _function in (F.dropout, torch.dropout, torch.dropout_):
    _DROPOUTS[_function] = ("dropout", plain_dropout, _elementwise)
for _function in (F.alpha_dropout, torch.alpha_dropout, torch.alpha_dropout_):
    _DROPOUTS[_function] = ("alpha_dropout", alpha_dropout, _elementwise)
for _function in (torch.feature_dropout, torch.feature_dropout_):
    _DROPOUTS[_function] = ("feature_dropout", plain_dropout, _beyond_channel)
for _function in (
    F.feature_alpha_dropout,
    torch.feature_alpha_dropout,
    torch.feature_alpha_dropout_,
):
    _DROPOUTS[_function] = ("feature_alpha_dropout", alpha_dropout, _beyond_channel)
_DROPOUTS[F.dropout1d] = ("dropout1d", plain_dropout, _spatial(1))
# dropout2d takes three dimensions for (batch, channel, length), unlike its siblings.
_DROPOUTS[F.dropout2d] = ("dropout2d", plain_dropout, _beyond_channel)
_DROPOUTS[F.dropout3d] = ("dropout3d", plain_dropout, _spatial(3))


@handles(*_DROPOUTS)
def _dropout(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    x, rate, inplace = _arguments(function, *args, **kwargs)
    kind, make, spanned = _DROPOUTS[function]
    if not isinstance(rate, Tensor):  # which holds the rates of many networks
        if rate == 0.0:
            return x
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"{kind}: expected a dropout probability in [0, 1], got {rate}")
    span = spanned(x.dim())
    shape = torch.Size([*x.shape[: x.dim() - span], *(1,) * span])
    site = running.reach(kind, x, rate)
    if site is None:
        return x
    perturbation = make(site.index, rate, running.layout(site, shape, x))
    if inplace:
        return running.perturb_in_place(perturbation, x)
    return running.perturb(perturbation, x)


def _arguments(
    function: Function,
    input: Tensor,
    p: float | None = None,
    training: bool = True,
    inplace: bool = False,
    *,
    train: bool = True,
) -> tuple[Tensor, float, bool]:
    """Tensor, rate and in-place flag of any dropout call.

    Whether the caller asks for training mode is of no interest: the point is to sample anyway.
    """
    rate = 0.5 if p is None else p
    if not (isinstance(rate, Tensor) and is_vectorised(rate)):
        rate = float(rate)
    return input, rate, inplace or getattr(function, "__name__", "").endswith("_")


@handles(F.batch_norm)
def _batch_norm(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    """While a network is evaluated, statistics that it keeps are used and not updated."""
    bound = _SIGNATURE_OF_BATCH_NORM.bind(*args, **kwargs)
    if running.evaluating and bound.arguments["running_mean"] is not None:
        bound.arguments["training"] = False
    return running.call(function, bound.args, bound.kwargs)


_SIGNATURE_OF_BATCH_NORM = signature(F.batch_norm)
