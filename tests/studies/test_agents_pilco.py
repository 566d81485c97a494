"""Deep PILCO: every part against another way to it, and what happens to wrong input."""

import dataclasses
import math
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

import dubio
from dubio_studies.agents import swing_up
from dubio_studies.agents.cross_entropy import cross_entropy
from dubio_studies.agents.dynamics import Dynamics, MaskName, falling, multipliers
from dubio_studies.agents.episode import Episode, play
from dubio_studies.agents.imagination import Functions, imagine, moment_matched, standardised
from dubio_studies.agents.pilco import PILCO, Settings, limit_gradients
from dubio_studies.agents.rbf_policy import RBFPolicies

MASKS = get_args(MaskName)
TINY = Settings(
    hidden=6, dynamics_steps=3, batch_size=8, bumps=3, updates=3, particles=7, redraw_every=2,
    horizon=4, rounds=2, samples=8, elites=3, searchers=2,
)  # fmt: skip


def seeded(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def some_episode(agents: int, first: int = 0) -> Episode:
    """Random walks; that of an agent is the same whoever is beside it."""
    walks, forces = [], []
    for own in seeded(*range(first, first + agents)):
        walks.append(torch.randn(11, 4, generator=own).cumsum(0))
        forces.append(torch.randn(10, generator=own))
    return Episode(torch.stack(walks), torch.stack(forces), torch.zeros(agents))


def small_dynamics(masks: MaskName, seeds: list[int], hidden: int = 6) -> Dynamics:
    made = Dynamics(
        masks, seeds, swing_up.features, state_size=4, feature_size=5, hidden=hidden, drop=0.3
    )
    made.add(*some_episode(len(seeds)).transitions())
    made.learn(2, batch_size=5)
    return made


def test_policies_are_sums_of_bumps() -> None:
    """Against a loop over members, particles and bumps in numpy."""
    policies = RBFPolicies(seeded(0, 1), (1.0, 2.0, 0.5), bumps=4, limit=3.0)
    with torch.no_grad():
        policies.log_widths.normal_(generator=seeded(2)[0])
    features = torch.randn(2, 5, 3, generator=seeded(3)[0])
    found = policies(features).detach()
    for m in range(2):
        centres, weights, widths, inputs = (
            tensor.detach().double().numpy()
            for tensor in (
                policies.centres[m], policies.weights[m, :, 0], policies.log_widths[m, 0].exp(),
                features[m] / torch.tensor((1.0, 2.0, 0.5)),
            )
        )  # fmt: skip
        for p in range(5):
            total = sum(
                w * np.exp(-0.5 * (((inputs[p] - c) / widths) ** 2).sum())
                for w, c in zip(weights, centres, strict=True)
            )
            expected = 3.0 * (9 * np.sin(total) + np.sin(3 * total)) / 8
            assert float(found[m, p]) == pytest.approx(expected, abs=1e-5)
    assert bool((found.abs() <= 3.0).all())


def test_policies_with_other_weights() -> None:
    """Many policies of a member at once are those one by one."""
    policies = RBFPolicies(seeded(0, 1), (1.0, 2.0), bumps=4, width=0.5)
    weights = torch.randn(2, 3, 4, generator=seeded(2)[0])
    features = torch.randn(2, 3 * 5, 2, generator=seeded(3)[0])
    with torch.no_grad():
        together = policies.prepared(weights)(features)
        for s in range(3):
            policies.weights.copy_(weights[:, s, :, None])
            torch.testing.assert_close(
                together[:, 5 * s : 5 * s + 5], policies(features[:, 5 * s : 5 * s + 5])
            )
    assert policies.log_widths.exp().flatten().tolist() == pytest.approx([0.5] * 4)


def test_the_cart_pole_is_the_worlds() -> None:
    cart_pole: Any = pytest.importorskip("dubio_studies.worlds.cart_pole")
    states = torch.randn(50, 4, dtype=torch.float64, generator=seeded(0)[0])
    expected = 1 - cart_pole.cost(states.numpy(), 0.5)
    np.testing.assert_allclose(swing_up.rewards(states).numpy(), expected, rtol=1e-12, atol=1e-15)
    wide = np.exp(-swing_up.squared_distances(states).numpy() / (2 * 0.8**2))
    mixed = swing_up.rewards(states, (0.25, 0.8)).numpy()
    np.testing.assert_allclose(mixed, (expected + wide) / 2, rtol=1e-12, atol=1e-15)
    known = (swing_up.MAX_FORCE, swing_up.COST_WIDTH, swing_up.START_DEVIATION)
    assert known == (cart_pole.MAX_FORCE, cart_pole.COST_WIDTH, cart_pole.START_DEVIATION)


@pytest.mark.parametrize("length", [0.5, 1.0])
def test_a_perfect_model_imagines_what_the_world_does(length: float) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    import dubio_studies.worlds  # noqa: F401
    from dubio_studies.worlds.cart_pole import transition

    policies = RBFPolicies(seeded(0), swing_up.UNITS).double()

    def perfect(states: Tensor, _: Tensor, forces: Tensor) -> Tensor:
        return torch.from_numpy(transition(states.numpy(), forces.numpy(), length))

    start = torch.tensor([0.05, -0.1, 0.2, 0.1], dtype=torch.float64)
    with torch.no_grad():
        policy = policies.prepared()
        states = imagine(perfect, policy, swing_up.features, start.expand(1, 1, 4), 25)
        world = gymnasium.make("dubio/CartPoleSwingUp-v0", noise=0.0, length=length)
        seen, _ = world.reset(seed=0, options={"state": tuple(start.tolist())})
        earned = 0.0
        for t in range(25):
            force = policies(swing_up.features(torch.from_numpy(seen)[None, None]))[0]
            seen, reward, *_ = world.step(force.numpy())
            earned += reward
            np.testing.assert_allclose(states[t, 0, 0].numpy(), seen, rtol=1e-9, atol=1e-9)
    agents = PILCO("concrete", [0], dataclasses.replace(TINY, length=length))
    assert float(agents._expected(states)) == pytest.approx(earned)


def test_functions_that_know_a_linear_world_follow_it() -> None:
    """relu(z) − relu(−z) = z, so that a network can be exact."""
    size, generator = 5, seeded(0)[0]
    change = 0.1 * torch.randn(size, 4, dtype=torch.float64, generator=generator)
    eye = torch.eye(size, dtype=torch.float64)
    ones = [torch.ones(1, 3, n, dtype=torch.float64) for n in (size, 2 * size)]
    zeros = [torch.zeros(1, 1, n, dtype=torch.float64) for n in (size, 2 * size, 4)]
    both = torch.cat([eye, -eye], dim=1)
    functions = Functions(
        zeros[0],
        (ones[0], ones[1], ones[1]),
        (both[None], torch.eye(2 * size, dtype=torch.float64)[None],
         torch.cat([change, -change])[None]),
        (zeros[1], zeros[1], zeros[2]),
    )  # fmt: skip
    gain = torch.randn(4, dtype=torch.float64, generator=generator)
    states = imagine(
        functions, lambda s: s @ gain, lambda s: s, torch.ones(1, 3, 4).double(), steps=6
    )
    expected = np.ones(4)
    for t in range(6):
        inputs = np.append(expected, expected @ gain.numpy())
        expected = expected + inputs @ change.numpy()
        np.testing.assert_allclose(states[t, 0].numpy(), np.tile(expected, (3, 1)))


@pytest.mark.parametrize("masks", MASKS)
def test_particles_keep_their_masks(masks: MaskName) -> None:
    """A trajectory is that of the networks under one and the same noise at every step."""
    dynamics = small_dynamics(masks, [3, 4])
    generators = [torch.Generator() for _ in range(2)]
    for own, theirs in zip(generators, dynamics._generators, strict=True):
        own.set_state(theirs.get_state())
    functions = dynamics.functions(particles=9)
    start = torch.randn(2, 9, 4, generator=seeded(0)[0])
    states = imagine(functions, lambda f: f[..., 0], swing_up.features, start, 5)
    for m, (elbo, generator) in enumerate(zip(dynamics.members, generators, strict=True)):
        noise = dubio.Noise(generator=generator)
        own = start[m]
        inputs, changes = dynamics.inputs[m], dynamics.changes[m]
        for t in range(5):
            seen = swing_up.features(own)
            x = torch.cat([seen, seen[:, :1]], dim=1)
            x = (x - inputs.mean(0)) / inputs.std(0, correction=0)
            with torch.no_grad(), noise[0]:
                y = elbo.model(x)
            own = own + y * changes.std(0, correction=0) + changes.mean(0)
            # states grow without bounds, and with them what rounding has left in all of them
            rounding = 1e-5 * max(1.0, float(own.abs().max()))
            torch.testing.assert_close(states[t, m], own, rtol=0, atol=rounding)
    gains = functions.gains[1]
    assert not torch.equal(gains[0, 0], gains[0, 1])
    assert not torch.equal(gains[0], gains[1])


def test_discrete_masks_are_binary_in_imagination() -> None:
    network = small_dynamics("bernoulli", [0]).members[0].model
    for values in multipliers(network, 50, seeded(1)[0]):
        assert len(values.unique()) == 2
        assert float(values.min()) == 0.0
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


def test_moments_are_matched() -> None:
    generator = seeded(0)[0]
    particles = torch.randn(3, 40, 4, dtype=torch.float64, generator=generator)
    particles = particles @ torch.randn(3, 4, 4, dtype=torch.float64, generator=generator) + 5
    noise = standardised(torch.randn(3, 40, 4, dtype=torch.float64, generator=generator))
    matched = moment_matched(particles, noise)
    assert not torch.allclose(matched, particles, atol=0.1)
    for m in range(3):
        ours, theirs = matched[m].numpy(), particles[m].numpy()
        np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=1e-9)
        covariances = [np.cov(own.T, bias=True) for own in (ours, theirs)]
        np.testing.assert_allclose(*covariances, atol=1e-5)  # the jitter is 1e-6
        np.testing.assert_allclose(np.cov(noise[m].T.numpy(), bias=True), np.eye(4), atol=1e-9)
    with pytest.raises(ValueError, match="particles: expected more than the 4 numbers"):
        standardised(torch.randn(4, 4))


@pytest.mark.parametrize("matching", [False, True])
def test_gradients_are_those_of_finite_differences(matching: bool) -> None:
    generator = seeded(0)[0]

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    functions = Functions(
        normal(2, 1, 6),
        tuple(normal(2, 8, n) for n in (6, 7, 7)),
        tuple(0.3 * normal(2, *n) for n in ((6, 7), (7, 7), (7, 4))),
        tuple(0.1 * normal(2, 1, n) for n in (7, 7, 4)),
    )
    policies = RBFPolicies(seeded(1, 2), swing_up.UNITS, bumps=3, limit=2.0).double()
    start = 0.1 * normal(2, 8, 4)
    noise = standardised(normal(4, 2, 8, 4)) if matching else None

    def expected() -> Tensor:
        states = imagine(functions, policies.prepared(), swing_up.features, start, 4, noise)
        return swing_up.rewards(states, (0.25, 1.0)).mean(-1).sum()

    expected().backward()  # type: ignore[no-untyped-call]
    for parameter in policies.parameters():
        direction = normal(*parameter.shape)
        assert parameter.grad is not None
        slope = float((parameter.grad * direction).sum())
        with torch.no_grad():
            parameter.add_(1e-6 * direction)
            above = float(expected())
            parameter.add_(-2e-6 * direction)
            below = float(expected())
            parameter.add_(1e-6 * direction)
        assert slope == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)
        assert abs(slope) > 1e-5


def test_gradients_are_limited_agent_by_agent() -> None:
    parameters = [torch.zeros(3, 2, requires_grad=True), torch.zeros(3, 1, 2, requires_grad=True)]
    parameters[0].grad = torch.tensor([[3.0, 0.0], [0.1, 0.0], [1.0, math.nan]])
    parameters[1].grad = torch.tensor([[[0.0, 4.0]], [[0.2, 0.0]], [[1.0, 1.0]]])
    limit_gradients(parameters, 1.0)
    first, second = parameters[0].grad, parameters[1].grad
    torch.testing.assert_close(first, torch.tensor([[0.6, 0.0], [0.1, 0.0], [0.0, 0.0]]))
    torch.testing.assert_close(second, torch.tensor([[[0.0, 0.8]], [[0.2, 0.0]], [[0.0, 0.0]]]))


def test_cross_entropy_finds_the_top_of_a_hill() -> None:
    """From nearby it goes on, from far away it starts anew; either way it gets to the top."""
    top = torch.tensor([[0.5, -1.0, 1.5], [1.0, 0.0, -0.5]])
    present = torch.stack([top[0] + 0.1, torch.full((3,), 40.0)])
    found = cross_entropy(
        lambda drawn: -(drawn - top[:, None]).square().sum(-1), present, seeded(0, 1),
        spread=0.1, samples=200, elites=20, rounds=15,
    )  # fmt: skip
    torch.testing.assert_close(found, top, rtol=0.0, atol=0.02)


def test_cross_entropy_knows_what_is_there_and_shuns_nan() -> None:
    """Where all but what is there is NaN, it is among the elites."""
    present, seen = torch.full((1, 2), 3.0), []

    def score(drawn: Tensor) -> Tensor:
        seen.append(drawn)
        return torch.where(drawn.sum(-1) == 6.0, 1.0, math.nan)

    cross_entropy(score, present, seeded(0), spread=0.1, samples=40, elites=2, rounds=1)
    (drawn,) = seen
    assert torch.equal(drawn[:, 0], present)
    assert float((drawn[0, 1:20] - 3.0).abs().max()) < 0.6  # N(3, 0.1²)
    assert float(drawn[0, 20:].abs().max()) < 6.0  # N(0, 1)
    found = cross_entropy(
        lambda drawn: torch.where((drawn - 3.0).abs().amax(-1) < 0.6, 0.0, math.nan), present,
        seeded(0), spread=0.1, samples=40, elites=5, rounds=2,
    )  # fmt: skip
    torch.testing.assert_close(found, present, rtol=0.0, atol=0.6)


def test_functions_are_repeated() -> None:
    functions = small_dynamics("fixed", [0]).functions(4)
    states = torch.randn(1, 4, 4, generator=seeded(0)[0])
    once = functions(states, swing_up.features(states), states[..., 0])
    again = states.repeat(1, 3, 1)
    thrice = functions.repeated(3)(again, swing_up.features(again), again[..., 0])
    torch.testing.assert_close(thrice, once.repeat(1, 3, 1))


@pytest.mark.parametrize("worse", ["search", "follow"])
def test_a_policy_is_replaced_by_none_that_imagines_less(
    worse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either stage is made to spoil the first agent's policy: it keeps what it had before."""
    agents = PILCO("fixed", [0, 1], TINY)
    agents.remember(some_episode(2))
    agents.learn()
    before = agents.policies.weights.detach().clone()

    def spoil() -> None:
        with torch.no_grad():
            agents.policies.weights[0] = math.nan
            agents.policies.weights[1] += 1.0

    monkeypatch.setattr(agents, "search", lambda: None)
    monkeypatch.setattr(agents, "follow", lambda: None)
    monkeypatch.setattr(agents, worse, spoil)
    draw = agents._redrawn()
    monkeypatch.setattr(agents, "_redrawn", lambda: draw)
    functions, start, _ = draw

    def imagined() -> Tensor:
        with torch.no_grad():
            policy = agents.policies.prepared()
            states = imagine(functions, policy, swing_up.features, start, TINY.horizon)
        return swing_up.rewards(states, TINY.widths).mean(-1).sum(0)

    present = imagined()
    agents.improve()
    assert torch.equal(agents.policies.weights[0], before[0])
    kept = imagined()
    assert bool((kept >= present).all())
    assert bool(kept[1] > present[1]) != torch.equal(agents.policies.weights[1], before[1])


def test_learning_rates_fall() -> None:
    assert falling(2.0, 0.0) == pytest.approx(2.0)
    assert falling(2.0, 0.5) == pytest.approx(1.05)
    assert falling(2.0, 1.0) == pytest.approx(0.1)


def test_dynamics_learn() -> None:
    """Of a world whose state changes by a linear function, most is explained after some steps."""
    dynamics = Dynamics(
        "concrete", [0], lambda s: s, state_size=4, feature_size=4, hidden=32, drop=0.05,
        learning_rate=1e-2,
    )  # fmt: skip
    generator = seeded(0)[0]
    states, forces = torch.randn(1, 300, 4, generator=generator), torch.zeros(1, 300)
    dynamics.add(states, forces, states @ torch.randn(4, 4, generator=generator))
    before = dynamics.rates()
    dynamics.learn(200)
    deviation = dynamics.changes.std(1)
    assert bool((dynamics.noise_deviations() < 0.4 * deviation).all())
    assert not torch.equal(dynamics.rates(), before)
    assert dynamics.members[0].num_data == 300


def test_spread_is_that_of_functions_in_the_unit_of_the_state() -> None:
    """4,000 draws by each way; a deviation has an error of 1.1 % then, and 10 % is six of them."""
    dynamics = small_dynamics("fixed", [5])
    states, forces = torch.ones(1, 1, 4), torch.ones(1, 1)
    found = dynamics.epistemic_deviations(states, forces, 4000, seeded(0)[0])
    seen = swing_up.features(states)
    functions = dynamics.functions(4000)
    after = functions(*(t.expand(1, 4000, -1) for t in (states, seen)), forces.expand(1, 4000))
    torch.testing.assert_close(found, after.std(1), rtol=0.1, atol=0.0)


def test_looking_ahead_changes_nothing() -> None:
    one, two = small_dynamics("concrete", [1, 2]), small_dynamics("concrete", [1, 2])
    rates = one.rates()
    assert not torch.equal(one.rates_after(30, 5), rates)
    assert torch.equal(one.rates(), rates)
    for dynamics in (one, two):
        dynamics.learn(4, 5)
    assert torch.equal(one.rates(), two.rates())
    assert torch.equal(one.functions(3).weights[1], two.functions(3).weights[1])


@pytest.mark.parametrize("matching", [False, True])
def test_an_agent_learns_the_same_in_any_company(matching: bool) -> None:
    settings = dataclasses.replace(TINY, moment_matching=matching)
    together, alone = PILCO("concrete", [1, 2, 3], settings), PILCO("concrete", [2], settings)
    random_state = torch.get_rng_state()
    for agents, first in ((together, 0), (alone, 1)):
        agents.remember(some_episode(len(agents), first))
        agents.learn()
        agents.improve()
    assert torch.equal(torch.get_rng_state(), random_state)
    torch.testing.assert_close(together.dynamics.rates()[1:2], alone.dynamics.rates())
    for ours, theirs in zip(
        together.policies.parameters(), alone.policies.parameters(), strict=True
    ):
        torch.testing.assert_close(ours[1:2], theirs, rtol=1e-3, atol=1e-4)
    assert together.world_seeds()[1] == alone.world_seeds()[0]


def test_forces_stay_within_their_limit() -> None:
    """At its top the squashed sum may be rounded up to more than 10 N, which the world refuses."""
    agents = PILCO("fixed", [0], dataclasses.replace(TINY, bumps=1))
    with torch.no_grad():
        agents.policies.centres.zero_()
        agents.policies.log_widths.fill_(20.0)  # one flat bump: the sum is its weight
    beyond = 0
    for step in range(-300, 300):
        with torch.no_grad():
            agents.policies.weights.fill_(math.pi / 2 + 2e-4 * step)
            beyond += bool(agents.policies(torch.zeros(1, 1, 5)) > 10.0)
        assert bool(agents.act(torch.zeros(1, 1, 4)) <= 10.0)
    assert beyond


def test_every_fifth_transition_is_held_out() -> None:
    agents, episode = PILCO("fixed", [0, 1], TINY), some_episode(2)
    agents.remember(episode)
    before, forces, after = agents.held_out
    assert forces.shape == (2, 2)
    assert torch.equal(forces, episode.actions[:, [2, 7]])
    assert torch.equal(before, episode.observations[:, [2, 7]])
    assert torch.equal(after, episode.observations[:, [3, 8]])
    assert agents.dynamics.inputs.shape == (2, 8, 6)
    kept = agents.dynamics.inputs[..., -1]
    assert torch.equal(kept, episode.actions[:, [0, 1, 3, 4, 5, 6, 8, 9]])


class Fake:
    """A world that returns what it is told to."""

    def __init__(self, reward: float = 0.0, seen: float = 0.0, steps: int = 3) -> None:
        from gymnasium import spaces

        self.action_space = spaces.Box(-10.0, 10.0, (1,))
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,))
        self.reward, self.seen, self.steps = reward, seen, steps

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.done = 0
        return np.zeros(4), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.done += 1
        return np.full(4, self.seen), self.reward, False, self.done == self.steps, {}


def still(observations: Tensor) -> Tensor:
    return torch.zeros(observations.shape[:2])


def test_worlds_that_cannot_be_acted_in_are_refused() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    import dubio_studies.worlds  # noqa: F401

    with pytest.raises(TypeError, match=r"one continuous action, .*, got Discrete\(2\); discrete"):
        play([gymnasium.make("dubio/DeepSea-v0")], still, [0])
    wide = Fake()
    wide.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    with pytest.raises(TypeError, match="expected observations of 4 numbers"):
        play([wide], still, [0])
    with pytest.raises(ValueError, match=r"reward: expected finite numbers, got \[nan\] at step 1"):
        play([Fake(reward=math.nan)], still, [0])
    with pytest.raises(ValueError, match="observation: expected finite numbers"):
        play([Fake(seen=math.nan)], still, [0])
    with pytest.raises(ValueError, match="worlds: expected episodes of one length"):
        play([Fake(), Fake(steps=2)], still, [0, 1])
    with pytest.raises(ValueError, match="seeds: expected one a world, 2, got 1"):
        play([Fake(), Fake()], still, [0])
    episode = play([Fake(reward=2.0), Fake()], still, [0, 1])
    assert episode.returns.tolist() == [6.0, 0.0]
    assert episode.observations.shape == (2, 4, 4)


@pytest.mark.parametrize("seeds", [[], [1, 1], [0.5], [None], [True]])
def test_seeds_must_be_given(seeds: Any) -> None:
    with pytest.raises(ValueError, match="seeds: expected different whole numbers"):
        PILCO("concrete", seeds, TINY)


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="masks: expected one of"):
        PILCO("gaussian", [0], TINY)  # type: ignore[arg-type]
    agents = PILCO("concrete", [0], TINY)
    with pytest.raises(RuntimeError, match="learn: expected transitions, got none"):
        agents.learn()
    with pytest.raises(RuntimeError, match=r"call learn\(\) first"):
        agents.improve()
    with pytest.raises(ValueError, match=r"features: expected \(1 members, particles, 5 features"):
        agents.policies(torch.zeros(1, 3, 4))
    states = torch.zeros(1, 2, 4)
    with pytest.raises(ValueError, match="after: expected finite numbers"):
        agents.dynamics.add(states, torch.zeros(1, 2), states / 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"particles": 0}, {"particles": 4}, {"updates": 0}, {"drop": 1.0}, {"max_norm": 0.0},
        {"policy_rate": math.nan}, {"dynamics_rate": math.inf}, {"hidden": 0}, {"widths": ()},
        {"widths": (0.0,)}, {"elites": 1}, {"elites": 300}, {"rounds": 0}, {"searchers": 0},
        {"spread": 0.0}, {"width": 0.0}, {"length": 0.0},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_computed(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected .*, got "):
        Settings(**wrong)
