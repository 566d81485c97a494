"""Scores of the methods side by side, read from rows: ranks, and differences of pairs."""

from collections.abc import Sequence
from statistics import correlation, fmean

from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error
from dubio_studies.uci.tables import as_printed

NAMES = {
    "plain": "plain network",
    "ensemble": "deep ensemble",
    "mc": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli dropout",
    "gaussian": "learned Gaussian dropout",
    "drop-connect": "DropConnect",
    "bayes": "Bayes by Backprop",
    "last-layer": "Bayes by Backprop, last layer",
    "linear": "linear, closed form",
}
NOISY = tuple(name for name in NAMES if name not in ("plain", "ensemble", "linear"))
AVERAGES = ("ensemble", *NOISY)  # methods that average functions
HIGHER = ("auroc",)  # is better


def on(rows: Rows, method: str, metric: str, table: str, part: str = "tables") -> list[float]:
    """A score of every split of a table."""
    return rows.where(part=part, table=table, method=method, metric=metric).values()


def tables(rows: Rows, part: str = "tables") -> list[str]:
    """The tables that were run, in the order of the papers."""
    return as_printed(rows.where(part=part).distinct("table"))


def places(values: Sequence[float]) -> list[float]:
    """The place of each value among them, the least first; ties share theirs."""
    return [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]


def ranks(
    rows: Rows, metric: str, part: str = "tables", names: Sequence[str] | None = None
) -> dict[str, list[float]]:
    """By method: its rank among all methods, one for each table and split; ties share theirs."""
    found: dict[str, list[float]] = {}
    for table in tables(rows, part) if names is None else names:
        scored = {m: values for m in NAMES if (values := on(rows, m, metric, table, part))}
        for split in zip(*scored.values(), strict=True):
            signed = [-value if metric in HIGHER else value for value in split]
            for method, place in zip(scored, places(signed), strict=True):
                found.setdefault(method, []).append(place)
    return found


def paired(rows: Rows, one: str, other: str, metric: str, table: str) -> list[float]:
    """One method less another on every split of a table."""
    pairs = zip(*(on(rows, m, metric, table) for m in (one, other)), strict=True)
    return [a - b for a, b in pairs]


def differences(rows: Rows, one: str, other: str, metric: str) -> list[float]:
    """One method less another on every split of every table."""
    return [d for table in tables(rows) for d in paired(rows, one, other, metric, table)]


def is_above_zero(values: Sequence[float]) -> bool:
    """Whether the mean is above zero by more than two standard errors."""
    error = standard_error(values)
    return error is not None and fmean(values) > 2 * error


def agreement(rows: Rows) -> float:
    """The rank correlation of mean ranks by NLL, of methods trained as long and twice as long."""
    twice = ranks(rows, "nll", "longer")
    once = ranks(rows, "nll", names=tables(rows, "longer"))
    return correlation(*(places([fmean(own[m]) for m in twice]) for own in (once, twice)))
