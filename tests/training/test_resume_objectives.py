"""Runs that go on bit for bit, whatever the objective, optimizer and validation keep to themselves.

Where that cannot be, it is said at the first step.
"""

import copy
import itertools
import random
import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

import dubio

X = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
Y = torch.randn(24, 1, generator=torch.Generator().manual_seed(2))
EPOCHS, STEPS = 4, 12
OUTER = torch.Generator()
ELSEWHERE = types.ModuleType("elsewhere")
exec(
    "import torch\nSOURCES = [torch.Generator()]\n"
    "def drawn(x):\n    return torch.randn(x.shape, generator=SOURCES[0])\n",
    vars(ELSEWHERE),
)


class StoppedError(Exception):
    """The end of a run that is to be gone on with."""


def torch_seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


class Objective(nn.Module):
    """Squared error of a network with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 1))
        self.prepare()

    def prepare(self) -> None:
        """Make what is kept outside of the state_dict."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = (self.net(x + self.shift(x)) - y).square().mean()
        return loss * self.factor(loss.detach())

    def shift(self, x: Tensor) -> Tensor | float:
        return 0.0

    def factor(self, loss: Tensor) -> Tensor | float:
        return 1.0


# What changes the loss: numbers, tensors, arrays and containers of them


class Counter(Objective):
    def prepare(self) -> None:
        self.steps = 0

    def factor(self, loss: Tensor) -> float:
        self.steps += 1
        return 1 / self.steps


class CounterOfAnother(Objective):
    def prepare(self) -> None:
        self.other = types.SimpleNamespace(steps=0)
        self.mine = Steps()

    def factor(self, loss: Tensor) -> float:
        self.mine.steps += 1
        return 1 / self.mine.steps


class Steps:
    def __init__(self) -> None:
        self.steps = 0


class PassingBuffer(Objective):
    def prepare(self) -> None:
        self.register_buffer("level", torch.zeros(()), persistent=False)

    def factor(self, loss: Tensor) -> Tensor:
        self.level = 0.9 * self.level + 0.1 * loss
        return self.level


class InPlaceTensor(Objective):
    def prepare(self) -> None:
        self.level = torch.zeros(())
        self.same = self.level  # another name

    def factor(self, loss: Tensor) -> Tensor:
        self.level.data.lerp_(loss, 0.1)
        return self.same


class LateTensor(Objective):
    def prepare(self) -> None:
        self.level: Tensor | None = None

    def factor(self, loss: Tensor) -> Tensor:
        self.level = loss if self.level is None else 0.9 * self.level + 0.1 * loss
        return self.level


class Array(Objective):
    def prepare(self) -> None:
        self.level, self.share = np.zeros(2), np.float32(1)

    def factor(self, loss: Tensor) -> float:
        self.level *= 0.9
        self.level += float(loss)
        self.share = np.float32(self.share * 0.9)
        return float(self.level.sum() * self.share)


class Past(Objective):
    def prepare(self) -> None:
        self.past: deque[float] = deque(maxlen=3)
        self.kinds = {"losses": {1: [0.0]}, "seen": {0}, "pair": (0, 0.0)}

    def factor(self, loss: Tensor) -> float:
        self.past.append(float(loss))
        kinds: Any = self.kinds
        kinds["losses"][1].append(float(loss))
        kinds["seen"].add(len(self.past) + len(kinds["losses"][1]))
        kinds["pair"] = (kinds["pair"][0] + 1, float(loss))
        return sum(self.past) + sum(kinds["losses"][1]) + len(kinds["seen"]) + sum(kinds["pair"])


class MixedDict(Objective):
    def prepare(self) -> None:
        self.state = {"steps": 0, "net": nn.Linear(1, 1)}
        self.rows = [0, nn.Linear(1, 1)]

    def factor(self, loss: Tensor) -> float:
        self.state["steps"] += 1
        self.rows[0] += 2
        return 1 / (self.state["steps"] + self.rows[0])


class DropoutSchedule(Objective):
    def factor(self, loss: Tensor) -> float:
        self.net[2].p *= 0.9
        return 1.0


class Teacher(Objective):
    kind: Callable[[nn.Module], Any] = lambda self, net: [net]

    def prepare(self) -> None:
        self.teacher = self.kind(copy.deepcopy(self.net))

    def shift(self, x: Tensor) -> Tensor:
        held = self.teacher
        teacher = held["net"] if isinstance(held, dict) else next(iter(held))
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
            shift: Tensor = teacher(x)
        return shift


class TeacherInDict(Teacher):
    kind = lambda self, net: {"net": net}  # noqa: E731


class TeacherInTuple(Teacher):
    kind = lambda self, net: (net, 1)  # noqa: E731


# What draws: generators wherever they are


class Draws(Objective):
    """Noise from a generator that is held somehow."""

    def shift(self, x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=self.source())

    def source(self) -> torch.Generator:
        raise NotImplementedError


class InDeque(Draws):
    def prepare(self) -> None:
        self.sources = deque([torch_seeded()])

    def source(self) -> torch.Generator:
        return self.sources[0]


class InSet(Draws):
    def prepare(self) -> None:
        self.sources = {torch_seeded()}

    def source(self) -> torch.Generator:
        return next(iter(self.sources))


class InArray(Draws):
    def prepare(self) -> None:
        self.sources = np.array([None, torch_seeded()], dtype=object)

    def source(self) -> torch.Generator:
        return self.sources[1]


class LateInList(Draws):
    def prepare(self) -> None:
        self.sources = [*range(5000), torch_seeded()]

    def source(self) -> torch.Generator:
        return self.sources[-1]


class InProperty(Draws):
    @property
    def hidden(self) -> torch.Generator:
        return OUTER

    def source(self) -> torch.Generator:
        return self.hidden


class BuiltInMethods(Objective):
    def prepare(self) -> None:
        self.draw, self.normal = random.Random(3).random, np.random.default_rng(3).normal

    def factor(self, loss: Tensor) -> float:
        return self.draw() + float(self.normal())


def blurred(x: Tensor) -> Tensor:
    return torch.stack([torch.randn(row.shape, generator=OUTER) for row in x])


def blurred_by_another(x: Tensor) -> Tensor:
    return blurred(x)


class OfFunction(Objective):
    def shift(self, x: Tensor) -> Tensor:
        return blurred(x)


class OfFunctionOfFunction(Objective):
    def shift(self, x: Tensor) -> Tensor:
        return (lambda: blurred_by_another(x))()


class OfModule(Objective):
    def shift(self, x: Tensor) -> Tensor:
        drawn: Tensor = ELSEWHERE.drawn(x)
        return drawn


# Optimizers


class Langevin(torch.optim.SGD):
    """Adds noise to every parameter, whether it has a gradient or not."""

    source: torch.Generator | None = None

    def step(self, closure: Any = None) -> Any:
        super().step()
        with torch.no_grad():
            for p in (p for group in self.param_groups for p in group["params"]):
                p.add_(torch.randn(p.shape, generator=self.source), alpha=0.01)


def langevin_of_its_own(parameters: Any) -> Langevin:
    optimizer = Langevin(parameters, lr=0.01)
    optimizer.source = torch_seeded()
    return optimizer


class Fading(torch.optim.SGD):
    """Counts its steps in an attribute."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr)
        self.count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        for group in self.param_groups:
            group["lr"] = 0.1 / self.count
        super().step()


class Remembers(torch.optim.SGD):
    """Keeps numbers in classes that no plain file takes."""

    def step(self, closure: Any = None) -> Any:
        super().step()
        with torch.no_grad():
            for p in (p for group in self.param_groups for p in group["params"]):
                past = self.state[p].setdefault("past", deque(maxlen=3))
                past.append(float(p.sum()))
                self.state[p]["sum"], self.state[p]["array"] = np.float64(sum(past)), np.ones(2)
                self.state[p]["text"] = "abc"
                assert past.maxlen == 3
                p.add_(float(self.state[p]["sum"]), alpha=0.01)


# Validation and data


def noisy_validation(objective: Objective) -> dict[str, Any]:
    source = torch_seeded()

    def validate() -> float:
        noise = torch.randn((), generator=source)
        return float((objective.net(X) - Y).square().mean() + noise)

    return {"validate": validate, "patience": 2}


class LateNoise(Dataset[tuple[Tensor, Tensor]]):
    """Draws for its last rows alone, from a generator in a set."""

    def __init__(self) -> None:
        self.sources = {torch_seeded()}

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        (source,) = self.sources
        return (X[i] + torch.randn(3, generator=source) if i >= 16 else X[i]), Y[i]


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Rows with noise of the global generator, from which dropout draws in between."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return X[i] + 0.1 * torch.randn(3), Y[i]


class WritesInput(Objective):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2.0)
        return super().forward(x, y)


Options = Callable[[Objective], dict[str, Any]]
RUNS: dict[str, tuple[type[Objective], Options]] = {
    **{
        kind.__name__: (kind, lambda _: {})
        for kind in (
            Counter, CounterOfAnother, PassingBuffer, InPlaceTensor, LateTensor, Array, Past,
            MixedDict, DropoutSchedule, Teacher, TeacherInDict, TeacherInTuple, InDeque, InSet,
            InArray, LateInList, InProperty, BuiltInMethods, OfFunction, OfFunctionOfFunction,
            OfModule,
        )
    },
    "generator of the optimizer": (Objective, lambda _: {"optimizer": langevin_of_its_own}),
    "optimizer that moves by itself": (
        Objective,
        lambda _: {
            "optimizer": partial(Langevin, lr=0.01),
            "schedule": partial(StepLR, step_size=1),
        },
    ),
    "optimizer that counts": (Objective, lambda _: {"optimizer": partial(Fading, lr=0.1)}),
    "optimizer with a deque": (Objective, lambda _: {"optimizer": partial(Remembers, lr=0.01)}),
    "generator of validate": (Objective, noisy_validation),
    "late noise": (Objective, lambda _: {"data": DataLoader(LateNoise(), 8)}),
    "augmented": (Objective, lambda _: {"data": DataLoader(Augmented(), 8, shuffle=True)}),
    "written to": (WritesInput, lambda _: {"data": DataLoader(LateNoise(), 8)}),
}  # fmt: skip


def fit(
    objective: Objective, options: Options, path: Path | None, stop_after: int | None = None
) -> dubio.History:
    random.seed(0)
    torch.manual_seed(4)
    OUTER.manual_seed(3)  # as at the start of a process
    ELSEWHERE.SOURCES[0].manual_seed(3)
    given = options(objective)
    data = given.pop("data", (X, Y))
    if isinstance(data, tuple):
        given["batch_size"] = 8
    done = 0

    def stop(module: nn.Module, args: Any) -> None:
        nonlocal done
        if done == stop_after:
            raise StoppedError
        done += 1

    hook = objective.register_forward_pre_hook(stop)
    try:
        return dubio.fit(
            objective, data, epochs=EPOCHS, checkpoint=path, save_every=0, progress=False, **given
        )
    finally:
        hook.remove()


def made(kind: type[Objective]) -> Objective:
    torch.manual_seed(0)
    return kind()


@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    """At the start, in mid-epoch and at the end of one; warnings are errors here."""
    kind, options = RUNS[name]
    whole = made(kind)
    history = fit(whole, options, None)
    saved = made(kind)
    assert fit(saved, options, tmp_path / "whole.pt") == history  # saving changes nothing
    for stop_after in (0, 2, 3, 7):
        path = tmp_path / f"{stop_after}.pt"
        with pytest.raises(StoppedError):
            fit(made(kind), options, path, stop_after)
        found = made(kind)
        assert fit(found, options, path) == history, stop_after
        for key, value in whole.state_dict().items():
            assert torch.equal(found.state_dict()[key], value), (stop_after, key)


@pytest.mark.parametrize("kind", [Counter, PassingBuffer, LateTensor, Array, Past, Teacher])
def test_with_the_objects_of_the_interrupted_run(kind: type[Objective], tmp_path: Path) -> None:
    """As in a notebook, also if it was interrupted long after the last save."""
    history = fit(made(kind), lambda _: {}, None)
    for stop_after in (2, 7):
        for every in (0, 1e9):
            path, objective = tmp_path / f"{stop_after} {every}.pt", made(kind)
            with pytest.raises(StoppedError):
                fit(objective, lambda _, every=every: {}, path, stop_after)
            assert fit(objective, lambda _: {}, path) == history


def test_settings_are_not_overwritten(tmp_path: Path) -> None:
    """Only what training has changed is put back."""

    class Scaled(Counter):
        scale = 1.0

        def prepare(self) -> None:
            super().prepare()
            self.scale, self.note = 1.0, ["a"]

    objective = Scaled()
    with pytest.raises(StoppedError):
        fit(objective, lambda _: {}, tmp_path / "run.pt", 5)
    objective.scale, objective.note = 2.0, ["b"]
    fit(objective, lambda _: {}, tmp_path / "run.pt")
    assert (objective.steps, objective.scale, objective.note) == (STEPS, 2.0, ["b"])


def test_an_objective_without_the_same_parts(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        fit(CounterOfAnother(), lambda _: {}, tmp_path / "run.pt", 5)
    other = Objective()
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(dubio.CheckpointError, match=r"got none that is objective\.mine; pass"):
        fit(other, lambda _: {}, tmp_path / "run.pt")
    assert all(torch.equal(before[k], v) for k, v in other.state_dict().items())


# What cannot go on


class CountsByIterator(Objective):
    def prepare(self) -> None:
        self.counter = itertools.count(1)

    def factor(self, loss: Tensor) -> float:
        return 1 / next(self.counter)


class LateTeacher(Objective):
    def prepare(self) -> None:
        self.teacher: list[nn.Module] = []

    def shift(self, x: Tensor) -> Tensor:
        if not self.teacher:
            self.teacher.append(copy.deepcopy(self.net))
        with torch.no_grad():
            shift: Tensor = self.teacher[0](x)
        return shift


class LastPosterior(Objective):
    def prepare(self) -> None:
        self.last = torch.distributions.Normal(0.0, 1.0)

    def factor(self, loss: Tensor) -> Tensor:
        before, self.last = self.last, torch.distributions.Normal(loss, 1.0)
        return before.mean


class OwnOptimizer(Objective):
    def prepare(self) -> None:
        self.inner = torch.optim.Adam([nn.Parameter(torch.zeros(1))])


class SeveralInSet(Draws):
    def prepare(self) -> None:
        self.sources = {torch_seeded(), torch.Generator().manual_seed(4)}

    def source(self) -> torch.Generator:
        return next(iter(self.sources))


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (CountsByIterator, r"objective\.counter, a count whose state is not seen"),
        (LateTeacher, r"objective\.teacher, an object that comes or goes"),
        (LastPosterior, r"objective\.last, an object that comes or goes"),
        (OwnOptimizer, r"objective\.inner, a Adam whose state is not seen"),
        (SeveralInSet, "several in a set"),
    ],
)
def test_what_cannot_go_on_says_so_at_the_first_step(
    kind: type[Objective], what: str, tmp_path: Path
) -> None:
    message = f"{what}.* cannot be resumed exactly"
    with pytest.warns(RuntimeWarning, match=message), pytest.raises(StoppedError):
        fit(kind(), lambda _: {}, tmp_path / "run.pt", 1)
    fit(kind(), lambda _: {}, None)  # who does not save needs not know


def test_draws_of_validate_are_new_ones_in_every_epoch() -> None:
    """What it alone holds moves on; what training draws from does not."""
    source, seen = torch_seeded(), []

    def validate() -> float:
        seen.append(float(torch.randn((), generator=source) + 0 * torch.rand(())))
        return seen[-1]

    fit(made(Objective), lambda _: {"validate": validate}, None)
    again = torch_seeded()
    assert seen == [float(torch.randn((), generator=again)) for _ in range(EPOCHS)]


def test_iterators_over_attributes_are_seen(tmp_path: Path) -> None:
    class Own(Iterator[int]):
        def __init__(self) -> None:
            self.place = 0

        def __next__(self) -> int:
            self.place += 1
            return self.place

    class CountsByOwn(CountsByIterator):
        def prepare(self) -> None:
            self.counter = Own()  # type: ignore[assignment]

    RUNS["own iterator"] = (CountsByOwn, lambda _: {})
    test_it_goes_on_bit_for_bit("own iterator", tmp_path)
