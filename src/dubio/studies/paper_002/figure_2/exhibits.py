"""The table and drawings of figure 2: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dubio.report.ink import BLUE, GREEN, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio.studies.paper_002.bands import X_STAR, draw_band, draw_observed, mark_extrapolation
from dubio.studies.paper_002.figure_2.claims import ratios
from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

PANELS = (  # title, model, method, deviations
    ("(a) standard dropout, ReLU", "relu", "standard", 2),
    ("(b) Gaussian process, squared exponential", "gp", "gp", 2),
    ("(c) MC dropout, ReLU", "relu", "mc", 2),
    ("(d) MC dropout, TanH: 8 deviations", "tanh", "mc", 8),
)
METHODS = {
    ("relu", "standard"): "standard dropout, ReLU",
    ("gp", "gp"): "Gaussian process",
    ("relu", "mc"): "MC dropout, ReLU, 0.1",
    ("tanh", "mc"): "MC dropout, TanH, 0.1",
    ("tanh-0.2", "mc"): "MC dropout, TanH, 0.2",
}
COLOURS = {"relu": BLUE, "gp": VERMILION, "tanh": GREEN, "tanh-0.2": PURPLE}
NAMES = {"relu": "ReLU", "gp": "Gaussian process", "tanh": "TanH, 0.1", "tanh-0.2": "TanH, 0.2"}

LOSSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    scale = rows[0]["scale"]
    return [
        Plot(
            "panels",
            f"Figure 2: CO2 and what lies beyond ({scale} scale)",
            "Four panels: all methods follow the observed curve; to the right of it standard "
            "dropout is a bare line, the band of the Gaussian process opens at once, that of MC "
            "dropout with ReLU grows, that of MC dropout with TanH keeps its width",
            partial(draw_panels, rows),
            wide=(12.0, 7.4),
            narrow=(5.0, 12.0),
            note="Orange: observed, standardised and without its linear trend. Blue: the "
            "predictive mean plus and minus two standard deviations (eight in d), half a deviation "
            "a shade (two in d). Dashed: the end of the data, and x*. Networks of the first "
            "restart.",
        ),
        star_table(rows),
        Plot(
            "far",
            f"The standard deviation far from the data ({scale} scale)",
            "Standard deviation against x on logarithmic axes: a rising straight line for ReLU, "
            "level lines for TanH and the Gaussian process",
            partial(draw_far, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 4.8),
            note="Both axes are logarithmic; the data end at 1.7. A line for each restart.",
        ),
        Plot(
            "training",
            f"Training ({scale} scale)",
            "Training loss against the iteration, on a logarithmic axis, for every network",
            partial(draw_training, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 4.6),
            note="Half the mean squared error under dropout, averaged over stretches of training; "
            "0.43 is what a smooth curve without the seasons has. A line for each restart.",
        ),
    ]


@house_style()
def draw_panels(rows: Rows, size: Size) -> Figure:
    """The four methods."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (4, 1) if size[0] < 8 else (2, 2)
    panels = figure.subplots(*shape, sharex=True).flatten()
    observed = rows.where(metric="observed")
    for panel, (title, model, method, deviations) in zip(panels, PANELS, strict=True):
        chosen = rows.where(model=model, method=method, metric="curve")
        draw_band(panel, chosen, deviations)
        draw_observed(panel, observed)
        mark_extrapolation(panel)
        panel.set_title(title)
        panel.set_xlim(-1.8, max(chosen.values("x")))
    panels[0].sharey(panels[2])  # the same network
    return figure


@house_style()
def draw_far(rows: Rows, size: Size) -> Figure:
    """Deviation against distance."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    for model, colour in COLOURS.items():
        far = rows.where(model=model, metric="far")
        far = far.where(method="gp" if model == "gp" else "mc")
        for restart in far.distinct("restart"):
            chosen = far.where(restart=restart)
            axes.plot(
                chosen.values("x"), chosen.values("std"), color=colour, linewidth=1.8, marker="o",
                markersize=4, markeredgewidth=0, label=NAMES[model] if restart == 1 else None,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("x")
    axes.set_ylabel("standard deviation")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False, loc="upper left")
    return figure


@house_style()
def draw_training(rows: Rows, size: Size) -> Figure:
    """Loss against iteration."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    losses = rows.where(metric="loss")
    for model in losses.distinct("model"):
        for restart in losses.where(model=model).distinct("restart"):
            chosen = losses.where(model=model, restart=restart)
            axes.plot(
                chosen.values("iteration"), chosen.values(), color=COLOURS[model], linewidth=1.6,
                label=NAMES[model] if restart == 1 else None,
            )  # fmt: skip
    axes.axhline(0.43, color=QUIET, linewidth=1.0, linestyle=(0, (2, 3)))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(LOSSES))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticklabels([f"{loss:g}" for loss in LOSSES])
    axes.set_xlabel("iteration")
    axes.set_ylabel("loss")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False, loc="lower left")
    return figure


def star_table(rows: Rows) -> Table:
    """Fit, and what each method says at x*."""

    def cells(model: str, method: str) -> list[str]:
        chosen = rows.where(model=model, method=method)
        star = chosen.where(metric="far", x=X_STAR)
        spread = chosen.where(metric="std-on-data").values()
        known = fmean(spread) > 0
        return [
            METHODS[model, method],
            with_error(chosen.where(metric="rmse").values(), 3),
            with_error(star.values()),
            with_error(star.values("std")) if known else "none",
            with_error(spread, 3) if known else "none",
            with_error(ratios(rows, model, method), 1) if known else "–",
        ]

    process = {
        row["metric"]: with_error([row["value"]], 3)
        for row in rows.where(model="gp")
        if "x" not in row
    }
    return Table(
        f"What they say at x* = {X_STAR:g} ({rows[0]['scale']} scale)",
        ("method", "RMSE on data", "mean at x*", "deviation at x*", "on data", "ratio"),
        [cells(*key) for key in METHODS],
        "Targets have variance 1. On data: the root mean square over the training inputs. Errors "
        "are standard errors over restarts. The log evidence of the Gaussian process, "
        f"{process['log_evidence']}, is highest at amplitude {process['amplitude']}, length scale "
        f"{process['length_scale']} and noise variance {process['noise_variance']}. The paper "
        "prints no numbers.",
    )
