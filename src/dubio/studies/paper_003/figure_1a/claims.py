"""What Herlau et al. 2022 says of its figure 1a."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

NEAR = 0.01  # of the size of the limit
VANISHED = 0.01  # of the largest coefficient of the limit


class Point(NamedTuple):
    """A point of a path."""

    strength: float
    explained: float
    coefficients: Sequence[float]


def path(rows: Rows, method: str, units: str) -> list[Point]:
    """The points of a path, as regularisation grows."""
    chosen = rows.where(method=method, units=units, metric="coefficient")
    steps = [chosen.where(step=step) for step in sorted(chosen.distinct("step"))]
    return [Point(s[0]["strength"], s[0]["explained"], s.values()) for s in steps]


def alone(rows: Rows, units: str) -> list[float]:
    """The coefficients of each feature alone."""
    return rows.where(metric="alone", units=units).values()


def positive_from(points: list[Point]) -> Point | None:
    """The first point from which on all coefficients are positive; None if there is none."""
    found = None
    for point in reversed(points):
        if min(point.coefficients) <= 0:
            break
        found = point
    return found


def heads_to_alone(rows: Rows) -> Finding:
    """Dropout's strongest point against its limit."""
    last, limit = path(rows, "dropout", "unit variance")[-1], alone(rows, "unit variance")
    distance = math.dist(last.coefficients, limit) / math.hypot(*limit)
    drop = last.strength / (1 + last.strength)
    return Finding(
        f"at f = {drop:.3f} coefficients lie between {min(last.coefficients):.2f} and "
        f"{max(last.coefficients):.2f}, {distance:.1%} away from the fits of each feature alone",
        "reproduces" if min(last.coefficients) > 0 and distance <= NEAR else "worse",
    )


def others_vanish(rows: Rows) -> Finding:
    """The strongest points of all three, relative to the fits of each feature alone."""
    limit = max(alone(rows, "unit variance"))
    ends = {
        method: max(map(abs, path(rows, method, "unit variance")[-1].coefficients)) / limit
        for method in ("dropout", "ridge", "lasso")
    }
    drop_odds = path(rows, "dropout", "unit variance")[-1].strength  # f/(1 − f)
    predicts = ends["dropout"] / (1 + drop_odds)
    reproduced = ends["dropout"] > 0.5 and max(ends["ridge"], ends["lasso"]) <= VANISHED
    return Finding(
        "largest coefficient at the strongest regularisation, over that of a feature alone: "
        + ", ".join(f"{method} {end:.3f}" for method, end in ends.items())
        + f"; for dropout this is μ, while (1 − f)μ, which predicts, has {predicts:.3f} and "
        "vanishes like ridge's",
        "reproduces" if reproduced else "worse",
    )


def positive_where_others_are_not(rows: Rows) -> Finding:
    """How much is explained where all coefficients become positive for good."""
    own, scaled = (
        {m: explained_when_positive(rows, m, units) for m in ("dropout", "ridge", "lasso")}
        for units in ("own units", "unit variance")
    )
    ahead = own["dropout"] is not None and all(
        other is None or other < own["dropout"] for other in (own["ridge"], own["lasso"])
    )
    told, told_scaled = (
        ", ".join(f"{method} {spoken(share)}" for method, share in shares.items())
        for shares in (own, scaled)
    )
    return Finding(
        f"all positive from this explained variance down: {told}; with features of unit variance "
        f"{told_scaled}",
        "reproduces" if ahead else "worse",
    )


def explained_when_positive(rows: Rows, method: str, units: str) -> float | None:
    """The explained variance at `positive_from`."""
    point = positive_from(path(rows, method, units))
    return None if point is None else point.explained


def spoken(share: float | None) -> str:
    """A share in words."""
    return "never" if share is None else f"{share:.1%}"


CLAIMS = (
    Claim(
        "Dropout shrinks the parameters towards an all positive solution, the fits of each "
        "feature in isolation.",
        "figure 1 (a); no numbers",
        "At the highest rate all coefficients are positive and within 1 % of Λ1⁻¹Xᵀy.",
        heads_to_alone,
    ),
    Claim(
        "In contrast, ridge regression and lasso do not.",
        "figure 1 (a); no numbers",
        "At the strongest regularisation dropout's largest coefficient is more than half of the "
        "largest of Λ1⁻¹Xᵀy, those of ridge and lasso are at most 1 % of it: they go to zero. "
        "Dropout's are the paper's μ, as training sees them with some features missing.",
        others_vanish,
    ),
    Claim(
        "Dropout's coefficients are all positive where those of ridge and lasso are not.",
        "figure 1 (a); no numbers",
        "With features in their own units, dropout's coefficients become positive for good while "
        "the fit explains more variance than ridge's or lasso's when theirs do, if ever. (With "
        "unit variance dropout and ridge have the same signs.)",
        positive_where_others_are_not,
    ),
)
