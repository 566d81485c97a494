"""`fit`: one training loop for every objective."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from dubio.draws.source import uncompiled
from dubio.noise.inputs import Inputs
from dubio.objectives.elbo import ELBO
from dubio.report.progress import Progress
from dubio.training.batches import Batch, as_batches
from dubio.training.checkpoint import Checkpoint
from dubio.training.guard import Guard, NonFiniteError
from dubio.training.history import Epoch, History
from dubio.training.interrupt import Interrupt
from dubio.training.memory import Memory
from dubio.training.random_state import RandomState
from dubio.training.rehearsal import rehearse
from dubio.training.run import Run, layout


def fit(
    objective: nn.Module,
    data: tuple[Inputs, Tensor] | tuple[Inputs, Tensor, Tensor] | Iterable[Any],
    *,
    epochs: int,
    batch_size: int | None = None,
    optimizer: Optimizer | Callable[[Sequence[nn.Parameter]], Optimizer] | None = None,
    schedule: LRScheduler | Callable[[Optimizer], LRScheduler] | None = None,
    schedule_every: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    validate: Callable[[], float | Tensor] | None = None,
    patience: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    save_every: float = 60.0,
    generator: torch.Generator | None = None,
    progress: bool = True,
) -> History:
    """Train an objective on data, in place.

    Every step is ``objective(x, y).backward()`` in train mode and an optimizer step. With a
    ``checkpoint``, a killed run that is called again in the same way ends with the same weights,
    random state and history as an uninterrupted one, bit for bit; a finished run returns at once.

    Args:
        objective: A module that returns the loss of a batch, such as `ELBO`.
        data: Tensors ``(x, y)`` with rows first, which are reshuffled every epoch; x may be a tuple
            or dict of tensors. Or a `DataLoader`, or any re-iterable of batches ``(x, y)``. Batches
            are moved to the device of the parameters. A third part is passed to the objective as
            third argument: weights of rows, for `ELBO`.
        epochs: Number of passes over the data.
        batch_size: Rows per step, for tensors; 128 by default. A loader has its own.
        optimizer: An optimizer of the objective's parameters, or a function that makes one, such as
            ``partial(torch.optim.SGD, lr=0.1)``. By default Adam with a learning rate of 1e-3.
        schedule: A torch scheduler for the learning rate, or a function that makes one for the
            optimizer. `ReduceLROnPlateau` sees the validation, or else the loss.
        schedule_every: Whether the schedule advances every epoch or every step.
        clip_norm: Largest Euclidean norm of the gradient over all parameters; longer gradients are
            scaled down to it.
        validate: Called after every epoch, in eval mode and without gradients; returns a number to
            minimise, such as the negative log-likelihood of held-out data; inf is the worst. The
            random numbers it draws do not affect training.
        patience: Stop after this many epochs without a lower validation. Training always ends with
            the weights of the lowest validation.
        checkpoint: File to save the run to, and to resume from if it exists. Its folder is created.
        save_every: Seconds between saves; the run is also saved at the beginning, at the end, and
            before a `KeyboardInterrupt` or SIGTERM is passed on.
        generator: Shuffles tensors; by default torch's global generator.
        progress: Whether to show a progress bar, on a terminal.

    Returns:
        Losses, validation and learning rate of every epoch.

    Raises:
        NonFiniteError: If a loss or gradient is not finite, before it reaches the weights, or if
            ``validate`` returns NaN or -inf. It names epoch, step and site.
        CheckpointError: If the checkpoint cannot be written or read, belongs to another run, or is
            in use by another run.

    Warns:
        RuntimeWarning: If the data draw random numbers that cannot be saved, or the objective holds
            state that cannot be saved, so that an interrupted run could not be resumed exactly.
    """
    _check_numbers(epochs, batch_size, clip_norm, patience, save_every)
    if patience is not None and validate is None:
        raise ValueError("patience: expected together with validate, got it alone; pass both")
    weighted = isinstance(data, tuple) and len(data) == 3
    if isinstance(behind := uncompiled(objective), ELBO):  # which runs uncompiled in any case
        objective = behind
    trainable = _trainable(objective, ("x", "y", "weight") if weighted else ("x", "y"))
    resumable = checkpoint is not None
    batches = as_batches(data, batch_size, generator, trainable[0].device, resumable=resumable)
    _check_num_data(objective, data, batches.num_data)
    optimizer = _make_optimizer(optimizer, objective, trainable)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    schedule = _make_schedule(schedule, optimizer, schedule_every)
    random = RandomState([generator, objective, data, optimizer, schedule], watcher=validate)
    memory = Memory(objective, optimizer, schedule) if resumable else None
    run = Run(objective, optimizer, schedule, batches, random, memory, epochs, patience)
    identity = {
        "epochs": epochs,
        "patience": patience,
        "clip_norm": clip_norm,
        "schedule": type(schedule).__name__,
        "schedule_every": schedule_every,
        "optimizer": type(optimizer).__name__,
        **{name: repr(value) for name, value in optimizer.defaults.items()},
        "generators": len(random),
        **batches.identity(),
        **layout(objective.state_dict()),
    }
    store = Checkpoint(None if checkpoint is None else Path(checkpoint), save_every, identity)
    with store, memory or nullcontext():
        state = store.load()
        if state is None:
            if memory is not None:
                memory.warn()
                rehearse(data, batches, random)
            store.save(run.state_dict)
        else:
            store.restore(run.load_state_dict, state)
            if run.finished:
                return run.history
        guard = Guard(objective, parameters, random)
        with (
            _mode(objective, training=True),
            Interrupt(active=checkpoint is not None) as interrupt,
            Progress("fit", run.steps_left) as bar,
        ):
            while not run.finished:
                for batch in run.batches():
                    for parameter in trainable:
                        parameter.grad = None
                    guard.before_step()
                    loss = _loss(objective, batch, run)
                    loss.backward()
                    values = guard.check(loss, batch, run.epoch, run.step + 1)
                    if clip_norm is not None:
                        nn.utils.clip_grad_norm_(parameters, clip_norm)
                    optimizer.step()
                    run.end_step(batch, values)
                    store.check(run.state_dict)
                    if schedule is not None and schedule_every == "step":
                        schedule.step()
                    if progress:
                        bar.advance(note=f"epoch {run.epoch}/{epochs}, loss {values[0]:.4g}")
                    if store.due or interrupt.noted:
                        store.save(run.state_dict)
                    interrupt.pass_on()
                epoch = run.end_epoch(_validate(validate, objective, run, random))
                if schedule is not None and schedule_every == "epoch":
                    _end_epoch(schedule, epoch)
            run.restore_best()
            store.save(run.state_dict)
        return run.history


def _loss(objective: nn.Module, batch: Batch, run: Run) -> Tensor:
    try:
        loss = objective(*batch.arguments)
    except Exception as error:
        error.add_note(f"dubio.fit was in epoch {run.epoch}, step {run.step + 1}.")
        raise
    if not isinstance(loss, Tensor) or loss.dim() > 0:
        what = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(
            f"objective: expected a loss of shape (), got {what}; return its mean, and put a "
            f"network without a loss into an objective such as dubio.ELBO"
        )
    return loss


def _validate(
    validate: Callable[[], float | Tensor] | None,
    objective: nn.Module,
    run: Run,
    random: RandomState,
) -> float | None:
    if validate is None:
        return None
    with _mode(objective, training=False), torch.no_grad(), random.untouched():
        found = validate()
        if not isinstance(found, float | int | Tensor):
            raise TypeError(
                f"validate: expected a function that returns a number, got {found!r} from it"
            )
        value = float(found)
    if not value > -math.inf:  # no epoch is better or worse than NaN, and none better than -inf
        raise NonFiniteError(
            f"validate returned {value} in epoch {run.epoch}, so the best epoch is unknown. "
            "Look in it for a logarithm, root or division of a number that it cannot take, and for "
            "NaN in the held-out data; return inf for useless weights.",
            run.epoch,
            run.step,
            "validate",
        )
    return value


def _end_epoch(schedule: LRScheduler, epoch: Epoch) -> None:
    if isinstance(schedule, ReduceLROnPlateau):
        schedule.step(epoch.loss if epoch.validation is None else epoch.validation)
    else:
        schedule.step()


@contextmanager
def _mode(objective: nn.Module, *, training: bool) -> Iterator[None]:
    """Train or eval mode, and every module's own mode again afterwards."""
    modes = [(module, module.training) for module in objective.modules()]
    objective.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _trainable(objective: nn.Module, names: tuple[str, ...]) -> list[nn.Parameter]:
    if not isinstance(objective, nn.Module):
        raise TypeError(
            f"objective: expected an nn.Module that is called as objective(x, y), got "
            f"{objective!r}; put the network and its loss function into one"
        )
    parameters = [p for p in objective.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(
            f"objective: expected parameters that require a gradient, got a "
            f"{type(objective).__name__} without any; make the network an attribute of it"
        )
    _check_call(objective, names)
    return parameters


def _check_call(objective: nn.Module, names: tuple[str, ...]) -> None:
    """Raise an error for a network without its loss, a common mistake."""
    try:
        arguments = signature(objective.forward)
    except ValueError:  # that of a traced module is not known
        return
    try:
        arguments.bind(*names)
    except TypeError:
        raise TypeError(
            f"objective: expected an nn.Module that is called as objective({', '.join(names)}), "
            f"got a {type(objective).__name__}, whose forward takes {arguments}; put a network "
            f"into an objective such as dubio.ELBO(network, likelihood, num_data=len(x))"
        ) from None


def _check_num_data(objective: nn.Module, data: Any, rows: int | None) -> None:
    """Raise an error if ``num_data`` is not the number of rows, a common mistake."""
    if not isinstance(objective, ELBO) or rows is None:
        return
    known = objective.likelihood.known
    if isinstance(data, tuple):
        if (counts := known(data[1])) is not None:  # rows without a target are not data
            rows = int(counts.flatten(1).any(1).sum()) if counts.dim() > 1 else int(counts.sum())
            if rows == 0:
                raise ValueError(
                    f"y: expected labels that count, got none; {objective.likelihood!r} leaves all "
                    "out: check its void label"
                )
    elif known(torch.zeros(1, dtype=torch.long)) is not None and objective.num_data < rows:
        return  # some rows of a loader may have no target
    if objective.num_data != rows:
        raise ValueError(
            f"objective.num_data: expected {rows}, the rows of the data, got "
            f"{objective.num_data}; assign objective.num_data = {rows}, and give the KL another "
            f"weight on purpose by kl_weight"
        )


def _make_optimizer(
    optimizer: Optimizer | Callable[[Sequence[nn.Parameter]], Optimizer] | None,
    objective: nn.Module,
    parameters: Sequence[nn.Parameter],
) -> Optimizer:
    if optimizer is None:
        fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
        return Adam(parameters, lr=1e-3, fused=fused)
    if callable(optimizer):
        optimizer = optimizer(parameters)
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer: expected an optimizer of torch or a function that makes one, got "
            f"{optimizer!r}; pass partial(torch.optim.Adam, lr=1e-3), for example"
        )
    if _needs_closure(optimizer):
        raise TypeError(
            f"optimizer: expected one whose step needs no function that computes the loss anew, "
            f"got {type(optimizer).__name__}; pass partial(torch.optim.Adam, lr=1e-3), for "
            f"example, or write a loop of your own"
        )
    known = set(objective.parameters())
    strangers = [p for g in optimizer.param_groups for p in g["params"] if p not in known]
    if strangers:
        raise ValueError(
            f"optimizer: expected parameters of the objective, got {len(strangers)} of another "
            f"module, first one of shape {tuple(strangers[0].shape)}; build it from "
            f"objective.parameters()"
        )
    return optimizer


def _needs_closure(optimizer: Optimizer) -> bool:
    try:
        signature(type(optimizer).step).bind(optimizer)
    except TypeError:
        return True
    return False


def _make_schedule(
    schedule: LRScheduler | Callable[[Optimizer], LRScheduler] | None,
    optimizer: Optimizer,
    every: str,
) -> LRScheduler | None:
    if every not in ("epoch", "step"):
        raise ValueError(f"schedule_every: expected 'epoch' or 'step', got {every!r}")
    if schedule is None:
        return None
    if callable(schedule):
        schedule = schedule(optimizer)
    if not isinstance(schedule, LRScheduler):
        raise TypeError(
            f"schedule: expected a scheduler of torch or a function that makes one, got "
            f"{schedule!r}; pass partial(torch.optim.lr_scheduler.StepLR, step_size=10), for "
            f"example"
        )
    if schedule.optimizer is not optimizer:
        raise ValueError(
            "schedule: expected a schedule of the optimizer of this run, got one of another; pass "
            "its optimizer too, or a function of the optimizer"
        )
    if isinstance(schedule, ReduceLROnPlateau) and every == "step":
        raise ValueError("schedule_every: expected 'epoch' for ReduceLROnPlateau, got 'step'")
    return schedule


def _check_numbers(
    epochs: int,
    batch_size: int | None,
    clip_norm: float | None,
    patience: int | None,
    save_every: float,
) -> None:
    counts = {"epochs": epochs, "batch_size": batch_size, "patience": patience}
    for name, count in counts.items():
        if count is not None and (type(count) is not int or count < 1):
            raise ValueError(f"{name}: expected a positive int, got {count!r}")
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm: expected a positive number, got {clip_norm!r}")
    if not save_every >= 0:
        raise ValueError(f"save_every: expected seconds >= 0, got {save_every!r}")
