"""Weights of rows: a weight of two is the row twice."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio import masks
from dubio.likelihoods import Categorical, Gaussian
from dubio.training.guard import NonFiniteError


def problem(rows: int = 6) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 3, generator=source, dtype=torch.float64)
    return x, torch.randn(rows, 2, generator=source, dtype=torch.float64)


def network(mask: str) -> nn.Module:
    torch.manual_seed(0)
    made: dict[str, Any] = {
        "none": lambda: nn.Linear(4, 2),
        "bernoulli": lambda: dubio.Masked(nn.Linear(4, 2), masks.Bernoulli(drop=0.3)),
        "learnable": lambda: dubio.Masked(nn.Linear(4, 2), masks.LearnableBernoulli(drop=0.3)),
        "bayesian": lambda: dubio.Bayesian(nn.Linear(4, 2), deviation=0.3),
    }
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), made[mask]()).double()


def loss_and_gradients(net: nn.Module, *batch: Tensor, **options: Any) -> list[Tensor]:
    """N times the loss, in which the number of rows is one of the data's, and its gradients."""
    elbo = dubio.ELBO(
        net, Gaussian(2.0), num_data=len(batch[0]), shared=True,
        generator=torch.Generator().manual_seed(5), **options,
    )  # fmt: skip
    loss = len(batch[0]) * elbo(*batch)
    return [loss, *torch.autograd.grad(loss, [p for p in net.parameters() if p.requires_grad])]


@pytest.mark.parametrize(
    ("mask", "estimator"),
    [
        *((mask, "trapezoid") for mask in ("none", "bernoulli", "learnable", "bayesian")),
        *(("learnable", estimator) for estimator in ("disarm", "reinforce_loo")),
    ],
)
def test_a_weight_of_two_is_the_row_twice(mask: str, estimator: Any) -> None:
    """Rows share their noise, so that the second copy of a row has that of the first."""
    (x, y), net = problem(), network(mask)
    weight = torch.tensor([1.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    twice = weight.long()
    found = loss_and_gradients(net, x, y, weight, estimator=estimator)
    expected = loss_and_gradients(
        net, x.repeat_interleave(twice, 0), y.repeat_interleave(twice, 0), estimator=estimator
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_weights_of_one_change_nothing() -> None:
    x, y = problem()
    net = network("learnable")
    plain = loss_and_gradients(net, x, y)
    weighted = loss_and_gradients(net, x, y, torch.ones(6))
    for one, other in zip(plain, weighted, strict=True):
        assert torch.equal(one, other)


def test_rows_without_a_label_are_left_out_of_the_mean() -> None:
    net = nn.Linear(3, 4).double()
    x = problem()[0]
    y = torch.tensor([0, 1, -100, 2, -100, 3])
    weight = torch.tensor([1.0, 2.0, 9.0, 0.5, 9.0, 1.0]).double()
    losses = nn.functional.cross_entropy(net(x), y, reduction="none")
    found = dubio.ELBO(net, Categorical(void=-100), num_data=4)(x, y, weight)
    torch.testing.assert_close(found, (losses * weight).sum() / 4)


@pytest.mark.parametrize("loader", [False, True])
def test_fit_takes_weights(loader: bool, tmp_path: Path) -> None:
    """One full batch a step: the same as with rows that are there twice."""
    x, y = problem()
    weight = torch.tensor([1.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    results = []
    for data in ((x, y, weight), (x.repeat_interleave(weight.long(), 0),
                                  y.repeat_interleave(weight.long(), 0))):  # fmt: skip
        net = network("none")
        rows = len(data[0])
        elbo = dubio.ELBO(net, Gaussian(1.0), num_data=rows)
        given: Any = data
        if loader:
            given = DataLoader(TensorDataset(*data), batch_size=rows)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.001 * rows)  # N times the loss
        dubio.fit(
            elbo, given, epochs=3, batch_size=None if loader else rows, optimizer=optimizer,
            progress=False, checkpoint=tmp_path / f"{rows}",
        )  # fmt: skip
        results.append([p.detach().clone() for p in net.parameters()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_fit_counts_rows_with_a_label() -> None:
    x, y = problem()[0], torch.tensor([0, 1, -100, 2, -100, 3])
    net = nn.Linear(3, 4).double()
    elbo = dubio.ELBO(net, Categorical(void=-100), num_data=4)
    dubio.fit(elbo, (x, y), epochs=1, progress=False)
    dubio.fit(elbo, DataLoader(TensorDataset(x, y), batch_size=6), epochs=1, progress=False)
    elbo.num_data = 6
    with pytest.raises(ValueError, match=r"num_data: expected 4, the rows of the data, got 6"):
        dubio.fit(elbo, (x, y), epochs=1, progress=False)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(5), r"weight: expected a tensor of shape \(6,\) on cpu.*got shape \(5,\)"),
        (torch.ones(6, 1), r"one for each row, got shape \(6, 1\)"),
        ([1.0] * 6, "got list"),
        (-torch.ones(6), "weight: expected finite numbers >= 0, got -1 to -1"),
        (torch.full((6,), torch.nan), "weight: expected finite numbers >= 0, got nan"),
    ],
)
def test_what_is_refused(weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dubio.ELBO(network("none"), Gaussian(1.0), num_data=6)(*problem(), weight)


def test_objectives_of_two_arguments_are_told_of_the_third() -> None:
    class Objective(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 2).double()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (self.net(x) - y).square().mean()

    with pytest.raises(TypeError, match=r"called as objective\(x, y, weight\)"):
        dubio.fit(Objective(), (*problem(), torch.ones(6)), epochs=1, progress=False)


def test_a_bad_weight_is_named() -> None:
    class Objective(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 2).double()

        def forward(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            return ((self.net(x) - y).square().sum(1) * weight).mean()

    weight = torch.ones(6)
    weight[4] = torch.inf
    with pytest.raises(NonFiniteError, match="weight holds an infinite number in row 4"):
        dubio.fit(Objective(), (*problem(), weight), epochs=1, progress=False)


def test_rows_that_all_weigh_nothing_are_refused() -> None:
    x, y = torch.randn(6, 2), torch.randn(6, 1)
    elbo = dubio.ELBO(nn.Linear(2, 1), Gaussian(1.0), num_data=6)
    with pytest.raises(ValueError, match="expected weights of rows of which some are > 0"):
        dubio.fit(elbo, (x, y, torch.zeros(6)), epochs=1, progress=False)
