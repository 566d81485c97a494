"""Bias, ReLU and dropout in one pass, and matrices cut down to kept units, against torch."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.draws.activated import ActivatedLinear
from dubio.draws.masked_layers import MaskedRun
from dubio.draws.steps import Perturb
from dubio.draws.tape import Tape
from dubio.native.layers import KeptUnits, activate, cut
from dubio.native.library import LEVELS, LOADED
from dubio.native.stream import Stream

pytestmark = pytest.mark.skipif(LOADED is None, reason="there are no compiled kernels")


@pytest.fixture(params=range(len(LEVELS)), ids=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each level of instructions; one that the processor has not is the best that it has."""
    assert LOADED is not None
    before = LOADED.dubio_level()
    LOADED.dubio_use_level(request.param)
    yield
    LOADED.dubio_use_level(before)


def some(units: int, keep: float = 0.6) -> KeptUnits:
    mask = (torch.rand(units) < keep).float()
    return KeptUnits(mask, int(mask.sum()))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("shape", [(1, 1), (5, 16), (37, 13), (128, 784), (3, 33), (200, 32)])
def test_a_matrix_is_cut_to_rows_and_columns(shape: tuple[int, int]) -> None:
    whole = torch.randn(shape[0], shape[1] + 3)
    matrix = whole[:, : shape[1]]  # with a stride of its own
    rows, columns = some(shape[0]), some(shape[1])
    expected = matrix[rows.mask > 0][:, columns.mask > 0] * 1.5
    assert torch.equal(cut(matrix, rows, columns, 1.5), expected)
    assert torch.equal(cut(matrix, rows, None, 1.5), matrix[rows.mask > 0] * 1.5)
    assert torch.equal(cut(matrix, None, columns), matrix[:, columns.mask > 0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_cut_matrix_is_of_float32_whatever_is_the_default(dtype: torch.dtype) -> None:
    matrix, columns = torch.randn(40, 50), some(50)
    torch.set_default_dtype(dtype)
    try:
        found = cut(matrix, None, columns)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, matrix[:, columns.mask > 0])


def test_a_matrix_with_gaps_in_its_rows_is_cut() -> None:
    rows, columns = some(20), some(30)
    for matrix in (
        torch.randn(30, 20).t(),
        torch.randn(20, 60)[:, ::2],
        torch.randn(1).expand(20, 30),
    ):
        expected = matrix[rows.mask > 0][:, columns.mask > 0]
        assert torch.equal(cut(matrix, rows, columns), expected)


def test_the_default_device_does_not_matter() -> None:
    net, x = (
        nn.Sequential(nn.Linear(5, 30), nn.ReLU(), nn.Dropout(), nn.Linear(30, 2)),
        torch.randn(4, 5),
    )
    masked = nn.Sequential(
        nn.Linear(5, 30), dubio.Masked(nn.Linear(30, 2), dubio.masks.Bernoulli(30))
    )
    bayes = dubio.BayesLinear(5, 2)
    for model in (net, masked, bayes):
        expected = dubio.predict(model, x, draws=3, generator=0).draws
        generator = torch.Generator("cpu").manual_seed(0)
        with torch.device("meta"):
            found = dubio.predict(model, x, draws=3, generator=generator).draws
        assert torch.equal(found, expected)


def test_nothing_is_left_of_a_matrix_without_units() -> None:
    none = KeptUnits(torch.zeros(7), 0)
    assert cut(torch.randn(5, 7), None, none).shape == (5, 0)
    assert cut(torch.randn(7, 5), none, None).shape == (0, 5)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 5, 7), (3, 40, 400), (4, 1, 1024), (2, 3, 1025)])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_bias_relu_and_dropout(shape: tuple[int, int, int], relu: bool, biased: bool) -> None:
    x, bias = torch.randn(shape), torch.randn(shape[-1]) if biased else None
    stream = Stream(11, 5, shape[0])
    expected = x.clone() if bias is None else x + bias
    expected = expected.relu() if relu else expected
    plain = x.clone()
    activate(plain, bias, relu=relu)
    assert torch.equal(plain, expected)
    activate(x, bias, relu=relu, dropout=(stream, 0.7, 1 / 0.7))
    mask = stream.bernoulli(0.7, torch.Size(shape[1:]), x)
    torch.testing.assert_close(x, expected * mask / 0.7)


def test_what_is_not_a_number_stays_none() -> None:
    x = torch.tensor([[float("nan"), -1.0, float("inf")]])
    activate(x, None, relu=True)
    assert x[0, 0].isnan()
    assert x[0, 1:].tolist() == [0.0, float("inf")]


class Noted(nn.Module):
    """A network in which the dropout's input is read twice, or not."""

    def __init__(self, twice: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(20, 30), nn.Linear(30, 4)
        self.twice = twice

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(nn.functional.dropout(x, 0.2)).relu()
        y: Tensor = self.second(nn.functional.dropout(h, 0.5))
        return y + h[:, :4] if self.twice else y


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_draws_are_those_of_plain_passes(
    twice: bool, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    finish = Tape.finish

    def noting(tape: Tape, *outputs: object, **options: bool) -> None:
        finish(tape, *outputs, **options)  # type: ignore[arg-type]
        steps.extend(tape._steps)

    monkeypatch.setattr(Tape, "finish", noting)
    monkeypatch.setattr("dubio.draws.masked_layers.CUT", 0)
    monkeypatch.setattr("dubio.draws.masked_layers.COPY", 0)
    net, x = Noted(twice), torch.randn(9, 20)
    found = dubio.predict(net, x, draws=6, shared=shared, generator=0).draws
    assert any(isinstance(step, ActivatedLinear | MaskedRun) for step in steps)
    if not shared:  # a dropout whose input is read elsewhere stays by itself
        assert sum(isinstance(step, Perturb) for step in steps) == 1 + twice
    noise = dubio.Noise(6, shared=shared, generator=0)
    with torch.no_grad():
        for k in range(6):
            with noise[k]:
                torch.testing.assert_close(found[k], net(x))


def assert_as_in_plain_passes(net: nn.Module, x: Tensor, draws: Tensor, shared: bool) -> None:
    noise = dubio.Noise(len(draws), shared=shared, generator=0)
    net.train()
    with torch.no_grad():
        for k, found in enumerate(draws):
            with noise[k]:
                torch.testing.assert_close(found, net(x), equal_nan=True)


class Laid(nn.Module):
    """A linear layer by hand, with any weight and bias that torch takes."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), bias

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.linear(nn.functional.dropout(x, 0.3), self.weight, self.bias)
        return nn.functional.dropout(h.relu(), 0.4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 30), (9, 30), (9, 1)])
def test_a_bias_is_laid_over_rows_and_units(
    shape: tuple[int, ...], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubio.draws.masked_layers.CUT", 0)
    monkeypatch.setattr("dubio.draws.masked_layers.COPY", 0)
    net, x = Laid(torch.randn(30, 20), torch.randn(shape)), torch.randn(9, 20)
    draws = dubio.predict(net, x, draws=4, shared=shared, generator=0).draws
    assert_as_in_plain_passes(net, x, draws, shared)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shared", [False, True])
def test_a_weight_may_be_a_vector(shared: bool) -> None:
    net, x = Laid(torch.randn(20), None), torch.randn(6, 5, 20)
    draws = dubio.predict(net, x, draws=4, shared=shared, generator=0).draws
    assert_as_in_plain_passes(net, x, draws, shared)


@pytest.mark.filterwarnings("ignore:.*(NaN|not finite|infinite)")
@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("weight", float("nan")), ("weight", float("inf")), ("bias", float("nan")),
        ("bias", float("inf")), ("x", float("inf")),  # NaN in x is refused
    ],
)  # fmt: skip
def test_a_dropped_unit_that_is_not_finite_shows(
    where: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubio.draws.masked_layers.CUT", 0)
    monkeypatch.setattr("dubio.draws.masked_layers.COPY", 0)
    net, x = Noted(False), torch.randn(9, 20)
    predictor = dubio.Predictor(net, draws=8, shared=True)
    predictor(x)
    with torch.no_grad():
        bad = x if where == "x" else getattr(net.first, where)
        bad.view(-1)[3] = value
    draws = predictor(x, torch.Generator().manual_seed(0)).draws
    assert not draws.isfinite().all()
    assert_as_in_plain_passes(net, x, draws, shared=True)
