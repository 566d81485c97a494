"""The tables and drawings of pruning: rows in, pictures out. Nothing here trains."""

from functools import partial
from itertools import accumulate
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from dubio.ink import BLUE, GREEN, INK, PURPLE, QUIET, VERMILION, house_style
from dubio.studies.mnist.restarts import with_error
from dubio.studies.paper_004.figure_20_21.claims import BLUNDELL, PRIORS
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

Numbers = NDArray[np.float64]
READINGS = {"draws": "draws", "pass": "mean weights"}
COLOURS = {"gaussian": PURPLE, "mixture": VERMILION}
LAYERS = {1: ("first hidden", BLUE), 2: ("second hidden", GREEN), 3: ("output", INK)}
DASHES = ("-", (0, (5, 2)), (0, (1, 1)))
NARROW = 8.0  # inches


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        error_table(rows),
        Plot(
            "error",
            "Test error against the pruned share",
            "Test error against the share of weights that are pruned, by draws and by mean "
            "weights, a line for each prior and width, next to Blundell et al.",
            partial(draw_errors, rows),
            wide=(12.0, 5.0),
            narrow=(5.0, 9.5),
            note="Both scales are logarithmic, the lower one in what is kept. Bars are a standard "
            "error from the choice of test images. Of the first restart.",
        ),
        Plot(
            "layers",
            "What is kept of each layer",
            "The kept share of each layer's weights against the pruned share of all, a panel for "
            "each prior",
            partial(draw_layers, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 9.0),
            note="Of the widest network and the first restart, biases included. If all layers lost "
            "the same share, lines would lie on the grey one.",
        ),
        Plot(
            "ratios",
            "Signal-to-noise ratios of the weights",
            "Density and distribution function of the signal-to-noise ratio in decibels, by layer "
            "and of all weights, for each prior",
            partial(draw_ratios, rows),
            wide=(12.0, 7.0),
            narrow=(5.0, 15.0),
            note="10 log₁₀ |μ|/σ. Top: the share of each layer's weights in bins of one decibel. "
            "Bottom: the share of weights below; vertical lines are where 75 and 95 % of all "
            "weights are pruned, to a decibel. The outer bins hold all beyond. Of the "
            "widest network and the first restart.",
        ),
        kept_table(rows),
    ]


def error_table(rows: Rows) -> Table:
    """Test errors in percent, a line for each pruned share."""
    kinds = [(m, w, r) for w in sorted(rows.distinct("width")) for m in PRIORS for r in READINGS]
    wrong = rows.where(metric="wrong")

    def cell(share: float, method: str, width: int, reading: str) -> str:
        own = wrong.where(share=share, method=method, width=width, reading=reading)
        return with_error([100 * value for value in own.values()], 2)

    cases = wrong[0]["cases"]
    noise = 100 * fmean(wrong.where(share=0.0, reading="draws").values("error"))
    return Table(
        "Test error in percent",
        (
            "pruned",
            *(f"{PRIORS[m]}, {w}, {READINGS[r]}" for m, w, r in kinds),
            "Blundell et al. 2015, mixture, 1200",
        ),
        [
            [
                percent(share),
                *(cell(share, *kind) for kind in kinds),
                f"{BLUNDELL[share]:.2f}" if share in BLUNDELL else "–",
            ]
            for share in wrong.distinct("share")
        ],
        f"Of {cases:,} test images; an error without pruning has a standard error of {noise:.2f} "
        "points from their choice alone. ± is a standard error over restarts, if there are "
        "several. Paper 004 draws its values: about 1.5 % up to 95 %.",
    )


def kept_table(rows: Rows) -> Table:
    """What is kept of each layer, in percent."""
    width = max(rows.distinct("width"))
    kept = rows.where(metric="kept", width=width)
    kinds = [(method, layer) for method in PRIORS for layer in LAYERS]

    def cell(share: float, method: str, layer: int) -> str:
        own = kept.where(share=share, method=method, layer=layer)
        return with_error([100 * value for value in own.values()], 2)

    return Table(
        f"Kept of each layer, percent, with {width} units",
        ("pruned", *(f"{PRIORS[method]}, {LAYERS[layer][0]}" for method, layer in kinds)),
        [
            [percent(share), *(cell(share, *kind) for kind in kinds)]
            for share in kept.distinct("share")
        ],
    )


def percent(share: float) -> str:
    """A share as it is said."""
    return f"{100 * share:g} %"


@house_style()
def draw_errors(rows: Rows, size: Size) -> Figure:
    """By draws and by mean weights."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(*((2, 1) if narrow else (1, 2)), sharey=True)
    wrong = rows.where(metric="wrong", restart=1)
    widths = sorted(rows.distinct("width"), reverse=True)
    for axes, (reading, title) in zip(panels, READINGS.items(), strict=True):
        for width, dash in zip(widths, DASHES, strict=False):
            for method, name in PRIORS.items():
                own = wrong.where(reading=reading, method=method, width=width)
                axes.errorbar(
                    own.values("share"),
                    own.values(),
                    own.values("error"),
                    color=COLOURS[method],
                    linestyle=dash,
                    marker="o",
                    markersize=3.5,
                    elinewidth=1,
                    label=f"{name}, {width} units",
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
        axes.set_title(f"By {title}")
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("test error")
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 1 if narrow else 3
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


@house_style()
def draw_layers(rows: Rows, size: Size) -> Figure:
    """A panel for each prior."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(*((2, 1) if narrow else (1, 2)), sharey=True)
    kept = widest(rows).where(metric="kept")
    for axes, (method, name) in zip(panels, PRIORS.items(), strict=True):
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
        axes.set_title(name)
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("kept of the layer")
    handles, labels = panels[0].get_legend_handles_labels()
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
    """Densities above, distribution functions below; a column for each prior."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    grid = figure.subplots(*((4, 1) if narrow else (2, 2)), sharex=True, squeeze=False)
    places = list(grid.T.flat) if not narrow else list(grid.flat)
    ratios = widest(rows).where(metric="ratios")
    shown = [row["decibel"] for row in ratios if row["value"] > 1e-4] or [0]
    for column, (method, name) in enumerate(PRIORS.items()):
        density, below = places[2 * column : 2 * column + 2]
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
        density.set_title(name)
        density.set_ylabel("share in a decibel")
        density.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        below.set_ylabel("share below")
        below.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        below.set_xlabel("signal-to-noise ratio (dB)")
        below.set_xlim(min(shown) - 1, max(shown) + 2)
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if narrow else 4, frameon=False
    )
    return figure


def widest(rows: Rows) -> Rows:
    """The first network of the largest width, for each prior."""
    return rows.where(width=max(rows.distinct("width")), restart=1)
