"""What Gal et al. 2017 says of its figure 1, and how our rows are shown."""

from functools import partial
from itertools import pairwise
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

CONVERGED = 0.05  # what rates may differ by between starts
STILL = 0.02  # what they may change by in the last fifth of the steps
LAYERS = ("input", "hidden 1", "hidden 2", "mean head", "variance head")
PANELS = {"epistemic": "epistemic", "aleatoric": "aleatoric", "predictive": "predictive"}
COLOURS = (QUIET, BLUE, VERMILION, GREEN, PURPLE)


def by_size(rows: Rows, metric: str, **fields: float) -> dict[int, float]:
    """Means over repeats and starts, by the number of data."""
    chosen = rows.where(metric=metric, **fields)
    return {size: fmean(chosen.where(size=size).values()) for size in chosen.distinct("size")}


def listed(values: dict[int, float]) -> str:
    """Values with the numbers of data that they belong to."""
    return ", ".join(f"{value:.3f} (N = {size:,})" for size, value in values.items())


def epistemic_falls(rows: Rows) -> Finding:
    """Epistemic deviation against N."""
    values = by_size(rows, "epistemic")
    falls = all(later < earlier for earlier, later in pairwise(values.values()))
    return Finding(listed(values), falls)


def aleatoric_tends_to_one(rows: Rows) -> Finding:
    """Aleatoric deviation against N."""
    values = by_size(rows, "aleatoric")
    first, *_, last = values.values()
    near = abs(last - 1) < 0.05 and abs(last - 1) <= abs(first - 1)
    return Finding(listed(values), near)


def rates_fall(rows: Rows) -> Finding:
    """The mean rate of the masks behind hidden units against N."""
    values = {
        size: fmean(by_size(rows, "drop", layer=layer)[size] for layer in range(1, len(LAYERS)))
        for size in by_size(rows, "drop", layer=1)
    }
    falls = all(later < earlier + 0.01 for earlier, later in pairwise(values.values()))
    first, *_, last = values.values()
    return Finding(
        f"mean over layers after hidden units: {listed(values)}",
        falls and last < first,
    )


def has_converged(rows: Rows) -> Finding:
    """The largest difference of a rate between starts, and its largest change in the end."""
    widest = 0.0
    for size in rows.distinct("size"):
        for layer in range(len(LAYERS)):
            for repeat in rows.distinct("repeat"):
                found = rows.where(metric="drop", size=size, layer=layer, repeat=repeat).values()
                widest = max(widest, max(found) - min(found))
    drift = max(abs(value) for value in rows.where(metric="drift").values())
    return Finding(
        f"largest difference between starts {widest:.3f}; largest change in the last fifth of the "
        f"steps {drift:.3f}",
        widest < CONVERGED and drift < STILL,
    )


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
            note="Dots are runs; lines are means over repeats and starts. Dashed: the standard "
            "deviation of the noise.",
        ),
        Plot(
            "rates",
            "Figure 1d: dropout rates",
            "Learned dropout rates of the five masks against the number of data",
            partial(draw_rates, rows),
            wide=(9.0, 4.6),
            narrow=(5.0, 5.0),
            note="Dots are runs, filled or open by their initial rate; lines are means.",
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
        "The last five columns are dropout rates. Uncertainties are roots of mean variances "
        "over 1000 test rows from the same distribution. The aleatoric variance is the mean "
        "over draws; the paper's code uses the exponential of the mean log variance.",
    )


CLAIMS = (
    Claim(
        "Epistemic uncertainty decreases as the amount of data increases.",
        "figure 1a",
        "Its mean over repeats is lower for every larger number of data.",
        epistemic_falls,
    ),
    Claim(
        "Aleatoric uncertainty tends to 1, the true standard deviation.",
        "figure 1b",
        "With the most data it is within 0.05 of 1, and no further from it than with the fewest.",
        aleatoric_tends_to_one,
    ),
    Claim(
        "Dropout probabilities decrease with more data.",
        "figure 1d: from near 0.5 to between 0.2 and 0.4",
        "The mean rate after hidden units does not rise by more than 0.01 from one number of "
        "data to the next, and falls overall.",
        rates_fall,
    ),
    Claim(
        "The rates have converged (the paper's had not: they still moved at the optimiser's full "
        "speed).",
        "the authors' notebook: 1000 to 2000 steps",
        "Runs that differ in the initial rate alone end with rates that differ by less than 0.05 "
        "everywhere, and no rate changes by 0.02 or more in the last fifth of the steps.",
        has_converged,
        ours=True,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-f42be8b9")
