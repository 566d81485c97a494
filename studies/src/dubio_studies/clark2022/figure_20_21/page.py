"""The tables and drawings of pruning: rows in, pictures out. Nothing here trains."""

from functools import partial
from itertools import accumulate
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, NARROW, QUIET, house_style
from dubio_studies.clark2022.figure_20_21.claims import BLUNDELL, CLAIMS, METHODS
from dubio_studies.clark2022.legend import LINES, NAMES, widths
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

Numbers = NDArray[np.float64]
READINGS = {"draws": "draws", "pass": "mean weights"}
LAYERS = {1: ("first hidden", BLUE), 2: ("second hidden", GREEN), 3: ("output", INK)}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    shown = len(widths(rows))
    return [
        error_table(rows),
        Plot(
            "error",
            "Test error against the pruned share",
            "Test error against the share of pruned weights, with draws and with mean "
            "weights, one line per kind of network, with Blundell et al. for comparison",
            partial(draw_errors, rows),
            wide=(12.0, 1.0 + 4.2 * shown),
            narrow=(5.0, 1.5 + 8.0 * shown),
            note="Both scales are logarithmic, the horizontal one in the kept share. Bars are "
            "one standard error over test images. First restart.",
        ),
        Plot(
            "layers",
            "Share kept of each layer",
            "The kept share of each layer's weights against the pruned share of all, one "
            "panel per kind of network",
            partial(draw_layers, rows),
            wide=(12.0, 8.2),
            narrow=(5.0, 19.0),
            note="Widest network, first restart, including biases. If all layers lost the same "
            "share, lines would follow the grey one.",
        ),
        Plot(
            "ratios",
            "Signal-to-noise ratios of the weights",
            "Density and distribution function of the signal-to-noise ratio in decibels, by layer "
            "and of all weights, for each kind of network",
            partial(draw_ratios, rows),
            wide=(13.0, 6.6),
            narrow=(5.0, 14.5),
            note="10 log₁₀ |μ|/σ. First the share of each layer's weights in bins of one "
            "decibel, then the cumulative share. Vertical lines show where 75 and 95 % of "
            "all weights are pruned, to a decibel. The outer bins hold everything beyond. "
            "Widest network, first restart.",
        ),
        kept_table(rows),
    ]


def error_table(rows: Rows) -> Table:
    """Test errors in percent, a column for each pruned share."""
    wrong = rows.where(metric="wrong")
    shares = wrong.distinct("share")

    def cells(method: str, width: int, reading: str) -> list[str]:
        own = wrong.where(method=method, width=width, reading=reading)
        return [with_error([100 * v for v in own.where(share=s).values()], 2) for s in shares]

    cases = wrong[0]["cases"]
    noise = 100 * fmean(wrong.where(share=0.0, reading="draws").values("error"))
    return Table(
        "Test error in percent",
        ("network", "units", "read by", *(f"{percent(share)} pruned" for share in shares)),
        [
            *(
                [NAMES[method], str(width), READINGS[reading], *cells(method, width, reading)]
                for width in widths(rows)
                for method in METHODS
                for reading in READINGS
                if wrong.where(method=method, width=width)
            ),
            [
                "Blundell et al. 2015, mixture prior",
                "1200",
                "–",
                *(f"{BLUNDELL[share]:.2f}" if share in BLUNDELL else "–" for share in shares),
            ],
        ],
        f"{cases:,} test images; their choice alone gives an error without pruning a standard "
        f"error of {noise:.2f} points. ± is a standard error over restarts, if there are "
        "several. Clark et al. 2022 shows its values in a figure: about 1.5 % up to 95 %.",
    )


def kept_table(rows: Rows) -> Table:
    """What is kept of each layer, in percent."""
    width = max(widths(rows))
    kept = rows.where(metric="kept", width=width)
    shares = kept.distinct("share")

    def cells(method: str, layer: int) -> list[str]:
        own = kept.where(method=method, layer=layer)
        return [with_error([100 * v for v in own.where(share=s).values()], 2) for s in shares]

    return Table(
        f"Share kept of each layer, percent, with {width} units",
        ("network", "layer", *(f"{percent(share)} pruned" for share in shares)),
        [
            [NAMES[method], which, *cells(method, layer)]
            for method in METHODS
            for layer, (which, _) in LAYERS.items()
            if kept.where(method=method)
        ],
    )


def percent(share: float) -> str:
    """A share as it is said."""
    return f"{100 * share:g} %"


@house_style()
def draw_errors(rows: Rows, size: Size) -> Figure:
    """By draws and by mean weights, for each width."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    kinds = [(width, reading) for width in widths(rows) for reading in READINGS]
    shape = (len(kinds), 1) if narrow else (len(kinds) // 2, 2)
    grid = figure.subplots(*shape, sharey=True, squeeze=False)
    wrong = rows.where(metric="wrong", restart=1)
    for axes, (width, reading) in zip(grid.flat, kinds, strict=True):
        for method in METHODS:
            own = wrong.where(reading=reading, method=method, width=width)
            if not own:
                continue
            axes.errorbar(
                own.values("share"),
                own.values(),
                own.values("error"),
                marker="o",
                markersize=3.5,
                elinewidth=1,
                label=NAMES[method],
                **LINES[method],
            )
        axes.plot(
            list(BLUNDELL),
            [value / 100 for value in BLUNDELL.values()],
            color=QUIET,
            marker="D",
            markersize=5,
            linestyle="none",
            label="Blundell et al., mixture, 1200",
        )
        by_what_is_kept(axes)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]))
        axes.yaxis.set_minor_locator(FixedLocator([]))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_title(f"{width} units, by {READINGS[reading]}")
    for axes in grid[:, 0]:
        axes.set_ylabel("test error")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=1 if narrow else 3,
        handlelength=3.2,
        frameon=False,
    )
    return figure


@house_style()
def draw_layers(rows: Rows, size: Size) -> Figure:
    """A panel for each kind of network."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    kept = widest(rows).where(metric="kept")
    methods = [method for method in METHODS if kept.where(method=method)]
    columns = 1 if narrow else 3
    grid = figure.subplots(-(-len(methods) // columns), columns, sharey=True, squeeze=False)
    for spare in grid.flat[len(methods) :]:
        spare.set_axis_off()
    for axes, method in zip(grid.flat, methods, strict=False):
        own = kept.where(method=method)
        shares = own.distinct("share")
        axes.plot(shares, [1 - share for share in shares], color=QUIET, linewidth=1, label="all")
        for layer, (which, colour) in LAYERS.items():
            curve = own.where(layer=layer)
            axes.plot(
                curve.values("share"), curve.values(), color=colour, marker="o", markersize=3.5,
                label=which,
            )  # fmt: skip
        by_what_is_kept(axes)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_title(NAMES[method])
    for axes in grid[:, 0]:
        axes.set_ylabel("kept of the layer")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if narrow else 4, frameon=False
    )
    return figure


def by_what_is_kept(axes: Axes) -> None:
    """The pruned share on a scale that is logarithmic in what is kept."""
    axes.set_xscale("function", functions=(kept_scale, pruned_scale))
    axes.set_xlim(-0.02, 0.9992)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.tick_params(axis="x", labelsize=9)
    axes.set_xlabel("pruned")


def kept_scale(pruned: Numbers) -> Numbers:
    """−log of what is kept."""
    return -np.log(np.maximum(1 - pruned, 1e-6))


def pruned_scale(place: Numbers) -> Numbers:
    """The inverse."""
    return 1 - np.exp(-place)


@house_style()
def draw_ratios(rows: Rows, size: Size) -> Figure:
    """Densities and distribution functions, side by side if narrow; for each kind of network."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    ratios = widest(rows).where(metric="ratios")
    methods = [method for method in METHODS if ratios.where(method=method)]
    count = len(methods)
    grid = figure.subplots(
        *((count, 2) if narrow else (2, count)), sharex=True, sharey="col" if narrow else "row"
    )
    places = grid if narrow else grid.T  # (kinds, 2)
    shown = [row["decibel"] for row in ratios if row["value"] > 1e-4] or [0]
    for (density, below), method in zip(places, methods, strict=True):
        own = ratios.where(method=method)
        by_layer = {layer: own.where(layer=layer).values() for layer in LAYERS}
        together = [sum(parts) for parts in zip(*by_layer.values(), strict=True)]
        edges = [*own.where(layer=1).values("decibel")]
        edges.append(edges[-1] + 1)
        curves = [("all", QUIET, together), *((*LAYERS[k], v) for k, v in by_layer.items())]
        for which, colour, shares in curves:
            total = sum(shares)
            density.stairs([s / total for s in shares], edges, color=colour, label=which)
            summed = [0.0, *accumulate(s / total for s in shares)]
            below.plot(edges, summed, color=colour)
        summed = [0.0, *accumulate(together)]
        for share in (0.75, 0.95):
            place = next(e for e, s in zip(edges, summed, strict=True) if s >= share - 1e-9)
            below.axvline(place, color=QUIET, linewidth=0.8, linestyle=":")
        density.set_title(NAMES[method], fontsize=10.5)
        below.set_xlim(min(shown) - 1, max(shown) + 2)
        for axes in (density, below):
            axes.yaxis.set_major_formatter(PercentFormatter(1))
    for density, below in places if narrow else places[:1]:
        density.set_ylabel("share in a decibel")
        below.set_ylabel("share below")
    for axes in grid[-1]:
        axes.set_xlabel("|μ|/σ (dB)" if narrow else "signal-to-noise ratio (dB)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if narrow else 4, frameon=False
    )
    return figure


def widest(rows: Rows) -> Rows:
    """The first network of the largest width, of each kind."""
    return rows.where(width=max(rows.distinct("width")), restart=1)


PAGE = Page(CLAIMS, exhibits, examined="small-089f7924")
