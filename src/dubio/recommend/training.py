"""The training loop of the autoencoders."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.optim import Adam

from dubio.recommend.histories import content
from dubio.recommend.keyed_noise import Seeds, draw_seeds
from dubio.recommend.output import Output
from dubio.recommend.sparse import SparseLinear, SparseRows
from dubio.recommend.step_noise import StepNoise
from dubio.recommend.training_plan import TrainingPlan
from dubio.recommend.weights import is_rate
from dubio.report.progress import Progress
from dubio.training.checkpoint import Checkpoint
from dubio.training.guard import NonFiniteError
from dubio.training.interrupt import Interrupt

_LOOKED_AT = 64  # users whose scores are looked at after an epoch


class TrainableNetwork(Protocol):
    """The interface of a network for the loop; it is an `nn.Module`."""

    def noise(self, rows: SparseRows, seeds: Seeds) -> StepNoise:
        """Return the noise of a step, a function of the seeds of the users."""
        ...

    def __call__(self, rows: SparseRows, noise: StepNoise, beta: float) -> Tensor:
        """Return the loss of each history."""  # (B,)
        ...

    def scores(self, rows: SparseRows, noise: StepNoise | None) -> Tensor:
        """Return scores of all items, without noise if there is none."""  # (B, I)
        ...


@final
@dataclass(frozen=True)
class TrainingEpoch:
    """One pass over the users.

    Attributes:
        epoch: Its number, from 1.
        loss: The mean bound, each at the weights of its step.
        beta: That of the last step.
        validation: NDCG@100 of the validation users, if there are any.
        seconds: How long it took.
    """

    epoch: int
    loss: float
    beta: float
    validation: float | None
    seconds: float = field(compare=False)


@final
class TrainingRun:
    """The state of a run.

    All noise and the order of users are functions of seed, epoch and user. So there is no state of
    a random generator, and a run that goes on from a checkpoint ends with the same bits.

    Args:
        network: What to train.
        user_items: Users × items, binary.
        plan: How.
        about: What else makes this run: settings of the model, and validation data.

    Attributes:
        history: The epochs that are done.
    """

    def __init__(
        self,
        network: nn.Module,
        user_items: csr_array,
        plan: TrainingPlan,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._about = dict(about or {})
        self._network = network
        self._user_items = user_items
        self._plan = plan
        self._optimizer = _adam(network, plan)
        self._rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        self._large = [
            layer for layer in network.modules() if isinstance(layer, SparseLinear | Output)
        ]
        for layer in self._large:
            if isinstance(layer, Output):
                layer.precision = plan.precision
        self._keys = np.arange(user_items.shape[0], dtype=np.uint64)
        self.history: list[TrainingEpoch] = []
        self._best: dict[str, Tensor] | None = None
        self._step, self._sum, self._seconds = 0, 0.0, 0.0

    @property
    def has_begun(self) -> bool:
        """Whether any step is done."""
        return bool(self.history) or self._step > 0

    @property
    def epoch(self) -> int:
        """The number of the current epoch, from 1."""
        return len(self.history) + 1

    @property
    def steps_in_epoch(self) -> int:
        """How many batches the users make."""
        return -(-len(self._keys) // self._plan.batch_size)

    @property
    def steps_left(self) -> int:
        """Largest number of remaining steps."""
        return (self._plan.epochs - len(self.history)) * self.steps_in_epoch - self._step

    @property
    def best(self) -> TrainingEpoch | None:
        """The first epoch with the highest validation."""
        known = [epoch for epoch in self.history if epoch.validation is not None]
        return max(known, key=lambda epoch: epoch.validation or 0.0, default=None)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        best = self.best
        waited = len(self.history) - best.epoch if best else 0
        return len(self.history) >= self._plan.epochs or waited >= self._plan.patience

    def steps(self) -> Iterator[float]:
        """Do the rest of the epoch; each step gives its loss."""
        order = np.random.default_rng([self._plan.seed, self.epoch]).permutation(len(self._keys))
        size = self._plan.batch_size
        while self._step < self.steps_in_epoch:
            started = time.monotonic()
            chosen = order[self._step * size : (self._step + 1) * size]
            loss = self._descend(chosen)
            self._sum += loss * len(chosen)
            self._step += 1
            self._seconds += time.monotonic() - started
            yield loss

    def _descend(self, chosen: np.ndarray[Any, Any]) -> float:
        rows = SparseRows.of(self._user_items[chosen], torch.from_numpy(chosen))
        seeds = draw_seeds(self._plan.seed, self._keys[chosen], self.epoch)
        network: Any = self._network
        for layer in self._large:
            layer.memory.recycle(layer.weight)
        self._optimizer.zero_grad()
        done = len(self.history) * self.steps_in_epoch + self._step
        beta = self._plan.beta_at(done)
        loss: Tensor = network(rows, network.noise(rows, seeds), beta).mean()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise NonFiniteError(
                f"the loss, {value}, is not finite in epoch {self.epoch}, step {self._step + 1}. "
                "The model is as it was before fit. Try a smaller learning_rate.",
                self.epoch,
                self._step + 1,
                "loss",
            )
        loss.backward()
        factor = self._plan.rate_at(done / (self._plan.epochs * self.steps_in_epoch))
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = factor * rate
        self._optimizer.step()
        return value

    def end_epoch(self, validate: Callable[[], float] | None) -> TrainingEpoch:
        """Enter the epoch into the history, and keep its weights if they are the best."""
        started = time.monotonic()
        self._check_weights()
        validation = None if validate is None else validate()
        self._seconds += time.monotonic() - started
        beta = self._plan.beta_at(self.epoch * self.steps_in_epoch - 1)
        loss = self._sum / len(self._keys)
        epoch = TrainingEpoch(self.epoch, loss, beta, validation, self._seconds)
        self.history.append(epoch)
        if self.best is epoch:
            self._keep_weights()
        self._step, self._sum, self._seconds = 0, 0.0, 0.0
        return epoch

    def _check_weights(self) -> None:
        """Losses are those before a step: the last one may have broken the weights."""
        broken = [
            name
            for name, values in self._network.named_parameters()
            if not values.detach().sum().isfinite() and not values.detach().isfinite().all()
        ]
        some = np.arange(min(_LOOKED_AT, len(self._keys)))
        rows = SparseRows.of(self._user_items[some], torch.from_numpy(some))
        network: Any = self._network
        if not broken and not network.scores(rows, None).isfinite().all():
            broken = ["the scores"]
        if broken:
            raise NonFiniteError(
                f"{broken[0]}: expected finite numbers after epoch {self.epoch}, got others. The "
                "model is as it was before fit. Try a smaller learning_rate.",
                self.epoch,
                self.steps_in_epoch,
                broken[0],
            )

    def _keep_weights(self) -> None:
        state = self._network.state_dict()
        if self._best is None:
            self._best = {name: tensor.clone() for name, tensor in state.items()}
        else:
            for name, tensor in state.items():
                self._best[name].copy_(tensor)

    def restore_best(self) -> None:
        """Give the network the weights of the best epoch, if there was a validation."""
        if self._best is not None:
            self._network.load_state_dict(self._best)

    def state_dict(self) -> dict[str, Any]:
        """Everything, in types that ``torch.load(weights_only=True)`` takes."""
        return {
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "best": self._best,
            "history": [asdict(epoch) for epoch in self.history],
            "epoch": {"step": self._step, "sum": self._sum, "seconds": self._seconds},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._best = state["best"]
        self.history = [TrainingEpoch(**row) for row in state["history"]]
        epoch = state["epoch"]
        self._step, self._sum, self._seconds = epoch["step"], epoch["sum"], epoch["seconds"]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same in a run that resumes from a checkpoint."""
        layout = {
            name: f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.")
            for name, value in self._network.state_dict().items()
        }
        data = content(self._user_items)
        return {**self._about, **asdict(self._plan), "user_items": data, **layout}


def train(
    run: TrainingRun,
    *,
    validate: Callable[[], float] | None,
    checkpoint: Path | None,
    save_every: float,
    progress: bool,
) -> None:
    """Bring a run to its end, and leave the best weights, also when it is interrupted.

    Args:
        run: What to do.
        validate: A number for the weights as they are, to become high.
        checkpoint: File to save the run to, and to go on from if it exists.
        save_every: Seconds between saves.
        progress: Whether to show a bar, on a terminal.
    """
    with Checkpoint(checkpoint, save_every, run.identity()) as store:
        state = store.load()
        if state is not None:
            store.restore(run.load_state_dict, state)
        elif checkpoint is not None:
            store.save(run.state_dict)
        with (
            _best_at_the_end(run),
            Interrupt(active=True) as interrupt,
            Progress("fit", run.steps_left) as bar,
        ):
            note = ""
            while not run.finished:
                for loss in run.steps():
                    if progress:
                        bar.advance(note=f"epoch {run.epoch}, loss {loss:.4g}{note}")
                    if store.due or interrupt.noted:
                        store.save(run.state_dict)
                    interrupt.pass_on()
                epoch = run.end_epoch(validate)
                if epoch.validation is not None:
                    note = f", NDCG@100 {epoch.validation:.4f}"
            store.save(run.state_dict)


@contextmanager
def _best_at_the_end(run: TrainingRun) -> Iterator[None]:
    try:
        yield
    finally:
        run.restore_best()


def _adam(network: nn.Module, plan: TrainingPlan) -> Adam:
    named = list(network.named_parameters())
    rates = [parameter for name, parameter in named if is_rate(name)]
    others = [parameter for name, parameter in named if not is_rate(name)]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in others if p.dim() > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in others if p.dim() == 1]},
    ]
    if rates:
        groups.append({"params": rates, "lr": plan.rate_learning_rate})
    return Adam(groups, lr=plan.learning_rate, fused=True)
