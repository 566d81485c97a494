"""What a population predicts is what its members predict."""

import math

import pytest
import torch
from torch import nn

import dubio
from alone import MEMBERS, N, data, objectives
from dubio.population.streams import MemberStream


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_draws_by_hand() -> None:
    x, _ = data()
    members = objectives("dropout")
    found = dubio.Population(members, range(MEMBERS)).predict(x, draws=6, generator=seeded())
    seed = int(torch.randint(2**63 - 1, (), generator=seeded()))
    for m, (member, predictive) in enumerate(zip(members, found, strict=True)):
        first, _, dropout, last = member.model
        noise = torch.empty(6 * N * 8, dtype=torch.float64)
        MemberStream(m, 2, seed).fill("uniform", noise)
        kept = noise.view(6, N, 8) < 1 - dropout.p
        with torch.no_grad():
            expected = last(first(x).relu() * kept / (1 - dropout.p))
        torch.testing.assert_close(predictive.draws, expected)


@pytest.mark.parametrize("kind", ["concrete", "learnable", "bayes gaussian", "bayes local"])
@pytest.mark.parametrize("shared", [False, True])
def test_draws_have_the_distribution_of_predict(kind: str, shared: bool) -> None:
    """Means over 2000 draws differ by less than 6 standard errors: two false alarms in 1e9.

    There are 3 · 5 numbers compared in each of 8 cases, which makes 3e-7 in all.
    """
    x, _ = data()
    members = objectives(kind)
    draws = 2000
    found = dubio.Population(members).predict(x[:5], draws=draws, shared=shared)
    for member, own in zip(members, found, strict=True):
        alone = dubio.predict(member.model, x[:5], draws=draws, likelihood=member.likelihood)
        error = ((own.epistemic + alone.epistemic) / draws).sqrt()
        assert bool(((own.mean - alone.mean).abs() < 6 * error).all())


def test_rows_share_their_masks_if_asked() -> None:
    x, _ = data()
    same = x[:1].expand(4, -1)
    population = dubio.Population(objectives("bernoulli"))
    for predictive in population.predict(same, draws=20, shared=True):
        assert bool((predictive.draws == predictive.draws[:, :1]).all())
        assert predictive.epistemic.min() > 0


@pytest.mark.parametrize("kind", ["plain", "bernoulli", "bayes gaussian"])
def test_scores_are_those_of_the_predictives(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubio.population.prediction.ROWS_AT_A_TIME", 100)  # many pieces
    x, y = data()
    rows = [torch.arange(10), torch.arange(5, 15), torch.arange(20, 27)]
    population = dubio.Population(objectives(kind), range(MEMBERS))
    scores = population.evaluate(x, y, rows=rows, draws=30, generator=seeded())
    for m, own in enumerate(rows):
        one = dubio.Population(population.members[m : m + 1], [m])
        (predictive,) = one.predict(x[own], draws=30, generator=seeded())
        torch.testing.assert_close(
            scores.log_prob[m], predictive.log_prob(y[own]).mean(), check_dtype=False
        )
        rmse = (predictive.mean - y[own]).square().mean().sqrt()
        torch.testing.assert_close(scores.rmse[m], rmse, check_dtype=False)


def test_an_ensemble_is_the_mixture_of_members_with_their_own_precisions() -> None:
    x, y = data()
    population = dubio.Population(objectives("plain"), range(MEMBERS))
    mixture = population.ensemble(x)
    logs = torch.stack([p.log_prob(y) for p in population.predict(x)])
    torch.testing.assert_close(mixture.log_prob(y), logs.logsumexp(0) - math.log(MEMBERS))
    means = torch.stack([p.mean for p in population.predict(x)])
    torch.testing.assert_close(mixture.mean, means.mean(0))
    noise = torch.tensor([1 / (1 + 3 * m) for m in range(MEMBERS)]).mean()
    torch.testing.assert_close(mixture.variance, means.var(0, correction=0) + noise)


def test_an_ensemble_of_classifiers() -> None:
    x, _ = data()
    labels = (x[:, 0] > 0).long()
    members = [
        dubio.ELBO(nn.Sequential(nn.Linear(4, 3)), dubio.likelihoods.Categorical(), N)
        for _ in range(MEMBERS)
    ]
    population = dubio.Population(members)
    population.fit(x, labels, steps=5)
    with torch.no_grad():
        expected = torch.stack([m.model(x).softmax(-1) for m in members]).mean(0)
    torch.testing.assert_close(population.ensemble(x).mean, expected)
    assert population.evaluate(x, labels).rmse.isnan().all()


def test_networks_are_needed_for_predictions() -> None:
    with pytest.raises(TypeError, match=r"expected dubio\.ELBO objectives"):
        dubio.Population([_Loss()]).predict(torch.randn(3, 4))


class _Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight - y).square().mean()
