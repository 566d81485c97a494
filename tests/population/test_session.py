"""A session trains members as a loop of their own would, from batch to batch."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from alone import MEMBERS, NETWORKS, FromStream, N, assert_same, data, objectives
from dubio.noise.noise import noise_from
from dubio.population import recording
from dubio.population.outputs import MemberOutputs
from dubio.population.streams import MemberStream

STEPS, BATCH = 14, 8


def batches(steps: int = STEPS, members: int = MEMBERS, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Rows of its own for every member in every step: (K, M, B, …)."""
    x, y = data()
    rows = torch.randint(N, (steps, members, BATCH), generator=torch.Generator().manual_seed(seed))
    return x[rows], y[rows]


def train_alone(
    objective: nn.Module,
    seed: int,
    x: Tensor,
    y: Tensor,
    rates: Sequence[float],
    num_data: Sequence[int] = (),
) -> Tensor:
    """A loop as anyone would write it, with the noise of a seed: its losses."""
    noise = FromStream(MemberStream(seed, 0, 0))
    adam = torch.optim.Adam(objective.parameters())
    losses = []
    for k, (own_x, own_y) in enumerate(zip(x, y, strict=True)):
        for group in adam.param_groups:
            group["lr"] = rates[k]
        if num_data:
            objective.num_data = num_data[k]
        with noise_from(noise.a_pass()):
            loss = objective(own_x, own_y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return torch.tensor(losses)


@pytest.fixture
def recorded(recordings: list[bool], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether there was a recording, one by one; the third step of a layout is recorded."""
    monkeypatch.setattr(recording, "STEPS_BEFORE", 3)
    return recordings


@pytest.mark.parametrize("kind", NETWORKS)
def test_members_equal_loops(kind: str) -> None:
    x, y = batches()
    members = objectives(kind)
    alone = copy.deepcopy(members)
    rates = [1e-3 * (m + 1) for m in range(MEMBERS)]
    session = dubio.Population(members, range(MEMBERS)).session(learning_rate=rates)
    before = copy.deepcopy(members)
    losses = torch.cat([session.step(x[0], y[0])[None], session.steps(x[1:], y[1:])])
    for member, old in zip(members, before, strict=True):
        assert_same(member, old)  # until they are written
    session.write()
    for m, (member, twin) in enumerate(zip(members, alone, strict=True)):
        expected = train_alone(twin, m, x[:, m], y[:, m], [rates[m]] * STEPS)
        torch.testing.assert_close(losses[:, m], expected)
        assert_same(twin, member)
        assert member.step == twin.step == STEPS


@pytest.mark.parametrize("kind", ["plain", "dropout", "learnable"])
def test_plain_gradient_descent_is_that_of_a_loop(kind: str) -> None:
    x, y = batches()
    members = objectives(kind)
    alone = copy.deepcopy(members)
    rates = [1e-2 * (m + 1) for m in range(MEMBERS)]
    population = dubio.Population(members, range(MEMBERS))
    with population.session(rates, optimizer="sgd", weight_decay=0.1) as session:
        session.steps(x, y)
    for m, (member, twin) in enumerate(zip(members, alone, strict=True)):
        noise = FromStream(MemberStream(m, 0, 0))
        weights = [p for p in twin.parameters() if p.dim() > 1]
        others = [p for p in twin.parameters() if p.dim() <= 1]
        groups = [{"params": weights, "weight_decay": 0.1}, {"params": others}]
        sgd = torch.optim.SGD(groups, lr=rates[m])
        for own_x, own_y in zip(x[:, m], y[:, m], strict=True):
            with noise_from(noise.a_pass()):
                loss = twin(own_x, own_y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
        assert_same(twin, member)


def test_a_state_of_another_optimizer_is_refused() -> None:
    population = dubio.Population(objectives("plain"), range(MEMBERS))
    state = population.session(optimizer="sgd").state_dict()
    population.session(optimizer="sgd").load_state_dict(state)
    with pytest.raises(ValueError, match="got another optimizer: sgd there and adam here"):
        population.session().load_state_dict(state)
    with pytest.raises(ValueError, match="got another weight_decay"):
        population.session(optimizer="sgd", weight_decay=0.1).load_state_dict(state)
    with pytest.raises(ValueError, match="optimizer: expected 'adam' or 'sgd', got 'lion'"):
        population.session(optimizer="lion")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight_decay: expected 0 with 'adam'"):
        population.session(weight_decay=0.1)
    with pytest.raises(ValueError, match="weight_decay: expected a number >= 0"):
        population.session(optimizer="sgd", weight_decay=float("nan"))


def test_seeds_of_noise_are_functions_of_members() -> None:
    x = data()[0][:6]
    session = dubio.Population(objectives("dropout"), range(MEMBERS)).session()

    def outputs(rows: Tensor, *seeds: int) -> Tensor:
        return session.outputs(rows, draws=2, shared=True, noise_seeds=seeds)

    first, second = outputs(x, 5, 6, 7), outputs(x, 5, 8, 7)
    assert torch.equal(first, outputs(x, 5, 6, 7))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
    torch.testing.assert_close(first[:, :, :2], outputs(x[:2], 5, 6, 7))  # one function for all
    with pytest.raises(ValueError, match="noise_seeds: expected 3, one a member, got 2"):
        outputs(x, 5, 6)
    with pytest.raises(ValueError, match=r"noise_seeds\[1\]: expected an int of at least 0"):
        outputs(x, 5, -6, 7)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["plain", "dropout", "learnable", "bayes mixture"])
def test_recorded_outputs_are_those_of_predictions(
    kind: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubio.population.outputs.STEPS_BEFORE", 2)
    played: list[bool] = []
    record = MemberOutputs._record

    def noted(*args: Any) -> Any:
        program = record(*args)
        played.append(program is not None)
        return program

    monkeypatch.setattr(MemberOutputs, "_record", noted)
    x, y = batches(6)
    population = dubio.Population(objectives(kind), range(MEMBERS))
    session = population.session(learning_rate=1e-2)
    for k in range(6):
        generator = torch.Generator().manual_seed(k)
        found = session.outputs(x[k, 0], draws=3, shared=shared, generator=generator)
        session.write()
        generator.manual_seed(k)
        wanted = population.predict(x[k, 0], draws=3, shared=shared, generator=generator)
        expected = torch.stack([own.draws for own in wanted])
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        session.step(x[k], y[k])
    assert played == [True]


@pytest.mark.parametrize("kind", ["bayes mixture", "dropout", "learnable"])
def test_a_member_of_many_equals_one_alone(kind: str) -> None:
    torch.manual_seed(0)
    many = [
        dubio.ELBO(NETWORKS[kind](m % 3), dubio.likelihoods.Gaussian(2.0), N) for m in range(16)
    ]
    one = copy.deepcopy(many[5])
    x, y = batches(members=16)
    with dubio.Population(many, range(16)).session() as session:
        session.steps(x, y)
    with dubio.Population([one], [5]).session() as session:
        session.steps(x[:, 5:6], y[:, 5:6])
    assert_same(many[5], one)


@pytest.mark.parametrize("kind", ["bernoulli", "bayes mixture"])
def test_num_data_and_learning_rates_change_without_another_recording(
    kind: str, recorded: list[bool]
) -> None:
    x, y = batches()
    members = objectives(kind)
    alone = copy.deepcopy(members)
    session = dubio.Population(members, range(MEMBERS)).session(learning_rate=1e-2)
    counts = [[10 + 3 * k + m for m in range(MEMBERS)] for k in range(STEPS)]
    rates = [1e-2 * 0.9**k for k in range(STEPS)]
    for k in range(STEPS):
        session.learning_rate = rates[k]
        session.step(x[k], y[k], num_data=counts[k] if k % 2 else torch.tensor(counts[k]))
    session.write()
    assert recorded == [True]
    for m, twin in enumerate(alone):
        train_alone(twin, m, x[:, m], y[:, m], rates, [own[m] for own in counts])
        assert_same(twin, members[m])
        assert members[m].num_data == counts[-1][m]


def test_one_num_data_for_all_is_that_of_a_fresh_objective() -> None:
    x, y = batches(1)
    members, fresh = objectives("bernoulli"), objectives("bernoulli", rows=[7] * MEMBERS)
    session = dubio.Population(members, range(MEMBERS)).session()
    loss = session.step(x[0], y[0], num_data=7)
    for m, twin in enumerate(fresh):
        expected = train_alone(twin, m, x[:, m], y[:, m], [1e-3])
        torch.testing.assert_close(loss[m : m + 1], expected)


def test_batches_of_several_sizes_are_recorded_once_each(
    recorded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubio.population.feed._STEPS_AHEAD", 5)  # noise is left over often
    x, y = batches(24)
    members = objectives("bernoulli")
    alone = copy.deepcopy(members)
    session = dubio.Population(members, range(MEMBERS)).session()
    sizes = [BATCH - k % 3 for k in range(24)]
    for k, size in enumerate(sizes):
        session.step(x[k, :, :size], y[k, :, :size])
    session.write()
    assert recorded == [True] * 3
    for m, twin in enumerate(alone):
        own = [(x[k, m, :size], y[k, m, :size]) for k, size in enumerate(sizes)]
        train_alone(twin, m, *zip(*own, strict=True), [1e-3] * 24)
        assert_same(twin, members[m])


def test_a_schedule_goes_on(recorded: list[bool]) -> None:
    x, y = batches()
    members = objectives("bernoulli")
    for member in members:
        member._kl_weight = dubio.schedules.warm_up(10)
        member.step = 2
    alone, again = copy.deepcopy(members), copy.deepcopy(members)
    with dubio.Population(members, range(MEMBERS)).session() as session:
        session.steps(x[:5], y[:5])
        state = session.state_dict()
        session.steps(x[5:], y[5:])
    with dubio.Population(again, range(MEMBERS)).session() as session:
        session.load_state_dict(state)
        session.steps(x[5:], y[5:])
    assert recorded == []
    for m, twin in enumerate(alone):
        train_alone(twin, m, x[:, m], y[:, m], [1e-3] * STEPS)
        assert_same(twin, members[m])
        assert_same(twin, again[m])
        assert members[m].step == again[m].step == twin.step == 2 + STEPS


@pytest.mark.parametrize("kind", ["plain", "dropout", "bayes mixture", "bayes local"])
@pytest.mark.parametrize("after", [1, 6])
def test_a_state_goes_on_bit_for_bit(
    kind: str, after: int, tmp_path: Path, recorded: list[bool]
) -> None:
    x, y = batches()
    expected, members = objectives(kind), objectives(kind, rows=[5] * MEMBERS)
    num_data = None if after == 1 else 33
    with dubio.Population(expected, range(MEMBERS)).session(learning_rate=1e-2) as session:
        session.steps(x[:after], y[:after], num_data=num_data)
        torch.save(session.state_dict(), tmp_path / "state.pt")
        rest = session.steps(x[after:], y[after:])
    session = dubio.Population(members, [7, 8, 9]).session(learning_rate=0.5)
    session.steps(x[:2], y[:2], num_data=99)  # which is forgotten
    session.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(session.steps(x[after:], y[after:]), rest)
    assert session.done.tolist() == [STEPS] * MEMBERS
    session.write()
    for one, other in zip(expected, members, strict=True):
        assert (one.step, one.num_data) == (other.step, other.num_data) == (STEPS, num_data or N)
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)


def test_a_state_is_a_copy() -> None:
    x, y = batches()
    session = dubio.Population(objectives("bernoulli"), range(MEMBERS)).session()
    session.steps(x[:3], y[:3])
    state = session.state_dict()
    kept = copy.deepcopy(state)
    losses = session.steps(x[3:], y[3:])
    for _ in range(2):
        session.load_state_dict(state)
        assert torch.equal(session.steps(x[3:], y[3:]), losses)
    assert str(state) == str(kept)


@pytest.mark.parametrize("kind", ["plain", "bernoulli", "bayes mixture", "bayes local"])
@pytest.mark.parametrize("shared", [False, True])
def test_outputs_are_those_of_predict_after_write(kind: str, shared: bool) -> None:
    x, y = batches()
    members = objectives(kind)
    population = dubio.Population(members, range(MEMBERS))
    session = population.session(learning_rate=1e-2)
    asked, _ = data()
    for k in range(0, STEPS, 7):
        session.steps(x[k : k + 7], y[k : k + 7])
        options = {"draws": 40, "shared": shared}
        found = session.outputs(asked[:9], **options, generator=torch.Generator().manual_seed(k))
        own = torch.stack([asked[m : m + 9] for m in range(MEMBERS)])
        of_own = session.outputs(
            own, own_rows=True, **options, generator=torch.Generator().manual_seed(k)
        )
        session.write()
        for rows, outputs in ((None, found), ([torch.arange(m, m + 9) for m in range(3)], of_own)):
            expected = population.predict(
                asked[:9] if rows is None else asked,
                rows=rows,
                **options,
                generator=torch.Generator().manual_seed(k),
            )
            for m, predictive in enumerate(expected):
                torch.testing.assert_close(outputs[m], predictive.draws)


def test_the_noise_of_outputs_leaves_training_alone() -> None:
    x, y = batches()
    losses = []
    for asks in (False, True):
        session = dubio.Population(objectives("dropout"), range(MEMBERS)).session()
        first = session.steps(x[:4], y[:4])
        if asks:
            session.outputs(x[0, 0], draws=5, generator=torch.Generator().manual_seed(0))
        losses.append(torch.cat([first, session.steps(x[4:], y[4:])]))
    assert torch.equal(*losses)


def test_members_that_are_not_finite_are_frozen() -> None:
    x, y = batches()
    x[5, 1] = 1e200
    members = objectives("plain")
    alone = copy.deepcopy(members)
    session = dubio.Population(members, range(MEMBERS)).session(learning_rate=1e-2)
    losses = session.steps(x, y)
    session.learning_rate = 0.1
    last = session.steps(x[:2], y[:2])
    assert session.failed.tolist() == [False, True, False]
    assert session.done.tolist() == [STEPS + 2, 6, STEPS + 2]
    assert bool(losses[6:, 1].isnan().all())
    assert bool(last[:, 1].isnan().all())
    session.write()
    rates = [1e-2] * STEPS + [0.1] * 2
    for m, twin in enumerate(alone):
        stop = 5 if m == 1 else STEPS + 2
        own = (torch.cat([t, t[:2]])[:stop, m] for t in (x, y))
        train_alone(twin, m, *own, rates)
        assert_same(twin, members[m])


class Overflowing(nn.Module):
    """Has a loss that is infinite where targets are large, with gradients that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.net(x).square().mean() + torch.where(y.max() > 100, torch.inf, 0.0)


def test_members_with_an_infinite_loss_are_frozen_though_their_gradients_are_fine() -> None:
    x, y = batches()
    y[0, 1] = 1000
    members = [Overflowing() for _ in range(MEMBERS)]
    before = copy.deepcopy(members)
    with dubio.Population(members, range(MEMBERS)).session() as session:
        session.steps(x[:3], y[:3])
        session.learning_rate = 0.1
        session.steps(x[1:], y[1:])
    assert session.failed.tolist() == [False, True, False]
    same = [torch.equal(a.net.weight, b.net.weight) for a, b in zip(members, before, strict=True)]
    assert same == [False, True, False]


def test_outputs_after_another_state_was_loaded() -> None:
    x, y = batches()
    session = dubio.Population(objectives("plain"), range(MEMBERS)).session()
    state, first = session.state_dict(), session.outputs(x[0, 0])
    session.steps(x, y)
    assert not torch.equal(session.outputs(x[0, 0]), first)
    session.load_state_dict(state)
    assert torch.equal(session.outputs(x[0, 0]), first)


def test_sessions_and_fits_have_other_noise() -> None:
    x, y = batches(1)
    losses = []
    for before in (0, 1):
        population = dubio.Population(objectives("dropout"), range(MEMBERS))
        for _ in range(before):
            population.session()
        losses.append(population.session().step(x[0], y[0]))
    assert not torch.equal(*losses)


def test_members_are_written_after_an_error() -> None:
    x, y = batches()
    members = objectives("plain")

    def interrupted() -> None:
        with dubio.Population(members, range(MEMBERS)).session() as session:
            session.steps(x[:3], y[:3])
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        interrupted()
    assert [member.step for member in members] == [3] * MEMBERS


class Plain(nn.Module):
    """No ELBO."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.net(x) - y).square().mean()


def test_other_objectives() -> None:
    x, y = batches()
    members = [Plain() for _ in range(MEMBERS)]
    alone = copy.deepcopy(members)
    with dubio.Population(members, range(MEMBERS)).session() as session:
        session.steps(x, y)
        with pytest.raises(TypeError, match=r"expected members that are dubio\.ELBO"):
            session.step(x[0], y[0], num_data=5)
        with pytest.raises(TypeError, match=r"expected dubio\.ELBO"):
            session.outputs(x[0, 0])
    for m, twin in enumerate(alone):
        train_alone(twin, m, x[:, m], y[:, m], [1e-3] * STEPS)
        assert_same(twin, members[m])


X, Y = torch.zeros(3, 8, 4), torch.zeros(3, 8, 1)
BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "too few members": (lambda s: s.step(X[:2], Y[:2]), r"with 3 members, got \(2, 8, 4\)"),
    "no axis of members": (lambda s: s.step(X[0], Y[0]), r"\(members, rows, …\) with 3 members"),
    "rows that differ": (
        lambda s: s.step(X, Y[:, :5]),
        r"as many as x has, \(3, 8\), got \(3, 5\)",
    ),
    "no rows": (lambda s: s.step(X[:, :0], Y[:, :0]), "expected at least one"),
    "no steps": (lambda s: s.steps(X[None][:0], Y[None][:0]), "expected at least one"),
    "no axis of steps": (lambda s: s.steps(X, Y), r"\(steps, members, rows, …\) with 3 members"),
    "arrays": (lambda s: s.step(X.numpy(), Y), "x: expected a tensor, got ndarray"),
    "nan": (lambda s: s.step(X, Y * torch.nan), "y: expected numbers, got NaN"),
    "float num_data": (lambda s: s.step(X, Y, num_data=2.5), "num_data: expected the number"),
    "no data": (lambda s: s.step(X, Y, num_data=0), "num_data: expected the number"),
    "dtype": (lambda s: s.step(X.float(), Y, num_data=9), r"x: expected torch\.float64"),
    "num_data of two": (lambda s: s.step(X, Y, num_data=[1, 2]), "one for each of 3 members"),
    "rate": (lambda s: setattr(s, "learning_rate", -1.0), "learning_rate: expected a positive"),
    "rates": (lambda s: setattr(s, "learning_rate", [1.0, 2.0]), "one for each of 3 members"),
    "outputs": (lambda s: s.outputs(X[:2], own_rows=True), r"with 3 members, got \(2, 8, 4\)"),
    "draws": (lambda s: s.outputs(X[0], draws=0), "draws: expected an int of at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls_change_nothing(case: str) -> None:
    call, message = BAD[case]
    session = dubio.Population(objectives("bernoulli"), range(MEMBERS)).session()
    before = str(session.state_dict())
    with pytest.raises((ValueError, TypeError), match=message):
        call(session)
    assert str(session.state_dict()) == before


def test_a_state_of_other_members() -> None:
    state = dubio.Population(objectives("plain")).session().state_dict()
    with pytest.raises(ValueError, match=r"got another model\.0"):
        dubio.Population(objectives("bernoulli")).session().load_state_dict(state)
    with pytest.raises(ValueError, match=r"got another"):
        dubio.Population(objectives("plain")[:2]).session().load_state_dict(state)
