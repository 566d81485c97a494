"""Concatenations whose parts are kept apart: what plain passes give, with less work."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import dubio
from concatenating_networks import JOINED, SPLIT, build
from dubio.draws import tape
from dubio.draws.steps import Call
from references import passes, seeded

ALL = SPLIT | JOINED
CONVOLUTION, LINEAR = torch.ops.aten.convolution.default, nn.functional.linear
DRAWS = 3


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Convolutions and linear layers on tapes: whether they are computed once, and of how much."""
    found: list[tuple[bool, int]] = []
    split_concatenations = tape.split_concatenations

    def spy(*args: Any) -> Sequence[Any]:
        steps = split_concatenations(*args)
        for step in steps:
            if isinstance(step, Call) and step.function in (CONVOLUTION, LINEAR):
                shape = step.arguments.args[0].shape
                found.append((step.fixed, shape[1 if step.function is CONVOLUTION else -1]))
        return steps

    monkeypatch.setattr(tape, "split_concatenations", spy)
    return found


@pytest.fixture(autouse=True)
def _tapes_repeat(caplog: pytest.LogCaptureFixture) -> Any:
    """No tape differs from its network, which would be logged and then computed pass by pass."""
    yield
    assert not [
        record for record in caplog.get_records("call") if record.levelno >= logging.WARNING
    ]


def draw(network: nn.Module, x: Tensor, **options: Any) -> Tensor:
    return dubio.predict(network, x.clone(), draws=DRAWS, generator=seeded(3), **options).draws


def plain(network: nn.Module, x: Tensor, *, shared: bool = False) -> Tensor:
    return passes(network, x, dubio.Noise(DRAWS, shared=shared, generator=seeded(3)))


def check(draws: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    assert len(torch.unique(expected, dim=0)) == DRAWS
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(draws, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", ALL)
def test_draws_are_those_of_plain_passes(name: str, sums: list[tuple[bool, int]]) -> None:
    network, x = build(ALL[name])
    check(draw(network, x), plain(network, x))
    assert any(once for once, _ in sums) == (name in SPLIT)


@pytest.mark.parametrize("name", ALL)
def test_a_predictor_gives_the_same_for_other_inputs_and_weights(name: str) -> None:
    network, x = build(ALL[name])
    predictor = dubio.Predictor(network, draws=DRAWS, chunk=2)
    check(predictor(x, seeded(3)).draws, plain(network, x))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.9)
    check(predictor(x - 1, seeded(3)).draws, plain(network, x - 1))


@pytest.mark.parametrize("name", ["dense block", "linear", "many pieces", "along the width"])
def test_shared_noise(name: str) -> None:
    network, x = build(ALL[name])
    check(draw(network, x, shared=True), plain(network, x, shared=True))


@pytest.mark.parametrize("name", ["dense block", "transposed", "many pieces", "grouped"])
def test_double_precision(name: str) -> None:
    network, x = build(ALL[name], torch.float64)
    check(draw(network, x), plain(network, x), 1e-13)


@pytest.mark.parametrize("name", ["dense block", "transposed", "linear", "many pieces"])
def test_mixed_precision(name: str) -> None:
    network, x = build(ALL[name])
    with torch.autocast("cpu", torch.bfloat16):
        draws, expected = draw(network, x), plain(network, x)
    assert draws.dtype == expected.dtype
    check(draws, expected, 2**-6)  # numbers of bfloat16 have eight bits


@pytest.mark.parametrize("name", ["dense block", "transposed", "used whole as well"])
def test_channels_last(name: str) -> None:
    network, x = build(ALL[name])
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = x.to(memory_format=torch.channels_last)
    check(draw(network, x), plain(network, x))


@pytest.mark.parametrize("drop", [nn.Dropout2d(0.4), nn.AlphaDropout(0.4), nn.Dropout(0.4, True)])
def test_other_noise(drop: nn.Module) -> None:
    network, x = build(ALL["dense block"])
    network.drop = drop.eval()
    check(draw(network, x), plain(network, x))


def test_channels_of_a_dense_block(sums: list[tuple[bool, int]]) -> None:
    """Layers read 7, 9 and 11 channels, the head 13; four of each are the skip connection."""
    network, x = build(SPLIT["dense block"])
    draw(network, x)
    assert [channels for once, channels in sums if not once] == [3, 5, 7, 9]
    assert [channels for once, channels in sums if once] == [4, 4, 4, 4]


def test_what_draws_share_is_computed_once_for_all_chunks() -> None:
    network, x = build(SPLIT["u net"])
    draw(network, x)  # after which the tape is trusted
    channels: list[int] = []

    class Note(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # torch would import its compiler

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is CONVOLUTION:
                channels.append(args[0].shape[1])
            return func(*args, **(kwargs or {}))

    with Note():
        draw(network, x, chunk=1)
    recorded, once, later = [2, 4, 7], [4], [3] * (DRAWS - 1)
    assert channels == recorded + once + later
