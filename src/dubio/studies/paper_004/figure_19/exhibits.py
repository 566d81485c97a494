"""The tables and drawings of calibration: rows in, pictures out. Nothing here trains."""

from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, PercentFormatter

from dubio.report.ink import NARROW, QUIET, RULE, VERMILION, house_style
from dubio.studies.paper_004.figure_19.claims import mean, own
from dubio.studies.paper_004.legend import WAY_LINES, WAY_NAMES, Way
from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

CASES = 20  # fewer in a bin are not drawn
COLUMNS = ("", "accuracy %", "NLL", "Brier", "ECE %", "ACE %", "confidence − accuracy, points")
VARIANTS = {  # loss and softmaxes, and what a panel of them is called
    ("cross-entropy", 1): "One softmax",
    ("double softmax", 1): "Trained with two, read after one",
    ("double softmax", 2): "Trained with two, read after two",
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        right_table(rows),
        Plot(
            "reliability",
            "Accuracy against confidence",
            "Accuracy against confidence with the diagonal, a line for each method, in a panel "
            "for the right loss and two for the authors'",
            partial(draw_reliability, rows),
            wide=(12.0, 5.6),
            narrow=(5.0, 15.0),
            note=f"Bins with at least {CASES} images; their accuracy has a standard error of up to "
            "11 points. On the diagonal confidence is what comes true; above it the network is too "
            "modest, below it too sure. Of the first restart.",
        ),
        Plot(
            "confidences",
            "How sure they are",
            "Histograms of the confidence, a panel for each method, on a logarithmic scale",
            partial(draw_confidences, rows),
            wide=(12.0, 7.0),
            narrow=(5.0, 10.5),
            note="The share of test images in each of the 15 bins; heights are logarithmic. "
            "Of the first restart.",
        ),
        double_table(rows),
    ]


def right_table(rows: Rows) -> Table:
    """All methods with the right loss."""
    cases = rows.where(metric="ece")[0]["cases"]
    return Table(
        "Calibration",
        COLUMNS,
        [[name, *cells(own(rows, way))] for way, name in WAY_NAMES.items()],
        f"Of {cases:,} test images. ECE has 15 bins of equal width, and ± from the choice of "
        "images (bootstrap), as the last column has; ACE has 15 bins of equal mass for every "
        "class. Elsewhere ± is a standard error over restarts, if there are several. NLL in nats; "
        "the Brier score is between 0 and 2.",
    )


def double_table(rows: Rows) -> Table:
    """The authors' loss."""
    found = rows.where(loss="double softmax").distinct("method")
    return Table(
        "Trained with two softmaxes",
        COLUMNS,
        [
            [f"{name}, {('one', 'two')[softmaxes - 1]}", *cells(part)]
            for way, name in WAY_NAMES.items()
            if way[0] in found
            for softmaxes in (1, 2)
            if (part := own(rows, way, "double softmax", softmaxes))
        ],
        "The variant of an earlier state of the authors' code, whose loss takes the softmax of "
        "probabilities. One: probabilities are what the network puts out. Two: they are the "
        "softmax of that, as in the loss, and at most e/(e + 9) = 23 %.",
    )


def cells(rows: Rows) -> list[str]:
    """The numbers of one method."""

    def value(metric: str, digits: int, factor: float = 1.0) -> str:
        return with_error([factor * v for v in rows.where(metric=metric).values()], digits)

    def with_noise(metric: str, sign: str = "") -> str:
        level, noise = (100 * mean(rows, metric, field) for field in ("value", "error"))
        return f"{level:{sign}.2f} ± {noise:.2f}".replace("-", "−")

    return [
        value("accuracy", 2, 100.0),
        value("nll", 4),
        value("brier", 4),
        with_noise("ece"),
        value("ace", 2, 100.0),
        with_noise("overconfidence", "+"),
    ]


@house_style()
def draw_reliability(rows: Rows, size: Size) -> Figure:
    """A panel for each loss and number of softmaxes."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(3, 1) if narrow else figure.subplots(1, 3, sharey=True)
    handles: dict[str, Any] = {}
    for axes, ((loss, softmaxes), title) in zip(panels, VARIANTS.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=RULE, linewidth=1.2, linestyle="--", zorder=0)
        for way, style in WAY_LINES.items():
            part = own(rows, way, loss, softmaxes).where(metric="reliability", restart=1)
            bins = [row for row in part if row["cases"] >= CASES]
            if bins:
                (handles[WAY_NAMES[way]],) = axes.plot(
                    [row["confidence"] for row in bins],
                    [row["value"] for row in bins],
                    markersize=4.5,
                    linewidth=1.8,
                    **style,
                )
        axes.set_title(title)
        axes.set_xlabel("confidence")
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("accuracy")
    names = [name for name in WAY_NAMES.values() if name in handles]
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=1 if narrow else 4,
        handlelength=3.2,
        frameon=False,
    )
    return figure


@house_style()
def draw_confidences(rows: Rows, size: Size) -> Figure:
    """A panel for each method; the authors' loss behind the right one."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    ways = [way for way in WAY_LINES if own(rows, way)]
    columns = 2 if narrow else 4
    grid = figure.subplots(-(-len(ways) // columns), columns, sharex=True, sharey=True)
    panels = list(grid.flat)
    cases = rows.where(metric="ece")[0]["cases"]
    for spare in panels[len(ways) :]:
        spare.set_axis_off()
    for axes, way in zip(panels, ways, strict=False):
        draw_steps(axes, rows, way, "double softmax", cases, QUIET)
        draw_steps(axes, rows, way, "cross-entropy", cases, VERMILION)
        axes.set_yscale("log")
        axes.set_ylim(0.5 / cases, 1.5)
        axes.set_xlim(0, 1)
        axes.set_title(WAY_NAMES[way], fontsize=10)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    for axes in panels[len(ways) - columns : len(ways)]:  # the lowest of each column
        axes.set_xlabel("confidence")
        axes.tick_params(axis="x", labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of images")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_steps(axes: Axes, rows: Rows, way: Way, loss: str, cases: int, colour: str) -> None:
    """A histogram of confidences, if there are networks with this loss."""
    shares = [
        count / cases
        for count in own(rows, way, loss).where(metric="reliability", restart=1).values("cases")
    ]
    if shares:
        edges = [k / len(shares) for k in range(len(shares) + 1)]
        floor = 0.5 / cases
        axes.stairs(shares, edges, baseline=floor, fill=True, color=colour, alpha=0.14)
        name = "one softmax" if loss == "cross-entropy" else "trained with two, read after one"
        axes.stairs(shares, edges, baseline=floor, color=colour, linewidth=1.5, label=name)
