"""Deep sea: its returns by enumeration, bsuite's mapping, misuse."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import dubio_studies.worlds  # noqa: F401  registers the worlds

gymnasium = pytest.importorskip("gymnasium")


def made(**options: Any) -> Any:
    return gymnasium.make("dubio/DeepSea-v0", **options)


def dive(env: Any, rights: tuple[bool, ...]) -> tuple[float, list[tuple[int, int]]]:
    """The return of an episode with these steps, and the cells that were seen."""
    seen, _ = env.reset(seed=0)
    total, cells = 0.0, []
    for right in rights:
        (row,), (column,) = np.nonzero(seen)
        cells.append((int(row), int(column)))
        action = env.unwrapped.right[row, column]
        seen, reward, ended, truncated, info = env.step(action if right else 1 - action)
        assert info["right"] == right
        assert not truncated
        assert ended == (len(cells) == len(rights))
        total += reward
    assert not seen.any()
    return total, cells


def test_one_way_of_all_finds_the_treasure() -> None:
    size = 5
    env = made(size=size)
    for rights in product((False, True), repeat=size):
        total, cells = dive(env, rights)
        column = 0
        for row, right in enumerate(rights):
            assert cells[row] == (row, column)
            column = min(max(column + (1 if right else -1), 0), size - 1)
        treasure = 1.0 if all(rights) else 0.0
        assert total == pytest.approx(treasure - 0.01 / size * sum(rights), abs=1e-12)


def test_actions_mean_what_they_do_in_bsuite() -> None:
    # numpy.random.RandomState(42).binomial(1, .5, (N, N)), as bsuite draws it
    assert made().unwrapped.right[0].tolist() == [0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert made(size=20).unwrapped.right.shape == (20, 20)
    assert not np.array_equal(made(mapping_seed=1).unwrapped.right, made().unwrapped.right)


@pytest.mark.parametrize("size", [1, 10])
def test_gymnasium_accepts_it(size: int) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(made(size=size).unwrapped)


def test_an_episode_that_has_ended_is_not_stepped_on() -> None:
    env = made(size=2).unwrapped
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(0)
    env.reset()
    env.step(0)
    assert env.step(0)[2]
    with pytest.raises(RuntimeError, match="expected an episode, got its end; call reset"):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize("action", [2, -1, 0.0, None, True, [0]])
def test_wrong_actions_are_refused(action: Any) -> None:
    env = made().unwrapped
    env.reset()
    with pytest.raises((TypeError, ValueError), match="action: expected"):
        env.step(action)


def test_impossible_seas_are_refused() -> None:
    for size in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match="size: expected a whole number from 1 on"):
            made(size=size)
    with pytest.raises(ValueError, match="options: expected none, got depth"):
        made().reset(options={"depth": 3})
