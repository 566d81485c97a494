"""Mixed precision on the CPU, and weights of half precision: real numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import likelihoods, masks, priors, rules
from networks import CASES, build, mlp

NAMES = ("mlp", "batch norm", "dropout2d", "attention", "transformer", "residual", "dense blocks")
CLASSES = likelihoods.Categorical()


def loop(network: nn.Module, x: Tensor, draws: int) -> Tensor:
    noise = dubio.Noise(draws, generator=0)
    outputs = []
    for k in range(draws):
        with torch.no_grad(), noise[k]:
            outputs.append(network(x.clone()))
    return torch.stack(outputs)


@pytest.mark.parametrize("name", NAMES)
def test_predict_under_autocast_equals_a_loop(name: str) -> None:
    network, x = build(name)
    with torch.autocast("cpu", torch.bfloat16):
        p = dubio.predict(network, x, draws=4, generator=0, select=CASES[name].select)
        expected = loop(network, x, 4)
    plain = dubio.predict(network, x, draws=4, generator=0, select=CASES[name].select)
    assert p.draws.dtype == expected.dtype
    assert p.mean.dtype == plain.draws.dtype == torch.float32
    scale = float(plain.draws.abs().amax())
    torch.testing.assert_close(p.draws, expected, rtol=2e-2, atol=1e-2 * scale)
    torch.testing.assert_close(p.draws.float(), plain.draws, rtol=0.1, atol=0.1 * scale)


def test_a_predictor_tells_autocast_from_none() -> None:
    network, x = build("mlp")
    predictor = dubio.Predictor(network, draws=4)
    with torch.autocast("cpu", torch.bfloat16):
        assert predictor(x, 0).draws.dtype == torch.bfloat16
    assert predictor(x, 0).draws.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert predictor(x, 0).draws.dtype == torch.bfloat16


NOISY: dict[str, Callable[[], nn.Module]] = {
    "dropout": mlp,
    "concrete": lambda: dubio.convert(mlp(), rules.replace_dropout(masks.Concrete)),
    "bernoulli": lambda: dubio.convert(mlp(), rules.replace_dropout(masks.LearnableBernoulli)),
    "gaussian": lambda: dubio.convert(mlp(), rules.replace_dropout(masks.LearnableGaussian)),
    "bayes": lambda: dubio.convert(mlp(), rules.bayes(priors.Gaussian(0.1))),
    "drop connect": lambda: nn.Sequential(
        dubio.DropConnect(nn.Linear(6, 8), masks.Concrete()), nn.ReLU(), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", NOISY)
def test_objectives_learn_under_autocast(name: str) -> None:
    torch.manual_seed(0)
    network = NOISY[name]()
    x, y = torch.randn(64, 6), torch.arange(64) % 3
    elbo = dubio.ELBO(network, CLASSES, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        loss = elbo(x, y)
    loss.backward()
    assert loss.dtype == torch.float32
    assert elbo.kl.dtype == torch.float32
    for weight in network.parameters():
        assert weight.grad is not None
        assert weight.grad.dtype == weight.dtype == torch.float32
        assert bool(weight.grad.isfinite().all())
    other = dubio.ELBO(network, CLASSES, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss, other(x, y), rtol=5e-2, atol=2e-2)
    torch.testing.assert_close(elbo.kl, other.kl)  # no product of it is rounded
    with torch.autocast("cpu", torch.bfloat16):
        history = dubio.fit(elbo, (x, y), epochs=2, batch_size=16, progress=False)
    assert all(0 < epoch.loss < 100 for epoch in history)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NOISY)
def test_weights_of_half_precision(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = NOISY[name]()
    x, y = torch.randn(16, 6), torch.arange(16) % 3
    exact = dubio.predict(network, x, draws=20, generator=0, likelihood=CLASSES)
    network.to(dtype)
    p = dubio.predict(network, x.to(dtype), draws=20, generator=0, likelihood=CLASSES)
    assert p.draws.dtype == dtype
    assert p.mean.dtype == torch.float32
    assert bool(p.entropy.isfinite().all())
    torch.testing.assert_close(p.mean, exact.mean, rtol=0.1, atol=0.1)
    elbo = dubio.ELBO(network, CLASSES, 16)
    loss = elbo(x.to(dtype), y)
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(bool(w.grad.isfinite().all()) for w in network.parameters() if w.grad is not None)
