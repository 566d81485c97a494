"""DropConnect against the definition: every weight has its own mask, shared by all rows."""

import math

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import DropConnect
from dubio.masks import Bernoulli, Concrete
from mask_cases import Case, every_mask

LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), (6, 5)),
    "no bias": (lambda: nn.Linear(5, 3, bias=False), (6, 5)),
    "conv": (lambda: nn.Conv2d(2, 4, 3, padding=1, groups=2), (6, 2, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose1d(2, 4, 3, stride=2), (6, 2, 5)),
    "lstm": (lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), (6, 7, 4)),
    "gru": (lambda: nn.GRU(4, 3), (7, 6, 4)),
}


class First(nn.Module):
    """The first of a layer's outputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        return out[0] if isinstance(out, tuple) else out


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    return make(), torch.randn(shape)


@pytest.mark.parametrize("name", LAYERS)
def test_is_the_layer_with_masked_weights(name: str) -> None:
    layer, x = build(name)
    net = First(DropConnect(layer, Bernoulli(1, drop=0.4)))
    noise = dubio.Noise(generator=seeded())
    sizes = [w.numel() for n, w in layer.named_parameters() if n.startswith("weight")]
    with noise:
        out = net(x)
    u = noise.numbers.uniform((0, 0), torch.Size([sum(sizes)]), x)[0]
    kept = iter(((u < 0.6).float() / 0.6).split(sizes))
    with torch.no_grad():
        for n, w in layer.named_parameters():
            if n.startswith("weight"):
                w.mul_(next(kept).view_as(w))
        torch.testing.assert_close(out, First(layer)(x))


@pytest.mark.parametrize("name", LAYERS)
def test_predict_gives_the_draws_of_the_noise_and_leaves_the_layer_alone(name: str) -> None:
    layer, x = build(name)
    net = First(DropConnect(layer, Bernoulli(1, drop=0.4)))
    before = {n: w.clone() for n, w in layer.named_parameters()}
    objects = dict(layer.named_parameters())
    found = dubio.predict(net, x, draws=5, generator=seeded())
    noise = dubio.Noise(5, generator=seeded())
    for k in range(5):
        with torch.no_grad(), noise[k]:
            torch.testing.assert_close(net(x), found.draws[k])
    assert not torch.equal(found.draws[0], found.draws[1])
    for n, w in layer.named_parameters():
        assert w is objects[n]
        assert torch.equal(w, before[n])
    torch.testing.assert_close(net.eval()(x), First(layer)(x), rtol=0, atol=0)


def test_all_rows_share_the_mask() -> None:
    layer, x = build("linear")
    found = dubio.predict(
        DropConnect(layer, Bernoulli(1, drop=0.4)), x[:1].expand(6, -1).clone(), draws=3
    )
    torch.testing.assert_close(found.draws, found.draws[:, :1].expand_as(found.draws))


@pytest.mark.parametrize("units", [1, 15])
def test_kl_has_every_weight_as_a_unit(units: int) -> None:
    layer, _ = build("linear")
    keep = 0.7
    entropy = -(keep * math.log(keep) + (1 - keep) * math.log(1 - keep))
    squares = float(layer.weight.detach().square().sum())
    module = DropConnect(layer, Concrete(units, drop=1 - keep), length_scale=0.5)
    expected = 0.5**2 * squares / (2 * keep) - 15 * entropy
    assert float(module.kl().detach()) == pytest.approx(expected, rel=1e-5)


@every_mask
@pytest.mark.parametrize("name", LAYERS)
def test_trains(name: str, kind: Case) -> None:
    layer, x = build(name)
    net = First(DropConnect(layer, kind(1, drop=0.2)))
    y = torch.zeros_like(First(layer)(x)).detach()
    dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), num_data=6)(x, y).backward()
    for n, parameter in net.named_parameters():
        assert parameter.grad is not None, n
        assert parameter.grad.isfinite().all(), n
        assert parameter.grad.abs().sum() > 0, n


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"layer: expected Linear, .* got Embedding"):
        DropConnect(nn.Embedding(3, 2), Bernoulli(1))
    with pytest.raises(ValueError, match=r"mask: expected units=1 or units=15, .* got units=5"):
        DropConnect(nn.Linear(5, 3), Bernoulli(5))
    with pytest.raises(ValueError, match="length_scale"):
        DropConnect(nn.Linear(5, 3), Bernoulli(1), length_scale=-1.0)
