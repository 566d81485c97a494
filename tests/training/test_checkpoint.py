"""Checkpoints: what goes on from them, what is refused, what is said."""

import copy
import os
import pickle
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import (
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.training import checkpoint as checkpoint_module

ROWS = 20
CALLS: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()


class StoppedError(Exception):
    """The end of a run that is to be gone on with."""


class Loss(nn.Module):
    """Squared error of a network with dropout; stops at some call if told to."""

    def __init__(self, stop_at: int | None = None, width: int = 6) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.Dropout(0.3), nn.Linear(width, 1))
        self.stop_at = stop_at

    @property
    def calls(self) -> int:
        """Of this object: an attribute would go on with the run."""
        return CALLS.get(self, 0)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        CALLS[self] = self.calls + 1
        if self.calls == self.stop_at:
            raise StoppedError
        return F.mse_loss(self.net(x), y)


def rows() -> tuple[Tensor, Tensor]:
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1))
    return x, x.sum(1, keepdim=True)


def fit(objective: nn.Module, path: Path, **options: Any) -> dubio.History:
    data = options.pop("data", rows())
    options = {"epochs": 3, "batch_size": 5, "save_every": 0.0, "checkpoint": path, **options}
    return dubio.fit(objective, data, **options)


def assert_equal_weights(one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_run_goes_on_whatever_the_seeds_are_now(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pt"
    torch.manual_seed(0)
    expected = Loss()
    history = fit(expected, whole)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    with pytest.raises(StoppedError):
        fit(Loss(stop_at=7), tmp_path / "parts.pt")
    torch.manual_seed(99)
    objective = Loss()
    assert fit(objective, tmp_path / "parts.pt") == history
    assert objective.calls == 12 - 6
    assert_equal_weights(objective, expected)
    assert torch.equal(torch.get_rng_state(), after)


def test_a_run_that_has_ended_returns_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    first = Loss()
    history = fit(first, path)
    after, changed = torch.get_rng_state(), path.stat().st_mtime_ns
    torch.manual_seed(5)
    again = Loss()
    assert fit(again, path) == history
    assert again.calls == 0
    assert_equal_weights(first, again)
    assert path.stat().st_mtime_ns == changed
    assert torch.equal(torch.get_rng_state(), after)


def test_the_same_objects_may_be_used_again(tmp_path: Path) -> None:
    """As in a notebook: the optimizer and schedule of the interrupted call are still around."""
    torch.manual_seed(0)
    expected = Loss()
    plain = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    fit(expected, tmp_path / "a.pt", optimizer=plain, schedule=partial(StepLR, step_size=1))
    torch.manual_seed(0)
    objective = Loss(stop_at=7)
    optimizer = plain(objective.parameters())
    schedule = StepLR(optimizer, 1)
    with pytest.raises(StoppedError):
        fit(objective, tmp_path / "b.pt", optimizer=optimizer, schedule=schedule)
    objective.stop_at = None
    fit(objective, tmp_path / "b.pt", optimizer=optimizer, schedule=schedule)
    assert_equal_weights(objective, expected)


def sequence(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return SequentialLR(optimizer, [StepLR(optimizer, 1), StepLR(optimizer, 2)], milestones=[1])


@pytest.mark.parametrize(
    ("schedule", "every"),
    [
        (partial(MultiStepLR, milestones=[1, 2]), "epoch"),
        (partial(StepLR, step_size=1), "epoch"),
        (partial(ReduceLROnPlateau, patience=0), "epoch"),
        (partial(OneCycleLR, max_lr=0.1, total_steps=12), "step"),
        (sequence, "epoch"),
    ],
    ids=["MultiStepLR", "StepLR", "ReduceLROnPlateau", "OneCycleLR", "SequentialLR"],
)
@pytest.mark.parametrize("stop_at", [1, 2, 5, 11])
def test_schedules_go_on(tmp_path: Path, schedule: Any, every: Any, stop_at: int) -> None:
    options: dict[str, Any] = {"schedule": schedule, "schedule_every": every}
    torch.manual_seed(0)
    expected = Loss()
    history = fit(expected, tmp_path / "whole.pt", **options)
    torch.manual_seed(0)
    with pytest.raises(StoppedError):
        fit(Loss(stop_at), tmp_path / "parts.pt", **options)
    objective = Loss()
    assert fit(objective, tmp_path / "parts.pt", **options) == history
    assert_equal_weights(objective, expected)


def test_the_schedule_of_the_kl_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def weight(step: int) -> float:
        seen.append(step)
        if len(seen) == 6:
            raise StoppedError
        return 0.1

    def objective() -> dubio.ELBO:
        masked = dubio.Masked(nn.Linear(3, 1), dubio.masks.Concrete())
        return dubio.ELBO(masked, dubio.likelihoods.Gaussian(1.0), ROWS, kl_weight=weight)

    with pytest.raises(StoppedError):
        fit(objective(), tmp_path / "run.pt", epochs=2)
    last = objective()
    fit(last, tmp_path / "run.pt", epochs=2)
    assert seen == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert last.step == 8


def test_patience_goes_on_with_the_best_weights_so_far(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    first = Loss(stop_at=7)
    kept = []

    def validate_first() -> float:
        kept.append([p.detach().clone() for p in first.parameters()])
        return 1.0

    with pytest.raises(StoppedError):
        fit(first, path, validate=validate_first, patience=2)
    second = Loss()
    history = fit(second, path, validate=lambda: 2.0, patience=2)
    assert [epoch.validation for epoch in history] == [1.0, 2.0, 2.0]
    for parameter, best in zip(second.parameters(), kept[0], strict=True):
        assert torch.equal(parameter, best)


def test_it_is_saved_every_so_many_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(checkpoint_module.time, "monotonic", lambda: now[0])
    saved = []
    replace = os.replace
    monkeypatch.setattr(
        checkpoint_module.os, "replace", lambda *a: (saved.append(now[0]), replace(*a))
    )

    class Slow(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            now[0] += 7.0
            return super().forward(x, y)

    fit(Slow(), tmp_path / "run.pt", save_every=20.0)  # twelve steps
    assert saved == [0.0, 21.0, 42.0, 63.0, 84.0, 84.0]


def test_folders_are_made_and_no_other_file_is_left(tmp_path: Path) -> None:
    fit(Loss(), tmp_path / "a" / "b" / "run.pt")
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")] == ["a/b/run.pt"]


def test_weights_can_be_read_from_the_file(tmp_path: Path) -> None:
    objective = Loss()
    fit(objective, tmp_path / "run.pt")
    state = torch.load(tmp_path / "run.pt", weights_only=True)
    other = Loss()
    other.load_state_dict(state["objective"])
    assert_equal_weights(objective, other)


# Ctrl-C


@pytest.mark.parametrize("during", ["forward", "step", "last step"])
def test_ctrl_c_saves_and_then_stops(tmp_path: Path, during: str) -> None:
    path = tmp_path / "run.pt"
    torch.manual_seed(0)
    expected = Loss()
    fit(expected, tmp_path / "whole.pt")

    class Interrupted(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            if during == "forward" and self.calls == 6:
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(x, y)

    torch.manual_seed(0)
    objective = Interrupted()
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3, fused=True)
    if during != "forward":
        last = during == "last step"

        def interrupt(*_: object) -> None:
            if objective.calls == (12 if last else 6):
                os.kill(os.getpid(), signal.SIGINT)

        optimizer.register_step_pre_hook(interrupt)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(objective, path, optimizer=optimizer, save_every=1e9)
    assert signal.getsignal(signal.SIGINT) is handler
    torch.manual_seed(77)
    resumed = Loss()
    fit(resumed, path, save_every=1e9)
    done = {"forward": 7, "step": 6, "last step": 12}[during]
    assert resumed.calls == 12 - done
    assert_equal_weights(resumed, expected)


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    class Stubborn(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("not reached")

    with pytest.raises(KeyboardInterrupt):
        fit(Stubborn(), tmp_path / "run.pt")


def test_without_a_checkpoint_ctrl_c_is_as_ever() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test worker ignores it

    class Interrupted(Loss):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("not reached")

    with pytest.raises(KeyboardInterrupt):
        dubio.fit(Interrupted(), rows(), epochs=1)
    signal.signal(signal.SIGINT, before)


# Files that are not the right ones


def other_rows() -> tuple[Tensor, Tensor]:
    x, y = rows()
    return x.flip(0), y.flip(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 4}, "epochs 3 there and 4 here"),
        ({"batch_size": 4}, "batch_size 5 there and 4 here"),
        ({"objective": Loss(width=7)}, r"net\.0\.weight float32 \(6, 3\) there and .* \(7, 3\)"),
        ({"data": tuple(t[:15] for t in rows())}, "number of rows 20 there and 15 here"),
        ({"data": other_rows()}, "checksum of the data"),
        ({"clip_norm": 1.0}, "clip_norm None there and 1.0 here"),
        ({"optimizer": partial(torch.optim.Adam, lr=0.1, fused=True)}, "lr 0.001 there and 0.1"),
        ({"optimizer": torch.optim.SGD}, "optimizer Adam there and SGD here"),
        ({"schedule": partial(StepLR, step_size=1)}, "schedule NoneType there and StepLR here"),
        ({"generator": torch.Generator()}, "generators 1 there and 2 here"),
    ],
)
def test_a_checkpoint_of_another_run(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "run.pt"
    fit(Loss(), path)
    content = path.read_bytes()
    objective = options.pop("objective", Loss())
    before = [p.detach().clone() for p in objective.parameters()]
    with pytest.raises(dubio.CheckpointError, match=message) as caught:
        fit(objective, path, **options)
    assert str(path) in str(caught.value)
    assert "pass another path, or delete the file to start anew" in str(caught.value)
    assert path.read_bytes() == content
    for parameter, value in zip(objective.parameters(), before, strict=True):
        assert torch.equal(parameter, value)


def test_a_loader_with_fewer_batches_than_were_done(tmp_path: Path) -> None:
    class Batches:
        """An iterable that does not tell its length."""

        def __init__(self, count: int) -> None:
            self.count = count

        def __iter__(self) -> Any:
            x, y = rows()
            return iter([(x, y)] * self.count)

    path = tmp_path / "run.pt"
    with pytest.raises(StoppedError):
        fit(Loss(stop_at=4), path, data=Batches(5), batch_size=None)
    with pytest.raises(ValueError, match="expected more than 3 batches"):
        fit(Loss(), path, data=Batches(2), batch_size=None)


def damaged(content: bytes, how: str) -> bytes:
    middle = len(content) // 2
    return {
        "empty": b"",
        "text": b"hello",
        "truncated": content[:-100],
        "half": content[:middle],
        "one bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "pickle": pickle.dumps({"run": {}}),
    }[how]


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "half", "one bit", "pickle"])
def test_a_damaged_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "run.pt"
    fit(Loss(width=200), path)
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(dubio.CheckpointError, match="cannot be read") as caught:
        fit(Loss(width=200), path)
    assert str(path) in str(caught.value)
    assert "restore a copy, or delete the file to start anew" in str(caught.value)


class Evil:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("echo evil > evil.txt",)


def test_code_in_a_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"run": Evil()}, "run.pt")
    with pytest.raises(dubio.CheckpointError, match="cannot be read"):
        fit(Loss(), Path("run.pt"))
    assert not Path("evil.txt").exists()


@pytest.mark.parametrize("content", [{"weights": torch.zeros(3)}, [1, 2]])
def test_a_file_of_something_else(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "run.pt"
    torch.save(content, path)
    with pytest.raises(dubio.CheckpointError, match="with something else in it; pass another"):
        fit(Loss(), path)


def without(part: str) -> Callable[[dict[str, Any]], object]:
    return lambda state: state.pop(part)


def with_epoch(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda state: state["epoch"].update(values)


ALTERATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"no {part}": without(part) for part in ("objective", "optimizer", "schedule", "history")},
    **{f"no {part}": without(part) for part in ("best", "epoch", "memory")},
    "an epoch of other fields": lambda state: state.update(history=[{"a": 1}]),
    "an epoch of tensors": lambda state: state["history"][0].update(loss=torch.ones(3)),
    "an epoch twice": lambda state: state["history"].append(state["history"][0]),
    "a history of texts": lambda state: state.update(history="abc"),
    "a run of tensors": lambda state: state["run"].update(epochs=torch.ones(3)),
    "other weights": lambda state: state["objective"].update({"net.0.weight": torch.ones(1)}),
    "a weight more": lambda state: state["objective"].update(more=torch.ones(1)),
    "other best weights": lambda state: state["best"].update({"net.0.weight": torch.ones(1)}),
    "another optimizer": lambda state: state["optimizer"].update(param_groups=[]),
    "a schedule that is none": lambda state: state.update(schedule=3),
    "memory that is none": lambda state: state.update(memory=[1]),
    "memory of nothing": lambda state: state["memory"].update(objective={"calls": ("odd", 1)}),
    "a step that is none": with_epoch(step="x"),
    "a negative step": with_epoch(step=-1),
    "a step beyond the end": with_epoch(step=10**9),
    "sums that are none": with_epoch(sums=["x"]),
    "random numbers that are none": with_epoch(random_now={"torch": []}),
    "random numbers of the start that are none": with_epoch(random_at_start=None),
    "random numbers of zeros": with_epoch(random_now={"torch": [torch.zeros(3)]}),
    "no seconds": lambda state: state["epoch"].pop("seconds"),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_file_with_other_content(tmp_path: Path, alteration: str) -> None:
    path = tmp_path / "run.pt"
    options: dict[str, Any] = {
        "schedule": partial(StepLR, step_size=1),
        "validate": lambda: 1.0,
        "patience": 9,
    }
    with pytest.raises(StoppedError):
        fit(Loss(stop_at=7), path, **options)
    state = torch.load(path, weights_only=True)
    ALTERATIONS[alteration](state)
    torch.save(state, path)
    objective = Loss()
    before, drawn = copy.deepcopy(objective.state_dict()), torch.get_rng_state()
    with pytest.raises(dubio.CheckpointError, match=r"run\.pt") as caught:
        fit(objective, path, **options)
    assert "to start anew" in str(caught.value)
    assert all(torch.equal(value, before[k]) for k, value in objective.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link, place = tmp_path / "run.pt", tmp_path / "disk" / "deep" / "run.pt"
    link.symlink_to(place)
    with pytest.raises(StoppedError):
        fit(Loss(stop_at=7), link)
    assert link.is_symlink()
    assert place.is_file()
    fit(Loss(), place)  # goes on
    again = Loss()
    fit(again, link)
    assert again.calls == 0
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deep", "disk", "run.pt", "run.pt"]


@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_is_not_replaced(
    tmp_path: Path, kind: str, through_a_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    place = Path("place")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    path = place
    if through_a_link:
        path = Path("link")
        path.symlink_to(place)
    mode, objective = place.stat().st_mode, Loss()
    with pytest.raises(dubio.CheckpointError, match="which is a device, a pipe or a socket; pass"):
        fit(objective, path)
    assert place.stat().st_mode == mode
    assert objective.calls == 0


@pytest.mark.parametrize("name", ["a\0b.pt", "\ud800.pt"])
def test_a_path_that_no_system_has(tmp_path: Path, name: str) -> None:
    with pytest.raises(dubio.CheckpointError, match="checkpoint: expected a path, got"):
        fit(Loss(), tmp_path / name)


def test_state_that_could_not_be_loaded_again_is_refused_at_once(tmp_path: Path) -> None:
    class Extra(Loss):
        def get_extra_state(self) -> Any:
            return Evil

        def set_extra_state(self, state: Any) -> None:
            pass

    objective = Extra()
    with pytest.raises(dubio.CheckpointError, match="leave it out of get_extra_state"):
        fit(objective, tmp_path / "run.pt")
    assert objective.calls == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("late", [1, 3])
def test_state_of_the_optimizer_that_could_not_be_loaded_again(tmp_path: Path, late: int) -> None:
    class Odd(torch.optim.SGD):
        calls = 0

        def step(self, closure: Any = None) -> Any:
            super().step()
            self.calls += 1
            if self.calls == late:
                for p in self.param_groups[0]["params"]:
                    self.state[p]["odd"] = Evil

    objective = Loss()
    with pytest.raises(dubio.CheckpointError, match="and of the optimizer's state"):
        fit(objective, tmp_path / "run.pt", optimizer=Odd)
    assert objective.calls == late
    torch.load(tmp_path / "run.pt", weights_only=True)  # that of the step before is whole


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    objective = Loss()
    with pytest.raises(dubio.CheckpointError, match="pass a path in a folder with room") as caught:
        fit(objective, tmp_path / "file" / "run.pt")
    assert str(tmp_path / "file" / "run.pt") in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(dubio.CheckpointError, match="pass a path in a folder with room"):
        fit(objective, tmp_path)  # a folder itself
    assert objective.calls == 0


def test_a_full_disk_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.pt"
    torch.manual_seed(0)
    expected = Loss()
    fit(expected, tmp_path / "whole.pt")
    calls = 0
    fsync = os.fsync

    def full(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 7:  # the fourth save: each forces the file and the folder to the disk
            raise OSError(28, "No space left on device")
        fsync(file)

    monkeypatch.setattr(checkpoint_module.os, "fsync", full)
    torch.manual_seed(0)
    with pytest.raises(dubio.CheckpointError, match="No space left on device"):
        fit(Loss(), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.pt", "whole.pt"]
    resumed = Loss()
    fit(resumed, path)
    assert resumed.calls == 12 - 2
    assert_equal_weights(resumed, expected)


def test_loaders_are_told_apart_by_their_sizes(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    data = TensorDataset(*rows())
    fit(Loss(), path, data=DataLoader(data, 5, shuffle=True), batch_size=None)
    with pytest.raises(dubio.CheckpointError, match="batches 4 there and 5 here"):
        fit(Loss(), path, data=DataLoader(data, 4, shuffle=True), batch_size=None)
