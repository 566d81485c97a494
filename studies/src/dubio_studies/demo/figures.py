"""The drawings of the demo: arrays in, figures out. Nothing here trains or predicts."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter

from dubio.report.ink import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    QUIET,
    RULE,
    VERMILION,
    as_strokes,
    house_style,
)
from dubio_studies.demo.answers import ANGLES, Array, CurveAnswer, DigitsAnswer, RotationAnswer
from dubio_studies.demo.train import Curve

Size = tuple[float, float]  # inches; the page shows an inch as 72 pixels or a little more

CLASS_COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
DOTTED = (0, (2, 3))


@house_style()
def draw_band(answer: CurveAnswer, curve: Curve, size: Size) -> Figure:
    """Mean and two standard deviations; every shade is half of one.

    Gal & Ghahramani 2016, figure 2.
    """
    figure, axes = curve_axes(answer, size)
    for half_deviations in (4, 3, 2, 1):
        reach = half_deviations / 2 * answer.std
        low, high = answer.mean - reach, answer.mean + reach
        axes.fill_between(answer.x, low, high, color=BLUE, alpha=0.17, linewidth=0)
    axes.plot(answer.x, answer.truth, color=INK, linewidth=1.2, linestyle=DOTTED)
    axes.plot(answer.x, answer.mean, color=BLUE, linewidth=2.2)
    plot_observations(axes, curve)
    return figure


@house_style()
def draw_functions(answer: CurveAnswer, curve: Curve, size: Size, count: int = 30) -> Figure:
    """Some draws, each one function of the whole line."""
    figure, axes = curve_axes(answer, size)
    axes.plot(answer.x, answer.functions[:count].T, color=BLUE, linewidth=0.9, alpha=0.5)
    plot_observations(axes, curve)
    return figure


@house_style()
def draw_split(answer: CurveAnswer, curve: Curve, size: Size) -> Figure:
    """The two parts of the standard deviation along the line, over the places of the data."""
    figure, axes = curve_axes(answer, size)
    axes.fill_between(answer.x, 0, answer.epistemic, color=BLUE, alpha=0.17, linewidth=0)
    axes.plot(answer.x, answer.epistemic, color=BLUE, linewidth=2.2)
    axes.plot(answer.x, answer.aleatoric, color=VERMILION, linewidth=2.2)
    place = curve.x.squeeze(1).numpy()
    axes.plot(
        place, np.full_like(place, -0.05), color=INK, linestyle="none",
        marker="|", markersize=7, markeredgewidth=0.8, alpha=0.75,
    )  # fmt: skip
    axes.set_ylim(-0.1, 1.05 * answer.epistemic.max())
    axes.set_ylabel("standard deviation")
    key(axes, {"epistemic": BLUE, "aleatoric": VERMILION})
    return figure


@house_style()
def draw_rotation(answer: RotationAnswer, size: Size) -> Figure:
    """Class scores of a turning digit before and after the softmax.

    Gal & Ghahramani 2016, figure 4.
    """
    columns = np.arange(len(ANGLES), dtype=np.float64)
    colours = dict(zip(leading_classes(answer, len(CLASS_COLOURS)), CLASS_COLOURS, strict=True))
    width, height = size
    digit = (width - 0.6) / len(ANGLES)
    scatter = (height - digit) / 9
    figure = Figure(figsize=size, layout="constrained")
    before, after, strip, doubt = figure.subplots(
        4, 1, sharex=True, height_ratios=[3.5 * scatter, 3 * scatter, digit, 1.5 * scatter]
    )
    for place, (label, colour) in enumerate(colours.items()):
        x = columns + (place - (len(colours) - 1) / 2) * 0.2
        plot_dashes(before, x, answer.scores[:, :, label], colour)
        plot_dashes(after, x, answer.probabilities[:, :, label], colour)
    before.set_title("Softmax input")
    key(before, {str(label): colour for label, colour in colours.items()})
    after.set_title("Softmax output")
    after.set_ylim(-0.04, 1.04)
    for column, (image, label) in enumerate(zip(answer.images, answer.predicted, strict=True)):
        extent = (column - 0.42, column + 0.42, 0, 1)
        strip.imshow(as_strokes(image), extent=extent, interpolation="none", aspect="auto")
        strip.text(
            column, -0.1, str(label), color=colours.get(label, QUIET),
            weight="bold", ha="center", va="top",
        )  # fmt: skip
    strip.set_ylim(0, 1)
    strip.set_axis_off()
    for values, colour in ((answer.variation_ratio, QUIET), (answer.mutual_information, INK)):
        doubt.plot(columns, values, color=colour, linewidth=1.8, marker="o", markersize=4)
    doubt.set_title("Doubt")
    key(doubt, {"variation ratio": QUIET, "mutual information": INK})
    doubt.set_ylim(0, None)
    doubt.set_xlim(-0.6, len(ANGLES) - 0.4)
    every = 1 if width > 8 else 2
    doubt.set_xticks(columns[::every], [f"{degrees}°" for degrees in ANGLES[::every]])
    for axes in (before, after, doubt):
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="y", color=RULE, linewidth=0.6)
    return figure


@house_style()
def draw_deferral(answer: DigitsAnswer, size: Size, most: float = 0.25) -> Figure:
    """Accuracy on the digits that are kept when the least certain ones are deferred."""
    total = len(answer.labels)
    kept = np.arange(total, int(total * (1 - most)) - 1, -1)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    accuracy = 100 * answer.kept_accuracy
    axes.axhline(accuracy[-1], color=QUIET, linewidth=1.4, linestyle=DOTTED)
    axes.plot(100 * (1 - kept / total), accuracy[kept - 1], color=BLUE, linewidth=2.2)
    axes.set_xlim(0, 100 * most)
    axes.set_xlabel("deferred")
    axes.set_ylabel("accuracy on the rest")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    key(axes, {"by mutual information": BLUE, "at random": QUIET})
    return figure


def leading_classes(answer: RotationAnswer, count: int) -> list[int]:
    """The classes that come nearest to winning an image, in the order of their best image."""
    probability = answer.probabilities.mean(axis=0)  # (B, K)
    strongest = np.argsort(-probability.max(axis=0))[:count]
    return sorted(strongest.tolist(), key=lambda label: int(probability[:, label].argmax()))


def curve_axes(answer: CurveAnswer, size: Size) -> tuple[Figure, Axes]:
    """An empty figure with the axes that all pictures of the curve share."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlim(answer.x[0], answer.x[-1])
    axes.set_ylim(-4.5, 4.5)
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    axes.xaxis.set_major_locator(MultipleLocator(1))
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def plot_observations(axes: Axes, curve: Curve) -> None:
    """The training data as dots."""
    axes.plot(
        curve.x.squeeze(1).numpy(), curve.y.squeeze(1).numpy(), color=INK,
        linestyle="none", marker="o", markersize=3.4, markeredgewidth=0, alpha=0.75,
    )  # fmt: skip


def plot_dashes(axes: Axes, x: Array, values: Array, colour: str) -> None:
    """One short dash for every value (S, B) at the columns x (B,)."""
    centre = np.broadcast_to(x, values.shape)
    pause = np.full_like(values, np.nan)
    across = np.stack([centre - 0.085, centre + 0.085, pause], axis=-1)  # (S, B, 3)
    level = np.stack([values, values, pause], axis=-1)
    draws = len(values)
    axes.plot(
        across.reshape(draws, -1).T, level.reshape(draws, -1).T,
        color=colour, linewidth=0.9, alpha=0.45, solid_capstyle="butt",
    )  # fmt: skip


def key(axes: Axes, entries: dict[str, str]) -> None:
    """Names the colours in one line above the right end of the axes."""
    axes.legend(
        [Line2D([], [], color=colour, linewidth=3) for colour in entries.values()],
        list(entries),
        loc="lower right",
        bbox_to_anchor=(1.01, 0.98),
        ncols=len(entries),
        frameon=False,
        handlelength=0.8,
        handletextpad=0.5,
        columnspacing=1.2,
    )
