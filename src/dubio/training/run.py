"""The state of a training run: all that is needed to resume exactly."""

import math
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, final

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._pytree import tree_leaves

from dubio.training.batches import Batch, Batches, checksum_of
from dubio.training.history import Epoch, History
from dubio.training.memory import Memory
from dubio.training.random_state import RandomState
from dubio.training.replay import Replay
from dubio.training.values import restored, storable


@final
@dataclass(eq=False)
class Run:
    """The state of a run, in memory and as a dict of plain values.

    Attributes:
        objective: What is minimised.
        optimizer: What moves its parameters.
        schedule: What moves the learning rate.
        data: Its batches.
        random: All sources of random numbers.
        memory: What the objective keeps outside of its state_dict; None if nothing is saved.
        epochs: How many epochs there are to be, at most.
        patience: After how many epochs without a better validation to stop.
        history: The epochs that are done.
        step: How many steps of the current epoch are done.
    """

    objective: nn.Module
    optimizer: Optimizer
    schedule: LRScheduler | None
    data: Batches
    random: RandomState
    memory: Memory | None
    epochs: int
    patience: int | None
    history: History = field(default_factory=History, init=False)
    _best: dict[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.step = 0
        self._rows = 0
        self._sums: list[float] = []
        self._learning_rate = 0.0
        self._started = time.monotonic()
        self._random_at_start = self._random_now = self.random.get()
        self._place_at_start = self.data.place()
        self._last: tuple[Batch, list[int]] | None = None
        self._checksum_of_first: int | None = None
        self._checksum_of_last: int | None = None

    @property
    def epoch(self) -> int:
        """Number of the current epoch, from 1."""
        return len(self.history) + 1

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        if self.patience is not None:
            best = self.history.best
            if len(self.history) - (best.epoch if best else 0) >= self.patience:
                return True
        return len(self.history) >= self.epochs

    @property
    def steps_left(self) -> int | None:
        """Largest number of remaining steps, if known."""
        if self.data.steps is None:
            return None
        return (self.epochs - len(self.history)) * self.data.steps - self.step

    def batches(self) -> Iterator[Batch]:
        """Return the batches of the current epoch that are still to be done.

        In mid-epoch the data are started with the random numbers of the epoch's start, which give
        the same batches again; then all goes on with the random numbers of the moment.
        """
        self.random.set(self._random_at_start)
        checksums = self._checksum_of_first, self._checksum_of_last
        replay = Replay(*checksums, self.random, self._random_now)
        batches = self.data.start(self.step, replay.see)
        if self.step > 0:
            self.random.set(self._random_now)
        return map(self._note, batches) if self.memory is not None else batches

    def _note(self, batch: Batch) -> Batch:
        """Record a batch before a network may write into it."""
        if self.step == 0:
            self._checksum_of_first = checksum_of(batch.arguments)
        self._last = batch, _versions(batch)
        return batch

    def end_step(self, batch: Batch, values: list[float]) -> None:
        """Add the values of a step, means over its rows, to those of the epoch."""
        rows = batch.size
        if not self._sums:
            self._sums = [0.0] * len(values)
        self._sums = [total + rows * value for total, value in zip(self._sums, values, strict=True)]
        self._rows += rows
        self._learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self.step += 1

    def end_epoch(self, validation: float | None) -> Epoch:
        """Enter the epoch into the history, keep its weights if they are the best, begin anew."""
        if self.step == 0:
            raise ValueError("data: expected at least one batch in every epoch, got none")
        means = [total / self._rows for total in self._sums]
        loss, *parts = means
        nll, kl = parts or (None, None)
        seconds = time.monotonic() - self._started
        epoch = Epoch(self.epoch, loss, nll, kl, validation, self._learning_rate, seconds)
        self.history.append(epoch)
        if self.patience is not None and self.history.best is epoch:
            self._best = deepcopy(self.objective.state_dict())
        self._begin_epoch()
        return epoch

    def restore_best(self) -> None:
        """Give the objective its best weights, if it was watched for them."""
        if self._best is not None:
            self.objective.load_state_dict(self._best)

    def state_dict(self) -> dict[str, Any]:
        """Everything, in types that ``torch.load(weights_only=True)`` takes."""
        return {
            "objective": self.objective.state_dict(),
            "optimizer": storable(self.optimizer.state_dict()),
            "schedule": storable(self.schedule.state_dict()) if self.schedule else None,
            "history": self.history.rows(),
            "best": self._best,
            "epoch": {
                "step": self.step,
                "rows": self._rows,
                "sums": self._sums,
                "learning_rate": self._learning_rate,
                "seconds": time.monotonic() - self._started,
                "random_at_start": self._random_at_start,
                "random_now": self.random.get(),
                "place_at_start": self._place_at_start,
                "checksum_of_first": self._checksum_of_first,
                "checksum_of_last": self._checksum(),
            },
            "memory": self.memory.get() if self.memory else {},
        }

    def _checksum(self) -> int | None:
        """Return that of the last batch; None if there is none, or it has been written to."""
        if self._last is None:
            return self._checksum_of_last
        batch, versions = self._last
        return checksum_of(batch.arguments) if versions == _versions(batch) else None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; if that fails, nothing has changed.

        Raises:
            Exception: Any, if the state is not that of such a run.
        """
        before = deepcopy(self.state_dict())
        try:
            self._load(state)
        except Exception:
            self._load(before)
            raise

    def _load(self, state: dict[str, Any]) -> None:
        history = History(Epoch(**row) for row in state["history"])
        epoch = state["epoch"]
        self._check(history, epoch, state["best"])
        self.objective.load_state_dict(state["objective"])
        if self.schedule is not None:
            self.optimizer._opt_called = True  # type: ignore[attr-defined]  # it has stepped before
            self.schedule.load_state_dict(restored(state["schedule"]))
        load_optimizer(self.optimizer, restored(state["optimizer"]))
        if self.memory is not None:
            self.memory.set(state["memory"])
        self.history = history
        self._best = state["best"]
        self.step = epoch["step"]
        self._rows, self._sums = epoch["rows"], epoch["sums"]
        self._learning_rate = epoch["learning_rate"]
        self._started = time.monotonic() - epoch["seconds"]
        self._random_at_start, self._random_now = epoch["random_at_start"], epoch["random_now"]
        self._place_at_start = epoch["place_at_start"]
        self._checksum_of_first = epoch["checksum_of_first"]
        self._checksum_of_last, self._last = epoch["checksum_of_last"], None
        self.data.go_to(self._place_at_start)
        self.random.set(self._random_at_start)  # whether it can be
        self.random.set(self._random_now)

    def _check(self, history: History, epoch: dict[str, Any], best: dict[str, Any] | None) -> None:
        """Raise an error for numbers that no such run has."""
        numbers = [number for one in history for number in asdict(one).values()]
        numbers += [*epoch["sums"], epoch["rows"], epoch["learning_rate"], epoch["seconds"]]
        if not all(type(number) in (int, float, type(None)) for number in numbers):
            raise TypeError("a number of an epoch is none")
        if [one.epoch for one in history] != list(range(1, len(history) + 1)):
            raise ValueError("epochs are not in order")
        if type(epoch["step"]) is not int or not 0 <= epoch["step"] <= (
            self.data.steps or math.inf
        ):
            raise ValueError("there is no such step in an epoch")
        if best is not None and layout(best) != layout(self.objective.state_dict()):
            raise ValueError("the best weights are those of another objective")


def layout(state: dict[str, Any]) -> dict[str, str]:
    """Return names, types and shapes of all parameters and buffers."""
    return {
        name: f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.")
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load a state_dict; torch would build a deque, array or text in it anew, and otherwise."""
    held_back: dict[int, dict[str, Any]] = {}
    passed: dict[int, dict[str, Any]] = {}
    for number, values in state["state"].items():
        odd = {k for k, v in values.items() if isinstance(v, Iterable) and not _is_loaded(v)}
        held_back[number] = {k: values[k] for k in odd}
        passed[number] = {k: v for k, v in values.items() if k not in odd}
    optimizer.load_state_dict({**state, "state": passed})
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        if held_back.get(number):
            optimizer.state[parameter].update(held_back[number])


def _is_loaded(value: object) -> bool:
    """Return whether torch loads a value as it was."""
    return isinstance(value, Tensor | dict | list | tuple)


def _versions(batch: Batch) -> list[int]:
    """Return how often tensors have been written to."""
    leaves = tree_leaves(batch.arguments)
    return [t._version for t in leaves if isinstance(t, Tensor) and not t.is_inference()]
