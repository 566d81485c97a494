"""What is shown of the foragers: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.mean_curve import draw_mean_curve
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.figure_6.claims import CLAIMS, NAMES, batches, ends, firsts
from dubio_studies.gal2016.figure_6.filmstrip import draw_frames
from dubio_studies.gal2016.figure_6.timing import TICKS_OF_FRAME

PAPER = ("epsilon", "thompson")
LINES = {
    "epsilon": (GREEN, "-"),  # the paper's colours
    "thompson": (BLUE, "-"),
    "greedy": (QUIET, "-"),
    "episode": (BLUE, "--"),
    "concrete": (VERMILION, "-"),
    "ensemble": (VERMILION, "--"),
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    here = rows.distinct("agent")
    others = [agent for agent in here if agent not in PAPER]
    return [
        _curves(rows, "reward", "Figure 6: average reward", [a for a in PAPER if a in here]),
        _curves(rows, "others", "Not in the paper: other rules", ["thompson", *others]),
        first_table(rows),
        Plot(
            "film",
            f"Figure 5: a trained forager, {TICKS_OF_FRAME} ticks from frame to frame",
            "Frames of a world with walls, apples, poison, and a forager with its nine lines of "
            "sight",
            partial(draw_frames, rows),
            wide=(12.0, 6.2),
            narrow=(5.0, 5.8),
            note="Thompson sampling, the first agent, at the end of its run. Orange: apples. "
            "Green: poison. Blue: the forager, with its lines of sight in the colour of what "
            "they see.",
        ),
        *rate_table(rows),
    ]


def first_table(rows: Rows) -> Table:
    """When agents were above 1, and what they earned in the end."""
    limit = batches(rows)
    cells = [
        [
            NAMES[agent],
            with_error(own := firsts(rows, agent), 1),
            f"{median(own):.0f}",
            f"{sum(value <= limit for value in own)} of {len(own)}",
            with_error(ends(rows, agent), 3),
        ]
        for agent in rows.distinct("agent")
    ]
    return Table(
        "Batches from the burn-in until the average reward is above 1",
        ("agent", "mean", "median", "got there", "reward at the end"),
        cells,
        "Means with standard errors over agents. Agents that did not get there within "
        f"{limit} batches count as {limit + 1}. The reward at the end is over the last 20 "
        "batches. Published: 25 for Thompson sampling, 175 for ε-greedy, one run each. "
        "Random actions earn 0.57; a fully open view alone gives 1, without any apple.",
    )


def rate_table(rows: Rows) -> list[Table]:
    """The learned rates."""
    own = rows.where(metric="rate")
    cells = [
        [
            f"{NAMES[agent]}, after layer {layer}",
            with_error(own.where(agent=agent, layer=layer).values(), 3),
        ]
        for agent in own.distinct("agent")
        for layer in own.where(agent=agent).distinct("layer")
    ]
    note = "Means with standard errors over agents. All start at 0.1."
    return [Table("Learned rates at the end", ("agent", "rate"), cells, note)] if cells else []


def _curves(rows: Rows, name: str, title: str, which: list[str]) -> Plot:
    return Plot(
        name,
        title,
        f"Average reward by batches: {', '.join(NAMES[agent] for agent in which)}",
        partial(draw_curves, rows, which),
        wide=(9.0, 5.0),
        narrow=(5.0, 5.0),
        note="The mean reward of the last 1,000 ticks, by batches of 200 ticks after the burn-in, "
        "on a log axis as in the paper. Means over agents; bands are two standard errors.",
    )


def _curve(axes: Axes, rows: Rows, agent: str) -> None:
    """The mean over agents with a band of two standard errors."""
    own = rows.where(agent=agent, metric="average reward")
    marks = sorted(own.distinct("batch"))
    values = [own.where(batch=mark).values() for mark in marks]
    colour, line = LINES[agent]
    draw_mean_curve(axes, marks, values, colour=colour, line=line, label=NAMES[agent])


@house_style()
def draw_curves(rows: Rows, which: list[str], size: Size) -> Figure:
    """A curve for each setting."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for agent in which:
        _curve(axes, rows, agent)
    axes.axhline(1, color=QUIET, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("batches after the burn-in")
    axes.set_ylabel("average reward")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False)
    return figure


PAGE = Page(CLAIMS, exhibits, examined="paper-065ddea2")
