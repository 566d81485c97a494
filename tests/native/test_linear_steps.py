"""Linear layers that are one step of differentiation, against the same layers in parts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import ELBO, Masked, masks
from dubio.layers import bayesian, masked
from dubio.likelihoods import Categorical
from dubio.native.library import LOADED
from estimator_cases import every_estimator

needs_kernels = pytest.mark.skipif(LOADED is None, reason="there are no kernels")
Build = Callable[[], nn.Module]


def behind(mask: type[masks.Mask], one_rate: bool) -> nn.Module:
    def layer(ins: int, outs: int, **kwargs: Any) -> Masked:
        own = mask(1 if one_rate else ins, drop=0.3)
        return Masked(nn.Linear(ins, outs, **kwargs), own, length_scale=0.5)

    middle = layer(30, 30, bias=False)
    return nn.Sequential(layer(20, 30), nn.ReLU(), middle, nn.ReLU(), layer(30, 5))


def gaussian(sampler: Any) -> nn.Module:
    middle = dubio.Bayesian(nn.Linear(900, 20, bias=False), sampler=sampler, deviation=0.3)
    return nn.Sequential(
        dubio.BayesLinear(20, 900, sampler=sampler), nn.ReLU(), middle, nn.ReLU(),
        dubio.BayesLinear(20, 5, sampler=sampler, deviation=0.2),
    )  # fmt: skip


def gradients(build: Build, estimator: Any, *, further: bool = False) -> list[Tensor]:
    """The loss of a step, its gradients, and those of their squares if they are asked for."""
    torch.manual_seed(0)
    net, x, y = build(), torch.randn(32, 20), torch.randint(5, (32,))
    loss = ELBO(net, Categorical(), 100, estimator=estimator)(x, y)
    learned = [p for p in net.parameters() if p.requires_grad]
    first = torch.autograd.grad(loss, learned, create_graph=further)
    second: tuple[Tensor, ...] = ()
    if further:
        squares = torch.stack([g.square().sum() for g in first]).sum()
        second = torch.autograd.grad(squares, learned)
    return [loss.detach(), *(g.detach() for g in first), *second]


def compare(build: Build, estimator: str, further: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gradients(build, estimator, further=further)
    for module in (masked, bayesian):
        monkeypatch.setattr(module, "is_alone", lambda layer: False)
    expected = gradients(build, estimator, further=further)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@needs_kernels
@pytest.mark.parametrize("one_rate", [False, True])
@every_estimator
def test_learnable_masks(estimator: str, one_rate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> nn.Module:
        return behind(masks.LearnableBernoulli, one_rate)

    compare(build, estimator, False, monkeypatch)


@needs_kernels
@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize(
    "mask", [masks.LearnableBernoulli, masks.Bernoulli, masks.Concrete, masks.LearnableGaussian]
)
def test_masks(mask: type[masks.Mask], further: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(lambda: behind(mask, False), "trapezoid_once", further, monkeypatch)


@needs_kernels
def test_gradients_of_gradients_through_a_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    compare(lambda: behind(masks.LearnableBernoulli, False), "arm", True, monkeypatch)


@needs_kernels
@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
def test_gaussian_weights(sampler: str, further: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(lambda: gaussian(sampler), "trapezoid_once", further, monkeypatch)


@needs_kernels
@pytest.mark.parametrize("kind", ["masked", "weights", "local", "flipout"])
def test_a_layer_that_is_called_twice(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.Linear(20, 20)
            if kind == "masked":
                self.layer: nn.Module = Masked(layer, masks.LearnableBernoulli(20, drop=0.3))
            else:
                self.layer = dubio.Bayesian(layer, sampler=kind, deviation=0.3)  # type: ignore[arg-type]
            self.last = nn.Linear(20, 5)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.layer(self.layer(x).relu()).relu())
            return out

    compare(Twice, "trapezoid_once", False, monkeypatch)
