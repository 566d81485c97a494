"""The cart-pole: golden transitions, scipy's integrator, the checker, misuse."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dubio_studies.worlds  # noqa: F401  registers the worlds

gymnasium = pytest.importorskip("gymnasium")
cart_pole = pytest.importorskip("dubio_studies.worlds.cart_pole")

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cart_pole.json").read_text())


def made(**options: Any) -> Any:
    return gymnasium.make("dubio/CartPoleSwingUp-v0", **options)


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_transitions_are_the_golden_ones(case: dict[str, Any]) -> None:
    env = made(length=case["length"], noise=0.0)
    observation, _ = env.reset(seed=0, options={"state": case["state"]})
    np.testing.assert_array_equal(observation, case["state"])
    slope = cart_pole.derivative(np.array(case["state"]), case["force"], case["length"])
    np.testing.assert_allclose(slope, case["derivative"], rtol=1e-12, atol=1e-12)
    observation, reward, *ends, info = env.step(np.array([case["force"]]))
    np.testing.assert_allclose(observation, case["next"], rtol=0, atol=1e-6)
    assert info["cost"] == pytest.approx(case["cost_next"], abs=1e-6)
    assert reward == 1 - info["cost"]
    assert ends == [False, False]


def test_a_known_plan_swings_it_up() -> None:
    plan = GOLDEN["plan_length_0.5"]
    env = made(noise=0.0)
    env.reset(seed=0, options={"state": (0, 0, 0, 0)})
    rewards = []
    for step, force in enumerate(plan["forces"], 1):
        state, reward, ended, truncated, _ = env.step(np.array([force]))
        rewards.append(reward)
        if step == 10:
            np.testing.assert_allclose(state, plan["state_after_10"], rtol=0, atol=1e-6)
    assert (ended, truncated) == (False, True)
    np.testing.assert_allclose(state, plan["final_state"], rtol=0, atol=2e-3)  # it is unstable
    assert sum(rewards) == pytest.approx(plan["return_25"], abs=1e-3)


def test_many_states_at_once_are_integrated_as_by_scipy() -> None:
    rng = np.random.default_rng(0)
    states, forces = rng.normal(0, (1, 2, 6, 3), (20, 4)), rng.uniform(-10, 10, 20)
    after = cart_pole.transition(states, forces, 0.6)
    for state, force, got in zip(states, forces, after, strict=True):
        slope = lambda _, s, force=force: cart_pole.derivative(s, force, 0.6)  # noqa: E731
        wanted = solve_ivp(slope, (0, 0.1), state, rtol=1e-12, atol=1e-12).y[:, -1]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(got, cart_pole.transition(state, force, 0.6))


def test_the_error_falls_with_the_fourth_power_of_the_step() -> None:
    state, exact = np.array(GOLDEN["cases"][3]["state"]), GOLDEN["cases"][3]["next"]
    errors = [
        np.abs(cart_pole.transition(state, -10.0, 0.5, substeps) - exact).max()
        for substeps in (10, 20, 40)
    ]
    assert 10 < errors[0] / errors[1] < 25
    assert 10 < errors[1] / errors[2] < 25


def test_cost_is_zero_only_where_the_pole_stands() -> None:
    upright = np.array([0.0, 3.0, -2.0, np.pi])
    twice, aside = np.array([0, 0, 0, 2 * np.pi]), np.array([0.25, 0, 0, 0])
    assert cart_pole.cost(upright, 0.5) == pytest.approx(0, abs=1e-12)
    assert cart_pole.cost(upright + twice, 0.5) == pytest.approx(0, abs=1e-12)
    assert cart_pole.cost(upright + aside, 0.5) == pytest.approx(1 - np.exp(-0.5))
    hanging = cart_pole.cost(np.zeros(4), 0.5)
    assert hanging == pytest.approx(1 - np.exp(-1 / (2 * 0.25**2)))


def test_noise_is_on_what_is_observed_and_not_on_the_state() -> None:
    env = made(noise=0.01).unwrapped
    env.reset(seed=1, options={"state": (0, 0, 0, 0)})
    steps = [env.step(np.zeros(1)) for _ in range(500)]
    assert all((info["state"] == 0).all() for *_, info in steps)
    noise = np.array([observation for observation, *_ in steps])  # (500, 4)
    # the deviation of 2,000 numbers has an error of 1/√4,000; 5.1 of them: one false alarm in 10⁶
    assert noise.std() == pytest.approx(0.01, rel=5.1 / np.sqrt(4_000))


def test_it_starts_near_rest() -> None:
    env = made(noise=0.0).unwrapped
    starts = np.array([env.reset(seed=seed)[0] for seed in range(500)])
    assert starts.std() == pytest.approx(0.1, rel=5.1 / np.sqrt(4_000))  # as above
    env = made(noise=0.0, start_deviation=0.0).unwrapped
    np.testing.assert_array_equal(env.reset(seed=3)[0], np.zeros(4))


@pytest.mark.filterwarnings("ignore:.*recommend using a symmetric and normalized space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Box observation space m.*imum value is.*inf:UserWarning")
def test_gymnasium_accepts_it() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(made().unwrapped)


@pytest.mark.parametrize(
    "action", [0.0, 1, [1.0, 2.0], [[1.0]], None, ["1"], np.array([True])], ids=str
)
def test_actions_of_the_wrong_form_are_refused(action: Any) -> None:
    env = made().unwrapped
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"action: expected one force as an array of shape \(1,\)"):
        env.step(action)


@pytest.mark.parametrize("force", [10.001, -11.0, np.nan, np.inf])
def test_forces_out_of_range_are_refused(force: float) -> None:
    env = made().unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action: expected −10 to 10 N"):
        env.step(np.array([force]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": (1, 2, 3)}, r"state: expected \(x, v, ω, θ\)"),
        ({"state": 0}, r"state: expected \(x, v, ω, θ\)"),
        ({"state": (0, 0, 0, np.nan)}, "state: expected finite numbers"),
        ({"states": ()}, "options: expected state only, got states"),
    ],
)
def test_options_of_wrong_form_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made().reset(seed=0, options=options)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("length", 0), ("length", -1.0), ("noise", -0.1), ("noise", np.nan), ("length", "long")],
)
def test_impossible_worlds_are_refused(argument: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{argument}: expected"):
        made(**{argument: value})


def test_a_world_must_be_reset() -> None:
    with pytest.raises(RuntimeError, match=r"call reset\(seed=...\) first"):
        made().unwrapped.step(np.zeros(1))
