"""The tables and drawings of figure 1b: rows in, pictures out. Nothing here computes."""

from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dubio.report.ink import BLUE, INK, RULE, VERMILION, house_style
from dubio.studies.rows import Row, Rows
from dubio.studies.study import Plot, Size, Table

CONDITIONS = {"default": "default", "junk": "junk features", "shift": "covariate shift"}
COLOURS = {"ridge": VERMILION, "dropout": BLUE}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "errors",
            "Figure 1b: test error of ridge regression and dropout",
            "Bars of the mean squared test error in three conditions for three numbers of "
            "features: ridge and dropout are equal by default and with junk features; under "
            "covariate shift ridge is worse",
            partial(draw_errors, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 8.4),
            note="The mean squared error on 20 test rows, noise of variance one included. Caps are "
            "two standard errors over data sets, which is less than a line's width where there are "
            "many.",
        ),
        error_table(rows),
        Plot(
            "rates",
            "The choice of f",
            "Test error of dropout against its rate in three conditions, with ridge's error as "
            "dashed lines: the error is lowest between 0.02 and 0.2",
            partial(draw_rates, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 9.0),
            note="Dashed: ridge regression with the true prior. The dot is the rate of figure 1b. "
            "The leftmost points have f = 0: ridge regression with dropout's wrong prior.",
        ),
        rate_table(rows),
    ]


@house_style()
def draw_errors(rows: Rows, size: Size) -> Figure:
    """A panel for each condition, a pair of bars for each number of features."""
    chosen = rows.where(metric="squared error")
    sizes = sorted(chosen.distinct("features"))
    figure = Figure(figsize=size, layout="constrained")
    stacked = size[0] < 8
    panels = figure.subplots(3, 1, sharey=True) if stacked else figure.subplots(1, 3, sharey=True)
    for panel, (condition, title) in zip(panels, CONDITIONS.items(), strict=True):
        for side, (method, colour) in zip((-0.19, 0.19), COLOURS.items(), strict=True):
            found = [chosen.row(condition=condition, method=method, features=p) for p in sizes]
            panel.bar(
                [i + side for i in range(len(sizes))], [row["value"] for row in found], width=0.36,
                yerr=[2 * row["error"] for row in found], color=colour, linewidth=0, label=method,
                error_kw={"elinewidth": 1.2, "capsize": 4, "capthick": 1.2, "ecolor": INK},
            )  # fmt: skip
        panel.set_title(title)
        panel.set_xticks(range(len(sizes)), [f"p = {p}" for p in sizes])
        panel.tick_params(length=0)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        panel.set_axisbelow(True)
        if stacked or condition == "default":
            panel.set_ylabel("squared error")
    panels[0].legend(frameon=False, loc="upper left", ncols=2)
    top = max(row["value"] for m in COLOURS for row in chosen.where(method=m))
    panels[0].set_ylim(0, 1.25 * top)
    return figure


@house_style()
def draw_rates(rows: Rows, size: Size) -> Figure:
    """Dropout's error against its rate; every number of features is a line."""
    chosen = rows.where(metric="squared error")
    sizes = sorted(chosen.distinct("features"))
    drops = sorted({row["drop"] for row in chosen if row["method"] != "ridge"})
    places = {drop: place for place, drop in enumerate(drops)}
    figure = Figure(figsize=size, layout="constrained")
    stacked = size[0] < 8
    panels = figure.subplots(3, 1, sharey=True) if stacked else figure.subplots(1, 3, sharey=True)
    for panel, (condition, title) in zip(panels, CONDITIONS.items(), strict=True):
        for p, opacity in zip(sizes, shades(len(sizes)), strict=True):
            cell = chosen.where(condition=condition, features=p)
            dropout = sorted(
                (row for row in cell if row["method"] != "ridge"), key=lambda row: row["drop"]
            )
            panel.plot(
                [places[row["drop"]] for row in dropout], [row["value"] for row in dropout],
                color=BLUE, alpha=opacity, linewidth=1.8, marker="o", markersize=3,
                markeredgewidth=0, label=f"p = {p}",
            )  # fmt: skip
            ours = cell.row(method="dropout")
            panel.plot(
                places[ours["drop"]], ours["value"], color=BLUE, alpha=opacity, marker="o",
                markersize=8, markeredgewidth=0,
            )  # fmt: skip
            ridge = cell.value(method="ridge")
            panel.axhline(ridge, color=VERMILION, alpha=opacity, linewidth=1.3, linestyle="--")
        panel.set_title(title)
        panel.set_yscale("log")
        panel.set_xticks(range(len(drops)), [f"{drop:g}" for drop in drops])
        panel.set_xlabel("f, not to scale")
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        if stacked or condition == "default":
            panel.set_ylabel("squared error, log scale")
    ticks = [1.5, 2, 3, 4, 5]
    panels[0].yaxis.set_major_locator(FixedLocator(ticks))
    panels[0].yaxis.set_minor_locator(NullLocator())
    panels[0].set_yticklabels([f"{tick:g}" for tick in ticks])
    panels[0].legend(frameon=False, loc="upper left")
    return figure


def shades(count: int) -> list[float]:
    """Opacities from medium to full."""
    return [1 - 0.55 * (count - 1 - i) / max(count - 1, 1) for i in range(count)]


def error_table(rows: Rows) -> Table:
    """Errors of both, and the paired difference."""
    cells = []
    for condition, title in CONDITIONS.items():
        of_condition = rows.where(condition=condition)
        for p in sorted(of_condition.distinct("features")):
            cell = of_condition.where(features=p)
            ridge = cell.row(method="ridge", metric="squared error")
            dropout = cell.row(method="dropout", metric="squared error")
            difference = cell.row(method="dropout", metric="difference")
            wrong = [
                plus_minus(row)
                for row in cell.where(method="other", drop=0.0, metric="squared error")
            ]
            cells.append(
                [
                    f"{title}, p = {p}",
                    plus_minus(ridge),
                    plus_minus(dropout),
                    plus_minus(difference, "+"),
                    f"{dropout['value'] / ridge['value']:.3f}",
                    *(wrong or ["–"]),
                ]
            )
    return Table(
        "Mean squared test error",
        (
            "condition",
            "ridge",
            "dropout",
            "dropout − ridge",
            "dropout / ridge",
            "ridge with dropout's λ0",
        ),
        cells,
        "With standard errors over data sets; the difference is paired, so its error is smaller. "
        "The last column is the control f = 0: it shows what the wrong prior does by itself. The "
        "paper prints no numbers.",
    )


def rate_table(rows: Rows) -> Table:
    """Dropout's error over ridge's, by rate."""
    chosen = rows.where(metric="squared error")
    sizes = sorted(chosen.distinct("features"))
    drops = sorted({row["drop"] for row in chosen if row["method"] != "ridge"})

    def ratio(condition: str, p: int, drop: float) -> str:
        cell = chosen.where(condition=condition, features=p)
        (ours,) = [row for row in cell if row["method"] != "ridge" and row["drop"] == drop]
        text = f"{ours['value'] / cell.value(method='ridge'):.3f}"
        return f"**{text}**" if ours["method"] == "dropout" else text

    return Table(
        "Dropout's error over ridge's, by rate",
        ("condition", *(f"f = {drop:g}" for drop in drops)),
        [
            [f"{title}, p = {p}", *(ratio(condition, p, drop) for drop in drops)]
            for condition, title in CONDITIONS.items()
            for p in sizes
        ],
        "Below 1 dropout is better. Bold: the rate of figure 1b.",
    )


def plus_minus(row: Row, sign: str = "") -> str:
    """A value with its standard error."""
    return f"{row['value']:{sign}.4f} ± {row['error']:.4f}".replace("-", "−")
