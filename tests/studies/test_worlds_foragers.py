"""Many foragers at once: bit for bit as one at a time."""

from typing import Any

import numpy as np
import pytest

import dubio_studies.worlds  # noqa: F401  registers the worlds

gymnasium = pytest.importorskip("gymnasium")

AGED = {
    "items": [(20.0 + 20 * index, 450.0 - index, 1 + index % 2, 4990) for index in range(30)],
    "pose": (60, 420, 1.0),
    "clock": 95,
}


@pytest.mark.parametrize("options", [None, AGED], ids=["fresh", "aged"])
@pytest.mark.parametrize("reward", ["gal", "karpathy"])
def test_worlds_are_those_of_single_foragers(reward: str, options: Any) -> None:
    count, ticks = 5, 400
    together = gymnasium.make_vec("dubio/Forager-v0", num_envs=count, reward=reward)
    alone = gymnasium.make_vec(
        "dubio/Forager-v0", num_envs=count, reward=reward, vectorization_mode="sync"
    )
    seen, _ = together.reset(seed=3, options=options)
    expected, _ = alone.reset(seed=3, options=options)
    rng = np.random.default_rng(0)
    numbers = set()
    for _ in range(ticks):
        np.testing.assert_array_equal(seen, expected)
        actions = rng.choice(5, count, p=[0.6, 0.1, 0.1, 0.1, 0.1])
        seen, *got, _ = together.step(actions)
        expected, *wanted, _ = alone.step(actions)
        assert seen.dtype == expected.dtype
        for ours, theirs in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        numbers.update(together.worlds.num_items.tolist())
    assert len(numbers) > 1  # items came and went
    for index, single in enumerate(alone.envs):
        ours, theirs = together.worlds.scene(index), single.unwrapped._worlds.scene(0)
        assert (ours.clock, ours.pose, ours.items) == (theirs.clock, theirs.pose, theirs.items)


def test_spaces_are_those_of_gymnasiums_own_vectors() -> None:
    together = gymnasium.make_vec("dubio/Forager-v0", num_envs=3)
    alone = gymnasium.make_vec("dubio/Forager-v0", num_envs=3, vectorization_mode="sync")
    for name in ("observation_space", "action_space"):
        assert getattr(together, name) == getattr(alone, name)
        assert getattr(together, f"single_{name}") == getattr(alone, f"single_{name}")
    seen, _ = together.reset(seed=0)
    assert seen in together.observation_space


def test_the_number_of_worlds_does_not_matter() -> None:
    few, many = (gymnasium.make_vec("dubio/Forager-v0", num_envs=count) for count in (2, 67))
    few.reset(seed=9)
    many.reset(seed=9)
    rng = np.random.default_rng(1)
    for _ in range(100):
        actions = rng.integers(5, size=67)
        ours, theirs = few.step(actions[:2]), many.step(actions)
        np.testing.assert_array_equal(ours[0], theirs[0][:2])
        np.testing.assert_array_equal(ours[1], theirs[1][:2])


def test_random_actions_earn_what_they_did_in_the_original() -> None:
    # .738 a tick, with a standard deviation over worlds of .073 in 2,000 ticks, so .103 in 1,000;
    # .07 are 5.4 standard errors of 64 worlds: a false alarm in 10⁷
    envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=64, reward="karpathy")
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    rewards = [envs.step(rng.integers(5, size=64))[1].mean() for _ in range(3000)]
    assert np.mean(rewards[2000:]) == pytest.approx(0.738, abs=0.07)


def test_returned_arrays_stay_what_they_were() -> None:
    envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=3)
    seen, _ = envs.reset(seed=0)
    kept = seen.copy()
    first = envs.step(np.array([0, 1, 2]))
    copies = [array.copy() for array in first[:4]]
    envs.step(np.array([3, 4, 0]))
    np.testing.assert_array_equal(seen, kept)
    for array, copy in zip(first[:4], copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_seeds_are_told_and_go_on() -> None:
    envs, again = (gymnasium.make_vec("dubio/Forager-v0", num_envs=2) for _ in range(2))
    first, _ = envs.reset()
    repeated, _ = again.reset(seed=envs.seeds)
    np.testing.assert_array_equal(first, repeated)
    np.testing.assert_array_equal(envs.reset()[0], again.reset()[0])
    assert envs.reset(seed=np.int64(4))[0].tolist() == again.reset(seed=[4, 5])[0].tolist()
    assert envs.seeds == [4, 5]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 1, 2], r"expected shape \(2,\), got \(3,\)"),
        (0, r"expected shape \(2,\), got \(\)"),
        ([0.0, 1.0], "expected whole numbers from 0 to 4, got float64"),
        ([True, False], "expected whole numbers from 0 to 4, got bool"),
        ([0, 5], "expected 0 to 4, got 5"),
        ([-1, 4], "expected 0 to 4, got -1"),
    ],
)
def test_wrong_actions_are_refused(actions: Any, message: str) -> None:
    envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=2)
    envs.reset(seed=0)
    with pytest.raises((TypeError, ValueError), match=message):
        envs.step(np.array(actions))
    assert envs.worlds.clock.tolist() == [0, 0]


def test_misuse_is_refused() -> None:
    envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=2)
    with pytest.raises(ValueError, match="pose: expected"):
        envs.reset(seed=0, options={"pose": ()})
    with pytest.raises(RuntimeError, match=r"call reset\(seed=...\) first"):
        envs.step(np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="seed: expected one or 2 numbers, got 3"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="num_envs: expected a whole number from 1 on, got 0"):
        type(envs)(num_envs=0)
    with pytest.raises(ValueError, match="render_mode: expected None, got 'svg'"):
        type(envs)(num_envs=1, render_mode="svg")
