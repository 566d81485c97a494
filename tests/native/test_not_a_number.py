"""Parameters that are not numbers show in what the kernels make of them, as they do by torch."""

import pytest
import torch
from torch import nn

import dubio


def gradients_and_output(net: nn.Module) -> list[torch.Tensor]:
    x = torch.ones(40, 6, requires_grad=True)
    with dubio.Noise(generator=0):
        y = net.train()(x)
    y.sum().backward()
    assert x.grad is not None
    return [y.detach(), x.grad]


@pytest.mark.parametrize(
    "mask", ["Concrete", "LearnableBernoulli", "LearnableGaussian"], ids=str.lower
)
@pytest.mark.parametrize("units", [1, 6])
def test_a_rate(mask: str, units: int) -> None:
    masked = dubio.Masked(nn.Linear(6, 2), getattr(dubio.masks, mask)(units))
    with torch.no_grad():
        masked.mask.logit[0] = float("nan")
    y, of_x = gradients_and_output(masked)
    assert y.isnan().all()
    assert of_x[:, 0].isnan().all()


@pytest.mark.parametrize("sampler", ["weights", "local", "flipout"])
def test_a_deviation(sampler: str) -> None:
    layer = dubio.BayesLinear(6, 2, bias=False, sampler=sampler)
    with torch.no_grad():
        layer.rho[0] = float("nan")
    y, of_x = gradients_and_output(layer)
    assert y[:, 0].isnan().all()
    assert not y[:, 1].isnan().any()
    assert of_x[:, 0].isnan().all()
