"""Agents in Gymnasium's worlds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubio_studies.worlds  # noqa: F401  registers the worlds
from dubio_studies.agents.exploration import Exploration
from dubio_studies.agents.networks import q_network
from dubio_studies.agents.q_learning import QLearners, QLearningSettings

gymnasium = pytest.importorskip("gymnasium")

from dubio_studies.agents.play import play  # noqa: E402
from dubio_studies.agents.temporal_window import TemporalWindow  # noqa: E402

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "q_learning.json").read_text(encoding="utf-8")
)


def agents_of(sizes: tuple[int, ...], count: int = 2, **learning: Any) -> QLearners:
    seeds = list(range(count))
    nets = [[q_network("dropout", sizes, seed=seed)] for seed in seeds]
    settings = QLearningSettings(**{"start": 5, "batch_size": 4, **learning})
    return QLearners(nets, sizes[-1], Exploration(None), settings, seeds)


def test_what_the_network_is_given_with_a_look_back_is_the_published_input() -> None:
    foragers = gymnasium.make_vec("dubio/Forager-v0", num_envs=1, reward="karpathy")
    envs = TemporalWindow(foragers)
    for exact in (False, True):
        if exact:  # what the eyes see before it is rounded to float32
            foragers._seen = lambda: foragers.worlds.sight.numbers().copy()
        envs.reset(seed=0, options={"items": GOLDEN["items"]})
        for action in GOLDEN["first_actions"]:
            seen, *_ = envs.step(np.array([action]))
        error = 1e-12 if exact else 1e-6
        np.testing.assert_allclose(seen[0], GOLDEN["net_input_at_tick_3"], rtol=error, atol=error)
        assert exact or seen in envs.observation_space


def test_episodes_that_start_anew_have_no_look_back() -> None:
    envs = TemporalWindow(
        gymnasium.make_vec(
            "dubio/Forager-v0", num_envs=2, max_episode_steps=3, vectorization_mode="sync"
        )
    )
    seen, _ = envs.reset(seed=0)
    for tick in range(1, 9):
        before = seen[:, :27]
        seen, *_ = envs.step(np.array([2, 4]))
        if tick % 4 == 0:  # Gymnasium starts anew at the tick after the end
            np.testing.assert_array_equal(seen[:, 27:54], seen[:, :27])
            assert not seen[:, 54:].any()
        else:
            np.testing.assert_array_equal(seen[:, 27:54], before)
            assert seen[:, 54:].argmax(1).tolist() == [2, 4]
            assert seen[:, 54:].max(1).tolist() == [27, 27]


def test_ticks_of_starting_anew_are_not_remembered() -> None:
    envs = gymnasium.make_vec("dubio/DeepSea-v0", num_envs=2, vectorization_mode="sync", size=3)
    agents = agents_of((9, 8, 2))
    ticks = list(play(agents, envs, 12, seed=0))
    assert [bool(tick.over.all()) for tick in ticks] == [t % 4 == 2 for t in range(12)]
    assert agents._replay.counts.tolist() == [9, 9]
    batch = agents._replay.sample(1, 300)
    row = batch.x.view(2, 300, 3, 3).sum(-1).argmax(-1)
    assert batch.x.sum(-1).eq(1).all()  # a diver is always somewhere
    assert batch.ended.bool().equal(row == 2)
    assert batch.next_x.sum(-1).eq((row < 2).float()).all()


def test_where_an_episode_was_cut_off_something_follows() -> None:
    envs = gymnasium.make_vec(
        "dubio/Forager-v0", num_envs=2, max_episode_steps=2, vectorization_mode="sync"
    )
    agents = agents_of((27, 8, 5))
    assert [bool(t.over.all()) for t in play(agents, envs, 6, seed=0)] == [False, True, False] * 2
    assert agents._replay.counts.tolist() == [4, 4]
    assert not agents._replay.sample(1, 64).ended.any()


def test_the_same_seeds_give_the_same_life() -> None:
    def rewards(seed: int) -> np.ndarray[Any, Any]:
        envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=2)
        lived = play(agents_of((27, 8, 5)), envs, 40, seed=seed)
        return np.array([tick.rewards for tick in lived])

    np.testing.assert_array_equal(rewards(3), rewards(3))
    assert (rewards(3) != rewards(4)).any()


def test_a_sea_of_two_rows_is_learned() -> None:
    """Dropout finds what two steps find, for most agents; one that learns nothing gets 0.25 of 50.

    Some never look: 12 of 16 have learned it. If that is the share, fewer than 6 of 16 come once in
    5,000 times.
    """
    envs = gymnasium.make_vec("dubio/DeepSea-v0", num_envs=16, vectorization_mode="sync", size=2)
    agents = agents_of((4, 16, 2), 16, optimizer="adam", learning_rate=1e-2, batch_size=16)
    rewards = np.array([tick.rewards for tick in play(agents, envs, 600, seed=0)])
    assert (rewards[-150:].sum(0) > 35).sum() >= 6


def test_worlds_that_do_not_fit() -> None:
    agents = agents_of((27, 8, 5))

    def start(envs: Any) -> None:
        next(play(agents, envs, 1, seed=0))

    with pytest.raises(TypeError, match="expected a finite number of actions"):
        start(gymnasium.make_vec("dubio/CartPoleSwingUp-v0", num_envs=2, vectorization_mode="sync"))
    with pytest.raises(ValueError, match="make networks with 2 outputs"):
        start(gymnasium.make_vec("dubio/DeepSea-v0", num_envs=2, vectorization_mode="sync"))
    with pytest.raises(ValueError, match="expected 2, one an agent, got 3"):
        start(gymnasium.make_vec("dubio/Forager-v0", num_envs=3))
    same = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    with pytest.raises(ValueError, match="start anew at the next step"):
        start(
            gymnasium.make_vec(
                "dubio/Forager-v0", num_envs=2, vectorization_mode="sync", vector_kwargs=same
            )
        )
    with pytest.raises(TypeError, match="seed"):
        play(agents, gymnasium.make_vec("dubio/Forager-v0", num_envs=2), 1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="finite number of actions"):
        TemporalWindow(
            gymnasium.make_vec("dubio/CartPoleSwingUp-v0", num_envs=1, vectorization_mode="sync")
        )
    with pytest.raises(TypeError, match="rows of numbers"):
        TemporalWindow(
            gymnasium.make_vec("dubio/DeepSea-v0", num_envs=1, vectorization_mode="sync")
        )


def test_a_world_that_has_ended_is_not_stepped_on() -> None:
    """A world by itself complains; those of `make_vec` start anew."""
    world = gymnasium.make("dubio/DeepSea-v0", size=1)
    world.reset()
    world.step(0)
    with pytest.raises(RuntimeError, match="got its end"):
        world.unwrapped.step(0)
