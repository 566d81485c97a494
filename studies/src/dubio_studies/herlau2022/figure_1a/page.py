"""What Herlau et al. 2022 says of its figure 1a, and how our rows are shown."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

NEAR = 0.01  # of the size of the limit
VANISHED = 0.01  # of the largest coefficient of the limit
METHODS = ("dropout", "ridge", "lasso")
LINES = (
    (BLUE, "-"), (VERMILION, "-"), (GREEN, "-"), (PURPLE, "--"), (INK, "--"), (QUIET, "-"),
    (BLUE, "--"),
)  # fmt: skip
WINDOW = (-3.5, 4.5)  # least squares has coefficients up to 15


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
        min(last.coefficients) > 0 and distance <= NEAR,
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
        reproduced,
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
        ahead,
    )


def explained_when_positive(rows: Rows, method: str, units: str) -> float | None:
    """The explained variance at `positive_from`."""
    point = positive_from(path(rows, method, units))
    return None if point is None else point.explained


def spoken(share: float | None) -> str:
    """A share in words."""
    return "never" if share is None else f"{share:.1%}"


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        *(path_plot(rows, units) for units in rows.distinct("units")),
        strongest_table(rows),
        positive_table(rows),
    ]


def path_plot(rows: Rows, units: str) -> Plot:
    """The three paths with features in these units."""
    scaled = units == "unit variance"
    return Plot(
        "paths" if scaled else "paths-own-units",
        "Figure 1a: paths with features of unit variance"
        if scaled
        else "The same with features in their own units",
        "Coefficients of seven features against the explained variance: those of dropout end "
        "at seven positive values, those of ridge and lasso at zero",
        partial(draw_paths, rows, units),
        wide=(12.0, 5.0),
        narrow=(5.0, 11.0),
        note="Regularisation grows to the right, where less variance is explained. Dots: each "
        "feature alone, dropout's limit. Shaded: all seven coefficients are positive. The "
        "starts of the paths, near least squares, are outside the plot.",
    )


@house_style()
def draw_paths(rows: Rows, units: str, size: Size) -> Figure:
    """A panel for each method."""
    names = rows.where(metric="alone", units=units).distinct("feature")
    figure = Figure(figsize=size, layout="constrained")
    stacked = size[0] < 8
    panels = figure.subplots(3, 1, sharey=True) if stacked else figure.subplots(1, 3, sharey=True)
    for panel, method in zip(panels, METHODS, strict=True):
        points = path(rows, method, units)
        explained = [100 * point.explained for point in points]
        positive = positive_from(points)
        if positive is not None:
            panel.axvspan(0, 100 * positive.explained, color=GREEN, alpha=0.12, linewidth=0)
        panel.axhline(0, color=RULE, linewidth=1.0)
        for i, name in enumerate(names):
            colour, line = LINES[i % len(LINES)]
            values = [point.coefficients[i] for point in points]
            width = 3.4 if i == 0 else 1.6  # the first two nearly coincide
            panel.plot(
                explained, values, color=colour, linestyle=line, linewidth=width,
                alpha=0.45 if i == 0 else 1.0, label=name,
            )  # fmt: skip
            if method == "dropout":
                panel.plot(
                    0, alone(rows, units)[i], color=colour, marker="o", markersize=6,
                    markeredgewidth=0, clip_on=False,
                )  # fmt: skip
        panel.set_title(method)
        panel.set_xlim(75, 0)
        panel.set_ylim(*WINDOW)
        panel.set_xlabel("explained variance in training, %")
        if stacked or method == METHODS[0]:
            panel.set_ylabel("coefficient")
    panels[2].legend(frameon=False, loc="upper right", ncols=2)
    return figure


def strongest_table(rows: Rows) -> Table:
    """Coefficients at the strongest regularisation."""
    units = "unit variance"
    names = rows.where(metric="alone", units=units).distinct("feature")
    ends = [path(rows, method, units)[-1].coefficients for method in METHODS]
    starts = path(rows, "dropout", units)[0].coefficients
    return Table(
        "Coefficients with features of unit variance",
        ("feature", "weakest dropout", "strongest dropout", "alone", "ridge", "lasso"),
        [
            [name, *(f"{value:.3f}".replace("-", "−") for value in values)]
            for name, *values in zip(
                names, starts, ends[0], alone(rows, units), *ends[1:], strict=True
            )
        ],
        "Alone is Λ1⁻¹Xᵀy, the limit of dropout; ridge and lasso are at their strongest. Ridge's "
        "small values have the same signs as dropout's: with features of unit variance they are "
        "dropout's times 1 − f.",
    )


def positive_table(rows: Rows) -> Table:
    """Where each path becomes positive for good."""
    cells = []
    for units in rows.distinct("units"):
        for method in METHODS:
            point = positive_from(path(rows, method, units))
            cells.append(
                [
                    f"{method}, {units}",
                    spoken(None if point is None else point.explained),
                    "–" if point is None else strength_text(method, point.strength),
                    "–" if point is None else f"{min(point.coefficients):.4f}",
                    "–" if point is None else f"{max(point.coefficients):.4f}",
                ]
            )
    return Table(
        "Where all seven coefficients become and stay positive",
        ("path", "explained variance", "strength", "smallest there", "largest there"),
        cells,
        "The first such point of our grid. Lasso drops features, and zero is not positive.",
    )


def strength_text(method: str, strength: float) -> str:
    """A strength in the method's own terms."""
    if method == "dropout":
        return f"f = {strength / (1 + strength):.3f}"
    return f"{strength:.3g}"


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
        "With features in their own units, dropout's coefficients become and stay positive "
        "at a higher explained variance than those of ridge and lasso, if theirs ever do. "
        "(With unit variance dropout and ridge have the same signs.)",
        positive_where_others_are_not,
    ),
)

PAGE = Page(CLAIMS, exhibits)
