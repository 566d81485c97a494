"""Errors about a model, its state or its data."""

from collections.abc import Iterator
from contextlib import contextmanager

from dubio.draws.absence import NoSitesError


class EvaluationError(Exception):
    """An error with a message for the user: what was expected, what came, what to do."""


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors about values into an `EvaluationError` that says whose values they are."""
    try:
        yield
    except (ValueError, TypeError, NoSitesError) as error:
        raise EvaluationError(f"{what}: {error}") from error


def first_sentence(error: Exception) -> str:
    """Return the start of an error of another library: torch adds pages about its options."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0].partition('. ')[0]}"
