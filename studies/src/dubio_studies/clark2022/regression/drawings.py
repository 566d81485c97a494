"""Drawings of the regression: bands and functions around the curve, and training by epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from dubio.report.exhibits import Size
from dubio.report.ink import BLUE, INK, NARROW, QUIET, RULE, house_style
from dubio_studies.clark2022.regression.published import EVALUATED, OBSERVED
from dubio_studies.clark2022.regression.reading import number
from dubio_studies.framework.rows import Rows

HEIGHTS = (-1.6, 2.6)  # of y in all panels


@final
@dataclass(frozen=True)
class TrainingLine:
    """A line of the plots of training.

    Attributes:
        name: For the legend.
        rows: Of a network.
        colour: Of the line.
        style: Of the line.
    """

    name: str
    rows: Rows
    colour: str
    style: str = "-"


@house_style()
def draw_bands(rows: Rows, panels: Sequence[tuple[str, Rows]], size: Size) -> Figure:
    """Mean, middle half and 5th to 95th percentile of functions, a panel each."""
    figure = Figure(figsize=size, layout="constrained")
    for axes, (title, chosen) in zip(grid(figure, len(panels), size), panels, strict=True):
        band = chosen.where(metric="band")
        x = band.values("x")
        for low, high, opacity in (("p5", "p95", 0.18), ("p25", "p75", 0.32)):
            axes.fill_between(
                x, band.values(low), band.values(high), color=BLUE, alpha=opacity, linewidth=0
            )
        axes.plot(x, band.values(), color=BLUE, linewidth=2.2)
        surroundings(axes, rows, band, title)
    return figure


@house_style()
def draw_curves(rows: Rows, panels: Sequence[tuple[str, Rows]], size: Size) -> Figure:
    """Ten functions, a panel for each network."""
    figure = Figure(figsize=size, layout="constrained")
    for axes, (title, chosen) in zip(grid(figure, len(panels), size), panels, strict=True):
        band = chosen.where(metric="band")
        for name in (key for key in band[0] if key.startswith("draw")):
            axes.plot(band.values("x"), band.values(name), color=BLUE, linewidth=1.2, alpha=0.75)
        surroundings(axes, rows, band, title)
    return figure


def surroundings(axes: Axes, rows: Rows, band: Rows, title: str) -> None:
    """What all panels share: where the data lie, some of them, and the curve without noise."""
    data = rows.where(part="data")
    axes.axvspan(*OBSERVED, color=RULE, alpha=0.45, linewidth=0, zorder=0)
    axes.plot(
        data.values("x"), data.values(), linestyle="none", marker="o", markersize=2.0,
        markeredgewidth=0, color=QUIET, alpha=0.8, zorder=1.5,
    )  # fmt: skip
    axes.plot(band.values("x"), band.values("truth"), color=INK, linewidth=0.9)
    axes.set_xlim(*EVALUATED)
    axes.set_ylim(*HEIGHTS)
    axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.yaxis.set_major_locator(MultipleLocator(1.0))
    axes.set_xlabel("x")
    axes.set_title(title)


@house_style()
def draw_training(lines: Sequence[TrainingLine], size: Size) -> Figure:
    """Negative ELBO, objective of the last minibatch, and RMSE, against epochs."""
    figure = Figure(figsize=size, layout="constrained")
    titles = {
        "value": "negative ELBO of whole epochs (nats)",
        "last_batch": "last minibatch, the paper's ELBO",
        "rmse": "RMSE on [−0.5, 1.5]",
    }
    panels = grid(figure, len(titles), size, share_heights=False)
    for axes, (field, title) in zip(panels, titles.items(), strict=True):
        for line in lines:
            curve = line.rows.where(metric="training")
            axes.plot(
                curve.values("epoch"), curve.values(field), color=line.colour,
                linestyle=line.style, linewidth=1.5, label=line.name,
            )  # fmt: skip
        values = [v for line in lines for v in line.rows.where(metric="training").values(field)]
        if max(values) > 20 * abs(min(values)):
            axes.set_yscale("symlog", linthresh=100)  # nats
        if field != "rmse":
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 0)))
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.grid(axis="y", color=RULE, linewidth=0.6)
    handles, names = panels[0].get_legend_handles_labels()
    columns = (3 if len(names) % 3 == 0 else 2) if size[0] < NARROW else len(names)
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=columns)
    return figure


def grid(figure: Figure, panels: int, size: Size, *, share_heights: bool = True) -> list[Axes]:
    """Panels in a row, or in a column where there is no room."""
    shared: Any = {"sharex": True, "sharey": share_heights, "squeeze": False}
    narrow = size[0] < NARROW
    made = figure.subplots(panels if narrow else 1, 1 if narrow else panels, **shared)
    return list(made.flat)
