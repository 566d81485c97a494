"""The guard against NaN: stops before a bad step, and finds its cause."""

import math
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from dubio.noise.inputs import moved
from dubio.noise.stochastic import Stochastic
from dubio.objectives.elbo import ELBO
from dubio.training.batches import Batch
from dubio.training.random_state import RandomState


@final
class NonFiniteError(FloatingPointError):
    """Raised if a loss, gradient or validation is not finite.

    The weights are those before the step; if it is the validation, those after the epoch.

    Attributes:
        epoch: Counted from 1.
        step: Step within the epoch, counted from 1.
        site: The name of the module or parameter where it was first seen, or ``x``, ``y``,
            ``weight``, ``kl``, ``likelihood``, ``loss`` or ``validate``.
    """

    def __init__(self, message: str, epoch: int, step: int, site: str) -> None:
        super().__init__(message)
        self.epoch = epoch
        self.step = step
        self.site = site


class Diagnosis(NamedTuple):
    """Where a number is not finite, why, and what to do."""

    name: str
    finding: str
    advice: str


_BLOWN_UP = (
    "If losses had been rising, try a smaller learning rate or clip_norm=1.0; else look there for "
    "a logarithm, root, division or exponential of a number that it cannot take"
)
_STEEP = (
    "Look there for a root, norm, logarithm, power or division at zero, whose slope is infinite, "
    "and keep its argument away from it; else try a smaller learning rate"
)


@final
class Guard:
    """Looks at the numbers of every step, and at the step itself when one is not finite.

    Args:
        objective: What is minimised.
        parameters: What is trained.
        random: Where the noise of a step comes from.
    """

    def __init__(
        self, objective: nn.Module, parameters: Sequence[nn.Parameter], random: RandomState
    ) -> None:
        self._objective = objective
        self._parameters = parameters
        self._random = random
        self._noise = random.get_torch()
        self._has_buffers = any(True for _ in objective.buffers())
        self._buffers: dict[str, Tensor] = {}

    def before_step(self) -> None:
        """Remember random state and buffers before a step."""
        self._noise = self._random.get_torch()
        if self._has_buffers:
            named = self._objective.named_buffers()
            self._buffers = {name: buffer.detach().clone() for name, buffer in named}

    def check(self, loss: Tensor, batch: Batch, epoch: int, step: int) -> list[float]:
        """Return the loss, and with an `ELBO` its nll and kl, if gradients are finite as well.

        Raises:
            NonFiniteError: If the loss or a gradient is not finite.
        """
        numbers = [loss.detach()]
        if isinstance(self._objective, ELBO):
            numbers += [self._objective.nll, self._objective.kl]
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        sums = [moved(gradient.sum(), loss.device) for gradient in gradients]  # finite if all is
        values: list[float] = torch.stack(numbers + sums).tolist()  # the one wait for the device
        if not all(map(math.isfinite, values)):
            if not math.isfinite(values[0]):
                self._stop(batch, f"the loss, {values[0]},", epoch, step)
            if not all(map(_is_finite, gradients)):
                self._stop(batch, "a gradient", epoch, step)
        return values[: len(numbers)]

    def _stop(self, batch: Batch, what: str, epoch: int, step: int) -> None:
        """Repeat the step with eyes open, put everything back, and raise."""
        self._put_back()
        state = deepcopy(self._objective.state_dict())
        site = (
            _in_data(self._with_known(batch))
            or _in_weights(self._objective)
            or self._in_step(batch)
        )
        self._objective.load_state_dict(state)
        self._put_back()
        message = (
            f"{what} is not finite in epoch {epoch}, step {step}. {site.finding}. "
            f"No weight has been changed by this step. {site.advice}."
        )
        raise NonFiniteError(message, epoch, step, site.name)

    def _with_known(self, batch: Batch) -> Batch:
        """Return the batch with zeros for targets that may be missing."""
        if not isinstance(self._objective, ELBO):
            return batch
        x, y, *weight = batch.arguments
        known = self._objective.likelihood.known(y)
        y = y if known is None else y.where(known, 0)
        return batch._replace(arguments=(x, y, *weight))

    def _put_back(self) -> None:
        """Noise, buffers and gradients as they were before the step."""
        self._random.set_torch(self._noise)
        for name, buffer in self._buffers.items():
            self._objective.get_buffer(name).copy_(buffer)
        for parameter in self._parameters:
            parameter.grad = None

    def _in_step(self, batch: Batch) -> Diagnosis:
        with _FirstNonFinite(self._objective) as watch:
            loss = self._objective(*batch.arguments)
            if watch.first is None and _is_finite(loss):
                loss.backward()
        return watch.first or self._in_loss(loss)

    def _in_loss(self, loss: Tensor) -> Diagnosis:
        """Return the diagnosis for finite outputs: the loss or a part of it is not finite."""
        if _is_finite(loss):
            return Diagnosis("loss", "Done again, the same step gave finite numbers", _BLOWN_UP)
        for name, module in self._objective.named_modules():
            if isinstance(module, Stochastic) and not _is_finite(module.kl()):
                return Diagnosis(
                    "kl", f"All outputs are finite, but not the KL of {name!r}", _BLOWN_UP
                )
        if isinstance(self._objective, ELBO) and not _is_finite(self._objective.nll):
            finding = "All outputs are finite, but not their log-likelihood"
            return Diagnosis("likelihood", finding, _BLOWN_UP)
        return Diagnosis("loss", "All outputs are finite, but not the loss made of them", _STEEP)


class _FirstNonFinite:
    """Finds the first output, or else the first gradient, that is not finite."""

    def __init__(self, objective: nn.Module) -> None:
        self._objective = objective
        self.first: Diagnosis | None = None

    def __enter__(self) -> Self:
        modules = [(name, module) for name, module in self._objective.named_modules() if name]
        self._hooks = [
            module.register_forward_hook(partial(self._see_output, name), with_kwargs=True)
            for name, module in modules
        ]
        self._hooks += [
            parameter.register_hook(partial(self._see_gradient, name, f"parameter {name!r}"))
            for name, parameter in self._objective.named_parameters()
            if parameter.requires_grad
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see_output(
        self, name: str, module: nn.Module, args: Any, kwargs: Any, output: Any
    ) -> None:
        where = f"the output of {name!r} ({type(module).__name__})"
        for tensor in _floating(output):
            if tensor.requires_grad:
                tensor.register_hook(partial(self._see_gradient, name, where))
            if self.first is None and not _is_finite(tensor):
                inputs_too = not all(map(_is_finite, _floating((args, kwargs))))
                before = ", whose input was not finite either" if inputs_too else ""
                self.first = Diagnosis(name, f"It is first seen in {where}{before}", _BLOWN_UP)

    def _see_gradient(self, name: str, where: str, gradient: Tensor) -> None:
        if self.first is None and not _is_finite(gradient):
            finding = f"On the way back it is first seen in the gradient of {where}"
            self.first = Diagnosis(name, finding, _STEEP)


def _in_data(batch: Batch) -> Diagnosis | None:
    for name, part in zip(("x", "y", "weight"), batch.arguments, strict=False):
        for path, tensor in tree_flatten_with_path(part)[0]:
            if not isinstance(tensor, Tensor) or _is_finite(tensor):
                continue
            bad = tensor.isfinite().logical_not().nonzero()[0]
            row = int(bad[0]) if len(bad) else 0
            of = f"row {row} of the batch"
            if batch.rows is not None and len(batch.rows) == len(tensor):
                of = f"row {int(batch.rows[row])} of the data"
            kind = "NaN" if tensor[tuple(bad)].isnan() else "an infinite number"
            return Diagnosis(
                name, f"{name}{keystr(path)} holds {kind} in {of}", "Drop or impute such rows"
            )
    return None


def _in_weights(objective: nn.Module) -> Diagnosis | None:
    for name, parameter in objective.named_parameters():
        if not _is_finite(parameter):
            finding = f"Parameter {name!r} was not finite even before"
            return Diagnosis(
                name, finding, "Start from finite weights, or try a smaller learning rate"
            )
    return None


def _floating(structure: Any) -> list[Tensor]:
    return [t for t in tree_leaves(structure) if isinstance(t, Tensor) and t.is_floating_point()]


def _is_finite(tensor: Tensor) -> bool:
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    return bool(values.isfinite().all())
