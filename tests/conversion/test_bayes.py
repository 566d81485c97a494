"""Networks that get distributions on their weights."""

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import dubio
from dubio import Bayesian, priors, rules
from prior_cases import Case, every_prior


def test_every_layer_of_a_network_without_dropout() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 2)
    )
    x = torch.randn(4, 1, 6, 6)
    found = dubio.convert(net, rules.bayes(priors.Laplace(0.5), sampler="flipout"))
    assert [type(m) for m in found if isinstance(m, Bayesian)] == [Bayesian] * 3
    assert torch.equal(found.eval()(x), net.eval()(x))
    assert (dubio.predict(found, x, draws=5).std > 0).all()
    assert not any(isinstance(module, Bayesian) for module in net.modules())
    assert torch.equal(dubio.freeze(found)(x), net(x))


@every_prior
def test_convert_fit_and_predict(prior: Case) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(40, 4)
    y = x[:, :1].sin()
    found, again = (dubio.convert(net, rules.bayes(prior(0.5))) for _ in range(2))
    likelihood = dubio.likelihoods.Gaussian(10.0)
    seed = torch.Generator().manual_seed(0)
    elbo = dubio.ELBO(found, likelihood, len(x), generator=seed)
    adam = partial(torch.optim.Adam, lr=0.02)
    history = dubio.fit(elbo, (x, y), epochs=60, optimizer=adam, progress=False)
    assert history[-1].loss < history[0].loss - 1
    for one, other in zip(found.parameters(), again.parameters(), strict=True):
        assert one.isfinite().all()
        assert not torch.equal(one, other)
    again.load_state_dict(found.state_dict())
    draws = [
        dubio.predict(each, x, draws=5, generator=torch.Generator().manual_seed(1)).draws
        for each in (found, again, copy.deepcopy(found))
    ]
    assert draws[0].std(0).min() > 0
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[0], draws[2])


def test_dropout_gives_way() -> None:
    net = nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    found = dubio.convert(net, rules.bayes())
    assert isinstance(found[0], nn.Identity)


def test_transformer_with_attention() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 5, 8)
    found = dubio.convert(net, rules.bayes(deviation=0.05))
    kinds = {type(m.layer) for m in found.modules() if isinstance(m, Bayesian)}
    assert nn.MultiheadAttention in kinds
    assert nn.Linear in kinds
    torch.testing.assert_close(found.eval()(x), net(x))
    draws = dubio.predict(found, x, draws=4, generator=torch.Generator().manual_seed(0)).draws
    noise = dubio.Noise(4, generator=torch.Generator().manual_seed(0))
    for k in range(4):
        with torch.no_grad(), noise[k]:
            torch.testing.assert_close(found(x), draws[k])
    assert (draws.std(0) > 1e-4).all()


def test_recurrent_layers_and_embeddings_sample_their_weights() -> None:
    net = nn.ModuleDict(
        {"words": nn.Embedding(9, 4), "over": nn.LSTM(4, 3), "out": nn.Linear(3, 2)}
    )
    found = dubio.convert(net, rules.bayes(sampler="local"))
    samplers = {name: found[name].sampler for name in found}
    assert samplers == {"words": "weights", "over": "weights", "out": "local"}


def test_chosen_layers_and_priors_of_their_own() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    rule = rules.bayes(
        lambda place: priors.Gaussian.around(place.layer, 0.01), where="2", deviation=0.01
    )
    found = dubio.convert(net, rule)
    assert isinstance(found[0], nn.Linear)
    assert float(dubio.kl(found).detach()) == pytest.approx(0, abs=1e-4)
    both = dubio.convert(
        net, lambda place: rules.bayes(priors.Gaussian(0.1 if place.name == "0" else 2.0))(place)
    )
    assert [both[k].prior for k in (0, 2)] == [priors.Gaussian(0.1), priors.Gaussian(2.0)]


def test_the_plan_tells() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    before = copy.deepcopy(net.state_dict())
    assert "Bayesian" in str(dubio.plan(net, rules.bayes()))
    assert repr(rules.bayes(where="head.*")) == (
        "bayes(Gaussian(1), sampler='weights', where='head.*')"
    )
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"prior: expected one from dubio.priors or a function"):
        rules.bayes(0.5)  # type: ignore[arg-type]
    scripted = nn.Sequential(torch.jit.script(nn.Linear(3, 2)))
    with pytest.raises(TypeError, match="compiled by TorchScript"):
        dubio.convert(scripted, rules.bayes())


def test_layers_under_a_parametrization_sample_their_weights() -> None:
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.Linear(4, 2))
    found = dubio.convert(net, rules.bayes(sampler="local"))
    assert [layer.sampler for layer in found] == ["weights", "local"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rules.bayes(sampler="locl"), ValueError, "sampler: expected one of weights"),
        (lambda: rules.bayes(deviation=-1), ValueError, "deviation: expected a positive number"),
        (lambda: rules.bayes(priors.Gaussian), TypeError, "prior: expected one from dubio.priors"),
    ],
)
def test_wrong_arguments_of_the_rule(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
