"""What a prepared predictor must notice: values that Python reads, and code that changes."""

from collections import deque, namedtuple
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dubio

SCALE = 1.0
QUEUE = deque([2.0])
Pair = namedtuple("Pair", "a b")


class Before(nn.Module):
    """A function of the inputs before a dropout."""

    def __init__(self, function: Callable[["Before", Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.dropout = nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("shift", torch.tensor(1.0))
        self.settings = {"training": True}
        self.sizes: tuple[float, ...] = (1,)
        self.pair = Pair(1.0, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.function(self, x))


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x * SCALE)


READERS: dict[str, Callable[[Before, Tensor], Tensor]] = {
    "tensor": lambda net, x: x * torch.tensor([x[0, 0], 1.0]).sum(),
    "nested": lambda net, x: x * torch.tensor([[x[0, 0]], [1.0]]).sum(),
    "as_tensor": lambda net, x: x * torch.as_tensor([x[0, 0], 1.0]).sum(),
    "asarray": lambda net, x: x * torch.asarray([x[0, 0], 1.0]).sum(),
    "FloatTensor": lambda net, x: x * torch.FloatTensor([x[0, 0], 1.0]).sum(),
    "Tensor": lambda net, x: x * torch.Tensor([x[0, 0], 1.0]).sum(),
    "new_tensor": lambda net, x: x * x.new_tensor([x[0, 0], 1.0]).sum(),
    "new": lambda net, x: x * x.new([x[0, 0], 1.0]).sum(),
    "repr": lambda net, x: x * len(repr(x)),
    "str": lambda net, x: x * len(str(x[0, 0])),
    "item": lambda net, x: x * x[0, 0].item(),
}


def assert_as_predict(predictor: dubio.Predictor, network: nn.Module, x: Tensor) -> None:
    seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
    expected = dubio.predict(network, x, draws=3, generator=seeds[0]).draws
    torch.testing.assert_close(predictor(x, seeds[1]).draws, expected)


@pytest.mark.parametrize("name", READERS)
def test_values_that_python_reads(name: str) -> None:
    network = Before(READERS[name])
    predictor = dubio.Predictor(network, draws=3)
    predictor(torch.ones(2, 4))
    assert_as_predict(predictor, network, torch.full((2, 4), 512.5))


def test_a_tensor_of_plain_numbers_is_recorded() -> None:
    network = Before(lambda net, x: x * torch.tensor([2.0, 1.0]).sum())
    predictor = dubio.Predictor(network, draws=3)
    predictor(torch.ones(2, 4))
    assert len(predictor._prepared._recordings) == 1
    assert_as_predict(predictor, network, torch.full((2, 4), 2.0))


def change_buffer(net: Before) -> None:
    net.shift.add_(3)


CHANGES: dict[
    str, tuple[Callable[[Before, Tensor], Tensor], Callable[[Before], object]]
] = {
    "a buffer in a list": (
        lambda net, x: x * torch.tensor([net.shift, net.shift]).sum(), change_buffer,
    ),
    "a key called training": (
        lambda net, x: x * (2 if net.settings["training"] else 7),
        lambda net: net.settings.update(training=False),
    ),
    "an int that becomes a float": (
        lambda net, x: x * (3 if isinstance(net.sizes[0], int) else 5),
        lambda net: setattr(net, "sizes", (1.0,)),
    ),
    "gradients": (
        lambda net, x: x * (net.scale if net.scale.requires_grad else 7),
        lambda net: net.scale.requires_grad_(False),
    ),
    "a named tuple": (
        lambda net, x: x * net.pair.a, lambda net: setattr(net, "pair", Pair(4.0, 2.0)),
    ),
    "a queue among globals": (
        lambda net, x: x * QUEUE[0], lambda net: QUEUE.__setitem__(0, QUEUE[0] + 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    function, change = CHANGES[name]
    network, x = Before(function), torch.ones(2, 4)
    predictor = dubio.Predictor(network, draws=3)
    predictor(x)
    assert_as_predict(predictor, network, x)
    change(network)
    assert_as_predict(predictor, network, x)


def test_globals_behind_a_decorator_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = Decorated(), torch.ones(2, 4)
    predictor = dubio.Predictor(network, draws=3)
    predictor(x)
    monkeypatch.setitem(globals(), "SCALE", 9.0)
    assert_as_predict(predictor, network, x)


def test_noise_and_generator_together_are_refused() -> None:
    network, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.ones(2, 4)
    predictor = dubio.Predictor(network, draws=3)
    with pytest.raises(ValueError, match="got both"):
        predictor(x, torch.Generator(), noise=predictor.noise(x))


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(TypeError, match=r"model: expected an nn\.Module or a function, got int"):
        dubio.Predictor(3)  # type: ignore[arg-type]


def test_weights_that_are_not_there_yet_are_refused() -> None:
    lazy = nn.Sequential(nn.LazyLinear(8), nn.Dropout(0.3))
    with pytest.raises(ValueError, match=r"0 \(LazyLinear\), which has none yet; call it"):
        dubio.predict(lazy, torch.ones(2, 4))


class Lazy(dict[str, float]):
    """Entries that are made when they are asked for, as by lazy imports."""

    def values(self) -> object:  # type: ignore[override]
        raise RuntimeError("expected nobody to ask")


def test_code_of_containers_is_not_run() -> None:
    net = Before(lambda _, x: x)
    net.lazy = Lazy(a=1.0)  # type: ignore[assignment]
    x = torch.randn(4, 3)
    predictor = dubio.Predictor(net, draws=3)
    assert torch.equal(predictor(x, 0).draws, dubio.predict(net, x, draws=3, generator=0).draws)
    net.lazy["a"] = 2.0  # type: ignore[index, operator]
    assert torch.equal(predictor(x, 0).draws, dubio.predict(net, x, draws=3, generator=0).draws)
