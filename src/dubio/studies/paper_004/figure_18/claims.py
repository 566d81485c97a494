"""What Clark et al. 2022 says of its figure 18."""

from collections.abc import Callable, Sequence
from statistics import fmean

from dubio.studies.paper_004.legend import NAMES, widths
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

METHODS = ("plain", "dropout", "gaussian", "slow gaussian", "cold gaussian")
SETTLED = 0.1  # points above the error at the end
TOLERATED = 0.1  # points: the standard error of 1.2 % from the choice of 10,000 test digits

Summary = Callable[[Sequence[float]], float]


def curves(rows: Rows, method: str, width: int) -> list[list[float]]:
    """Test error in percent by epoch, of each restart."""
    found = rows.where(method=method, width=width, metric="error")
    return [
        [round(100 * value, 6) for value in found.where(restart=restart).values()]
        for restart in found.distinct("restart")
    ]


def final(curve: Sequence[float]) -> float:
    """The error at the end."""
    return curve[-1]


def settled(curve: Sequence[float]) -> float:
    """The first epoch from which on the error is about that at the end, or lower."""
    unsettled = [e for e, error in enumerate(curve, start=1) if error > final(curve) + SETTLED]
    return max(unsettled, default=0) + 1


def means(rows: Rows, summary: Summary) -> dict[int, dict[str, float]]:
    """A number of the curves by width and method, averaged over restarts."""
    return {
        width: {method: fmean(map(summary, curves(rows, method, width))) for method in METHODS}
        for width in widths(rows)
    }


def settles_first(rows: Rows) -> Finding:
    """Whether the plain network settles before the Bayesian one, at each width."""
    found = means(rows, settled)
    return judged(found, 0, all(m["plain"] < m["gaussian"] for m in found.values()))


def errs_most(rows: Rows) -> Finding:
    """Whether the plain network ends with the highest error, at each width."""
    found = means(rows, final)
    agrees = all(m["plain"] > max(m["dropout"], m["gaussian"]) for m in found.values())
    return judged(found, 2, agrees)


def reaches_dropout(rows: Rows) -> Finding:
    """Whether the Bayesian network ends with about the error of dropout, or a lower one."""
    found = means(rows, final)
    return judged(found, 2, all(m["gaussian"] <= m["dropout"] + TOLERATED for m in found.values()))


def judged(found: dict[int, dict[str, float]], digits: int, agrees: bool) -> Finding:
    """The numbers in words, and the verdict."""
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {values[method]:.{digits}f}" for method in METHODS)
        + f" ({width} units)"
        for width, values in found.items()
    )
    return Finding(f"{shown}.", "reproduces" if agrees else "worse")


CLAIMS = (
    Claim(
        "A plain network converges earlier than a Bayesian one.",
        "figure 18, 1200 units",
        "At each width it takes fewer epochs until its test error stays below its last value plus "
        f"{SETTLED:g} points, on average over restarts.",
        settles_first,
    ),
    Claim(
        "It converges to a higher error.",
        "figure 18; table 3, %, 1200 units: plain 1.83, dropout 1.37, Bayes 1.35",
        "At each width its error after the last epoch is above that of dropout and of Bayes by "
        "Backprop.",
        errs_most,
    ),
    Claim(
        "A Bayesian network converges to about the error of dropout, or a lower one.",
        "figure 18; table 3, %, 1200 units: dropout 1.37, Bayes 1.35",
        f"At each width its error after the last epoch is at most {TOLERATED:g} points above that "
        "of dropout.",
        reaches_dropout,
    ),
)
