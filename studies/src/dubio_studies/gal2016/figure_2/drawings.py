"""The drawings of figure 2, from rows alone."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from dubio.report.exhibits import Size
from dubio.report.ink import BLUE, GREEN, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.gal2016.axes import name_axes
from dubio_studies.gal2016.bands import draw_band, draw_observed, mark_extrapolation

PANELS = (  # title, model, method, deviations
    ("(a) standard dropout, ReLU", "relu", "standard", 2),
    ("(b) Gaussian process, squared exponential", "gp", "gp", 2),
    ("(c) MC dropout, ReLU", "relu", "mc", 2),
    ("(d) MC dropout, TanH: 8 deviations", "tanh", "mc", 8),
)
COLOURS = {"relu": BLUE, "gp": VERMILION, "tanh": GREEN, "tanh-0.2": PURPLE}
NAMES = {"relu": "ReLU", "gp": "Gaussian process", "tanh": "TanH, 0.1", "tanh-0.2": "TanH, 0.2"}
LOSSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
WIDTHS = (BLUE, GREEN, PURPLE, VERMILION)


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
    name_axes(figure, "CO2")
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


@house_style()
def draw_courses(rows: Rows, size: Size) -> Figure:
    """Deviations against iterations: both rates at the narrowest width, and one at all widths."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (2, 1) if size[0] < 8 else (1, 2)
    rates, widths = figure.subplots(*shape, sharey=True)
    found = rows.where(metric="course")
    narrow, *others = sorted(found.distinct("width"))
    rates.set_title(f"two rates, width {narrow}")
    for model in found.distinct("model"):
        draw_course(rates, found.where(model=model, width=narrow), COLOURS[model], NAMES[model])
    widths.set_title("rate 0.1, by width")
    tanh = found.where(model="tanh")
    for colour, width in zip(WIDTHS, (narrow, *others), strict=False):
        draw_course(widths, tanh.where(width=width), colour, f"{width}")
    if others:
        widths.set_xlim(0, max(tanh.where(width=others[0]).values("iteration")))
    for panel in (rates, widths):
        panel.xaxis.set_major_locator(MaxNLocator(4))
    rates.set_ylim(bottom=0)
    rates.set_ylabel("standard deviation")
    return figure


def draw_course(axes: Axes, course: Rows, colour: str, label: str) -> None:
    """Deviations during training: solid on the data, dashed away from them."""
    iterations = course.values("iteration")
    axes.plot(iterations, course.values("on_data"), color=colour, linewidth=1.8, label=label)
    axes.plot(iterations, course.values("away"), color=colour, linewidth=1.5, linestyle=(0, (4, 2)))
    axes.set_xlabel("iteration")
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.legend(frameon=False)
