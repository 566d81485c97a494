"""Ensembles against their members, each predicted by itself."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical as Mixing
from torch.distributions import Independent, MixtureSameFamily, Normal

import dubio
from dubio.likelihoods import Categorical, Gaussian, LearnedGaussian, Poisson

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(seed: int, outputs: int = 2) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, outputs))


def noisy(seed: int, outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Dropout(0.5), *plain(seed, outputs))


def in_eval_mode(net: nn.Module) -> Tensor:
    net.eval()
    output: Tensor = net(X).detach()
    net.train()
    return output


def test_a_deep_ensemble_is_the_mixture_of_its_members() -> None:
    nets = [plain(seed) for seed in range(4)]
    before = [{k: v.clone() for k, v in net.state_dict().items()} for net in nets]
    p = dubio.predict(nets, X, likelihood=Categorical())
    probabilities = torch.stack([in_eval_mode(net) for net in nets]).softmax(-1)  # (M, B, K)
    assert p.num_draws == 4
    torch.testing.assert_close(p.mean, probabilities.mean(0))
    information = (
        Mixing(probabilities.mean(0)).entropy() - Mixing(probabilities).entropy().mean(0)
    ).clamp(min=0)
    torch.testing.assert_close(p.mutual_information, information, rtol=1e-4, atol=1e-6)
    for net, state in zip(nets, before, strict=True):
        assert net.training
        torch.testing.assert_close(dict(net.state_dict()), state, rtol=0, atol=0)


def test_noisy_members_draw_one_after_the_other() -> None:
    nets, generator = [noisy(0), noisy(1)], seeded()
    expected = [dubio.predict(net, X, draws=7, generator=generator).draws for net in nets]
    assert torch.equal(dubio.predict(nets, X, draws=7, generator=0).draws, torch.cat(expected))
    modules = nn.ModuleList(nets)
    assert torch.equal(dubio.predict(modules, X, draws=7, generator=0).draws, torch.cat(expected))


def test_every_member_weighs_the_same() -> None:
    nets, generator = [noisy(0), plain(1)], seeded()
    p = dubio.predict(nets, X, draws=7, generator=0)
    own = dubio.predict(nets[0], X, draws=7, generator=generator)
    assert p.num_draws == 14
    torch.testing.assert_close(p.mean, (own.mean + in_eval_mode(nets[1])) / 2)


def test_shuffled_batches_are_the_same_for_all_members() -> None:
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, X[:, 0]), 2, shuffle=True, generator=seeded(3)
    )
    first, again = plain(0), plain(0)
    p = dubio.predict([first, again], loader)
    assert torch.equal(p.draws[0], p.draws[1])
    rows = p.draws[0].sort(0).values
    torch.testing.assert_close(rows, in_eval_mode(first).sort(0).values)
    stream = dubio.predict([first, again], (x for x in X.split(2)))
    torch.testing.assert_close(stream.draws[1], in_eval_mode(first))


def test_learned_precisions_of_members() -> None:
    nets, precisions = [plain(0), plain(1), plain(2)], [1.0, 4.0, 9.0]
    y = torch.randn(6, 2, generator=seeded(1))
    p = dubio.predict(nets, X, likelihood=[LearnedGaussian(tau) for tau in precisions])
    means = torch.stack([in_eval_mode(net) for net in nets], 1)  # (B, M, D)
    stds = torch.tensor(precisions).rsqrt()[:, None].expand(3, 2)
    members = Independent(Normal(means, stds), 1)
    oracle = MixtureSameFamily(Mixing(torch.ones(6, 3)), members)
    torch.testing.assert_close(p.log_prob(y), oracle.log_prob(y))
    torch.testing.assert_close(p.variance, oracle.variance)


def test_one_precision_stays_outside_of_the_outputs() -> None:
    nets = [plain(0), plain(1)]
    p = dubio.predict(nets, X, likelihood=[Gaussian(2.0), Gaussian(2.0)])
    assert isinstance(p.likelihood, Gaussian)
    assert p.draws.shape == (2, 6, 2)


def test_one_network_twice_is_a_warning() -> None:
    net = plain(0)
    with pytest.warns(UserWarning, match="as members 0 and 1") as caught:
        p = dubio.predict([net, net], X)
    assert caught[0].filename == __file__
    assert p.num_draws == 2


def test_broken_rows_are_a_warning() -> None:
    net, x = plain(0), X.clone()
    x[2] = math.inf
    with pytest.warns(RuntimeWarning, match="in 1 of 6 rows"):
        dubio.predict([net], x)


@pytest.mark.parametrize(
    ("nets", "options", "error", "match"),
    [
        ([], {}, ValueError, "at least one network"),
        ("net", {}, ValueError, "at least one network"),
        ([plain(0), 3], {}, TypeError, "model: expected an nn.Module or a function, got int"),
        ([plain(0), plain(1, 3)], {}, ValueError, r"\(6, 2\) of member 0 and \(6, 3\) of member 1"),
        ([plain(0)], {"keep_draws": False}, ValueError, "keep_draws: expected True"),
        ([plain(0)], {"likelihood": [Gaussian(1.0)] * 2}, ValueError, "each of 1 members, got 2"),
        (
            [plain(0), plain(1)],
            {"likelihood": [Gaussian(1.0), Poisson()]},
            ValueError,
            "likelihood: expected one for all members",
        ),
        ([noisy(0)], {"where": "typo"}, dubio.NoSitesError, "where= chose none"),
        (plain(0), {"likelihood": [Gaussian(1.0)]}, TypeError, "likelihood: expected an instance"),
    ],
)
def test_errors(nets: Any, options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        dubio.predict(nets, X, **options)
