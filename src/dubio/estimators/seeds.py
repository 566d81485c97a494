"""Random numbers of an estimator: all of them from one seed, none from a global generator."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
import torch
from sklearn.utils import check_random_state

RandomSeed = int | np.random.RandomState | None


class SeedUse(IntEnum):
    """What random numbers are for; every use has a stream of its own."""

    SPLIT = 0
    WEIGHTS = 1
    ORDER = 2
    NOISE = 3
    VALIDATION = 4
    PREDICTION = 5


def seed_of(random_state: RandomSeed) -> int:
    """Return the seed for a `random_state` of scikit-learn.

    None gives a new one every time, not from numpy's global generator.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
    return int(check_random_state(random_state).randint(2**31 - 1))


def stream(seed: int, use: SeedUse, *place: int) -> int:
    """Return the seed of a stream: that of a member, say, in a round of training."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(use), *place))
    return int(sequence.generate_state(1, np.uint64)[0])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the global generators of torch, numpy and Python, and puts them back afterwards."""
    before = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        yield
    finally:
        torch.random.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])
