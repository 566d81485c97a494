"""Choices against exact Thompson probabilities.

A share of independent events is compared with its probability at 5.5 standard errors: a false alarm
of 4e-8 for each of some twenty comparisons, less than 1e-6 for the file.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import dubio
from beta_arms import BetaArms, thompson_probabilities
from dubio import decide
from dubio.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian

FAR = 5.5
POSTERIORS = [(3, 4), (6, 4), (2, 2)]
X = torch.zeros(1, 2)
CONTEXT = torch.tensor([[0.7, -1.2]])


def beta_agent(**options: Any) -> decide.Bandit:
    likelihood = Bernoulli(outputs="probabilities")
    return decide.Bandit(BetaArms(POSTERIORS), 3, likelihood=likelihood, **options)


def bayes_linear(inputs: int, outputs: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A linear network, and means and deviations of its weights, (outputs, inputs)."""
    draw = torch.Generator().manual_seed(5)
    layer = dubio.BayesLinear(inputs, outputs, bias=False)
    means = dict(layer.named_parameters())["layer.weight"]
    rho = dict(layer.named_parameters())["rho"]
    with torch.no_grad():
        means.copy_(torch.randn(means.shape, generator=draw) * 0.4)
        rho.copy_(torch.randn(rho.shape, generator=draw) * 0.5)
    deviations = nn.functional.softplus(rho).view_as(means)
    return layer, means.detach().double(), deviations.detach().double()


def check_shares(shares: Any, exact: Any, events: int) -> None:
    shares, exact = np.asarray(shares), np.asarray(exact)
    errors = np.sqrt(exact * (1 - exact) / events)
    assert (abs(shares - exact) <= FAR * errors).all(), (shares, exact, errors)


class TestBetaPosteriors:
    exact = thompson_probabilities([stats.beta(*one) for one in POSTERIORS])

    def test_probabilities_are_those_of_thompson_sampling(self) -> None:
        draws = 20_000
        check_shares(beta_agent().probabilities(X, draws=draws)[0], self.exact, draws)

    @pytest.mark.parametrize("functions", [1, 8])
    def test_so_are_actions(self, functions: int) -> None:
        agent = beta_agent(functions=functions)
        choices = [agent.choose(X) for _ in range(1000)]
        counts = np.bincount([int(choice.action) for choice in choices], minlength=3)
        check_shares(counts / 1000, self.exact, 1000)
        odds = torch.cat([choice.probabilities for choice in choices])
        check_shares(odds.mean(0), self.exact, 1000 * functions)

    def test_expected_is_the_posterior_mean(self) -> None:
        found = beta_agent().expected(X, draws=50_000)[0].numpy()
        for (a, b), mean in zip(POSTERIORS, found, strict=True):
            error = stats.beta(a, b).std() / math.sqrt(50_000)
            assert abs(mean - a / (a + b)) < FAR * error

    def test_only_allowed_actions_compete(self) -> None:
        exact = thompson_probabilities([stats.beta(*one) for one in POSTERIORS[:2]])
        odds = beta_agent().probabilities(X, draws=50_000, allowed=[True, True, False])[0]
        assert odds[2] == 0
        check_shares(odds[:2], exact, 50_000)


class TestLinearGaussian:
    def test_one_reward_per_action(self) -> None:
        net, mean, deviation = bayes_linear(2, 3)
        agent = decide.Bandit(net, 3, likelihood=Gaussian(1.0))
        scores = (CONTEXT.double() * mean).sum(1), (CONTEXT.double() * deviation).square().sum(1)
        posteriors = [stats.norm(m, math.sqrt(v)) for m, v in zip(*scores, strict=True)]
        odds = agent.probabilities(CONTEXT, draws=50_000)[0]
        check_shares(odds, thompson_probabilities(posteriors), 50_000)

    @pytest.mark.parametrize("average", [1, 2])
    def test_a_function_is_shared_by_all_actions(self, average: int) -> None:
        # the context's weights are in both scores and cancel; with noise of their own they stay
        net, mean, deviation = bayes_linear(4, 1)
        agent = decide.Bandit(
            net, 2, likelihood=Gaussian(1.0), action_features="one-hot", average=average
        )
        gap = float(mean[0, 2] - mean[0, 3])
        spread = math.sqrt(float(deviation[0, 2:].square().sum()) / average)
        exact = stats.norm.cdf(gap / spread)
        odds = agent.probabilities(CONTEXT, draws=50_000)[0]
        check_shares(odds, [exact, 1 - exact], 50_000)

    def test_means_and_then_log_variances(self) -> None:
        net, mean, deviation = bayes_linear(2, 4)
        agent = decide.Bandit(net, 2, likelihood=HeteroscedasticGaussian())
        found = agent.expected(CONTEXT, draws=20_000)[0].double()
        means = (CONTEXT.double() * mean).sum(1)[:2]
        errors = (CONTEXT.double() * deviation).square().sum(1)[:2].sqrt() / math.sqrt(20_000)
        assert bool(((found - means).abs() < FAR * errors).all())


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "thompson"},
        {"rule": "thompson", "floor": 0.1},
        {"rule": "greedy", "floor": 0.2},
        {"rule": "epsilon", "epsilon": 0.3},
        {"rule": "upper", "bonus": 2.0, "floor": 0.05},
    ],
    ids=str,
)
@pytest.mark.parametrize("allowed", [None, [True, False, True]])
def test_propensities_are_frequencies(options: dict[str, Any], allowed: Any) -> None:
    rows = 100_000
    choice = beta_agent(functions=16, **options).choose(X.expand(rows, -1), allowed)
    torch.testing.assert_close(choice.probabilities.sum(1), torch.ones(rows).double())
    assert bool((choice.probabilities == choice.probabilities[0]).all())  # functions are shared
    assert torch.equal(choice.probability, choice.probabilities[range(rows), choice.action])
    counts = np.bincount(choice.action.numpy(), minlength=3)
    check_shares(counts / rows, choice.probabilities[0], rows)
    floor = options.get("floor", 0.0)
    possible = torch.ones(3, dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    assert bool((choice.probabilities[0, possible] >= floor).all())
    assert bool((choice.probabilities[0, ~possible] == 0).all())


def test_an_ensemble_without_noise_has_exact_shares() -> None:
    def member(weights: list[float]) -> nn.Module:
        net = nn.Linear(1, 2, bias=False)
        net.weight.data = torch.tensor(weights)[:, None]
        return net

    nets = [member(w) for w in ([1.0, 0.0], [3.0, 2.0], [0.0, 1.0], [1.0, 1.0])]
    agent = decide.Bandit(nets, 2, likelihood=Gaussian(1.0))
    odds = agent.choose(torch.tensor([[1.0], [-1.0], [0.0]])).probabilities
    expected = torch.tensor([[2.5, 1.5], [1.5, 2.5], [2.0, 2.0]]).double() / 4
    assert torch.equal(odds, expected)
    agent = decide.Bandit(nets, 2, likelihood=Gaussian(1.0), rule="upper", bonus=3.0)
    scores = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0], [1.0, 1.0]])
    best = (scores.mean(0) + 3.0 * scores.std(0)).argmax()
    assert int(agent.choose(torch.ones(1, 1)).action) == int(best)


def test_ties_of_greedy_are_split() -> None:
    net = nn.Linear(1, 3)
    nn.init.zeros_(net.weight)
    net.bias.data = torch.tensor([1.0, 0.0, 1.0])
    agent = decide.Bandit(net, 3, likelihood=Gaussian(1.0), rule="epsilon", epsilon=0.3)
    odds = agent.choose(torch.ones(1, 1)).probabilities
    torch.testing.assert_close(odds[0], torch.tensor([0.45, 0.1, 0.45]).double())
    odds = agent.choose(torch.ones(1, 1), torch.tensor([[True, True, False]])).probabilities
    torch.testing.assert_close(odds[0], torch.tensor([0.85, 0.15, 0.0]).double())
