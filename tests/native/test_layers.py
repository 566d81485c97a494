"""Linear layers, bias, ReLU and dropout by the kernels, against torch."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.draws.activated import ActivatedLinear
from dubio.draws.masked_layers import MaskedRun
from dubio.draws.steps import Perturb
from dubio.draws.tape import Tape
from dubio.native.layers import activate
from dubio.native.library import LEVELS, LOADED
from dubio.native.products import (
    RowDropout,
    begins_runs,
    from_panels,
    row_layer,
    to_panels,
    unit_layer,
    width,
)
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


@pytest.fixture
def products(level: None) -> None:
    """The same, where it has products."""
    if not width():
        pytest.skip("products are torch's")


def kept(draws: int, units: int, keep: float = 0.6) -> Tensor:
    return (torch.rand(draws, units) < keep).float()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 16, 3), (37, 13, 70), (128, 784, 40), (200, 33, 5)]
)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_without_the_units_that_draws_leave_out(
    shape: tuple[int, int, int], apart: bool, relu: bool
) -> None:
    rows, inner, units = shape
    draws = (3,) if apart else ()
    x, weight = torch.randn(*draws, rows, inner), torch.randn(*draws, units, inner + 3)[..., :inner]
    bias, inputs, outputs = torch.randn(*draws, units), kept(3, inner), kept(3, units)
    made = unit_layer(to_panels(x), weight, bias, rows=rows, draws=3, inputs=inputs,
                      outputs=outputs, scale=1.5, relu=relu)  # fmt: skip
    expected = (x * inputs[:, None]) @ (1.5 * weight.mT) + (bias[:, None] if apart else bias)
    expected = expected.relu() if relu else expected
    at = outputs[:, None].expand(3, rows, units) > 0
    torch.testing.assert_close(from_panels(made, rows)[at], expected[at], atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize(
    "shape", [(1, 16, 1), (5, 32, 16), (64, 16, 48), (128, 784, 400), (70, 48, 10)]
)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dropped", [(False, False), (True, False), (True, True)])
def test_a_layer_between_dropouts(
    shape: tuple[int, int, int], apart: bool, dropped: tuple[bool, bool]
) -> None:
    rows, inner, units = shape
    before, after = (
        RowDropout(Stream(key, 7, 3), 0.6, 1 / 0.6) if wanted and begins_runs(size) else None
        for key, wanted, size in zip((3, 4), dropped, (inner, units), strict=True)
    )
    x, weight = torch.randn(*((3,) if apart else ()), rows, inner), torch.randn(units, inner)
    bias = torch.randn(units)
    made = row_layer(x, to_panels(weight), bias, draws=3, outputs=units, relu=True, before=before,
                     after=after)  # fmt: skip
    masks = [
        1.0 if each is None else each.stream.bernoulli(0.6, torch.Size([rows, size]), x) / 0.6
        for each, size in ((before, inner), (after, units))
    ]
    expected = ((x * masks[0]) @ weight.t() + bias).relu() * masks[1]
    torch.testing.assert_close(made, expected.expand(3, -1, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("products")
def test_a_row_of_a_product_does_not_depend_on_the_others() -> None:
    x, weight = torch.randn(150, 90), to_panels(torch.randn(70, 90))
    whole = row_layer(x, weight, None, draws=1, outputs=70)[0]
    for part in (slice(0, 1), slice(3, 20), slice(77, 150)):
        found = row_layer(x[part].contiguous(), weight, None, draws=1, outputs=70)[0]
        assert torch.equal(found, whole[part])


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


def use_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are slower."""
    for name in ("masked_runs.CUT", "masked_runs.COPY", "masked_runs.PASS_OVER"):
        monkeypatch.setattr(f"dubio.draws.{name}", 0)
    monkeypatch.setattr("dubio.draws.masked_runs.LEAST_ROWS", 1)
    for name in ("activated.MANY_ROWS", "activated.MANY_WEIGHTS"):
        monkeypatch.setattr(f"dubio.draws.{name}", 0)


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


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_draws_are_those_of_plain_passes(
    many: bool, twice: bool, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    finish = Tape.finish

    def noting(tape: Tape, *outputs: object) -> None:
        finish(tape, *outputs)  # type: ignore[arg-type]
        steps.extend(tape._steps)

    monkeypatch.setattr(Tape, "finish", noting)
    use_all_kernels(monkeypatch)
    if not many:
        monkeypatch.setattr("dubio.draws.activated.MANY_ROWS", 1000)
    net, x = Noted(twice), torch.randn(9, 20)
    found = dubio.predict(net, x, draws=6, shared=shared, generator=0).draws
    assert any(isinstance(step, ActivatedLinear | MaskedRun) for step in steps)
    if shared or width():  # with products of our own all are part of a layer
        assert not any(isinstance(step, Perturb) for step in steps)
    noise = dubio.Noise(6, shared=shared, generator=0)
    with torch.no_grad():
        for k in range(6):
            with noise[k]:
                torch.testing.assert_close(found[k], net(x))


def assert_as_in_plain_passes(net: nn.Module, x: Tensor, draws: Tensor, shared: bool) -> None:
    noise = dubio.Noise(len(draws), shared=shared, generator=0)
    with torch.no_grad():
        for k, found in enumerate(draws):
            with noise[k]:
                torch.testing.assert_close(found, net(x), equal_nan=True)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("width", [32, 21])  # weights that are drawn on the way, and others
@pytest.mark.parametrize("dropout", [False, True])
def test_draws_from_weights_are_those_of_plain_passes(
    shared: bool, width: int, dropout: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_all_kernels(monkeypatch)
    net = nn.Sequential(
        dubio.BayesLinear(48, width), nn.ReLU(), dubio.BayesLinear(width, 40), nn.Tanh(),
        nn.Dropout(0.5 if dropout else 0.0), dubio.BayesLinear(40, 70, bias=False), nn.ReLU(),
        nn.Linear(70, 3),
    )  # fmt: skip
    x = torch.randn(19, 48)
    draws = dubio.predict(net, x, draws=7, shared=shared, generator=0, chunk=3).draws
    predictor = dubio.Predictor(net, draws=7, shared=shared)
    torch.testing.assert_close(predictor(x, 0).draws, draws)
    torch.testing.assert_close(predictor(x, noise=predictor.noise(x, 0)).draws, draws)
    assert_as_in_plain_passes(net, x, draws, shared)


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
    use_all_kernels(monkeypatch)
    net, x = Laid(torch.randn(30, 20), torch.randn(shape)), torch.randn(9, 20)
    draws = dubio.predict(net, x, draws=4, shared=shared, generator=0).draws
    assert_as_in_plain_passes(net.train(), x, draws, shared)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shared", [False, True])
def test_a_weight_may_be_a_vector(shared: bool) -> None:
    net, x = Laid(torch.randn(20), None), torch.randn(6, 5, 20)
    draws = dubio.predict(net, x, draws=4, shared=shared, generator=0).draws
    assert_as_in_plain_passes(net.train(), x, draws, shared)


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
    use_all_kernels(monkeypatch)
    net, x = Noted(False), torch.randn(9, 20)
    predictor = dubio.Predictor(net, draws=8, shared=True)
    predictor(x)
    with torch.no_grad():
        bad = x if where == "x" else getattr(net.first, where)
        bad.view(-1)[3] = value
    draws = predictor(x, torch.Generator().manual_seed(0)).draws
    assert not draws.isfinite().all()
    assert_as_in_plain_passes(net.train(), x, draws, shared=True)
