"""Outputs that are NaN or infinite: predict warns of them, says where, and goes on."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Multinomial,
)

LIKELIHOODS: dict[str, tuple[Likelihood | None, int]] = {
    "none": (None, 2),
    "gaussian": (Gaussian(1.0), 2),
    "heteroscedastic": (HeteroscedasticGaussian(), 4),
    "categorical": (Categorical(), 4),
    "bernoulli": (Bernoulli(), 4),
    "multinomial": (Multinomial(), 4),
}


class Breaks(nn.Module):
    """Returns some number in the place of outputs for rows whose first input is 9."""

    def __init__(self, bad: float, outputs: int, columns: Any) -> None:
        super().__init__()
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, outputs)
        self.columns = torch.zeros(outputs, dtype=torch.bool)
        self.columns[columns] = True
        self.bad = bad

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(x)).masked_fill((x[:, :1] == 9) & self.columns, self.bad)


def rows() -> Tensor:
    x = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    x[[3, 6], 0] = 9
    return x


Run = Callable[[nn.Module, Tensor, Likelihood | None], dubio.Predictive]
RUNS: dict[str, Run] = {
    "kept": lambda n, x, kind: dubio.predict(n, x, draws=5, likelihood=kind),
    "in chunks": lambda n, x, kind: dubio.predict(n, x, draws=5, likelihood=kind, chunk=2),
    "streamed": lambda n, x, kind: dubio.predict(n, x, draws=5, likelihood=kind, keep_draws=False),
    "in batches": lambda n, x, kind: dubio.predict(
        n, DataLoader(TensorDataset(x), batch_size=4), draws=5, likelihood=kind, keep_draws=False
    ),
    "predictor": lambda n, x, kind: dubio.Predictor(n, draws=5, likelihood=kind)(x),
    "predictor in chunks": lambda n, x, kind: dubio.Predictor(n, draws=5, likelihood=kind, chunk=2)(
        x
    ),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("columns", [0, slice(None)], ids=["one", "all"])
@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_it_warns(kind: str, columns: Any, bad: float, run: str) -> None:
    likelihood, outputs = LIKELIHOODS[kind]
    network = Breaks(bad, outputs, columns)
    ruled_out = kind in ("categorical", "multinomial") and columns == 0 and bad == -math.inf
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p = RUNS[run](network, rows(), likelihood)
    messages = [str(w.message) for w in caught]
    if ruled_out:  # a class that cannot be, which is a fine prediction
        assert messages == []
        return
    assert len(messages) == 1
    assert "got NaN or infinite ones in 2 of 10 rows, first in row 3" in messages[0]
    assert caught[0].filename == __file__
    others = torch.ones(10, dtype=torch.bool)
    others[[3, 6]] = False
    assert bool(p.mean[others].isfinite().all())


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_finite_outputs_do_not(kind: str, run: str) -> None:
    likelihood, outputs = LIKELIHOODS[kind]
    network = Breaks(3e38, outputs, 0)  # its sums overflow
    p = RUNS[run](network, rows(), likelihood)
    assert p.num_draws == 5


def test_overflow_in_half_precision() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).half()
    with torch.no_grad():
        network[0].weight.fill_(60000.0)
    with pytest.warns(RuntimeWarning, match="look for overflow in half precision"):
        dubio.predict(network, torch.full((2, 4), 9.0).half(), draws=3)


def test_log_prob_of_streamed_draws_warns_no_more() -> None:
    network = Breaks(math.inf, 4, 0)
    with pytest.warns(RuntimeWarning, match="in 2 of 10 rows"):
        p = dubio.predict(network, rows(), draws=5, likelihood=Categorical(), keep_draws=False)
    assert bool(p.log_prob(torch.zeros(10).long())[[3, 6]].isnan().all())


def test_a_broken_row_is_deferred() -> None:
    network = Breaks(math.nan, 3, 1)
    with pytest.warns(RuntimeWarning, match="in 2 of 10 rows"):
        p = dubio.predict(network, rows(), draws=5, likelihood=Categorical())
    deferral = dubio.decide.Deferral().fit_coverage(torch.full((40, 3), 1 / 3), 0.5)
    assert deferral(p).answered.logical_not().nonzero().squeeze(-1).tolist() == [3, 6]
