"""What Herlau et al. 2022 says of its figure 1b, and how our rows are shown."""

from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, INK, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Page

ON_PAR = 0.05  # of ridge's error: bars that a reader would call equal
SURE = 4.0  # standard errors of a paired difference
ROBUST = 0.5  # of ridge's rise
CONDITIONS = {"default": "default", "junk": "junk features", "shift": "covariate shift"}
COLOURS = {"ridge": VERMILION, "dropout": BLUE}


def errors(rows: Rows, condition: str, method: str) -> list[float]:
    """Mean squared errors by number of features."""
    chosen = rows.where(condition=condition, method=method, metric="squared error")
    return [chosen.value(features=p) for p in sorted(chosen.distinct("features"))]


def ratios(rows: Rows, condition: str) -> list[float]:
    """Dropout's error over ridge's, by number of features."""
    pairs = zip(errors(rows, condition, "dropout"), errors(rows, condition, "ridge"), strict=True)
    return [dropout / ridge for dropout, ridge in pairs]


def on_par(condition: str, rows: Rows) -> Finding:
    """Errors of both methods are nearly equal, or dropout's are lower."""
    ours = ratios(rows, condition)
    return Finding(
        f"dropout's error over ridge's: {listed(rows, ours, '.3f')}",
        max(ours) <= 1 + ON_PAR,
    )


def wins_under_shift(rows: Rows) -> Finding:
    """Dropout's error is lower beyond chance."""
    differences = rows.where(condition="shift", method="dropout", metric="difference")
    by_size = [differences.row(features=p) for p in sorted(differences.distinct("features"))]
    sure = all(row["value"] < -SURE * row["error"] for row in by_size)
    text = ", ".join(
        f"{row['value']:+.3f} ± {row['error']:.3f}".replace("-", "−") for row in by_size
    )
    return Finding(
        f"dropout's error minus ridge's: {text}; as a ratio "
        f"{listed(rows, ratios(rows, 'shift'), '.3f')}{share_of_the_prior(rows)}",
        sure,
    )


def share_of_the_prior(rows: Rows) -> str:
    """What dropout's λ0 does without dropout, where that control was run."""
    control = rows.where(condition="shift", method="other", drop=0.0, metric="squared error")
    if not control:
        return ""
    found = [control.value(features=p) for p in sorted(control.distinct("features"))]
    pairs = zip(found, errors(rows, "shift", "ridge"), strict=True)
    ratios_of_control = [error / ridge for error, ridge in pairs]
    return (
        ". Part of this is that ridge's λ0 is no longer right after the shift: dropout's λ0 with "
        f"f = 0 has the ratios {listed(rows, ratios_of_control, '.3f')}"
    )


def is_robust(rows: Rows) -> Finding:
    """How much the errors rise from the default condition to covariate shift."""
    rises = {
        method: [
            after - before
            for before, after in zip(
                errors(rows, "default", method), errors(rows, "shift", method), strict=True
            )
        ]
        for method in ("ridge", "dropout")
    }
    pairs = zip(rises["dropout"], rises["ridge"], strict=True)
    robust = all(ridge > 0 and dropout < ROBUST * ridge for dropout, ridge in pairs)
    ours = "; ".join(f"{name} {listed(rows, rise, '+.3f')}" for name, rise in rises.items())
    return Finding(f"rise of the error: {ours}", robust)


def listed(rows: Rows, values: list[float], form: str) -> str:
    """Values with the numbers of features that they belong to."""
    sizes = sorted(rows.distinct("features"))
    pairs = zip(sizes, values, strict=True)
    return ", ".join(f"{value:{form}} (p = {p})".replace("-", "−") for p, value in pairs)


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
            note="Mean squared error on 20 test rows, including noise of variance one. Caps are "
            "two standard errors over data sets; with many data sets they are narrower than "
            "a line.",
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
            note="Dashed: ridge regression with the true prior. The dot is the rate of figure "
            "1b. The leftmost points are f = 0: ridge regression with dropout's wrong prior.",
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
        "With standard errors over data sets; the difference is paired, so its error is "
        "smaller. The last column is the control f = 0: it shows the effect of the wrong "
        "prior alone. The paper prints no numbers.",
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


CLAIMS = (
    Claim(
        "In the default condition ridge regression with the correct prior is optimal, and dropout "
        "performs on par.",
        "figure 1 (b); no numbers",
        "Dropout's mean error is at most 5 % above ridge's for every number of features. Its "
        "rate is set from the true λ0, so that it regularises equally; other rates are in "
        "the table.",
        partial(on_par, "default"),
    ),
    Claim(
        "With junk features both perform on par again.",
        "figure 1 (b); no numbers",
        "Dropout's mean error is at most 5 % above ridge's for every number of features.",
        partial(on_par, "junk"),
    ),
    Claim(
        "Under covariate shift dropout is better than ridge regression.",
        "figure 1 (b), “significantly”; no numbers",
        "Dropout's mean error is lower by more than four standard errors of the paired difference "
        "for every number of features.",
        wins_under_shift,
    ),
    Claim(
        "Ridge regression is quite sensitive to covariate shift, dropout is significantly more "
        "robust.",
        "figure 1 (b); no numbers",
        "From the default condition to covariate shift ridge's error rises, and dropout's by less "
        "than half as much, for every number of features.",
        is_robust,
    ),
)

PAGE = Page(CLAIMS, exhibits)
