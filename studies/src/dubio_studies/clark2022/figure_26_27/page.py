"""What is shown of other priors and learning rates: rows in, pictures out. Nothing here trains."""

from functools import partial

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import GREEN, NARROW, RULE, VERMILION, house_style
from dubio_studies.clark2022.figure_23_27.page import curves, total_table
from dubio_studies.clark2022.figure_26_27.claims import CLAIMS
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

RUNS = {"greedy": (GREEN, "greedy"), "bayes": (VERMILION, "Bayes by Backprop")}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    rates = ["bayes", "bayes, rate 1e-3", "bayes, rate 1e-5"]
    priors = ["bayes", "bayes, slab 0.75", "bayes, slab 0.25", "bayes, slab 4"]
    return [
        Plot(
            "runs",
            "Figure 26: single runs",
            "Cumulative regret of each agent by mushrooms met, for σ₁ = 0.75 and σ₁ = 1",
            partial(draw_runs, rows),
            wide=(12.0, 5.0),
            narrow=(5.0, 9.0),
            note="One line per agent.",
        ),
        curves(rows, "rates", "Figure 27a: learning rates", "regret", rates),
        curves(rows, "priors", "Figure 27b: widths of the prior", "regret", priors),
        total_table(rows),
    ]


@house_style()
def draw_runs(rows: Rows, size: Size) -> Figure:
    """A line for each agent, Bayesian and greedy."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(*((2, 1) if size[0] < NARROW else (1, 2)))
    settings = {"σ₁ = 0.75": "bayes, slab 0.75", "σ₁ = 1": "bayes"}
    for axes, (title, bayes) in zip(panels, settings.items(), strict=True):
        for agent, (colour, label) in {"greedy": RUNS["greedy"], bayes: RUNS["bayes"]}.items():
            own = rows.where(agent=agent, metric="regret")
            for number in own.distinct("seed"):
                single = own.where(seed=number)
                steps = sorted(single.distinct("step"))
                line = [single.value(step=step) for step in steps]
                axes.plot(steps, line, color=colour, label=label if number == 1 else None)
        axes.set_title(title)
        axes.set_xlabel("mushrooms")
        axes.set_ylabel("cumulative regret")
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.legend(frameon=False)
    return figure


PAGE = Page(CLAIMS, exhibits, examined="small-add5a05c")
