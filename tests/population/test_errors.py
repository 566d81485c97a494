"""What does not fit into a population is refused, with a word on what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dubio
from alone import MEMBERS, N, data, objectives


def elbo(model: nn.Module, num_data: int = N, **options: Any) -> dubio.ELBO:
    return dubio.ELBO(model, dubio.likelihoods.Gaussian(1.0), num_data, **options)


def learnable(estimator: Any) -> dubio.ELBO:
    mask = dubio.masks.LearnableBernoulli(drop=0.2)
    return elbo(dubio.Masked(nn.Linear(4, 1), mask), estimator=estimator)


same = elbo(nn.Linear(4, 1))
MEMBERS_THAT_DO_NOT_FIT: dict[str, tuple[Callable[[], list[Any]], str]] = {
    "none": (list, "expected at least one"),
    "functions": (lambda: [torch.sin], "expected at least one nn.Module"),
    "one twice": (lambda: [same, same], "expected each once"),
    "shapes": (
        lambda: [elbo(nn.Linear(4, 1)), elbo(nn.Linear(5, 1))],
        r"model\.weight as .* member 1",
    ),
    "modules": (
        lambda: [elbo(nn.Sequential(nn.Linear(4, 1), a())) for a in (nn.ReLU, nn.Tanh)],
        r"model\.1 \(module\)",
    ),
    "settings": (
        lambda: [elbo(nn.Linear(4, 1), shared=s) for s in (False, True)],
        "_shared as False in member 0 and True in member 1",
    ),
    "batch norm": (
        lambda: [elbo(nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1)))],
        "use LayerNorm or GroupNorm",
    ),
    "no parameters": (lambda: [elbo(nn.ReLU())], "expected parameters that require a gradient"),
    "estimator": (lambda: [learnable("arm")], "expected the estimator 'trapezoid'"),
}


@pytest.mark.parametrize("case", MEMBERS_THAT_DO_NOT_FIT)
def test_members(case: str) -> None:
    build, message = MEMBERS_THAT_DO_NOT_FIT[case]
    with pytest.raises((TypeError, ValueError), match=message):
        dubio.Population(build())


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({"steps": None}, "steps, epochs: expected one of them"),
    "both": ({"epochs": 2}, "steps, epochs: expected one of them"),
    "steps": ({"steps": 0}, "steps: expected a positive int"),
    "rates": ({"learning_rate": [1e-3] * 2}, "one for each of 3 members"),
    "negative rate": ({"learning_rate": -1.0}, "learning_rate: expected a positive number"),
    "rows": ({"rows": torch.arange(N).expand(2, N)}, "rows for each of 3 members"),
    "rows beyond": ({"rows": torch.full((3, N), N)}, "whole numbers from 0 to 59"),
    "num_data": ({"rows": torch.arange(30).expand(3, 30)}, r"members\[0\]\.num_data: expected 30"),
    "patience": ({"patience": 3}, "expected together with validation_rows"),
    "nan": ({"y": torch.full((N, 1), torch.nan)}, "y: expected numbers, got NaN"),
    "lengths": ({"y": torch.ones(3, 1)}, "y: expected 60 rows"),
    "list": ({"x": [[1.0] * 4] * N}, "x: expected a tensor"),
    "shape of targets": ({"y": torch.ones(N)}, "y: expected shape"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_of_fit(case: str) -> None:
    changed, message = ARGUMENTS[case]
    x, y = data()
    with pytest.raises((TypeError, ValueError), match=message):
        dubio.Population(objectives("plain")).fit(**{"x": x, "y": y, "steps": 2, **changed})


def test_numbers_that_cannot_differ_are_named() -> None:
    x, y = data()
    members = [elbo(nn.Linear(4, 1), draws=1 + m) for m in range(MEMBERS)]
    with pytest.raises(Exception) as caught:  # noqa: PT011  (whatever torch makes of it)
        dubio.Population(members).fit(x, y, steps=2)
    assert "they differ in ._draws" in str(caught.value.__notes__)


def test_losses_of_rows_are_refused() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (self.net(x) - y).square()

    x, y = data()
    with pytest.raises(TypeError, match=r"expected a loss of shape \(\), got shape \(60, 1\)"):
        dubio.Population([Rows()]).fit(x, y, steps=1, batch_size=N)


def test_random_numbers_of_the_networks_own_are_refused() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x + torch.randn_like(x))

    x, y = data()
    with pytest.raises(NotImplementedError, match="draws random numbers by itself"):
        dubio.Population([elbo(Own())]).fit(x, y, steps=1)
