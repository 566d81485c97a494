"""Noise by keys: the same in every batch, and of the right distribution."""

import numpy as np
import pytest
import torch
from scipy import stats

from dubio.recommend.keyed_noise import draw_seeds, hashed, normal, seed_of, uniform, user_keys

SEEDS = draw_seeds(1, user_keys(np.arange(500)), 0)


def splitmix64(state: int, count: int) -> list[int]:
    """The first numbers of the generator, in Python's integers."""
    numbers = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_hash_is_splitmix64() -> None:
    """Known numbers from seed 1234567; places are steps, from a seed that was mixed once."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(1234567, 3) == known
    before = (1234567 - 0x9E3779B97F4A7C15) % 2**64
    mixed_seed = splitmix64(before, 1)[0]
    found = hashed(np.array([1234567], np.uint64), range(5)).tolist()
    assert found == splitmix64(mixed_seed, 5)


@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_distribution(law: str) -> None:
    """Kolmogorov and Smirnov's test of 10⁶ numbers; false alarms: 10⁻⁶."""
    draw, reference = {"uniform": (uniform, "uniform"), "normal": (normal, "norm")}[law]
    numbers = draw(SEEDS[:, None], range(2000))
    assert numbers.dtype == torch.float32
    assert stats.kstest(numbers.double().flatten().numpy(), reference).pvalue > 1e-6
    if law == "uniform":
        assert numbers.min() >= 0
        assert numbers.max() < 1


def test_neighbours_are_uncorrelated() -> None:
    """Between users, places, draws and seeds; each |r| < 5.2/√n has 2·10⁻⁷ false alarms."""
    numbers = normal(SEEDS[:, None], range(2000)).double()
    other_draw = normal(draw_seeds(1, user_keys(np.arange(500)), 1)[:, None], range(2000)).double()
    other_seed = normal(draw_seeds(2, user_keys(np.arange(500)), 0)[:, None], range(2000)).double()
    pairs = [
        (numbers[1:], numbers[:-1]),
        (numbers[:, 1:], numbers[:, :-1]),
        (numbers, other_draw),
        (numbers, other_seed),
    ]
    for left, right in pairs:
        assert abs((left * right).mean()) < 5.2 / left.numel() ** 0.5


def test_numbers_are_a_function_of_seed_and_place() -> None:
    whole = uniform(SEEDS[:, None], range(30))
    some = uniform(SEEDS[[7, 3]][:, None], [29, 4])
    assert torch.equal(some, whole[[7, 3]][:, [29, 4]])
    entries = uniform(SEEDS[[7, 7, 3]], [29, 4, 4])  # one seed for each entry of a CSR matrix
    assert torch.equal(entries, whole[[7, 7, 3], [29, 4, 4]])


def test_keys_are_the_same_in_every_process() -> None:
    assert user_keys(["ann", b"ann", 5]).tolist() == [
        user_keys(["ann"])[0],
        user_keys([b"ann"])[0],
        5,
    ]
    assert user_keys(["ann"])[0] == 15908812585774583423
    assert user_keys(["ann"])[0] != user_keys([b"ann"])[0]


def test_keys_of_all_kinds_of_ids() -> None:
    """Equal ids have equal keys, and others differ, also beyond 64 bits."""
    assert user_keys(np.array([-1]))[0] == user_keys([-1, "x"])[0] == user_keys([-1.0])[0]
    assert user_keys([1.0]) == user_keys([np.int64(1)]) == user_keys([1])
    numbers = [-1, 0, 2**64 - 1, 2**64, 2**128, 1.5]
    ids = [*numbers, "1.5", b"1.5", ("a", 1), ("a", 2), ("a", ("1",)), ()]
    assert len(np.unique(user_keys(ids))) == len(ids)
    for one in (None, ["a"], float("nan"), ("a", None)):
        with pytest.raises(TypeError, match="users: expected ids that are numbers, strings, bytes"):
            user_keys([one])


def test_seeds() -> None:
    assert seed_of(None) == 0
    assert seed_of(17) == 17
    generator = torch.Generator().manual_seed(0)
    assert seed_of(generator) != seed_of(generator)
    with pytest.raises(TypeError, match=r"generator: .*got str"):
        seed_of("monday")  # type: ignore[arg-type]
    assert len({int(hashed(SEEDS[:1], place)[0]) for place in range(1000)}) == 1000
