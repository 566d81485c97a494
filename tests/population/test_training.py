"""Members of a population become what they become alone."""

import copy
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import dubio
from alone import BATCH, MEMBERS, NETWORKS, N, assert_same, data, objectives, train_alone
from dubio.population.streams import MemberStream

STEPS = 12


@pytest.mark.parametrize("kind", NETWORKS)
def test_members_equal_networks_trained_one_by_one(kind: str) -> None:
    x, y = data()
    members = objectives(kind)
    alone = copy.deepcopy(members)
    before = copy.deepcopy(members)
    rates = [1e-3 * (m + 1) for m in range(MEMBERS)]
    seeds = list(range(10, 10 + MEMBERS))
    outcome = dubio.Population(members, seeds).fit(
        x, y, steps=STEPS, batch_size=BATCH, learning_rate=rates
    )
    assert outcome.steps.tolist() == [STEPS] * MEMBERS
    for m, (member, twin) in enumerate(zip(members, alone, strict=True)):
        train_alone(twin, seeds[m], np.arange(N), rates[m], STEPS)
        assert_same(twin, member)
        assert member.step == twin.step == STEPS
        start = dict(before[m].named_parameters())
        assert all(not torch.equal(p, start[name]) for name, p in member.named_parameters())


class Peculiar(nn.Module):
    """Has a hook that is its own, columns and a method that are a member's, a count and a note."""

    def __init__(self, m: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(4, 1)
        self.register_forward_hook(self.scale)
        self.columns = torch.tensor([m, 1, 2 + m, 7])
        self.shift = MethodType(lambda own: own.first.bias.mean(), self)
        self.calls = 0
        self.hidden: Tensor | None = None

    def scale(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output * self.first.weight.square().mean()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.hidden = torch.tanh(self.first(x))
        return self.last(self.hidden[:, self.columns]) + self.shift() / self.calls


def test_members_with_hooks_and_attributes_of_their_own() -> None:
    torch.manual_seed(0)
    x, y = data()
    likelihood = dubio.likelihoods.Gaussian(1.0)
    members = [dubio.ELBO(Peculiar(m), likelihood, N) for m in range(MEMBERS)]
    alone = copy.deepcopy(members)
    dubio.Population(members, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-3, STEPS)
        assert_same(twin, members[m])


def test_members_have_rows_of_their_own_in_any_number() -> None:
    x, y = data()
    rows = [torch.arange(m, N, m + 1) for m in range(MEMBERS)]
    members = objectives("bernoulli", rows=[len(r) for r in rows])
    alone = copy.deepcopy(members)
    outcome = dubio.Population(members, range(MEMBERS)).fit(
        x, y, rows=rows, epochs=4, batch_size=BATCH, learning_rate=1e-2
    )
    for m, twin in enumerate(alone):
        steps = -(-4 * len(rows[m]) // BATCH)
        assert outcome.steps[m] == steps
        train_alone(twin, m, rows[m].numpy(), 1e-2, steps)
        assert_same(twin, members[m])


@pytest.mark.parametrize("every", [4, 5])
def test_the_loss_is_the_mean_since_the_last_report(every: int) -> None:
    x, y = data()
    members = objectives("plain")
    alone = copy.deepcopy(members)
    outcome = dubio.Population(members, range(MEMBERS)).fit(
        x, y, steps=STEPS, batch_size=BATCH, validate_every=every
    )
    last = STEPS % every or every
    for m, twin in enumerate(alone):
        losses = train_alone(twin, m, np.arange(N), 1e-3, STEPS)
        torch.testing.assert_close(outcome.loss[m].item(), sum(losses[-last:]) / last)


def test_schedules_go_on_from_fit_to_fit() -> None:
    x, y = data()
    members = objectives("bernoulli")
    for member in members:
        member._kl_weight = dubio.schedules.warm_up(10)
    alone = copy.deepcopy(members)
    population = dubio.Population(members, range(MEMBERS))
    population.fit(x, y, steps=3, batch_size=BATCH)
    assert [member.step for member in members] == [3] * MEMBERS
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-3, 3)
        assert_same(twin, members[m])
    members[0].step = 7
    with pytest.raises(ValueError, match="expected all at the same step"):
        population.fit(x, y, steps=3)


def test_learned_precisions_with_a_prior() -> None:
    x, y = data()
    members = objectives("concrete")
    for m, member in enumerate(members):
        prior = dubio.likelihoods.GammaPrior(2.0, 0.01)
        member.likelihood = dubio.likelihoods.LearnedGaussian(1.0 + m, prior=prior)
    alone = copy.deepcopy(members)
    dubio.Population(members, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-3, STEPS)
        assert_same(twin, members[m])


def test_a_rate_of_one_beside_others_drops_everything() -> None:
    x, y = data()
    members = objectives("dropout")
    members[1].model[2].p = 1.0
    alone = copy.deepcopy(members)
    dubio.Population(members, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-3, STEPS)
        assert_same(twin, members[m])


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch's own making
def test_parametrized_layers() -> None:
    x, y = data()
    members = objectives("plain")
    for member in members:
        weight_norm(member.model[0])
    alone = copy.deepcopy(members)
    dubio.Population(members, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for m, twin in enumerate(alone):
        train_alone(twin, m, np.arange(N), 1e-3, STEPS)
        assert_same(twin, members[m])


def test_mc_dropout_by_hand() -> None:
    """The formulas written out: masks 1[u < keep]/keep, the KL of Gal & Ghahramani 2016, eq. 9."""
    x, y = data()
    members = objectives("bernoulli")
    population = dubio.Population(members, range(MEMBERS))
    starts = [copy.deepcopy(dict(m.model.named_parameters())) for m in members]
    population.fit(x, y, steps=STEPS, batch_size=BATCH, learning_rate=1e-2)
    for m, start in enumerate(starts):
        w1, b1, w2, b2 = (p.detach().requires_grad_() for p in start.values())
        keep, scale, tau = 1 - (0.05 + 0.1 * m), 0.01 + 0.1 * m, 1.0 + 3 * m
        stream = MemberStream(m, 0, 0)
        adam = torch.optim.Adam([w1, b1, w2, b2], lr=1e-2)
        for _ in range(STEPS):
            rows = stream.rows(BATCH, np.arange(N))
            u = torch.empty(BATCH * (4 + 8), dtype=torch.float64)
            stream.fill("uniform", u)
            u1, u2 = u.split([BATCH * 4, BATCH * 8])
            inputs = x[rows] * (u1.view(BATCH, 4) < keep) / keep
            hidden = (inputs @ w1.T + b1).relu() * (u2.view(BATCH, 8) < keep) / keep
            errors = (y[rows] - hidden @ w2.T - b2).square().sum(1)
            nll = (0.5 * tau * errors + 0.5 * np.log(2 * np.pi / tau)).mean()
            kl = (scale**2 * w1.square().sum() + 4 * scale**2 * w2.square().sum()) / (2 * keep)
            adam.zero_grad()
            (nll + (0.5 + 0.2 * m) * kl / N).backward()
            adam.step()
        for p, name in zip((w1, b1, w2, b2), start, strict=True):
            trained = dict(members[m].model.named_parameters())[name]
            torch.testing.assert_close(trained, p, rtol=1e-7, atol=1e-9)


def test_a_member_does_not_depend_on_who_is_trained_beside_it() -> None:
    x, y = data()
    together, apart = objectives("concrete"), objectives("concrete")
    dubio.Population(together, range(MEMBERS)).fit(x, y, steps=STEPS, batch_size=BATCH)
    for part in (slice(0, 1), slice(1, 3)):
        seeds = range(MEMBERS)[part]
        dubio.Population(apart[part], seeds).fit(x, y, steps=STEPS, batch_size=BATCH)
    for one, other in zip(together, apart, strict=True):
        assert_same(one, other)
