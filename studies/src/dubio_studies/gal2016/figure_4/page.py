"""The drawings of figure 4: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import (
    BLUE,
    GREEN,
    INK,
    NARROW,
    PURPLE,
    QUIET,
    RULE,
    VERMILION,
    as_strokes,
    house_style,
)
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import share_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.figure_4.claims import (
    CLAIMS,
    NAMES,
    PAPERS_METHOD,
    PUBLISHED,
    SHOWN,
    classes,
)

CLASS_COLOURS = dict(zip(SHOWN, (BLUE, PURPLE, VERMILION, GREEN), strict=True))
LINES: dict[str, dict[str, Any]] = {
    "mc": {"color": BLUE, "linestyle": "-"},
    "mc-all": {"color": BLUE, "linestyle": (0, (5, 2))},
    "concrete": {"color": VERMILION, "linestyle": (0, (2, 1.5))},
    "bernoulli": {"color": GREEN, "linestyle": (0, (6, 2, 1, 2))},
    "bayes": {"color": PURPLE, "linestyle": (0, (1, 1))},
    "ensemble": {"color": QUIET, "linestyle": "-", "linewidth": 3.0},
    "plain": {"color": INK, "linestyle": "-"},
}
DOUBTS = {
    "variation ratio": "variation ratio",
    "entropy": "predictive entropy (nats)",
    "mutual information": "mutual information (nats)",
}
LAYERS = ("second convolution", "hidden layer", "last layer")
SIDE = 28  # pixels


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    degrees = rows.where(metric="class").distinct("degrees")
    return [
        Plot(
            "scatter",
            "Figure 4: softmax input and output of a rotating 1",
            "Scatter of the softmax input and output of four classes for twelve rotated "
            "images of a digit 1, with MC dropout before the last layer",
            partial(draw_scatter, rows),
            wide=(12.0, 5.6),
            narrow=(5.0, 9.6),
            note="Each dash is a stochastic pass; classes are side by side in the column of "
            f"their image. From image to image the digit rotates by {angle(degrees[1])}.",
        ),
        class_table(rows),
        Plot(
            "doubts",
            "Uncertainty of seven methods",
            "Variation ratio, predictive entropy and mutual information against the angle, "
            "one line for each of seven methods",
            partial(draw_doubts, rows),
            wide=(12.0, 5.0),
            narrow=(5.0, 12.5),
            note="A single network without noise has only an entropy. The variation ratio is the "
            "share of passes, or members, that do not choose the most common class. Each "
            "method has one network, the ensemble several; the variation between runs is not "
            "shown.",
        ),
        Plot(
            "methods",
            "Softmax outputs of seven methods",
            "Mean softmax output of four classes against the angle with bands for 80 % of "
            "the passes, one panel for each of seven methods",
            partial(draw_methods, rows),
            wide=(12.0, 6.4),
            narrow=(5.0, 12.5),
            note="Lines are means over passes, or members; bands hold the middle 80% of them.",
        ),
        rates_table(rows),
    ]


@house_style()
def draw_scatter(rows: Rows, size: Size) -> Figure:
    """Softmax inputs and outputs above the images; thousands of dashes are drawn as pixels."""
    figure = Figure(figsize=size, layout="constrained", dpi=200)
    draws = rows.where(method=PAPERS_METHOD, metric="draw")
    narrow = size[0] < NARROW
    shape, heights = ((4, 1), [8, 1, 8, 1]) if narrow else ((2, 2), [8, 1])
    grid = figure.subplots(*shape, sharex=True, height_ratios=heights, squeeze=False)
    panels, strips = grid[0::2].flatten(), grid[1::2].flatten()
    titles = {"input": "(a) softmax input", "output": "(b) softmax output"}
    for panel, strip, (kind, title) in zip(panels, strips, titles.items(), strict=True):
        for place, (shown, colour) in enumerate(CLASS_COLOURS.items()):
            shift = 0.17 * (place - 0.5 * (len(SHOWN) - 1))
            panel.plot(
                [row["image"] + shift for row in draws], draws.values(f"{kind} {shown}"), "_",
                color=colour, alpha=0.4, markersize=4 if narrow else 7, label=f"class {shown}",
                rasterized=True,
            )  # fmt: skip
        panel.set_title(title)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        panel.tick_params(axis="x", length=0)
        draw_images(strip, rows)
    handles, labels = panels[0].get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False,
        columnspacing=1.2, handletextpad=0.3,
    )  # fmt: skip
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
    return figure


def draw_images(strip: Axes, rows: Rows) -> None:
    """The turned digit, image by image, where its data are here; else the angles alone."""
    known = rows.where(method=PAPERS_METHOD, metric="class")
    for row in known:
        place = {name: row[name] for name in ("image", "number", "degrees")}
        for found in rows.where(metric="pixels", **place):
            pixels = np.frombuffer(bytes.fromhex(found["value"]), np.uint8).reshape(SIDE, SIDE)
            sides = (row["image"] - 0.46, row["image"] + 0.46, 0, 1)
            strip.imshow(as_strokes(pixels / 255), extent=sides, aspect="auto")
    strip.set_xlim(0.4, len(known) + 0.6)
    strip.set_ylim(0, 1)
    strip.set_yticks([])
    strip.set_xticks(known.values("image"), list(map(angle, known.values("degrees"))))
    strip.tick_params(axis="x", length=0, labelsize=8)
    strip.spines[:].set_visible(False)


@house_style()
def draw_doubts(rows: Rows, size: Size) -> Figure:
    """Three measures of doubt against the angle."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(3, 1) if size[0] < NARROW else figure.subplots(1, 3)
    for panel, (metric, title) in zip(panels, DOUBTS.items(), strict=True):
        for method, name in NAMES.items():
            if method == "plain" and metric != "entropy":
                continue
            own = rows.where(method=method, metric=metric)
            style = {"linewidth": 1.8, **LINES[method]}
            panel.plot(own.values("degrees"), own.values(), label=name, **style)
        panel.set_title(title)
        panel.set_ylim(bottom=0)
        mark_degrees(panel, rows)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    handles, labels = panels[1].get_legend_handles_labels()
    columns = 2 if size[0] < NARROW else 4
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


@house_style()
def draw_methods(rows: Rows, size: Size) -> Figure:
    """Softmax outputs, a panel for each method."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(*((4, 2) if narrow else (2, 4)), sharex=True, sharey=True)
    for panel, (method, name) in zip(panels.flat, NAMES.items(), strict=False):
        for shown, colour in CLASS_COLOURS.items():
            own = rows.where(method=method, metric="probability", shown=shown)
            degrees = own.values("degrees")
            panel.fill_between(
                degrees, own.values("low"), own.values("high"), color=colour, alpha=0.2, linewidth=0
            )
            panel.plot(degrees, own.values(), color=colour, linewidth=1.8, label=f"class {shown}")
        panel.set_title(name, fontsize=10 if narrow else 12)
        panel.set_ylim(0, 1)
        mark_degrees(panel, rows)
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    rest = panels.flat[len(NAMES)]
    rest.axis("off")
    rest.legend(handles, labels, loc="center", frameon=False)
    return figure


def mark_degrees(panel: Axes, rows: Rows) -> None:
    """A mark at every third image."""
    degrees = rows.where(method=PAPERS_METHOD, metric="class").values("degrees")
    panel.xaxis.set_major_locator(FixedLocator(degrees[::3]))
    panel.xaxis.set_major_formatter(lambda value, _: angle(value))
    panel.tick_params(axis="x", labelbottom=True)


def angle(degrees: float) -> str:
    """Degrees with a true minus sign, but none for zero."""
    return f"{degrees:zg}°".replace("-", "−")


def class_table(rows: Rows) -> Table:
    """The predicted classes, next to the published ones."""
    errors = rows.where(metric="test error")
    cases = errors[0]["cases"]

    def error(method: str) -> str:
        share = fmean(errors.where(method=method).values())
        return f"{100 * share:.1f} ± {100 * share_error(share, cases):.1f}"

    return Table(
        "Predicted classes",
        ("method", *map(str, range(1, len(PUBLISHED) + 1)), "test error %"),
        [
            ["published", *map(str, PUBLISHED), "–"],
            *(
                [name, *map(str, classes(rows, method)), error(method)]
                for method, name in NAMES.items()
            ),
        ],
        "By image, from the mean of the softmax outputs. Each method has one network, the "
        f"ensemble {len(errors.where(method='ensemble'))}. The test error is that of a pass "
        f"without noise on the first {cases:,} test images, upright; for the ensemble, the "
        "mean over its members. ± is the standard error over test images, √(e(1 − e)/n) for "
        "an error e on n images; it does not include the variation between networks.",
    )


def rates_table(rows: Rows) -> Table:
    """Dropout rates at the end of training."""
    drops = rows.where(metric="drop")
    return Table(
        "Learned dropout rates",
        ("method", *LAYERS),
        [
            [NAMES[method], *(f"{value:.3f}" for value in drops.where(method=method).values())]
            for method in drops.distinct("method")
        ],
        "For the inputs of these layers, at the end of training; one network for each method.",
    )


PAGE = Page(CLAIMS, exhibits)
