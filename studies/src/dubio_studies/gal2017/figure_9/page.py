"""What is shown of figure 9: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, NARROW, RULE, VERMILION, house_style
from dubio_studies.framework.mean_curve import draw_mean_curve
from dubio_studies.framework.rows import Rows, Scalar
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.figure_9.claims import (
    CLAIMS,
    COMPONENTS,
    LATER,
    LAYERS,
    LONGER,
    LONGER_LATER,
    NAMES,
    PUBLISHED,
    UNITS,
    by_agent,
    last,
    late_returns,
    rate,
)

LINES = {"concrete": (BLUE, "-"), "fixed": (VERMILION, "--"), "bernoulli": (GREEN, "-.")}
TITLES = {"x": "position", "v": "velocity", "ω": "angular velocity", "θ": "angle"}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    names = ", ".join(NAMES[masks] for masks in rows.distinct("masks"))
    return [
        Plot(
            "rates",
            "Figures 9a to 9c: dropout rates",
            f"Dropout rates of the three layers against episodes: {names}",
            partial(draw_rates, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 9.5),
            note="Means over agents; bands are two standard errors. Crosses: after twice as many "
            "steps, on the same episodes.",
        ),
        Plot(
            "uncertainty",
            "Figures 9d to 9g: epistemic uncertainty on held-out transitions",
            f"Epistemic standard deviation of the predicted change of four components: {names}",
            partial(draw_spread, rows, "epistemic"),
            wide=(12.0, 4.0),
            narrow=(5.0, 12.0),
            note="Standard deviation over masks of the predicted change in 0.1 s, on every fifth "
            "transition of all episodes so far.",
        ),
        Plot(
            "elsewhere",
            "Not in the paper: epistemic uncertainty on fixed states",
            f"Epistemic standard deviation on 200 fixed states against episodes: {names}",
            partial(draw_spread, rows, "elsewhere"),
            wide=(12.0, 4.0),
            narrow=(5.0, 12.0),
            note="The same for 200 states and forces, uniform over ±1 m, ±3 m/s, ±8 rad/s, ±π "
            "and ±10 N.",
        ),
        Plot(
            "returns",
            "Section 4.5: cumulative reward",
            f"Return of 25 steps against episodes: {names}",
            partial(draw_returns, rows),
            wide=(9.0, 4.6),
            narrow=(5.0, 4.6),
            note="On starts that the agents do not train on. The thin line is the published 16.5.",
        ),
        value_table(rows),
        *([longer_table(rows)] if rows.where(metric=LONGER) else []),
    ]


def longer_table(rows: Rows) -> Table:
    """Rates of the first episodes by longer training, and by twice that."""
    own = rows.where(metric=LONGER)

    def cell(metric: str, episode: Scalar, masks: Scalar, layer: int) -> str:
        found = rows.where(metric=metric, episode=episode, masks=masks, layer=layer)
        return with_error(found.values(), 3)

    return Table(
        "Rates after the first episodes: do they settle?",
        ("masks", "episode", "steps", *(f"before {_layer(name)}" for name in LAYERS)),
        [
            [
                NAMES[str(masks)],
                str(episode),
                f"{times} ×",
                *(cell(metric, episode, masks, layer) for layer in range(len(LAYERS))),
            ]
            for masks in own.distinct("masks")
            for episode in sorted(own.distinct("episode"))
            for times, metric in (
                (own[0]["longer"], LONGER), (2 * int(own[0]["longer"]), LONGER_LATER),
            )
        ],
        "Means over agents, ± standard errors, with a multiple of the run's steps. Each line of "
        "twice the steps goes on from the one above.",
    )  # fmt: skip


def _curve(axes: Axes, rows: Rows, masks: str, metric: str, **fields: Scalar) -> None:
    """The mean over agents with a band of two standard errors."""
    own = rows.where(metric=metric, masks=masks)
    episodes = sorted(int(episode) for episode in own.distinct("episode"))
    found = [by_agent(rows, metric, episode, masks=masks, **fields) for episode in episodes]
    colour, line = LINES[masks]
    draw_mean_curve(axes, episodes, found, colour=colour, line=line, label=NAMES[masks])


def _finish(axes: Axes, title: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("episodes seen")
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0.0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y", color=RULE, linewidth=0.6)


def _legend(figure: Figure, axes: Axes) -> None:
    """What lines mean, below all panels."""
    narrow = figure.get_size_inches()[0] < NARROW
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside lower center", ncols=1 if narrow else len(LINES), frameon=False,
    )  # fmt: skip


@house_style()
def draw_rates(rows: Rows, size: Size) -> Figure:
    """A panel for each layer."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(*((3, 1) if size[0] < NARROW else (1, 3)))
    for layer, (axes, name) in enumerate(zip(panels, LAYERS, strict=True)):
        for masks in rows.distinct("masks"):
            _curve(axes, rows, masks, "drop", layer=layer)
            later = rows.where(metric=LATER, masks=masks, layer=layer)
            for episode in later.distinct("episode"):
                mean = fmean(later.where(episode=episode).values())
                axes.plot(episode, mean, "x", color=LINES[masks][0], markersize=6)
        _finish(axes, f"before {_layer(name)}", "dropout rate")
    _legend(figure, panels[0])
    return figure


def _layer(name: str) -> str:
    return {"input": "layer 1", "hidden 1": "layer 2", "hidden 2": "layer 3"}[name]


@house_style()
def draw_spread(rows: Rows, metric: str, size: Size) -> Figure:
    """A panel for each component of the state."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(*((4, 1) if size[0] < NARROW else (1, 4)))
    for axes, component in zip(panels, COMPONENTS, strict=True):
        for masks in rows.distinct("masks"):
            _curve(axes, rows, masks, metric, component=component)
        _finish(axes, TITLES[component], f"standard deviation, {UNITS[component]}")
    _legend(figure, panels[0])
    return figure


@house_style()
def draw_returns(rows: Rows, size: Size) -> Figure:
    """Test returns, and the published one."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for masks in rows.distinct("masks"):
        _curve(axes, rows, masks, "test return")
    axes.axhline(PUBLISHED, color=INK, linewidth=0.9)
    _finish(axes, "", "return of 25 steps")
    axes.legend(frameon=False)
    return figure


def value_table(rows: Rows) -> Table:
    """Where every kind of mask ends."""
    end = last(rows)
    cells = []
    for masks in rows.distinct("masks"):
        drops = [by_agent(rows, "drop", end, masks=masks, layer=layer) for layer in range(3)]
        spreads = [
            by_agent(rows, "epistemic", end, masks=masks, component=component)
            for component in COMPONENTS
        ]
        best = max(by_agent(rows, "test return", end, masks=masks))
        cells.append(
            [
                NAMES[masks],
                with_error(late_returns(rows, masks), 1),
                f"{best:.1f}",
                *(rate(fmean(values)) for values in drops),
                *(f"{fmean(values):.3g}" for values in spreads),
            ]
        )
    return Table(
        f"After {end} episodes",
        ("masks", "return", "best agent", *LAYERS, *(f"{c}, {UNITS[c]}" for c in COMPONENTS)),
        cells,
        "Returns are means over test starts and the last three episodes, with standard errors over "
        "agents; the best agent is that of the last episode. Then dropout rates by layer, and "
        "epistemic standard deviations by component on held-out transitions.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-1bab35fa")
