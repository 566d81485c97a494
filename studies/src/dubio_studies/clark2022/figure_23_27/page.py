"""What is shown of the mushrooms: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.clark2022.figure_23_27.claims import CLAIMS, NAMES, last, totals
from dubio_studies.framework.mean_curve import draw_mean_curve
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

PAPER = ("bayes", "greedy", "epsilon 1 %", "epsilon 5 %")
LINES = {
    "bayes": (VERMILION, "-"),
    "greedy": (BLUE, "--"),
    "epsilon 1 %": (BLUE, "-."),
    "epsilon 5 %": (BLUE, ":"),
    "dropout": (GREEN, "-"),
    "concrete": (GREEN, "--"),
    "bernoulli": (GREEN, "-."),
    "ensemble": (QUIET, "-"),
    "linear": (QUIET, "--"),
    "bayes, slab 0.75": (VERMILION, "--"),
    "bayes, slab 0.25": (VERMILION, "-."),
    "bayes, slab 4": (VERMILION, ":"),
    "bayes, rate 1e-3": (GREEN, "--"),
    "bayes, rate 1e-5": (GREEN, ":"),
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    here = rows.distinct("agent")
    others = [agent for agent in here if agent not in PAPER]
    found: list[Table | Plot] = [
        curves(
            rows, "regret", "Figure 23: cumulative regret", "regret",
            [agent for agent in PAPER if agent in here],
        ),
        Plot(
            "eating",
            "Figure 24: eating rate",
            "Share of mushrooms eaten so far, for Bayes by Backprop and the greedy agent",
            partial(draw_rates, rows),
            wide=(9.0, 5.0), narrow=(5.0, 4.5),
            note="Means over agents. Of the mushrooms 51.8 % are edible.",
        ),
        Plot(
            "mistakes",
            "Figure 25: poison eaten and food refused",
            "Numbers of poisonous mushrooms eaten and of edible ones refused, by mushrooms met",
            partial(draw_mistakes, rows),
            wide=(12.0, 5.0), narrow=(5.0, 9.0),
            note="Means over agents.",
        ),
    ]  # fmt: skip
    if others:
        found.append(
            curves(
                rows, "others", "Not in the paper: other agents", "regret",
                ["bayes", "greedy", *others],
            )
        )  # fmt: skip
    return [*found, total_table(rows)]


def curves(rows: Rows, name: str, title: str, metric: str, which: list[str]) -> Plot:
    """A picture of a metric against mushrooms, for some settings."""
    return Plot(
        name,
        title,
        f"Cumulative {metric} by mushrooms met: {', '.join(NAMES[agent] for agent in which)}",
        partial(draw_curves, rows, metric, which),
        wide=(9.0, 5.0),
        narrow=(5.0, 5.0),
        note="Means over agents; bands are two standard errors.",
    )


def _curve(axes: Axes, rows: Rows, agent: str, metric: str, *, divided: bool = False) -> None:
    """The mean over agents with a band of two standard errors."""
    own = rows.where(agent=agent, metric=metric)
    steps = sorted(own.distinct("step"))
    values = [
        [value / (step if divided else 1) for value in own.where(step=step).values()]
        for step in steps
    ]
    colour, line = LINES[agent]
    draw_mean_curve(axes, steps, values, colour=colour, line=line, label=NAMES[agent])


def _finish(axes: Axes, y: str) -> None:
    axes.set_xlabel("mushrooms")
    axes.set_ylabel(y)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False)


@house_style()
def draw_curves(rows: Rows, metric: str, which: list[str], size: Size) -> Figure:
    """A curve for each setting."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for agent in which:
        _curve(axes, rows, agent, metric)
    _finish(axes, f"cumulative {metric}")
    return figure


@house_style()
def draw_rates(rows: Rows, size: Size) -> Figure:
    """The share of mushrooms eaten so far."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for agent in ("bayes", "greedy"):
        _curve(axes, rows, agent, "eaten", divided=True)
    axes.axhline(4208 / 8124, color=QUIET, linewidth=1.0)
    _finish(axes, "share eaten so far")
    return figure


@house_style()
def draw_mistakes(rows: Rows, size: Size) -> Figure:
    """Poison eaten, and food refused."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(*((2, 1) if size[0] < NARROW else (1, 2)))
    for axes, metric in zip(panels, ("poison eaten", "food refused"), strict=True):
        for agent in ("bayes", "greedy"):
            _curve(axes, rows, agent, metric)
        _finish(axes, metric)
    return figure


def total_table(rows: Rows) -> Table:
    """Where every setting ends."""
    end = last(rows)
    cells = [
        [
            NAMES[agent],
            str(len(totals(rows, agent))),
            with_error(totals(rows, agent), 0),
            with_error(totals(rows, agent, "realised regret"), 0),
            f"{fmean(totals(rows, agent, 'eaten')) / end:.1%}",
            with_error(totals(rows, agent, "poison eaten"), 1),
            with_error(totals(rows, agent, "food refused"), 1),
        ]
        for agent in rows.distinct("agent")
    ]
    never, always, uniform = (total * end / 50_000 for total in (129_493, 361_521, 245_507))
    return Table(
        f"After {end} mushrooms",
        ("agent", "runs", "regret", "realised regret", "eaten", "poison eaten", "food refused"),
        cells,
        f"Means with standard errors over agents. Never eating costs {never:.0f} on average, "
        f"always eating {always:.0f}, uniform actions {uniform:.0f}. Realised regret is "
        "relative to the realised rewards, where luck with poison counts as −5.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-fa922f13")
