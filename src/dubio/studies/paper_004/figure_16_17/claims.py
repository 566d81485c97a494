"""What Clark et al. 2022 says of its figures 16 and 17."""

from collections.abc import Callable
from statistics import fmean

from dubio.studies.paper_004.legend import NAMES, widths
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

METHODS = (
    "plain",
    "dropout",
    "gaussian",
    "slow gaussian",
    "cold gaussian",
)  # figure 16 and variants
PRIORS = ("gaussian", "mixture", "laplace")  # of figure 17
SIMILAR = 1.5  # times as wide, at most


def kinds(method: str) -> tuple[str, ...]:
    """The weights that a method has, those of the figures first."""
    return ("trained",) if method in ("plain", "dropout") else ("drawn", "means")


def numbers(rows: Rows, method: str, width: int, weights: str, metric: str) -> list[float]:
    """A measure of the weights of each restart."""
    return rows.where(method=method, width=width, weights=weights, metric=metric).values()


def spread(rows: Rows, method: str, width: int) -> float:
    """The width of the middle nine tenths of the weights, drawn ones if they are random."""
    return fmean(numbers(rows, method, width, kinds(method)[0], "width"))


def bayes_is_widest(rows: Rows) -> Finding:
    """Whether weights of Bayes by Backprop reach farther than those of the other methods."""
    return judged(rows, METHODS, lambda s: s["gaussian"] > max(s["plain"], s["dropout"]))


def mixture_is_narrower(rows: Rows) -> Finding:
    """Whether weights under the mixture are narrower than under the Gaussian prior."""
    shown = ("gaussian", "mixture", "cold gaussian", "cold mixture")
    return judged(rows, shown, lambda s: s["mixture"] < s["gaussian"])


def laplace_is_similar(rows: Rows) -> Finding:
    """Whether weights under Laplace's prior are about as wide as under the Gaussian one."""
    return judged(
        rows,
        ("gaussian", "laplace"),
        lambda s: 1 / SIMILAR <= s["laplace"] / s["gaussian"] <= SIMILAR,
    )


def judged(
    rows: Rows, methods: tuple[str, ...], rule: Callable[[dict[str, float]], bool]
) -> Finding:
    """The widths in words, and whether the rule holds for each number of units."""
    found = {width: {m: spread(rows, m, width) for m in methods} for width in widths(rows)}
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {value:.3f}" for method, value in spreads.items())
        + f" ({width} units)"
        for width, spreads in found.items()
    )
    agrees = all(rule(spreads) for spreads in found.values())
    return Finding(f"{shown}.", "reproduces" if agrees else "worse")


CLAIMS = (
    Claim(
        "As in the original, weights of Bayes by Backprop spread wider than those of plain and "
        "dropout networks.",
        "figure 16, 1200 units; Blundell et al., figure 3",
        "The middle 90 % of the drawn weights, under the Gaussian prior, are wider than those of "
        "either, for each number of units.",
        bayes_is_widest,
    ),
    Claim(
        "Under the mixture weights are much narrower than under the Gaussian prior.",
        "figure 17, 1200 units",
        "The middle 90 % of the drawn weights are narrower, for each number of units.",
        mixture_is_narrower,
    ),
    Claim(
        "Under Laplace's prior they are similar to those under the Gaussian one.",
        "figure 17, 1200 units",
        f"The middle 90 % of the drawn weights are at most {SIMILAR:g} times as wide as the "
        "other, either way, for each number of units.",
        laplace_is_similar,
    ),
)
