"""The drawings of figure 1: rows in, pictures out. Nothing here computes."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio.studies.paper_001.figure_1.claims import LAYERS, by_size
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

PANELS = {"epistemic": "epistemic", "aleatoric": "aleatoric", "predictive": "predictive"}
COLOURS = (QUIET, BLUE, VERMILION, GREEN, PURPLE)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "uncertainties",
            "Figure 1a to 1c: uncertainties",
            "Epistemic, aleatoric and predictive standard deviation against the number of data",
            partial(draw_uncertainties, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 9.0),
            note="Dots are runs; lines are means over repeats and starts. Dashed: the deviation of "
            "the noise.",
        ),
        Plot(
            "rates",
            "Figure 1d: dropout rates",
            "Learned dropout rates of the five masks against the number of data",
            partial(draw_rates, rows),
            wide=(9.0, 4.6),
            narrow=(5.0, 5.0),
            note="Dots are runs, filled and open by the rate they started from; lines are means.",
        ),
        value_table(rows),
    ]


@house_style()
def draw_uncertainties(rows: Rows, size: Size) -> Figure:
    """A panel for each kind of uncertainty."""
    figure = Figure(figsize=size, layout="constrained")
    stacked = size[0] < 8
    panels = figure.subplots(3, 1) if stacked else figure.subplots(1, 3)
    for panel, (metric, title) in zip(panels, PANELS.items(), strict=True):
        for row in rows.where(metric=metric):
            panel.plot(row["size"], row["value"], "o", color=BLUE, alpha=0.4, markersize=4,
                       markeredgewidth=0)  # fmt: skip
        means = by_size(rows, metric)
        panel.plot(list(means), list(means.values()), color=BLUE, linewidth=1.8)
        if metric != "epistemic":
            panel.axhline(1.0, color=INK, linewidth=0.9, linestyle="--")
        panel.set_xscale("log")
        panel.set_ylim(bottom=0.0)
        panel.set_title(title)
        panel.set_xlabel("training rows")
        panel.set_ylabel("standard deviation")
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    return figure


@house_style()
def draw_rates(rows: Rows, size: Size) -> Figure:
    """Rates by layer."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    starts = rows.distinct("start")
    for layer, (name, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
        chosen = rows.where(metric="drop", layer=layer)
        for row in chosen:
            panel.plot(
                row["size"], row["value"], "o", color=colour, markersize=4, alpha=0.6,
                fillstyle="full" if row["start"] == starts[0] else "none",
            )  # fmt: skip
        means = by_size(rows, "drop", layer=layer)
        panel.plot(list(means), list(means.values()), color=colour, linewidth=1.8, label=name)
    panel.set_xscale("log")
    panel.set_ylim(0.0, 0.55)
    panel.set_xlabel("training rows")
    panel.set_ylabel("dropout rate")
    panel.grid(axis="y", color=RULE, linewidth=0.6)
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def value_table(rows: Rows) -> Table:
    """All numbers."""
    cells = []
    for size in rows.distinct("size"):
        part = rows.where(size=size)
        deviations = [fmean(part.where(metric=m).values()) for m in (*PANELS, "rmse")]
        drops = [
            fmean(part.where(metric="drop", layer=layer).values()) for layer in range(len(LAYERS))
        ]
        cells.append([f"{size:,}", *(f"{value:.3f}" for value in (*deviations, *drops))])
    return Table(
        "Means over repeats and starts",
        ("training rows", *PANELS.values(), "RMSE", *LAYERS),
        cells,
        "The last five columns are dropout rates. Uncertainties are roots of mean variances over "
        "1000 test rows from the same distribution. "
        "The aleatoric variance is the mean over draws, where the paper's code has the exponential "
        "of the mean log variance.",
    )
