"""Plots of the curves of `dubio.metrics`, and of label maps.

Functions of curves take a dict from names to curves, to compare them in one drawing, and a size in
inches. `dubio.report.ink` writes the figures, by `to_png` and `to_svg`; notebooks show them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from dubio.metrics.calibration import ReliabilityCurve
from dubio.metrics.entropy import EntropyCurve
from dubio.metrics.pavgpu import PAvgPUCurve
from dubio.metrics.quantiles import QuantileCurve
from dubio.metrics.reading import Classifiable
from dubio.metrics.scenes import read_scenes
from dubio.metrics.selective import RiskCoverageCurve
from dubio.predictive.predictive import Predictive
from dubio.report.exhibits import Size
from dubio.report.ink import BLUE, INK, RULE, VERMILION, house_style
from dubio.report.lines import draw_key, styled
from dubio.report.scenes import draw_strips


@house_style()
def draw_doubt(
    prediction: Predictive, target: Tensor | None = None, size: Size = (8.0, 4.0)
) -> Figure:
    """Draw the uncertainty of every row, the most certain rows on the left.

    For labels it shows the entropy and its two parts: label noise, which every draw sees (expected
    entropy), and the disagreement among draws (mutual information). Marks below are wrong answers.
    For numbers it shows the standard deviation, the part of it that is noise, and the errors as
    dots. If the uncertainty is useful, marks are on the right and dots rise with the line.

    Args:
        prediction: A prediction with a likelihood, rows first.
        target: Labels or numbers; without them there are no marks and no dots.
        size: Size in inches.
    """
    of_labels = prediction.likelihood.discrete
    if target is not None:
        prediction.check_targets(target)
    whole = prediction.entropy if of_labels else prediction.std
    noise = prediction.expected_entropy if of_labels else prediction.aleatoric.sqrt()
    order = whole.reshape(-1).argsort()
    x = (np.arange(len(order)) + 0.5) / len(order)
    whole_sorted, noise_sorted = (_array(part.reshape(-1)[order]) for part in (whole, noise))
    unit = "entropy (nats)" if of_labels else "standard deviation"
    figure, axes = _axes(size, "Doubt", "cases, the surest first", unit)
    known: dict[str, Any] = {"color": VERMILION, "alpha": 0.25, "linewidth": 0}
    axes.fill_between(x, 0, noise_sorted, label="noise of the targets", **known)
    axes.fill_between(
        x, noise_sorted, whole_sorted,
        color=BLUE, alpha=0.35, linewidth=0, label="what the network does not know",
    )  # fmt: skip
    axes.plot(x, whole_sorted, color=BLUE, linewidth=1.8)
    if target is not None:
        _plot_misses(axes, x, _misses(prediction, target).reshape(-1)[order], of_labels)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=None if of_labels else 0)
    _in_percent(axes.xaxis)
    draw_key(axes)
    return figure


@house_style()
def draw_reliability(curves: Mapping[str, ReliabilityCurve], size: Size = (5.0, 5.2)) -> Figure:
    """Draw accuracy over confidence, above a histogram of the confidence."""
    figure = Figure(figsize=size, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    _plot_diagonal(above)
    for name, curve, style in styled(curves):
        filled = curve.cases > 0
        x, y = _array(curve.confidence[filled]), _array(curve.accuracy[filled])
        label = f"{name}, ECE {100 * float(curve.expected_error):.1f} %"
        above.plot(x, y, label=label, markersize=5, **style)
        edges = np.linspace(0, 1, len(curve.cases) + 1)
        line = {"color": style["color"], "linestyle": style["linestyle"]}
        below.stairs(_array(curve.weight), edges, **line)
    above.set_title("Reliability")
    above.set_ylabel("accuracy")
    above.set_ylim(-0.03, 1.03)
    below.set_xlabel("confidence")
    below.set_ylabel("cases")
    _in_percent(below.xaxis, above.yaxis, below.yaxis)
    draw_key(above)
    return figure


@house_style()
def draw_accuracy_by_entropy(curves: Mapping[str, EntropyCurve], size: Size = (5.0, 3.6)) -> Figure:
    """Draw the accuracy of predictions over their entropy."""
    figure, axes = _axes(size, "Accuracy against entropy", "entropy (nats)", "accuracy")
    for name, curve, style in styled(curves):
        filled = curve.cases > 0
        x, y = _array(curve.entropy[filled]), _array(curve.accuracy[filled])
        axes.plot(x, y, label=name, markersize=5, **style)
    axes.set_xlim(left=0)
    axes.set_ylim(-0.03, 1.03)
    _in_percent(axes.yaxis)
    draw_key(axes)
    return figure


@house_style()
def draw_entropies(
    entropies: Mapping[str, Tensor],
    size: Size = (5.0, 3.6),
    *,
    bins: int = 30,
    score: str = "entropy (nats)",
) -> Figure:
    """Draw histograms of entropies, or of another score, for several groups of inputs.

    The groups may be right and wrong answers, or familiar and foreign inputs. Each has area 1.
    """
    figure, axes = _axes(size, "Histograms", score, "density")
    largest = max(float(group.max()) for group in entropies.values())
    least = min(0.0, *(float(group.min()) for group in entropies.values()))
    edges = np.linspace(least, max(largest, least + 1e-6), bins + 1)
    for name, group, style in styled(entropies):
        heights, _ = np.histogram(_array(group), edges, density=True)
        axes.stairs(heights, edges, fill=True, color=style["color"], alpha=0.14)
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6}
        axes.stairs(heights, edges, label=name, **line)
    axes.set_xlim(edges[0], edges[-1])
    draw_key(axes)
    return figure


@house_style()
def draw_pavgpu(
    curves: Mapping[str, PAvgPUCurve], size: Size = (11.0, 3.8), *, score: str = "entropy"
) -> Figure:
    """Draw PAvgPU over t and its two parts (Boluki et al. 2020, figure 2).

    `score` names what the thresholds are of: "entropy ranks", say, for curves with `ranks=True`.
    """
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < 8
    panels = figure.subplots(*((3, 1) if narrow else (1, 3)), sharex=True, sharey=True)
    titles = {
        "pavgpu": "PAvgPU",
        "accurate_given_certain": "P(accurate | certain)",
        "uncertain_given_inaccurate": "P(uncertain | inaccurate)",
    }
    for panel, (part, title) in zip(panels, titles.items(), strict=True):
        for name, curve, style in styled(curves):
            label = f"{name}, mean {100 * float(curve.mean):.1f} %"
            y = _array(getattr(curve, part))
            panel.plot(_array(curve.t), y, label=label, **{**style, "marker": ""})
        panel.set_title(title)
        panel.set_xlim(0, 1)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        panel.set_ylim(-0.03, 1.03)
        _in_percent(panel.yaxis)
    for panel in panels[-1:] if narrow else panels:
        panel.set_xlabel(f"threshold of {score}, t")
    draw_key(panels[0])
    return figure


@house_style()
def draw_risk_coverage(curves: Mapping[str, RiskCoverageCurve], size: Size = (5.0, 3.6)) -> Figure:
    """Draw the error of the most certain cases over their share."""
    figure, axes = _axes(size, "Risk over coverage", "coverage", "risk")
    for name, curve, style in styled(curves):
        label = f"{name}, AURC {float(curve.aurc):.3g}"
        shown = np.unique(np.linspace(0, curve.risk.numel() - 1, 1000).round().astype(int))
        x, y = _array(curve.coverage.reshape(-1))[shown], _array(curve.risk.reshape(-1))[shown]
        axes.plot(x, y, label=label, **{**style, "marker": ""})
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    _in_percent(axes.xaxis)
    draw_key(axes)
    return figure


@house_style()
def draw_quantile_calibration(
    curves: Mapping[str, QuantileCurve], size: Size = (4.6, 4.4)
) -> Figure:
    """Draw the shares of targets below quantiles over the levels of these."""
    figure, axes = _axes(size, "Calibration of quantiles", "expected", "observed")
    _plot_diagonal(axes)
    for name, curve, style in styled(curves):
        label = f"{name}, RMSE {100 * float(curve.rmse):.1f} %"
        x, y = _array(curve.expected), _array(curve.observed)
        axes.plot(x, y, label=label, markersize=4, **style)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _in_percent(axes.xaxis, axes.yaxis)
    draw_key(axes)
    return figure


def draw_scenes(
    images: Tensor,
    prediction: Classifiable,
    target: Tensor,
    *,
    classes: Sequence[str] | None = None,
    colours: Sequence[Any] | None = None,
    void: int | None = None,
    width: float = 12.0,
    most_information: float = math.log(2),
) -> Figure:
    """Draw images, labels, predictions, entropy, mutual information and errors.

    Colours of the entropy go from 0 to log K, those of the mutual information from 0 to log 2,
    where half of the draws are sure of one class and half of another, or to another end: in nats,
    and the same in every figure. Void pixels are grey. Classes that are seen are in the legend.

    Args:
        images: `(B, 3, H, W)`, floats in [0, 1] or uint8.
        prediction: A `Predictive`, or probabilities of draws `(S, B, K, H, W)`. Averaged ones
            `(B, K, H, W)` have no mutual information, and that column is left out.
        target: Labels `(B, H, W)`.
        classes: Names of the K classes; their numbers if not given.
        colours: One for every class, as matplotlib takes them.
        void: The label of pixels that do not count; that of ``Categorical(void=…)`` unless given.
        width: In inches; the height follows. Below 8 a strip has three lines.
        most_information: Where colours of the mutual information end, in nats: less than log 2
            where draws hardly differ.
    """
    scenes, count = read_scenes(images, prediction, target, void=void)
    if classes is None:
        classes = [str(k) for k in range(count)]
    elif len(classes) != count:
        raise ValueError(
            f"classes: expected {count} names, one for every class of the prediction, got "
            f"{len(classes)}; void is not one of them"
        )
    return draw_strips(
        scenes, classes, colours=colours, width=width, most_information=most_information
    )


def _misses(prediction: Predictive, target: Tensor) -> Tensor:
    """Return 1 for a wrong label and 0 for a right one; of numbers, how far off the mean is."""
    if not prediction.likelihood.discrete:
        return (target - prediction.mean).abs()
    wrong = prediction.likelihood.labels(prediction.mean) != target
    counts = prediction.likelihood.known(target)
    return (wrong if counts is None else wrong & counts).double()


def _plot_misses(axes: Axes, x: Any, misses: Tensor, of_labels: bool) -> None:
    y = _array(misses)
    if of_labels:
        missed = x[y > 0]
        top = axes.get_ylim()[1]
        mark: dict[str, Any] = {"marker": "|", "linestyle": "none", "color": INK, "alpha": 0.6}
        label = f"wrong answers, {len(missed) / len(x):.1%}"
        axes.plot(missed, np.full_like(missed, -0.04 * top), label=label, **mark)
    else:
        axes.plot(x, y, ".", color=INK, alpha=0.5, markersize=3, label="errors")


def _axes(size: Size, title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _in_percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _plot_diagonal(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1.2, zorder=0)


def _array(values: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return values.detach().cpu().double().numpy()
