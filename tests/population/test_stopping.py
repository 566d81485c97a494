"""Each member ends when it would end alone, with the weights that it would end with."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from alone import BATCH, MEMBERS, N, assert_same, data, objectives
from dubio.population.streams import MemberStream

TRAIN, HELD_OUT = np.arange(40), np.arange(40, N)


def _negative_log_density(objective: nn.Module, rows: np.ndarray) -> float:
    x, y = data()
    with torch.no_grad():
        normal = torch.distributions.Normal(
            objective.model(x[rows]), objective.likelihood.noise_precision**-0.5
        )
        return -float(normal.log_prob(y[rows]).sum(1).mean())


def _stop_alone(
    objective: nn.Module, seed: int, rate: float, every: int, patience: int, steps: int
) -> tuple[int, int]:
    """Train with early stopping, as anyone would write it: steps done and the best of them."""
    x, y = data()
    stream = MemberStream(seed, 0, 0)
    adam = torch.optim.Adam(objective.parameters(), lr=rate)
    best, best_step, since, kept = float("inf"), 0, 0, {}
    for step in range(1, steps + 1):
        batch = stream.rows(BATCH, TRAIN)
        adam.zero_grad()
        objective(x[batch], y[batch]).backward()
        adam.step()
        if step % every == 0 or step == steps:
            score = _negative_log_density(objective, HELD_OUT)
            since += 1
            if score < best:
                best, best_step, since = score, step, 0
                kept = copy.deepcopy(objective.state_dict())
            if since >= patience:
                break
    objective.load_state_dict(kept)
    return step, best_step


@pytest.mark.parametrize("steps", [23, 80])
def test_early_stopping_equals_that_of_networks_alone(steps: int) -> None:
    x, y = data()
    rates = [1e-3, 0.2, 0.05]
    members = objectives("plain", rows=[40] * MEMBERS)
    alone = copy.deepcopy(members)
    outcome = dubio.Population(members, range(MEMBERS)).fit(
        x,
        y,
        rows=[torch.from_numpy(TRAIN)] * MEMBERS,
        steps=steps,
        batch_size=BATCH,
        learning_rate=rates,
        validation_rows=[torch.from_numpy(HELD_OUT)] * MEMBERS,
        validate_every=5,
        patience=2,
    )
    for m, twin in enumerate(alone):
        done, best = _stop_alone(twin, m, rates[m], 5, 2, steps)
        assert outcome.steps[m] == done
        assert outcome.best_step[m] == best
        twin.step = members[m].step
        assert_same(twin, members[m])
        score = _negative_log_density(twin, HELD_OUT)
        torch.testing.assert_close(outcome.validation[m].item(), score)
    assert len(set(outcome.steps.tolist())) > 1 or steps == 23


def test_noisy_members_stop_as_they_would_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest goes on with its own rows and noise when others have left."""
    monkeypatch.setattr("dubio.population.feed._STEPS_AHEAD", 7)  # drawn anew many times
    x, y = data()
    rates = [0.2, 1e-3, 0.05]

    def train(members: list[nn.Module], which: slice) -> list[int]:
        rows = [torch.from_numpy(TRAIN), torch.from_numpy(HELD_OUT)]
        outcome = dubio.Population(members, range(MEMBERS)[which]).fit(
            x,
            y,
            rows=[rows[0]] * len(members),
            steps=60,
            batch_size=BATCH,
            learning_rate=rates[which],
            validation_rows=[rows[1]] * len(members),
            validate_every=5,
            patience=2,
        )
        return outcome.steps.tolist()

    together = objectives("concrete", rows=[40] * MEMBERS)
    apart = objectives("concrete", rows=[40] * MEMBERS)
    steps = train(together, slice(0, MEMBERS))
    assert steps[0] < steps[1]
    for m in range(MEMBERS):
        assert train(apart[m : m + 1], slice(m, m + 1)) == [steps[m]]
        assert_same(apart[m], together[m])


def test_validation_of_other_objectives_is_their_loss_in_eval_mode() -> None:
    x, y = data()

    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (self.net(x) - y).square().mean()

    torch.manual_seed(0)
    members = [Squared() for _ in range(MEMBERS)]
    rows = [torch.arange(m, N) for m in range(MEMBERS)]
    outcome = dubio.Population(members).fit(
        x, y, steps=9, batch_size=BATCH, validation_rows=rows, validate_every=3
    )
    for m, member in enumerate(members):
        with torch.no_grad():
            score = float(member.eval()(x[rows[m]], y[rows[m]]))
        torch.testing.assert_close(outcome.validation[m].item(), score)


def test_a_member_that_breaks_stays_as_it_was_and_the_others_go_on() -> None:
    x, y = data()
    members = objectives("bernoulli")
    whole = copy.deepcopy(members)
    members[1].model[0].layer.weight.data[0, 0] = torch.inf
    broken = copy.deepcopy(members[1])
    outcome = dubio.Population(members, range(MEMBERS)).fit(x, y, steps=6, batch_size=BATCH)
    assert outcome.failed.tolist() == [False, True, False]
    assert outcome.steps.tolist() == [6, 1, 6]
    broken.step = 1
    assert_same(broken, members[1])
    others = [whole[0], whole[2]]
    dubio.Population(others, [0, 2]).fit(x, y, steps=6, batch_size=BATCH)
    assert_same(others[0], members[0])
    assert_same(others[1], members[2])
