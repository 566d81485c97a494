"""Figures 16 and 17, and their histograms in numbers: rows in, pictures out."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.ink import NARROW, house_style
from dubio.studies.paper_004.figure_16_17.claims import METHODS, PRIORS, kinds, numbers
from dubio.studies.paper_004.legend import LINES, NAMES, widths
from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

PANELS = {"drawn": "Bayesian weights: a draw", "means": "Bayesian weights: their means"}
MEASURES = {"deviation": 3, "width": 3, "kurtosis": 1}  # decimals


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    units = max(widths(rows))
    note = (
        f"Densities, on a logarithmic scale, of all weights of a network with {units} units, of "
        "the first restart; the outermost thousandth is not shown. Left Bayesian weights are one "
        "draw of the posterior, right its means, which leave out how uncertain each is."
    )
    shown = {
        "figure-16": ("by method", METHODS, "plain, dropout and Bayesian networks"),
        "figure-17": ("by prior", PRIORS, "three priors"),
    }
    return [
        *(
            Plot(
                name,
                f"Trained weights {which}",
                f"Histograms of the weights of {what}, drawn weights and means",
                partial(draw_histograms, rows.where(width=units), methods),
                wide=(12.0, 5.0),
                narrow=(5.0, 8.5),
                note=note,
            )
            for name, (which, methods, what) in shown.items()
        ),
        measure_table(rows),
    ]


def measure_table(rows: Rows) -> Table:
    """How wide the histograms are, and how heavy their tails."""
    return Table(
        "The histograms in numbers",
        ("network", "weights", "units", "deviation", "middle 90 %", "excess kurtosis"),
        [
            [
                NAMES[method],
                weights,
                str(width),
                *(
                    with_error(numbers(rows, method, width, weights, measure), digits)
                    for measure, digits in MEASURES.items()
                ),
            ]
            for method in dict.fromkeys((*METHODS, *PRIORS, "cold mixture"))
            for weights in kinds(method)
            for width in widths(rows)
        ],
        "The middle 90 % is the distance from the 5th percentile to the 95th. The excess kurtosis "
        "is 0 for a Gaussian, and large for weights most of which are near zero. ± is a standard "
        "error over restarts, if there are several.",
    )


@house_style()
def draw_histograms(rows: Rows, methods: tuple[str, ...], size: Size) -> Figure:
    """Densities of weights, with drawn and with mean weights of Bayesian networks."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(
        *((2, 1) if narrow else (1, 2)), sharex=True, sharey=True, squeeze=False
    )
    for axes, (weights, title) in zip(panels.flat, PANELS.items(), strict=True):
        for method in methods:
            which = weights if weights in kinds(method) else "trained"
            draw_histogram(axes, method, rows.where(method=method, weights=which))
        axes.set_title(title)
        axes.set_yscale("log")
    for axes in panels[-1]:
        axes.set_xlabel("weight")
    for axes in panels[:, 0]:
        axes.set_ylabel("density")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if narrow else 5, frameon=False,
        fontsize=9.5, handlelength=3.2,
    )  # fmt: skip
    return figure


def draw_histogram(axes: Axes, method: str, rows: Rows) -> None:
    """A line through the middles of the bins; those that are empty are left out."""
    bins = rows.where(metric="density")
    left = bins.values("left")
    half = (left[1] - left[0]) / 2
    filled = [
        (x + half, density) for x, density in zip(left, bins.values(), strict=True) if density
    ]
    axes.plot(
        [x for x, _ in filled], [density for _, density in filled],
        label=NAMES[method], linewidth=1.8, **LINES[method],
    )  # fmt: skip
