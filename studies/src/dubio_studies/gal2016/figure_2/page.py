"""What Gal & Ghahramani 2016 says of its figure 2, and how our rows are shown."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.bands import X_STAR, draw_band, draw_observed, mark_extrapolation

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


def ratios(rows: Rows, model: str, method: str = "mc") -> list[float]:
    """Deviation at x* over the root mean square of those on the data, for every restart."""
    of_model = rows.where(model=model, method=method)
    return [
        float(of_model.row(metric="far", x=X_STAR, restart=restart)["std"])
        / of_model.value(metric="std-on-data", restart=restart)
        for restart in of_model.distinct("restart")
    ]


def deviations(rows: Rows, model: str, x: float) -> list[float]:
    """MC dropout's standard deviation at a place, for every restart."""
    return rows.where(model=model, method="mc", metric="far", x=x).values("std")


def uncertain_at_x_star(rows: Rows) -> Finding:
    """Ratios of the Gaussian process and of MC dropout with ReLU."""
    process, relu = ratios(rows, "gp", "gp")[0], ratios(rows, "relu")
    standard = rows.where(model="relu", method="standard", metric="far", x=X_STAR)
    confident = max(standard.values("std")) == 0
    return Finding(
        f"standard dropout says {with_error(standard.values())} with no spread; deviation at x* "
        f"over that on the data: Gaussian process {process:.1f}, MC dropout {with_error(relu, 1)}",
        confident and min(process, *relu) > 2,
    )


def tanh_is_uncertain(rows: Rows) -> Finding:
    """The ratio of MC dropout with TanH."""
    found = ratios(rows, "tanh")
    margin = 2 * (standard_error(found) or 0.0)
    return Finding(
        f"deviation at x* over that on the data: {with_error(found)}; at x* it is "
        f"{with_error(deviations(rows, 'tanh', X_STAR))}",
        fmean(found) - margin > 1,
    )


def growth(rows: Rows, model: str, start: float) -> list[float]:
    """Deviations at x = 1000 over those at a nearer place."""
    return [
        far / near
        for far, near in zip(
            deviations(rows, model, 1000.0), deviations(rows, model, start), strict=True
        )
    ]


def relu_grows_tanh_is_bounded(rows: Rows) -> Finding:
    """Growth of the deviations up to x = 1000."""
    relu, tanh = growth(rows, "relu", 100.0), growth(rows, "tanh", 100.0)
    return Finding(
        f"deviation at x = 1000 over that at x = 100: ReLU {with_error(relu, 1)}, TanH "
        f"{with_error(tanh)}; over that at x = 10, where some TanH units are not saturated yet: "
        f"ReLU {with_error(growth(rows, 'relu', 10.0), 0)}, TanH "
        f"{with_error(growth(rows, 'tanh', 10.0))}",
        min(relu) > 5 and max(tanh) < 1.2,
    )


def rates_do_not_matter(rows: Rows) -> Finding:
    """TanH's deviations at rate 0.2 over those at 0.1."""

    def ratio(low: list[float], high: list[float]) -> float:
        return fmean(high) / fmean(low)

    on_data = [
        rows.where(model=model, method="mc", metric="std-on-data").values()
        for model in ("tanh", "tanh-0.2")
    ]
    at_star = [deviations(rows, model, X_STAR) for model in ("tanh", "tanh-0.2")]
    found = (ratio(*on_data), ratio(*at_star))
    return Finding(
        f"deviation with 0.2 over that with 0.1: {found[0]:.2f} on the data, {found[1]:.2f} at x*",
        all(0.8 < r < 1.25 for r in found),
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    scale = rows[0]["scale"]
    return [
        Plot(
            "panels",
            f"Figure 2: CO2 data and extrapolation ({scale} scale)",
            "Four panels: all methods follow the observed curve. To the right of it standard "
            "dropout is a line without a band, the band of the Gaussian process widens at "
            "once, that of MC dropout with ReLU grows, and that of MC dropout with TanH "
            "keeps its width",
            partial(draw_panels, rows),
            wide=(12.0, 7.4),
            narrow=(5.0, 12.0),
            note="Orange: observations, standardised and detrended. Blue: predictive mean ± two "
            "standard deviations (eight in d); each shade is half a deviation (two in d). "
            "Dashed: the end of the data, and x*. First restart.",
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
            note="Both axes are logarithmic; the data end at 1.7. One line per restart.",
        ),
        Plot(
            "training",
            f"Training ({scale} scale)",
            "Training loss against the iteration, on a logarithmic axis, for every network",
            partial(draw_training, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 4.6),
            note="Half the mean squared error under dropout, averaged over intervals of "
            "training; a smooth curve without the seasons has 0.43. One line per restart.",
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
        f"Predictions at x* = {X_STAR:g} ({rows[0]['scale']} scale)",
        ("method", "RMSE on data", "mean at x*", "deviation at x*", "on data", "ratio"),
        [cells(*key) for key in METHODS],
        "Targets have variance 1. On data: the root mean square over the training inputs. Errors "
        "are standard errors over restarts. The log evidence of the Gaussian process, "
        f"{process['log_evidence']}, is highest at amplitude {process['amplitude']}, length scale "
        f"{process['length_scale']} and noise variance {process['noise_variance']}. The paper "
        "prints no numbers.",
    )


CLAIMS = (
    Claim(
        "Far from the data standard dropout is confident; MC dropout and the Gaussian process are "
        "not.",
        "panels (a) to (c); standard dropout says 0 at x*",
        "Standard dropout has no spread. The deviation at x* is more than twice that on the data "
        "for the Gaussian process and in every restart of MC dropout with ReLU.",
        uncertain_at_x_star,
    ),
    Claim(
        "The uncertainty grows far from the data with ReLU and stays bounded with TanH.",
        "panels (c) and (d), to the right of the data",
        "From x = 100 to x = 1000 the deviation grows more than fivefold with ReLU (a straight "
        "line: tenfold), and by less than a fifth with TanH, in every restart. (The rule was first "
        "written for x = 10 to 1000; one of three TanH networks is not saturated at 10.)",
        relu_grows_tanh_is_bounded,
    ),
    Claim(
        "MC dropout with TanH also expresses its uncertainty at x* by an increased deviation.",
        "panel (d), with eight deviations instead of two",
        "The deviation at x* is larger than that on the data by two standard errors over restarts.",
        tanh_is_uncertain,
        otherwise=Undecided("The run has 128 of 1024 units and 4,000 of a million iterations."),
    ),
    Claim(
        "TanH networks with rates 0.1 and 0.2 have almost the same uncertainty when converged.",
        "text; no numbers",
        "Their deviations on the data and at x* differ by less than a quarter.",
        rates_do_not_matter,
        otherwise=Undecided(
            "The claim is about converged networks; the run has 4,000 of a million iterations."
        ),
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-5223ef24")
