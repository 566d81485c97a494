"""Drawings of the curves of `dubio.metrics`: curves in, figures out.

Every function takes a dict from names to curves, to compare them in one drawing, and a size in
inches. `dubio.report.ink` writes the figures, by `to_png` and `to_svg`; notebooks show them.
"""

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any, TypeVar

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
from dubio.metrics.selective import RiskCoverageCurve
from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, RULE, VERMILION, house_style

Size = tuple[float, float]
Curve = TypeVar("Curve")

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, INK)
DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)), "-")
MARKERS = ("o", "s", "^", "D", "v")


@house_style()
def draw_reliability(curves: Mapping[str, ReliabilityCurve], size: Size = (5.0, 5.2)) -> Figure:
    """Accuracy over confidence, and below it how many cases have which confidence."""
    figure = Figure(figsize=size, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    _plot_diagonal(above)
    for name, curve, style in _styled(curves):
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
    _key(above)
    return figure


@house_style()
def draw_accuracy_by_entropy(curves: Mapping[str, EntropyCurve], size: Size = (5.0, 3.6)) -> Figure:
    """Accuracy of predictions of similar entropy."""
    figure, axes = _axes(size, "Accuracy against entropy", "entropy (nats)", "accuracy")
    for name, curve, style in _styled(curves):
        filled = curve.cases > 0
        x, y = _array(curve.entropy[filled]), _array(curve.accuracy[filled])
        axes.plot(x, y, label=name, markersize=5, **style)
    axes.set_xlim(left=0)
    axes.set_ylim(-0.03, 1.03)
    _in_percent(axes.yaxis)
    _key(axes)
    return figure


@house_style()
def draw_entropies(
    entropies: Mapping[str, Tensor],
    size: Size = (5.0, 3.6),
    *,
    bins: int = 30,
    score: str = "entropy (nats)",
) -> Figure:
    """Histograms of entropies, or of another score of that name, of several groups of inputs.

    The groups may be right and wrong answers, or familiar and foreign inputs. Each has area 1.
    """
    figure, axes = _axes(size, "Histograms", score, "density")
    largest = max(float(group.max()) for group in entropies.values())
    least = min(0.0, *(float(group.min()) for group in entropies.values()))
    edges = np.linspace(least, max(largest, least + 1e-6), bins + 1)
    for name, group, style in _styled(entropies):
        heights, _ = np.histogram(_array(group), edges, density=True)
        axes.stairs(heights, edges, fill=True, color=style["color"], alpha=0.14)
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6}
        axes.stairs(heights, edges, label=name, **line)
    axes.set_xlim(edges[0], edges[-1])
    _key(axes)
    return figure


@house_style()
def draw_pavgpu(curves: Mapping[str, PAvgPUCurve], size: Size = (11.0, 3.8)) -> Figure:
    """PAvgPU over t and its two parts (Boluki et al. 2020, figure 2); in a column if narrow."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < 8
    panels = figure.subplots(*((3, 1) if narrow else (1, 3)), sharex=True, sharey=True)
    titles = {
        "pavgpu": "PAvgPU",
        "accurate_given_certain": "P(accurate | certain)",
        "uncertain_given_inaccurate": "P(uncertain | inaccurate)",
    }
    for panel, (part, title) in zip(panels, titles.items(), strict=True):
        for name, curve, style in _styled(curves):
            label = f"{name}, mean {100 * float(curve.mean):.1f} %"
            y = _array(getattr(curve, part))
            panel.plot(_array(curve.t), y, label=label, **{**style, "marker": ""})
        panel.set_title(title)
        panel.set_xlim(0, 1)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        panel.set_ylim(-0.03, 1.03)
        _in_percent(panel.yaxis)
    for panel in panels[-1:] if narrow else panels:
        panel.set_xlabel("threshold of entropy, t")
    _key(panels[0])
    return figure


@house_style()
def draw_risk_coverage(curves: Mapping[str, RiskCoverageCurve], size: Size = (5.0, 3.6)) -> Figure:
    """The error of the least doubtful cases over their share."""
    figure, axes = _axes(size, "Risk over coverage", "coverage", "risk")
    for name, curve, style in _styled(curves):
        label = f"{name}, AURC {float(curve.aurc):.3g}"
        shown = np.unique(np.linspace(0, curve.risk.numel() - 1, 1000).round().astype(int))
        x, y = _array(curve.coverage.reshape(-1))[shown], _array(curve.risk.reshape(-1))[shown]
        axes.plot(x, y, label=label, **{**style, "marker": ""})
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    _in_percent(axes.xaxis)
    _key(axes)
    return figure


@house_style()
def draw_quantile_calibration(
    curves: Mapping[str, QuantileCurve], size: Size = (4.6, 4.4)
) -> Figure:
    """Shares of targets below quantiles over the levels of these."""
    figure, axes = _axes(size, "Calibration of quantiles", "expected", "observed")
    _plot_diagonal(axes)
    for name, curve, style in _styled(curves):
        label = f"{name}, RMSE {100 * float(curve.rmse):.1f} %"
        x, y = _array(curve.expected), _array(curve.observed)
        axes.plot(x, y, label=label, markersize=4, **style)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _in_percent(axes.xaxis, axes.yaxis)
    _key(axes)
    return figure


def _axes(size: Size, title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _styled(curves: Mapping[str, Curve]) -> Iterator[tuple[str, Curve, dict[str, Any]]]:
    """Names and curves with lines that differ in colour, dash and marker, again and again."""
    looks = cycle(zip(COLOURS, DASHES, MARKERS, strict=True))
    for (name, curve), (colour, dash, marker) in zip(curves.items(), looks, strict=False):
        yield name, curve, {"color": colour, "linestyle": dash, "marker": marker, "linewidth": 1.8}


def _in_percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _plot_diagonal(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1.2, zorder=0)


def _key(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=9, labelcolor=QUIET, handlelength=2.6)


def _array(values: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return values.detach().double().cpu().numpy()
