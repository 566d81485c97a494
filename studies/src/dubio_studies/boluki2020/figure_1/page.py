"""The tables and drawings of figure 1: rows in, pictures out. Nothing here trains."""

import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.boluki2020.figure_1.claims import CLAIMS, mse_ratios, trace_error
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

COLOURS = {
    "truth": INK,
    "arm": BLUE,
    "concrete": VERMILION,
    "trapezoid": GREEN,
    "corrected": PURPLE,
}
NAMES = {"arm": "LBD (ARM)", "concrete": "Concrete"}
PANELS = {"bias": "bias", "std": "STD", "mse": "MSE"}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        *(grid_plot(rows, unit) for unit in (1, 2)),
        Plot(
            "traces",
            "Panels (g) and (h): estimates along gradient descent",
            "Estimated gradients along a descent with the true gradient: LBD stays close to "
            "it, Concrete scatters more",
            partial(draw_traces, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 7.4),
            note="Each point is a mean of one-sample gradients; the settings give their number.",
        ),
        grid_table(rows),
        Plot(
            "widths",
            "Sequel: the error of one gradient against the width of the network",
            "Relative RMSE of each estimator against width on logarithmic axes: it grows "
            "with width for estimators that use losses only, and stays below Concrete for "
            "the trapezoid rule",
            partial(draw_widths, rows),
            wide=(12.0, 5.4),
            narrow=(5.0, 5.6),
            note="Root mean square over the logits, in units of the true gradient's; bars are "
            "two jackknife standard errors, mostly smaller than the dots.",
        ),
        width_table(rows),
    ]


def grid_plot(rows: Rows, unit: int) -> Plot:
    """Six maps over the two rates for one unit."""
    where = "Panels (a) to (f)" if unit == 1 else "The same for α2 (the paper's supplement)"
    return Plot(
        f"grid-{unit}",
        f"{where}: estimates of the gradient for α{unit}",
        f"Maps of bias, standard deviation and mean squared error of the gradient for α{unit} over "
        "the rates of the two units, for LBD and Concrete",
        partial(draw_grid, rows, unit),
        wide=(12.0, 7.6),
        narrow=(5.0, 8.6),
        note="Stronger colours are larger values; LBD and Concrete share a scale. Numbers are "
        "scaled as in the title. Orange is positive bias, blue negative.",
    )


@house_style()
def draw_grid(rows: Rows, unit: int, size: Size) -> Figure:
    """Bias, standard deviation and MSE (columns; rows if narrow) of ARM and Concrete."""
    grid = rows.where(part="grid", unit=unit)
    narrow = size[0] < 8
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(3, 2) if narrow else figure.subplots(2, 3).T  # [metric][method]
    for column, (metric, title) in zip(axes, PANELS.items(), strict=True):
        cells = grid.where(metric=metric)
        largest = max(abs(v) for m in NAMES for v in cells.where(method=m).values())
        power = math.floor(math.log10(largest)) - 1
        for panel, (method, name) in zip(column, NAMES.items(), strict=True):
            draw_map(panel, cells.where(method=method), largest, power)
            what = f"{title} × 10{superscript(-power)}"
            panel.set_title(f"{name}\n{what}" if narrow else f"{name}: {what}")
    return figure


def draw_map(axes: Axes, cells: Rows, largest: float, power: int) -> None:
    """A square for every pair of rates, in one hue whose opacity tells the size.

    Numbers are written in units of 10^power where there is room for them.
    """
    rates = sorted(cells.distinct("keep1"))
    for cell in cells:
        x, y = rates.index(cell["keep1"]), rates.index(cell["keep2"])
        value = float(cell["value"])
        colour = VERMILION if value > 0 and cell["metric"] == "bias" else BLUE
        opacity = 0.03 + 0.57 * abs(value) / largest  # ink stays legible on it
        axes.add_patch(Rectangle((x, y), 0.95, 0.95, color=colour, alpha=opacity, linewidth=0))
        if len(rates) <= 5:
            number = value / 10**power
            text = f"{number:.0f}" if abs(number) >= 9.95 else f"{number:.1f}"
            text = text.replace("-0.0", "0.0").replace("-", "−")
            axes.text(x + 0.47, y + 0.47, text, ha="center", va="center", fontsize=9.5, color=INK)
    axes.set_xlim(-0.05, len(rates))
    axes.set_ylim(-0.05, len(rates))
    axes.set_aspect("equal")
    ticks = [i + 0.47 for i in range(len(rates))]
    labels = [f"{rate:g}" for rate in rates]
    axes.set_xticks(ticks, labels)
    axes.set_yticks(ticks, labels)
    axes.tick_params(length=0)
    axes.set_xlabel("σ(α1)")
    axes.set_ylabel("σ(α2)")
    for side in axes.spines.values():
        side.set_visible(False)


def scientific(value: float) -> str:
    """Two digits and a power of ten."""
    power = math.floor(math.log10(value)) if value > 0 else 0
    return f"{value / 10**power:.1f} · 10{superscript(power)}"


def superscript(power: int) -> str:
    """A power of ten as it is written."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@house_style()
def draw_traces(rows: Rows, size: Size) -> Figure:
    """True and estimated gradients against the step."""
    trace = rows.where(part="trace")
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(2, 1, sharex=True) if size[0] < 8 else figure.subplots(1, 2)
    for panel, unit, letter in zip(panels, (1, 2), "gh", strict=True):
        of_unit = trace.where(unit=unit)
        for method in ("concrete", "arm"):
            chosen = of_unit.where(method=method)
            panel.plot(
                chosen.values("step"), chosen.values(), color=COLOURS[method], linewidth=1.3,
                marker="o", markersize=2.6, markeredgewidth=0, alpha=0.85, label=NAMES[method],
            )  # fmt: skip
        truth = of_unit.where(method="arm")
        panel.plot(
            truth.values("step"), truth.values("truth"), color=INK, linewidth=1.3, label="truth"
        )
        panel.set_title(f"({letter}) gradient for α{unit}")
        panel.set_xlabel("step")
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    panels[0].legend(frameon=False, loc="best")
    return figure


@house_style()
def draw_widths(rows: Rows, size: Size) -> Figure:
    """RMSE against width, both logarithmic, with the names at the ends of the lines."""
    wide = rows.where(part="width", metric="rmse")
    widths = sorted(wide.distinct("width"))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    ends = {}
    for method in wide.distinct("method"):
        values = [wide.value(method=method, width=w) for w in widths]
        errors = [2 * float(wide.row(method=method, width=w)["error"]) for w in widths]
        main = method in COLOURS
        colour = COLOURS.get(method, QUIET)
        axes.errorbar(
            widths, values, yerr=errors, color=colour, linewidth=2.2 if main else 1.3, marker="o",
            markersize=5 if main else 4, markeredgewidth=0, linestyle="-" if main else "--",
        )  # fmt: skip
        ends[method] = values[-1]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("hidden units")
    axes.set_ylabel("RMSE / true gradient")
    axes.xaxis.set_major_locator(FixedLocator(widths))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(w) for w in widths])
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    if len(widths) > 1:
        axes.set_xlim(widths[0] / 1.3, widths[-1] * (widths[-1] / widths[0]) ** 0.34)
    place_names(axes, widths[-1], ends)
    return figure


def place_names(axes: Axes, x: float, ends: dict[str, float]) -> None:
    """Write names beside the ends of lines, pushed apart where they would overlap."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    gap = 0.06 * (high - low)
    last = -math.inf
    for method, value in sorted(ends.items(), key=lambda item: item[1]):
        last = max(math.log(value), last + gap)
        axes.annotate(
            method, (x, math.exp(last)), xytext=(9, 0), textcoords="offset points",
            va="center", color=COLOURS.get(method, QUIET), annotation_clip=False,
        )  # fmt: skip


def grid_table(rows: Rows) -> Table:
    """All estimators in the toy: averages over the grid, the descent, the random networks."""
    grid = rows.where(part="grid")
    methods = grid.distinct("method")[1:]  # the first is the truth

    def cells(method: str) -> list[str]:
        chosen = grid.where(method=method)
        bias = math.sqrt(fmean(v * v for v in chosen.where(metric="bias").values()))
        std = fmean(chosen.where(metric="std").values())
        mse = fmean(chosen.where(metric="mse").values())
        return [
            NAMES.get(method, method),
            scientific(bias),
            scientific(std),
            scientific(mse),
            f"{trace_error(rows, method):.3f}",
            f"{median(mse_ratios(rows, method)):.2f}",
            f"{fmean(ratio < 1 for ratio in mse_ratios(rows, method)):.0%}",
        ]

    return Table(
        "All estimators in the toy network",
        (
            "estimator",
            "RMS bias",
            "mean STD",
            "mean MSE",
            "trace RMSE",
            "MSE / Concrete",
            "beats Concrete in",
        ),
        [cells(method) for method in methods],
        "The first three columns are averages over the grid and both units; the trace is "
        "panels (g) and (h), relative to the true gradient. The last two columns are the "
        "median over other random networks at random rates, and the share of these in which "
        "the estimator beats Concrete. The paper prints no numbers. Even an unbiased "
        "estimator shows a bias of about its standard error.",
    )


def width_table(rows: Rows) -> Table:
    """RMSE and bias by width."""
    wide = rows.where(part="width")
    widths: Sequence[int] = sorted(wide.distinct("width"))
    methods = wide.distinct("method")

    def cell(method: str, width: int) -> str:
        found = wide.row(method=method, width=width, metric="rmse")
        text = f"{found['value']:.3f} ± {found['error']:.3f}"
        best = min(wide.value(method=m, width=width, metric="rmse") for m in methods)
        return f"**{text}**" if found["value"] == best else text

    def bias(method: str) -> str:
        found = wide.row(method=method, width=widths[-1], metric="bias")
        return f"{found['value']:.3f} ± {found['error']:.3f}"

    return Table(
        "Relative RMSE of one gradient by width",
        ("estimator", *(f"{w} units" for w in widths), f"bias at {widths[-1]}"),
        [
            [NAMES.get(method, method), *(cell(method, w) for w in widths), bias(method)]
            for method in methods
        ],
        "In units of the true gradient, with jackknife standard errors. The paper stops at 2 "
        "units. A bias far below its standard error is shown as zero.",
    )


PAGE = Page(CLAIMS, exhibits)
