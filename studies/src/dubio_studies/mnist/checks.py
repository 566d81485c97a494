"""Settings that cannot be computed are refused before anything is."""

import math
from collections.abc import Iterable

from dubio_studies.mnist.images import AVAILABLE, Source


def at_least(least: int, **counts: int) -> None:
    """Complain about a number that is less."""
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"{name}: expected at least {least}, got {count}.")


def each_at_least(least: int, **counts: Iterable[int]) -> None:
    """Complain about numbers of which one is less, or of which there are none."""
    for name, each in counts.items():
        if min(each, default=least - 1) < least:
            raise ValueError(f"{name}: expected one or more, each at least {least}, got {each}.")


def available(source: Source, train: dict[str, int], test: dict[str, int]) -> None:
    """Complain about more images than a source has; numbers by the names of their settings."""
    for numbers, kind, held in zip(
        (train, test), ("training", "test"), AVAILABLE[source], strict=True
    ):
        for name, count in numbers.items():
            if count > held:
                raise ValueError(
                    f"{name}: expected at most {held:,}, the {kind} images of the source {source}, "
                    f"got {count:,}; ask for fewer."
                )


def positive(**values: float) -> None:
    """Complain about what is not a positive number."""
    for name, value in values.items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"{name}: expected a positive number, got {value:g}.")


def rates(**values: float) -> None:
    """Complain about what is no dropout rate."""
    for name, value in values.items():
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name}: expected a rate in (0, 1), got {value:g}.")
