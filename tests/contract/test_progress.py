"""The progress bar: on a terminal, when the work is long; silent otherwise."""

import io
import os
import sys
from collections.abc import Iterator
from itertools import count
from select import select
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
import dubio.report.progress
from networks import build, mlp


class Terminal(io.StringIO):
    """Text that passes for a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every step takes two seconds."""
    seconds = count(step=2)
    monkeypatch.setattr(
        dubio.report.progress, "time", SimpleNamespace(monotonic=lambda: float(next(seconds)))
    )


@pytest.mark.usefixtures("clock")
def test_a_bar_shows_on_a_terminal_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, terminal = os.openpty()
    network, x = build("mlp", 12)
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        loader = DataLoader(TensorDataset(x), batch_size=4)
        dubio.predict(network, loader, draws=10, chunk=3)
        monkeypatch.undo()
        written = b""
        while select([reader], [], [], 1.0)[0]:  # it may come in pieces
            written += os.read(reader, 100_000)
    os.close(reader)
    shown = written.decode()
    assert shown.count("predict") == 12  # four chunks of three batches
    assert "100%" in shown
    assert shown.endswith("\r\x1b[2K")
    assert "\n" not in shown


@pytest.mark.usefixtures("clock")
def test_batches_of_unknown_number_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = build("mlp")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    dubio.predict(network, (x for _ in range(3)), draws=10)
    assert "predict 30 [" in stream.getvalue()
    assert "%" not in stream.getvalue()


@pytest.mark.usefixtures("clock")
def test_it_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = build("mlp")
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    dubio.predict(network, DataLoader(TensorDataset(x)), draws=10, chunk=1)
    assert not stream.getvalue()


@pytest.mark.usefixtures("clock")
def test_the_bar_goes_away_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches() -> Iterator[Tensor]:
        yield torch.ones(2, 6)
        raise OSError("the disk is gone")

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(OSError, match="the disk is gone"):
        dubio.predict(mlp(), batches(), draws=10)
    assert "predict" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


class Mean(nn.Module):
    """A loss that stays what the targets are."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y.mean() + 0 * self.weight


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("progress", [True, False])
def test_training_shows_epoch_and_loss(monkeypatch: pytest.MonkeyPatch, progress: bool) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    data = torch.zeros(8, 1), torch.full((8,), 0.25)
    dubio.fit(Mean(), data, epochs=2, batch_size=4, progress=progress)
    lines = stream.getvalue().split("\r\x1b[2K")[1:-1]
    assert len(lines) == (4 if progress else 0)
    for line, share, epoch in zip(lines, (25, 50, 75, 100), (1, 1, 2, 2), strict=False):
        assert line.startswith("fit ━")
        assert f"{share}% [" in line
        assert line.endswith(f"] epoch {epoch}/2, loss 0.25")


def test_short_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    tenths = count(step=2)
    monkeypatch.setattr(
        dubio.report.progress, "time", SimpleNamespace(monotonic=lambda: next(tenths) / 10)
    )
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    dubio.predict(nn.Dropout(0.5), torch.ones(2, 3), draws=4, chunk=1)
    assert next(tenths) == 10  # five looks at the clock, and less than a second gone by
    assert not stream.getvalue()
