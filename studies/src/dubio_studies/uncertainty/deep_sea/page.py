"""What is shown of the divers: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, NARROW, PURPLE, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.uncertainty.deep_sea.claims import CLAIMS, NAMES, agents, given_up, solved

SPREADS = {
    "dropout 0.1, episode": (BLUE, "dropout 0.1"),
    "dropout 0.5, episode": (GREEN, "dropout 0.5"),
    "concrete": (PURPLE, "Concrete dropout"),
    "prior": (VERMILION, "ensemble with priors"),
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        solved_table(rows),
        Plot(
            "spread",
            "Why: uncertainty on visited and on unvisited cells",
            "Spread of functions on visited and on unvisited cells, by episodes",
            partial(draw_spreads, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 8.6),
            note="The standard deviation of Q over functions (masks, or members), in the "
            "smallest sea; means over actions, cells and agents. Left: cells never visited; "
            "right: visited cells. An agent that follows one function per episode is led to "
            "where functions disagree. Dropout's masks multiply unit activations at a rate "
            "that is the same for all states. As the network learns that known cells have "
            "small values, its uncertainty shrinks for all cells alike, including those "
            "never visited, and nothing leads there any more. The prior functions of an "
            "ensemble persist where there are no data. Its curve ends where all its agents "
            "have solved the sea.",
        ),
        *rate_table(rows),
    ]


def solved_table(rows: Rows) -> Table:
    """Who has solved which sea, and when."""
    sizes = rows.distinct("size")

    def cell(explorer: str, size: int) -> str:
        own, count = solved(rows, explorer, size), agents(rows, explorer, size)
        if not count:
            return "–"
        text = f"{len(own)} of {count}"
        return f"**{text}, {median(own):.0f}**" if own else text

    return Table(
        "Agents that solved the sea, and after how many episodes",
        ("explorer", *(f"N = {size}" for size in sizes)),
        [
            [NAMES[explorer], *(cell(explorer, size) for size in sizes)]
            for explorer in NAMES
            if explorer in rows.distinct("explorer")
        ],
        f"Agents that solved it within {given_up(rows)} episodes, and the median over them of "
        "the episode after which less than 80 % of all episodes so far missed the treasure. "
        "Random actions find it once in 2ᴺ episodes.",
    )


def rate_table(rows: Rows) -> list[Table]:
    """The learned rates."""
    own = rows.where(metric="rate")
    cells = [
        [
            f"{NAMES[explorer]}, after layer {layer}",
            *(
                with_error(found, 3)
                if (found := own.where(explorer=explorer, layer=layer, size=size).values())
                else "–"
                for size in rows.distinct("size")
            ),
        ]
        for explorer in own.distinct("explorer")
        for layer in own.where(explorer=explorer).distinct("layer")
    ]
    columns = ("explorer", *(f"N = {size}" for size in rows.distinct("size")))
    note = "Means with standard errors over agents. All start at 0.1."
    return [Table("Learned rates at the end", columns, cells, note)] if cells else []


@house_style()
def draw_spreads(rows: Rows, size: Size) -> Figure:
    """A panel for cells that were never visited, and one for those that were."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (2, 1) if size[0] <= NARROW else (1, 2)
    panels = figure.subplots(*shape, sharey=True, squeeze=False).flat
    for axes, what in zip(panels, ("unvisited", "visited"), strict=True):
        _draw_panel(axes, rows.where(size=min(rows.distinct("size"))), what)
    return figure


def _draw_panel(axes: Axes, rows: Rows, what: str) -> None:
    for explorer, (colour, name) in SPREADS.items():
        own = rows.where(explorer=explorer, metric=f"spread, {what}")
        if not len(own):
            continue
        marks = sorted(own.distinct("episode"))
        means = [fmean(own.where(episode=mark).values()) for mark in marks]
        axes.plot(marks, means, color=colour, marker="o", markersize=3, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("episodes")
    axes.set_ylabel("spread of functions")
    axes.set_title(f"{what} cells")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False)


PAGE = Page(CLAIMS, exhibits, examined="paper-afd32d2e")
