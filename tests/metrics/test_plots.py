"""Drawings: they come out, with a line and a name for every curve, also where curves have holes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

from dubio import metrics
from dubio.report import ink
from metric_references import MEAN, TARGET, P, Y

CERTAIN, RIGHT = torch.eye(3), torch.arange(3)  # most bins are empty, and nothing is wrong
PLOTS: list[tuple[Callable[..., Figure], Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = [
    (metrics.plots.draw_reliability, metrics.reliability, (P, Y), (CERTAIN, RIGHT)),
    (metrics.plots.draw_accuracy_by_entropy, metrics.accuracy_by_entropy, (P, Y), (CERTAIN, RIGHT)),
    (metrics.plots.draw_pavgpu, metrics.pavgpu, (P, Y), (CERTAIN, RIGHT)),
    (metrics.plots.draw_risk_coverage, metrics.risk_coverage, (P, Y), (CERTAIN, RIGHT)),
    (metrics.plots.draw_quantile_calibration, metrics.quantile_calibration, (MEAN, TARGET),
     (MEAN[:2], TARGET)),
    (metrics.plots.draw_entropies, lambda p, _: p.flatten(), (P, Y), (torch.zeros(3), Y)),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "metric", "first", "second"), PLOTS)
def test_two_curves(
    draw: Callable[..., Figure], metric: Callable[..., Any], first: Any, second: Any
) -> None:
    figure = draw({"one": metric(*first), "other": metric(*second)})
    assert ink.to_png(figure, dots_per_inch=30).startswith(b"\x89PNG")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    names = [text.get_text().split(",")[0] for text in legend.get_texts()]
    assert names == ["one", "other"]


def test_thresholds_of_ranks_are_called_so() -> None:
    curve = {"one": metrics.pavgpu(P, Y, ranks=True)}
    figure = metrics.plots.draw_pavgpu(curve, score="entropy ranks")
    assert figure.axes[0].get_xlabel() == "threshold of entropy ranks, t"


def test_a_narrow_page_gets_a_column() -> None:
    curve = {"one": metrics.pavgpu(P, Y)}
    wide, narrow = (metrics.plots.draw_pavgpu(curve, size) for size in ((11, 4), (5, 9)))
    assert [axes.get_subplotspec().rowspan.start for axes in wide.axes] == [0, 0, 0]
    assert [axes.get_subplotspec().rowspan.start for axes in narrow.axes] == [0, 1, 2]
