"""Masks that were learned, frozen into plain dropout: the same draws from the same noise."""

import copy

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian
from snapshots import snapshot


def mlp(mask: type[LearnableBernoulli | Concrete | Bernoulli]) -> nn.Sequential:
    return nn.Sequential(
        dubio.Masked(nn.Linear(6, 8), mask(drop=0.2)),
        nn.ReLU(),
        dubio.Masked(nn.Linear(8, 3), mask(drop=0.4)),
    )


@pytest.mark.parametrize("mask", [LearnableBernoulli, Bernoulli])
def test_the_same_draws_from_the_same_noise(mask: type[LearnableBernoulli | Bernoulli]) -> None:
    net, x = mlp(mask), torch.randn(5, 6)
    before = snapshot(net)
    frozen = dubio.freeze(net, example=x)
    assert snapshot(net) == before
    assert not any(isinstance(part, dubio.Stochastic) for part in frozen.modules())
    rates = [part.p for part in frozen.modules() if isinstance(part, nn.Dropout)]
    assert rates == pytest.approx([0.2, 0.4])

    predictor = dubio.Predictor(net, draws=20)
    uniform = predictor.noise(x, torch.Generator().manual_seed(0))
    bits = {
        "0.dropout": (uniform["0.mask"] < 0.8).float(),
        "2.dropout": (uniform["2.mask"] < 0.6).float(),
    }
    found = dubio.Predictor(frozen, draws=20)(x, noise=bits).draws
    torch.testing.assert_close(found, predictor(x, noise=uniform).draws)


def test_concrete_masks_become_what_they_are_at_temperature_zero() -> None:
    """σ((φ + logit u)/t) is 1 for u > drop and else 0, as t goes to zero."""
    net, x = mlp(Concrete), torch.randn(5, 6)
    for part in net.modules():
        if isinstance(part, Concrete):
            part.temperature = 1e-6
    frozen = dubio.freeze(net, example=x)
    predictor = dubio.Predictor(net, draws=20)
    uniform = predictor.noise(x, torch.Generator().manual_seed(0))
    bits = {
        "0.dropout": (uniform["0.mask"] > 0.2).float(),
        "2.dropout": (uniform["2.mask"] > 0.4).float(),
    }
    found = dubio.Predictor(frozen, draws=20)(x, noise=bits).draws
    torch.testing.assert_close(found, predictor(x, noise=uniform).draws)


def test_the_same_distribution() -> None:
    """Means and variances of 4000 draws of 15 outputs, before and after.

    A difference of means beyond 6.2 standard errors has a chance of 6e-10, and 1e-8 for all. The
    logarithm of a ratio of variances has a standard error of at most √(2(κ − 1)/4000), with a
    kurtosis κ < 6: six of them are 0.3.
    """
    net, x = mlp(LearnableBernoulli), torch.randn(5, 6)
    frozen = dubio.freeze(net, example=x)
    a, b = (
        dubio.predict(each, x, draws=4000, generator=torch.Generator().manual_seed(seed)).draws
        for seed, each in enumerate((net, frozen))
    )
    error = ((a.var(0) + b.var(0)) / 4000).sqrt()
    assert ((a.mean(0) - b.mean(0)).abs() / error).max() < 6.2
    assert (a.var(0) / b.var(0)).log().abs().max() < 0.3


def test_channels() -> None:
    net = nn.Sequential(dubio.Masked(nn.Conv2d(3, 2, 3), LearnableBernoulli(drop=0.3)))
    x = torch.randn(4, 3, 5, 5)
    frozen = dubio.freeze(net, example=x)
    assert isinstance(frozen[0].dropout, nn.Dropout2d)
    predictor = dubio.Predictor(net, draws=3)
    noise = predictor.noise(x)
    bits = {"0.dropout": (noise["0.mask"] < 0.7).float()}
    found = dubio.Predictor(frozen, draws=3)(x, noise=bits).draws
    torch.testing.assert_close(found, predictor(x, noise=noise).draws)


class Twice(nn.Module):
    """One mask, and so one noise, for both calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = dubio.Masked(nn.Linear(4, 4), LearnableBernoulli())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).relu())


@pytest.mark.parametrize(
    ("net", "x"),
    [
        (nn.Sequential(dubio.Masked(nn.Linear(4, 2), LearnableBernoulli(4))), torch.randn(3, 4)),
        (nn.Sequential(dubio.Masked(nn.Linear(4, 2), LearnableGaussian())), torch.randn(3, 4)),
        (nn.Sequential(dubio.Masked(nn.Linear(4, 2), Concrete())), torch.randn(3, 5, 4)),
        (nn.Sequential(dubio.DropConnect(nn.Linear(4, 2), Concrete())), torch.randn(3, 4)),
        (Twice(), torch.randn(3, 4)),
    ],
    ids=["by unit", "gaussian", "sequence", "weights", "twice"],
)
def test_masks_without_a_plain_counterpart_stay(net: nn.Module, x: Tensor) -> None:
    frozen = dubio.freeze(net, example=x)
    assert [type(part) for part in frozen.modules()] == [type(part) for part in net.modules()]
    learned = {name for name, p in frozen.named_parameters() if p.requires_grad}
    assert learned == {name for name, _ in net.named_parameters() if "logit" not in name}
    draws = [
        dubio.predict(each, x, draws=3, generator=torch.Generator().manual_seed(0)).draws
        for each in (net, frozen)
    ]
    assert torch.equal(*draws)


def test_masks_beside_distributions_on_weights() -> None:
    net = nn.Sequential(
        dubio.Masked(nn.Linear(4, 5), LearnableBernoulli()), dubio.BayesLinear(5, 2)
    )
    x = torch.randn(3, 4)
    frozen = dubio.freeze(net, example=x)
    assert [type(part) for part in frozen] == [nn.Sequential, nn.Linear]
    assert torch.equal(frozen.eval()(x), net.eval()(x))
    plain = copy.deepcopy(frozen.state_dict())
    assert set(plain) == {"0.layer.weight", "0.layer.bias", "1.weight", "1.bias"}


def test_an_example_is_needed() -> None:
    with pytest.raises(ValueError, match=r"example: expected a batch for a network with masks \(0"):
        dubio.freeze(mlp(Concrete))


def test_plain_network_is_refused() -> None:
    with pytest.raises(ValueError, match="Bayesian layers or masks, got Linear without any"):
        dubio.freeze(nn.Linear(6, 2))
