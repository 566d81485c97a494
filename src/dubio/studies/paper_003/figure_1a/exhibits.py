"""The tables and drawings of figure 1a: rows in, pictures out. Nothing here computes."""

from functools import partial

from matplotlib.figure import Figure

from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio.studies.paper_003.figure_1a.claims import alone, path, positive_from, spoken
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

METHODS = ("dropout", "ridge", "lasso")
LINES = (
    (BLUE, "-"), (VERMILION, "-"), (GREEN, "-"), (PURPLE, "--"), (INK, "--"), (QUIET, "-"),
    (BLUE, "--"),
)  # fmt: skip
WINDOW = (-3.5, 4.5)  # least squares has coefficients up to 15


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
        "Coefficients of seven features against the explained variance: dropout's end at seven "
        "positive values, those of ridge and lasso at zero",
        partial(draw_paths, rows, units),
        wide=(12.0, 5.0),
        narrow=(5.0, 11.0),
        note="Regularisation grows to the right, where less variance is explained. Dots: each "
        "feature alone, dropout's limit. Shaded: all seven coefficients are positive. The "
        "beginnings of the paths, near least squares, lie outside.",
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
        "Where all seven coefficients become positive for good",
        ("path", "explained variance", "strength", "smallest there", "largest there"),
        cells,
        "The first point of our grid of strengths. Lasso leaves features out, and zero is not "
        "positive.",
    )


def strength_text(method: str, strength: float) -> str:
    """A strength in the method's own terms."""
    if method == "dropout":
        return f"f = {strength / (1 + strength):.3f}"
    return f"{strength:.3g}"
