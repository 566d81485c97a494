"""Devices other than the CPU, as far as a CPU can tell; `make device` has the rest."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.draws.surroundings import fed
from dubio.noise import float64, generators
from dubio.noise.autocast import Autocast
from dubio.noise.inputs import all_moved, home_of, moved
from dubio.noise.numbers import Numbers

META = torch.device("meta")


class _AskedError(Exception):
    """Says for which device a generator was wanted; nothing is drawn there."""


@pytest.fixture(autouse=True)
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(device: torch.device | str) -> torch.Generator:
        if torch.device(device).type != "cpu":
            raise _AskedError(str(device))
        return torch.Generator()

    monkeypatch.setattr(generators, "on", on)


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(x.shape, device=x.device),
    "randint": lambda x: torch.randint(3, x.shape, device=x.device),
    "normal_": lambda x: torch.empty_like(x).normal_(),
    "normal": lambda x: torch.normal(x, 1.0),
    "bernoulli": lambda x: torch.bernoulli(x),
    "out": lambda x: torch.rand(x.shape, out=torch.empty_like(x)),
}


@pytest.mark.parametrize("way", WAYS)
def test_random_numbers_come_from_a_generator_of_their_device(way: str) -> None:
    x = torch.zeros(3, 2000, device=META)
    with dubio.Noise(generator=0), pytest.raises(_AskedError, match="meta"):
        WAYS[way](x)


def test_masks_are_made_on_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """From counters, by operations of torch: no generator is asked, and nothing is copied there."""
    monkeypatch.setattr(Tensor, "to", lambda x, *to: x.new_empty(x.shape, dtype=to[0]))
    monkeypatch.setattr(Tensor, "cpu", None)
    x = torch.zeros(3, 2000, device=META)
    with dubio.Noise(generator=0):
        assert nn.functional.dropout(x, 0.5).device == META
        assert nn.functional.alpha_dropout(x, 0.5, training=True).device == META


def test_new_random_numbers_are_those_of_the_default_device() -> None:
    with torch.device(META), dubio.Noise(generator=0), pytest.raises(_AskedError, match="meta"):
        torch.rand(3)


def test_copies_to_the_cpu_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(
        Tensor, "to", lambda x, device, non_blocking=False: seen.append(non_blocking) or x
    )
    moved(torch.zeros(2), META)
    moved(torch.zeros(2, device=META), torch.device("cpu"))
    moved(torch.zeros(2), torch.device("cpu"))
    assert seen == [True, False]


def test_batches_of_a_stream_move_with_everything_in_them() -> None:
    batch = {"x": torch.zeros(2), "more": [torch.zeros(3), "text"], "none": None}
    there = all_moved(batch, META)
    assert there["x"].device == there["more"][0].device == META
    assert there["more"][1] == "text"
    assert all_moved(batch, torch.device("cpu")) is batch
    assert home_of(nn.Linear(2, 2, device=META)) == META
    assert home_of(lambda x: x) is None


def test_a_batch_by_itself_is_not_moved() -> None:
    network = nn.Sequential(nn.Linear(2, 2, device=META), nn.Dropout())
    with pytest.raises(ValueError, match="x: expected a tensor on meta, where the network is"):
        dubio.predict(network, torch.zeros(3, 2))
    elbo = dubio.ELBO(network, dubio.likelihoods.Categorical(), 3)
    with pytest.raises(ValueError, match="x: expected a tensor on meta, where the network is"):
        elbo(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long))


def test_global_generators_of_an_accelerator_are_fed_and_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_device = torch.Generator().manual_seed(3)
    module = SimpleNamespace(default_generators=(of_device,), is_initialized=lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    before = of_device.get_state()
    with generators.unmoved():
        torch.rand(3, generator=of_device)
        torch.rand(3)
    assert torch.equal(of_device.get_state(), before)

    numbers, drawn = Numbers(5, range(1), shared=False), []
    for _ in range(2):
        with fed(numbers):
            drawn.append((torch.rand(3, generator=of_device), torch.rand(3)))
        assert torch.equal(of_device.get_state(), before)
    torch.testing.assert_close(drawn[0], drawn[1])
    module.is_initialized = lambda: False  # and nobody wakes it
    assert generators.global_generators() == [torch.default_generator]


def test_autocast_is_remembered_by_kind_of_device() -> None:
    assert Autocast.now() == Autocast()
    with torch.autocast("cpu", torch.bfloat16):
        now = Autocast.now()
        with Autocast().again():
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")
    assert now == Autocast((("cpu", torch.bfloat16),))
    with now.again():
        assert Autocast.now() == now
    torch.set_autocast_enabled("cuda", True)
    try:
        assert Autocast.now() == Autocast((("cuda", torch.get_autocast_dtype("cuda")),))
        with Autocast().again():
            assert not torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_devices_without_float64_leave_it_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not float64.has_float64(torch.device("mps"))
    assert float64.has_float64(torch.device("cuda"))
    monkeypatch.setattr(float64, "_WITHOUT", frozenset({"meta"}))
    assert float64.placed(torch.zeros(2, dtype=torch.float64), META).dtype == torch.float32
    assert float64.in_float64(torch.zeros(2)).dtype == torch.float64
    scaling = dubio.calibrate.TemperatureScaling().to(META)
    assert scaling.temperature.device.type == "cpu"
