"""Where a training run stands: all that it takes to go on as if nothing had happened."""

import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, final

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from dubio.training.batches import Batch, Batches, checksum_of
from dubio.training.history import Epoch, History
from dubio.training.random_state import RandomState


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
        self._last: Batch | None = None
        self._checksum: int | None = None

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
        """How many steps are to come, at most, if known."""
        if self.data.steps is None:
            return None
        return (self.epochs - len(self.history)) * self.data.steps - self.step

    def batches(self) -> Iterator[Batch]:
        """The batches of the current epoch that are still to be done.

        In mid-epoch the data are started with the random numbers of the epoch's start, which give
        the same batches again; then all goes on with the random numbers of the moment.
        """
        self.random.set(self._random_at_start)
        batches = self.data.start(self.step, self._checksum)
        if self.step > 0:
            self.random.set(self._random_now)
        return batches

    def end_step(self, batch: Batch, values: list[float]) -> None:
        """Add the values of a step, means over its rows, to those of the epoch."""
        rows, self._last = batch.size, batch
        if not self._sums:
            self._sums = [0.0] * len(values)
        self._sums = [total + rows * value for total, value in zip(self._sums, values, strict=True)]
        self._rows += rows
        self._learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self.step += 1

    def end_epoch(self, validation: float | None) -> Epoch:
        """Enter the epoch into the history, keep its weights if they are the best, begin anew."""
        if self.step == 0:
            raise ValueError("data: expected at least one batch in every epoch, got none.")
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
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict() if self.schedule else None,
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
                "checksum": None if self._last is None else checksum_of(self._last[:2]),
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.objective.load_state_dict(state["objective"])
        if self.schedule is not None:
            self.optimizer.zero_grad()
            self.optimizer.step()  # moves nothing; else the schedule warns of coming first
            self.schedule.load_state_dict(state["schedule"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.history = History(Epoch(**row) for row in state["history"])
        self._best = state["best"]
        epoch = state["epoch"]
        self.step = epoch["step"]
        self._rows, self._sums = epoch["rows"], epoch["sums"]
        self._learning_rate = epoch["learning_rate"]
        self._started = time.monotonic() - epoch["seconds"]
        self._random_at_start, self._random_now = epoch["random_at_start"], epoch["random_now"]
        self._place_at_start, self._checksum = epoch["place_at_start"], epoch["checksum"]
        self.data.go_to(self._place_at_start)
        self.random.set(self._random_now)
