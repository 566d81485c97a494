"""The tables and drawings of digits against shift: rows in, pictures out. Nothing here trains."""

import math
from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, NARROW, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows, Scalar
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.uncertainty.digits_vs_shift.claims import (
    CLAIMS,
    ENTROPY,
    INFORMATION,
    NAMES,
    foreign,
)

LINES: dict[str, dict[str, Any]] = {
    "plain": {"color": INK, "linestyle": "-"},
    "mc": {"color": BLUE, "linestyle": (0, (5, 2))},
    "concrete": {"color": VERMILION, "linestyle": (0, (2, 1.5))},
    "bernoulli": {"color": GREEN, "linestyle": (0, (6, 2, 1, 2))},
    "bayes": {"color": PURPLE, "linestyle": (0, (1, 1))},
    "ensemble": {"color": QUIET, "linestyle": "-", "linewidth": 3.0},
}
GROUNDS = (INK, VERMILION, BLUE)  # digits, and the two sets of foreign images
SCORES = {ENTROPY: "H", INFORMATION: "MI"}
CASES = 20  # fewer in a bin are not drawn


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    sets = " and ".join(foreign(rows))
    return [
        summary_table(rows),
        Plot(
            "curves",
            "Calibration, and error after deferral",
            "Accuracy against confidence, error against coverage, and PAvgPU against the "
            "threshold, one line for each of six methods",
            partial(draw_curves, rows),
            wide=(12.0, 5.2),
            narrow=(5.0, 13.0),
            note=f"Left: bins with at least {CASES} digits, whose accuracy has a standard error "
            "of up to 11 points; on the line the network is calibrated, above it "
            "underconfident, below it overconfident. Middle: the error among the digits with "
            "the lowest entropy. Right: the share of digits that are accurate and certain, "
            "or inaccurate and uncertain, for thresholds from the smallest to the largest "
            "entropy. First restart.",
        ),
        Plot(
            "entropies",
            f"Entropy of predictions: digits, {sets}",
            f"Histograms of the entropy for digits, {sets}, one panel for each of six methods",
            partial(draw_entropies, rows),
            wide=(12.0, 6.6),
            narrow=(5.0, 13.0),
            note="The share of each set's images in bins of equal width from 0 to log 10 nats; "
            "heights are logarithmic. Entropy cannot separate images where the histograms "
            "overlap. First restart.",
        ),
        detection_table(rows),
        rates_table(rows),
    ]


def summary_table(rows: Rows) -> Table:
    """Everything at once, a line for each method."""
    columns: list[tuple[str, Callable[[str], list[float]], int, bool]] = [
        ("acc. %", partial(numbers, rows, "accuracy", 100.0), 2, True),
        ("NLL", partial(numbers, rows, "nll", 1.0), 3, False),
        ("ECE %", partial(numbers, rows, "ece", 100.0), 2, False),
        ("PAvgPU", partial(numbers, rows, "pavgpu", 1.0), 3, True),
        ("AURC ‰", partial(numbers, rows, "aurc", 1000.0), 2, False),
        *(
            (
                f"{short_name(name)} {short}",
                partial(numbers, rows, "auroc", 1.0, foreign=name, score=s),
                3,
                True,
            )
            for name in foreign(rows)
            for s, short in SCORES.items()
        ),
        ("ms", partial(milliseconds, rows), 3, False),
    ]
    cells = [column_cells(*column[1:]) for column in columns]
    passes = [f"{rows.where(method=method, metric='passes')[0]['value']}" for method in NAMES]
    cases = rows.where(metric="accuracy")[0]["cases"]
    error = 100 * math.sqrt(0.95 * 0.05 / cases)
    return Table(
        "Six methods on digits and on foreign images",
        ("method", *(column[0] for column in columns), "passes"),
        [
            [name, *(column[k] for column in cells), passes[k]]
            for k, name in enumerate(NAMES.values())
        ],
        "Accuracy, NLL (nats), ECE (15 bins), the mean of PAvgPU over thresholds and AURC "
        f"are for {cases:,} test digits; then the AUROC with which entropy (H) and mutual "
        "information (MI) separate foreign images from these. Milliseconds are CPU time per "
        "image in batches of 500, on one core, including statistics. Mean PAvgPU rewards low "
        "entropies of the many accurate digits more than uncertainty about the few others. "
        "Best in bold; ± is a standard error over restarts, if there are several. An "
        f"accuracy near 95 % has a standard error of {error:.1f} points from the choice of "
        "test digits alone.",
    )


def column_cells(
    of: Callable[[str], list[float]], digits: int, higher_is_better: bool
) -> list[str]:
    """A column, its best number bold; a dash where there is none."""
    found = {method: of(method) for method in NAMES}
    means = {method: fmean(values) for method, values in found.items() if values}
    best = (max if higher_is_better else min)(means.values())

    def cell(method: str) -> str:
        if method not in means:
            return "–"
        text = with_error(found[method], digits)
        return f"**{text}**" if means[method] == best else text

    return [cell(method) for method in NAMES]


def short_name(name: str) -> str:
    """Of a set of images, for the head of a column."""
    return name.removesuffix("-MNIST")


def numbers(rows: Rows, metric: str, factor: float, method: str, **fields: Scalar) -> list[float]:
    """A metric of each restart of a method."""
    return [factor * v for v in rows.where(method=method, metric=metric, **fields).values()]


def milliseconds(rows: Rows, method: str) -> list[float]:
    """CPU time for an image, of each restart."""
    return [1000 * v for v in rows.where(method=method, metric="passes").values("cpu_seconds")]


def detection_table(rows: Rows) -> Table:
    """Three measures of how foreign images are found."""
    measures = {"auroc": "AUROC", "aupr": "AUPR", "fpr": "FPR95"}

    def cells(method: str, score: str) -> list[str]:
        return [
            with_error(numbers(rows, metric, 1.0, method, foreign=name, score=score), 3)
            for name in foreign(rows)
            for metric in measures
        ]

    return Table(
        "Foreign images in detail",
        (
            "method, score",
            *(f"{short_name(n)}: {m}" for n in foreign(rows) for m in measures.values()),
        ),
        [
            [f"{name}, {short}", *cells(method, score)]
            for method, name in NAMES.items()
            for score, short in SCORES.items()
            if rows.where(method=method, score=score)
        ],
        "H is the entropy, MI the mutual information. Foreign images are the positives, and "
        "as many as digits. FPR95 is the share of digits flagged when 95 % of the foreign "
        "images are: lower is better.",
    )


def rates_table(rows: Rows) -> Table:
    """Dropout rates at the end of training."""
    drops = rows.where(metric="drop")
    layers = sorted(drops.distinct("layer"))
    return Table(
        "Dropout rates",
        ("method", "pixels", *(f"hidden layer {layer}" for layer in layers[:-1])),
        [
            [
                NAMES[method],
                *(with_error(drops.where(method=method, layer=k).values(), 3) for k in layers),
            ]
            for method in NAMES
            if drops.where(method=method)
        ],
        "Those of MC dropout are fixed; the others are learned, starting from 0.1.",
    )


@house_style()
def draw_curves(rows: Rows, size: Size) -> Figure:
    """Reliability, risk over coverage, and PAvgPU over thresholds."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(3, 1) if size[0] < NARROW else figure.subplots(1, 3)
    reliability, risk, pavgpu = panels
    first = rows.where(restart=1)
    reliability.plot([0, 1], [0, 1], color=RULE, linewidth=1.2, zorder=0)
    for method, name in NAMES.items():
        own, style = first.where(method=method), {"linewidth": 1.8, **LINES[method]}
        bins = [row for row in own.where(metric="reliability") if row["cases"] >= CASES]
        reliability.plot(
            [row["confidence"] for row in bins], [row["value"] for row in bins],
            label=name, marker="o", markersize=3.5, **style,
        )  # fmt: skip
        draw_line(risk, own.where(metric="risk"), "coverage", style)
        draw_line(pavgpu, own.where(metric="pavgpu at"), "t", style)
    titles = {
        reliability: ("Reliability", "confidence", "accuracy"),
        risk: ("Error among the most certain", "coverage", "error"),
        pavgpu: ("PAvgPU", "threshold of the entropy", "PAvgPU"),
    }
    for axes, (title, x, y) in titles.items():
        axes.set_title(title)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    risk.set_ylim(bottom=0)
    risk.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    handles, labels = reliability.get_legend_handles_labels()
    columns = 2 if size[0] < NARROW else len(labels)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5
    )
    return figure


def draw_line(axes: Axes, curve: Rows, x: str, style: dict[str, Any]) -> None:
    """Values against a field."""
    axes.plot(curve.values(x), curve.values(), **style)


@house_style()
def draw_entropies(rows: Rows, size: Size) -> Figure:
    """Histograms of entropies, a panel for each method."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (6, 1) if size[0] < NARROW else (2, 3)
    grid = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    panels = list(grid.flat)
    cases = rows.where(metric="accuracy")[0]["cases"]
    for axes, (method, name) in zip(panels, NAMES.items(), strict=True):
        own = rows.where(method=method, restart=1, metric="entropies")
        for images, colour in zip(own.distinct("images"), GROUNDS, strict=True):
            shares = own.where(images=images).values()
            edges = [k * math.log(10) / len(shares) for k in range(len(shares) + 1)]
            axes.stairs(shares, edges, baseline=0.5 / cases, fill=True, color=colour, alpha=0.14)
            axes.stairs(
                shares, edges, baseline=0.5 / cases, color=colour, linewidth=1.5, label=images
            )
        axes.set_yscale("log")
        axes.set_ylim(0.5 / cases, 1.0)
        axes.set_xlim(0.0, math.log(10))
        axes.set_title(name)
    for axes in grid[-1]:
        axes.set_xlabel("entropy (nats)")
    for axes in grid[:, 0]:
        axes.set_ylabel("share of images")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


PAGE = Page(CLAIMS, exhibits, examined="small-201d7eb2")
