"""Networks that are trained once: where their checkpoints are, and what if one is damaged."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dubio.data.download import cache_directory
from dubio.training.checkpoint import DamagedCheckpointError

T = TypeVar("T")


def kept(key: str, train: Callable[[Path], T]) -> T:
    """Train a network with a checkpoint in the folder ``networks`` of the cache.

    So a run that was killed goes on, and studies that look at the same network share it. A file
    that cannot be read is set aside.

    Args:
        key: A hash of all that decides the weights, in hexadecimal digits.
        train: Trains with a checkpoint in this file, or takes from it what was trained before.
    """
    file = cache_directory() / "networks" / f"{key[:16]}.pt"
    try:
        return train(file)
    except DamagedCheckpointError:
        aside = file.with_suffix(".damaged")
        file.replace(aside)
        warnings.warn(
            f"{file} could not be read: it is {aside.name} now, and made anew.", stacklevel=3
        )
        return train(file)
