"""Products of matrices by the kernels, at every level of instructions, against torch in float64."""

import pytest
import torch
from torch import Tensor

from dubio.native import matmul
from dubio.native.library import LOADED
from dubio.native.matmul import Beside

pytestmark = pytest.mark.skipif(LOADED is None, reason="there are no compiled kernels")

SHAPES = [(1, 1, 1), (16, 16, 16), (37, 13, 70), (128, 784, 400), (300, 65, 33), (33, 400, 1030)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture(params=["kernels", "torch"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who multiplies, whatever the sizes and the processor."""
    monkeypatch.setattr(matmul, "_serves", lambda *given: request.param == "kernels")
    name: str = request.param
    return name


def check(found: Tensor, expected: Tensor, terms: int, scale: float = 1.0) -> None:
    """Check a running sum of so many independent terms with that standard deviation.

    Partial sum k is rounded by 2^-24·√k·scale/√3, so that the sum is off by 2^-24·terms·scale/√6
    with a standard deviation; eight of them are allowed.
    """
    atol = 8 * 2.0**-24 * terms * scale / 6**0.5 + 1e-6
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=atol)


@shapes
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_outputs(
    shape: tuple[int, int, int], biased: bool, squared: bool, level: str, by: str
) -> None:
    rows, inputs, units = shape
    x, weight = torch.randn(rows, inputs), torch.randn(units, inputs)
    bias = torch.randn(units) if biased else None
    given = x.double().square() if squared else x.double()
    expected = given @ weight.double().T + (0 if bias is None else bias.double())
    check(matmul.linear(x, weight, bias, squared=squared), expected, inputs + 1, 2)


@shapes
def test_gradient_of_inputs(shape: tuple[int, int, int], level: str, by: str) -> None:
    rows, inputs, units = shape
    g, weight = torch.randn(rows, units), torch.randn(units, inputs)
    check(matmul.of_inputs(g, weight), g.double() @ weight.double(), units)


@shapes
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("one_factor", [False, True])
def test_gradients_of_weights(
    shape: tuple[int, int, int], squared: bool, one_factor: bool, level: str, by: str
) -> None:
    rows, inputs, units = shape
    g, x, weight = torch.randn(rows, units), torch.randn(rows, inputs), torch.randn(units, inputs)
    factor, sums = torch.rand(1 if one_factor else inputs), torch.empty(inputs)
    out, of_bias = torch.empty(units, inputs), torch.empty(units)
    plain = g.double().T @ (x.double().square() if squared else x.double())

    matmul.write_of_weight(
        out, of_bias, g, x, squared=squared, beside=Beside(weight, sums, factor, 0.7)
    )

    check(out, plain + 0.7 * factor.double() * weight.double(), rows + 1, 2)
    check(of_bias, g.double().sum(0), rows)
    check(sums, (weight.double() * plain).sum(0), units, 2 * rows**0.5)


@shapes
def test_sums_do_without_the_gradient(shape: tuple[int, int, int], level: str, by: str) -> None:
    rows, inputs, units = shape
    g, x, weight = torch.randn(rows, units), torch.randn(rows, inputs), torch.randn(units, inputs)
    sums = torch.empty(inputs)
    matmul.write_of_weight(None, None, g, x, beside=Beside(weight, sums))
    expected = (weight.double() * (g.double().T @ x.double())).sum(0)
    check(sums, expected, units, 2 * rows**0.5)


@pytest.mark.usefixtures("level")
def test_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_serves", lambda *given: True)
    g, x, weight = torch.randn(150, 500), torch.randn(150, 700), torch.randn(500, 700)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out, of_bias, sums = torch.empty(500, 700), torch.empty(500), torch.empty(700)
            matmul.write_of_weight(
                out, of_bias, g, x, beside=Beside(weight, sums, sums.new_ones(1), 1)
            )
            made = (matmul.linear(x, weight), matmul.of_inputs(g, weight), out, of_bias, sums)
            found.append(made)
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_small_and_scattered_matrices_are_left_to_torch() -> None:
    large = torch.randn(128, 784)
    assert not matmul._serves(128, 10, 784, large, torch.randn(10, 784))
    assert not matmul._serves(128, 400, 784, large, torch.randn(784, 400).T)
    assert not matmul._serves(128, 400, 5000, torch.randn(128, 5000), torch.randn(400, 5000))


def test_what_is_not_a_number_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_serves", lambda *given: True)
    x, weight = torch.randn(40, 50), torch.randn(60, 50)
    x[3, 7] = float("nan")
    made = matmul.linear(x, weight)
    assert made[3].isnan().all()
    assert made.isnan().sum() == 60
