"""What Clark et al. 2022 says of its table 3."""

from functools import partial
from statistics import fmean

from dubio.studies.paper_004.legend import NAMES, widths
from dubio.studies.paper_004.table_3.published import AUTHORS, BLUNDELL, by_width
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

READING = {
    "gaussian": "draws",
    "mixture": "draws",
    "slow gaussian": "draws",
    "cold gaussian": "draws",
    "cold mixture": "draws",
    "plain": "pass",
    "dropout": "pass",
}  # that of the paper
METHODS = tuple(READING)
TOLERATED = 0.1  # points: the standard error of 1.2 % from the choice of 10,000 test digits


def single_softmax(rows: Rows) -> Rows:
    """Without the authors' variant."""
    return rows.where(loss="cross-entropy")


def numbers(rows: Rows, method: str, width: int, reading: str, metric: str) -> list[float]:
    """A metric of each restart."""
    return rows.where(method=method, width=width, reading=reading, metric=metric).values()


def errors(rows: Rows, method: str, width: int) -> list[float]:
    """Test error of each restart, in percent, predicted as in the paper."""
    return [100 * v for v in numbers(rows, method, width, READING[method], "error")]


def beats_plain(rows: Rows) -> Finding:
    """Whether the Gaussian prior has a lower error than the plain network at each width."""
    return ordered(rows, "gaussian", "plain", margin=0.0)


def matches_dropout(rows: Rows) -> Finding:
    """Whether its error is about that of dropout, or lower, at each width."""
    return ordered(rows, "gaussian", "dropout", margin=TOLERATED)


def beats_mixture(rows: Rows) -> Finding:
    """Whether its error is lower than that of the mixture at each width."""
    return ordered(rows, "gaussian", "mixture", margin=0.0)


def ordered(rows: Rows, first: str, second: str, margin: float) -> Finding:
    """Whether the first method's error is below the second's plus a margin at each width.

    Slow and cold variants of both are shown, and not judged.
    """
    rows = single_softmax(rows)
    methods = [m for m in METHODS if m.split()[-1] in (first, second)]
    found = {
        width: {method: fmean(errors(rows, method, width)) for method in methods}
        for width in widths(rows)
    }
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {error:.2f}" for method, error in by_method.items())
        + f" ({width} units)"
        for width, by_method in found.items()
    )
    agrees = all(by_method[first] < by_method[second] + margin for by_method in found.values())
    return Finding(f"%: {shown}.", "reproduces" if agrees else "worse")


def as_published(method: str, rows: Rows) -> Finding:
    """The errors of a method against the authors'."""
    rows, published = single_softmax(rows), by_width(AUTHORS, method)
    ours = {w: fmean(errors(rows, method, w)) for w in widths(rows) if w in published}
    if not ours:
        return Finding("no network of a width of the paper.", "worse")
    excess = round(max(ours[width] - published[width] for width in ours), 6)
    return Finding(
        "; ".join(f"{value:.2f} ({width} units)" for width, value in ours.items()) + ".",
        "worse" if excess > TOLERATED else "better" if excess <= 0 else "reproduces",
    )


def printed(method: str, table: dict[str, dict[int, float]]) -> str:
    """A method's errors as the paper has them."""
    return ", ".join(f"{value:.2f}" for value in by_width(table, method).values())


def printed_pair(first: str, second: str) -> str:
    """Two methods' errors, of the authors and of Blundell et al."""
    return "; ".join(
        f"{who} {printed(first, table)} and {printed(second, table)}"
        for who, table in (("authors", AUTHORS), ("Blundell et al.", BLUNDELL))
    )


CLAIMS = (
    Claim(
        "Bayes by Backprop errs less than a plain network.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'plain')}",
        "With the Gaussian prior its error is below that of the plain network at each width.",
        beats_plain,
    ),
    Claim(
        "It errs about as often as dropout, or less.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'dropout')}",
        f"With the Gaussian prior its error is at most {TOLERATED:g} points above that of dropout "
        "at each width.",
        matches_dropout,
    ),
    Claim(
        "The Gaussian prior is better than the mixture, against what Blundell et al. found.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'mixture')}",
        "Its error is below that of the mixture at each width.",
        beats_mixture,
    ),
    *(
        Claim(
            f"Test error: {NAMES[method]}.",
            f"%, 400 to 1200 units: authors {printed(method, AUTHORS)}",
            f"At each width at most {TOLERATED:g} points above the authors', the standard error of "
            "such a number from the choice of test digits; better if above it at none.",
            partial(as_published, method),
        )
        for method in (*AUTHORS, "slow gaussian")
    ),
)
