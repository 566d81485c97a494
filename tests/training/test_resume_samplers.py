"""Runs that go on bit for bit, whatever holds the random numbers and the order of their data.

Where that cannot be, it is said before the first step.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

import dubio

ROWS, BATCH, EPOCHS = 14, 3, 3
STEPS = EPOCHS * 5


class StoppedError(Exception):
    """The end of a run that is to be gone on with."""


class Loss(nn.Module):
    """Squared error; notes the inputs that it sees, and stops at some call if told to."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 1)
        self.seen: list[Tensor] = []
        self.stop_at = stop_at

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if len(self.seen) + 1 == self.stop_at:
            raise StoppedError
        self.seen.append(x.clone())
        return F.mse_loss(self.net(x), y)


def rows() -> TensorDataset:
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, x.sum(1, keepdim=True))


def torch_seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


class Order(Sampler[int]):
    """A permutation by a function, which may hold anything."""

    def __init__(self, permute: Callable[[], list[int]]) -> None:
        self.permute = permute

    def __iter__(self) -> Iterator[int]:
        return iter(self.permute())

    def __len__(self) -> int:
        return ROWS


class TorchOrder(Sampler[int]):
    def __init__(self) -> None:
        self.source = {"deep": [torch_seeded()]}

    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(ROWS, generator=self.source["deep"][0]).tolist()

    def __len__(self) -> int:
        return ROWS


class Slotted(Sampler[int]):
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rng.permutation(ROWS).tolist())

    def __len__(self) -> int:
        return ROWS


class Batches(Sampler[list[int]]):
    """A batch sampler that holds the generator, of batches in random order too."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(ROWS))
        self.rng.shuffle(order)
        batches = [order[k : k + BATCH] for k in range(0, ROWS, BATCH)]
        self.rng.shuffle(batches)
        return iter(batches)

    def __len__(self) -> int:
        return 5


class Counting(Sampler[int]):
    """Its seed is the number of the epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter(np.random.default_rng(self.epoch).permutation(ROWS).tolist())

    def __len__(self) -> int:
        return ROWS


class Shuffling(Sampler[int]):
    """Shuffles one list, array or tensor further and further."""

    def __init__(self, kind: Callable[[list[int]], Any]) -> None:
        self.order = kind(list(range(ROWS)))
        self.rng = np.random.default_rng(2)

    def __iter__(self) -> Iterator[int]:
        if isinstance(self.order, Tensor):
            self.order = self.order[torch.from_numpy(self.rng.permutation(ROWS))]
        else:
            self.rng.shuffle(self.order)
        return iter([int(k) for k in self.order])

    def __len__(self) -> int:
        return ROWS


_AT_THE_TOP = np.random.default_rng(11)


class FromAround(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(_AT_THE_TOP.permutation(ROWS).tolist())

    def __len__(self) -> int:
        return ROWS


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Rows with noise of its own generators."""

    def __init__(self) -> None:
        self.rows = rows()
        self.torch, self.numpy = torch_seeded(), np.random.default_rng(1)
        self.python, self.legacy = random.Random(2), np.random.RandomState(4)

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, y = self.rows[index]
        noise = torch.rand(3, generator=self.torch)
        others = self.numpy.random() + self.python.random() + self.legacy.rand()
        return x + noise + others, y


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.rows, self.rng = rows(), random.Random(1)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = list(range(ROWS))
        self.rng.shuffle(order)
        return (self.rows[k] for k in order)


class Own:
    """An iterable that is no loader."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(8)
        self.rounds = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.rounds += 1
        x, y = rows().tensors
        for part in np.array_split(self.rng.permutation(ROWS), 5):
            yield x[part] * self.rounds, y[part]


def collating(rng: np.random.Generator) -> Callable[[Any], Any]:
    def collate(batch: Any) -> Any:
        x, y = default_collate(batch)
        return x + rng.random(), y

    return collate


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(options.pop("data", rows()), **options)


def sampled(sampler: Sampler[int]) -> DataLoader[Any]:
    return loader(batch_size=BATCH, sampler=sampler)


def batched(sampler: Any) -> DataLoader[Any]:
    return loader(batch_sampler=sampler)


DATA: dict[str, Callable[[], Any]] = {
    "generator of the loader": lambda: loader(
        batch_size=BATCH, shuffle=True, generator=torch_seeded()
    ),
    "sampler": lambda: sampled(RandomSampler(rows(), generator=torch_seeded())),
    "weights": lambda: sampled(
        WeightedRandomSampler([1.0 + k for k in range(ROWS)], ROWS, generator=torch_seeded())
    ),
    "subset sampler": lambda: sampled(SubsetRandomSampler(range(ROWS), generator=torch_seeded())),
    "sampler in a batch sampler": lambda: batched(
        BatchSampler(RandomSampler(rows(), generator=torch_seeded()), BATCH, drop_last=False)
    ),
    "deep in a batch sampler": lambda: batched(BatchSampler(TorchOrder(), BATCH, False)),
    "batch sampler of numpy": lambda: batched(Batches(np.random.default_rng(4))),
    "batch sampler of numpy's past": lambda: batched(Batches(np.random.RandomState(4))),
    "batch sampler of Python": lambda: batched(Batches(random.Random(4))),
    "slots": lambda: sampled(Slotted()),
    "counter": lambda: sampled(Counting()),
    "list": lambda: sampled(Shuffling(list)),
    "array": lambda: sampled(Shuffling(np.array)),
    "tensor": lambda: sampled(Shuffling(torch.tensor)),
    "global of the module": lambda: sampled(FromAround()),
    "closure": lambda: sampled(Order(permuting(np.random.default_rng(6)))),
    "partial": lambda: sampled(Order(partial(permutation, random.Random(6)))),
    "method": lambda: sampled(Order(Slotted().__iter__)),  # type: ignore[arg-type]
    "data set": lambda: loader(data=Noisy(), batch_size=BATCH, shuffle=True),
    "part of a data set": lambda: loader(data=Subset(Noisy(), range(ROWS)), batch_size=BATCH),
    "workers": lambda: loader(
        data=Noisy(), batch_sampler=Batches(random.Random(4)), num_workers=2,
        multiprocessing_context="fork",
    ),
    "stream": lambda: loader(data=Stream(), batch_size=BATCH),
    "collate": lambda: loader(batch_size=BATCH, collate_fn=collating(np.random.default_rng(2))),
    "own iterable": Own,
}  # fmt: skip


def permuting(rng: np.random.Generator) -> Callable[[], list[int]]:
    return lambda: rng.permutation(ROWS).tolist()


def permutation(rng: random.Random) -> list[int]:
    return rng.sample(range(ROWS), ROWS)


def fit(objective: nn.Module, data: Any, path: Path | None) -> dubio.History:
    global_seeds(3)
    _AT_THE_TOP.bit_generator.state = np.random.default_rng(11).bit_generator.state
    return dubio.fit(objective, data, epochs=EPOCHS, checkpoint=path, save_every=0.0)


def global_seeds(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@pytest.mark.parametrize("case", DATA)
def test_it_goes_on_bit_for_bit(case: str, tmp_path: Path) -> None:
    """At the start, between epochs and inside of one, with fresh objects as in a new process."""
    expected = Loss()
    history = fit(expected, DATA[case](), None)
    assert len(expected.seen) == STEPS
    for stop_at in (1, 6, 8) if case != "workers" else (8,):
        path = tmp_path / f"{stop_at}.pt"
        first, second = Loss(stop_at), Loss()
        with pytest.raises(StoppedError):
            fit(first, DATA[case](), path)
        assert fit(second, DATA[case](), path) == history, stop_at
        assert all(map(torch.equal, first.seen, expected.seen)), stop_at
        assert all(map(torch.equal, second.seen, expected.seen)), (
            stop_at
        )  # what first has seen, too
        assert len(second.seen) == STEPS
        assert torch.equal(second.net.weight, expected.net.weight)


@pytest.mark.parametrize("case", ["counter", "list", "own iterable", "sampler in a batch sampler"])
def test_with_the_objects_of_the_interrupted_run(case: str, tmp_path: Path) -> None:
    """As in a notebook; also if it is interrupted before its first epoch was saved."""
    expected = Loss()
    history = fit(expected, DATA[case](), None)
    for stop_at, every in ((7, 0.0), (14, 0.0), (7, 1e9), (14, 1e9)):
        path, data = tmp_path / f"{stop_at} {every}.pt", DATA[case]()
        with pytest.raises(StoppedError):
            dubio.fit(Loss(stop_at), data, epochs=EPOCHS, checkpoint=path, save_every=every)
        second = Loss()
        assert fit(second, data, path) == history
        assert torch.equal(second.net.weight, expected.net.weight)


@pytest.mark.parametrize("case", DATA)
def test_a_checkpoint_does_not_change_the_run(case: str, tmp_path: Path) -> None:
    expected, found = Loss(), Loss()
    fit(expected, DATA[case](), None)
    fit(found, DATA[case](), tmp_path / "run.pt")
    assert all(map(torch.equal, found.seen, expected.seen))


class Unseen(Sampler[int]):
    """Its random numbers come from the operating system."""

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(ROWS), key=lambda _: os.urandom(4)))

    def __len__(self) -> int:
        return ROWS


UNSEEN: dict[str, Callable[[], Any]] = {
    "sampler": lambda: sampled(Unseen()),
    "sampler, with workers": lambda: loader(
        batch_size=BATCH, sampler=Unseen(), num_workers=1, multiprocessing_context="fork"
    ),
    "SystemRandom": lambda: batched(Batches(random.SystemRandom())),
    "collate": lambda: loader(
        batch_size=BATCH,
        collate_fn=lambda b: (default_collate(b)[0] + os.urandom(1)[0], default_collate(b)[1]),
    ),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_what_cannot_go_on_says_so_before_the_first_step(case: str, tmp_path: Path) -> None:
    message = "cannot be resumed exactly: the data draw"
    with pytest.warns(RuntimeWarning, match=message), pytest.raises(StoppedError):
        fit(Loss(1), UNSEEN[case](), tmp_path / "run.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(Loss(), UNSEEN[case](), None)  # who does not save needs not know


def test_workers_with_a_past(tmp_path: Path) -> None:
    data = loader(
        batch_size=BATCH, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    with pytest.warns(RuntimeWarning, match="expected persistent_workers=False, got True"):
        fit(Loss(), data, tmp_path / "run.pt")


def test_a_run_that_goes_on_with_other_batches_says_so(tmp_path: Path) -> None:
    """The order was not that of the random numbers after all."""
    path = tmp_path / "run.pt"
    with pytest.raises(StoppedError):
        fit(Loss(7), DATA["sampler"](), path)
    x, y = rows().tensors
    sampler = RandomSampler(rows(), generator=torch_seeded())
    other = DataLoader(TensorDataset(x + 1, y), BATCH, sampler=sampler)
    with pytest.warns(RuntimeWarning, match="expected the same batches as before, got others"):
        fit(Loss(), other, path)


def test_data_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    with pytest.raises(StoppedError):
        fit(Loss(7), sampled(Counting()), path)
    other = sampled(Order(partial(list, range(ROWS))))
    with pytest.raises(dubio.CheckpointError, match="got none that is sampler Counting 1"):
        fit(Loss(), other, path)


def test_settings_of_samplers_are_not_overwritten(tmp_path: Path) -> None:
    """Only what has moved is put back."""

    class Some(Own):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            return ((self.scale * x, y) for x, y in super().__iter__())

    path = tmp_path / "run.pt"
    with pytest.raises(StoppedError):
        fit(Loss(6), Some(1.0), path)
    data = Some(2.0)
    with pytest.warns(RuntimeWarning, match="got others"):
        fit(Loss(), data, path)
    assert data.scale == 2.0
    assert data.rounds == EPOCHS
