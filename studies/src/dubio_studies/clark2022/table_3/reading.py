"""Rows of table 3 by method and width."""

from dubio_studies.framework.rows import Rows

READING = {
    "gaussian": "draws",
    "mixture": "draws",
    "slow gaussian": "draws",
    "cold gaussian": "draws",
    "cold mixture": "draws",
    "plain": "pass",
    "dropout": "pass",
}  # that of the paper


def single_softmax(rows: Rows) -> Rows:
    """Without the authors' variant."""
    return rows.where(loss="cross-entropy")


def numbers(rows: Rows, method: str, width: int, reading: str, metric: str) -> list[float]:
    """A metric of each restart."""
    return rows.where(method=method, width=width, reading=reading, metric=metric).values()


def errors(rows: Rows, method: str, width: int) -> list[float]:
    """Test error of each restart, in percent, predicted as in the paper."""
    return [100 * v for v in numbers(rows, method, width, READING[method], "error")]
