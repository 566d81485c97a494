"""The studies of CamVid: rules that hold and rules that fail, and pages with photographs."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from dubio.report.exhibits import Plot, Table
from dubio_studies.boluki2020.table_1_camvid import claims as boluki
from dubio_studies.boluki2020.table_1_camvid.page import PAGE as BOLUKI
from dubio_studies.framework.rows import Rows
from dubio_studies.gal2017.figure_8 import claims as starts
from dubio_studies.gal2017.figure_8 import computation as rates
from dubio_studies.gal2017.table_1 import claims as iou
from dubio_studies.gal2017.table_1.page import PAGE as IOU
from dubio_studies.gal2017.table_2 import claims as calibration
from dubio_studies.scenes.networks import SMOKE
from dubio_studies.scenes.reading import (
    CONCRETE,
    CONCRETE_ONCE,
    GAUSSIAN,
    LBD,
    MC,
    NO_DROPOUT,
    REGULAR,
    SceneMethod,
)
from verdicts import said

NOISE = (-0.001, 0.0, 0.001)  # of three forks: a standard error of 0.0006


def of_forks(method: SceneMethod, metric: str, mean: float, **fields: Any) -> list[dict[str, Any]]:
    """The rows of three forks."""
    own = {"kind": method.kind, "sampling": method.sampling, "metric": metric, **fields}
    return [{**own, "restart": k, "value": mean + e} for k, e in zip(count(1), NOISE, strict=False)]


def table(metric: str, means: Mapping[SceneMethod, float]) -> list[dict[str, Any]]:
    return [row for method, mean in means.items() for row in of_forks(method, metric, mean)]


AS_PUBLISHED = {method: value / 100 for method, value in iou.PUBLISHED.items()}


def test_rules_of_the_iou() -> None:
    rows = Rows(table("mean IoU", AS_PUBLISHED))
    assert said(iou.is_as_good(rows)) == "agrees"
    assert said(iou.sampling_improves(rows)) == "agrees"  # in pairs, without any noise
    assert said(iou.dropout_improves(rows)) == "agrees"
    assert said(iou.concrete_improves(rows)) == "fails"  # 0.1 points are 1.2 standard errors
    assert said(iou.is_sound(rows)) == "agrees"
    clear = Rows(table("mean IoU", {**AS_PUBLISHED, CONCRETE: 0.69, CONCRETE_ONCE: 0.68}))
    assert said(iou.concrete_improves(clear)) == "agrees"
    assert said(iou.is_as_good(clear)) == "beyond"
    low = Rows(table("mean IoU", dict.fromkeys(iou.PUBLISHED, 0.5)))
    judges = (iou.is_as_good, iou.sampling_improves, iou.dropout_improves, iou.is_sound)
    assert [said(judge(low)) for judge in judges] == ["fails"] * 4
    assert "no dropout 50.00 ± 0.06" in iou.is_as_good(low).ours


def errors(weighted: Mapping[SceneMethod, float], unweighted: Mapping[SceneMethod, float]) -> Rows:
    return Rows(
        [
            *table("calibration RMSE, weighted", weighted),
            *table("calibration RMSE, unweighted", unweighted),
        ]
    )


def test_rules_of_calibration() -> None:
    worse = {NO_DROPOUT: 0.05, REGULAR: 0.04, MC: 0.03}
    best = errors({**worse, CONCRETE: 0.02}, {**worse, CONCRETE: 0.02})
    assert said(calibration.is_better_calibrated(best)) == "agrees"
    assert said(calibration.weights_decide(best)) == "agrees"
    mixed = errors({**worse, CONCRETE: 0.02}, {**worse, CONCRETE: 0.035})
    assert said(calibration.is_better_calibrated(mixed)) == "fails"
    assert said(calibration.weights_decide(mixed)) == "fails"
    assert "unweighted: MC dropout 0.2" in calibration.weights_decide(mixed).ours


def ways(ends: Mapping[float, Sequence[float]], before: float = 0.0) -> Rows:
    """Rates of some starts: at the start, an epoch before the end, and at the end."""
    return Rows(
        [
            {"metric": "drop", "drop": start, "epoch": epoch, "layer": layer, "value": value}
            for start, own in ends.items()
            for layer, end in enumerate(own, start=1)
            for epoch, value in enumerate((start, end + before, end))
        ]
    )


def test_rules_of_the_starts() -> None:
    pattern = [0.01, 0.3, 0.02, 0.1, 0.4]
    near = ways({0.1: pattern, 0.5: [rate + 0.02 for rate in pattern]})
    assert said(starts.converge(near)) == "agrees"
    assert said(starts.pattern(near)) == "agrees"
    assert said(starts.settle(near)) == "agrees"
    assert "starts are 0.40 apart, ends 0.020 at most" in starts.converge(near).ours
    apart = ways({0.1: pattern, 0.5: [*pattern[:4], 0.5]}, before=0.03)
    assert said(starts.converge(apart)) == "fails"
    assert "(layer 5)" in starts.converge(apart).ours
    assert said(starts.settle(apart)) == "fails"
    assert said(starts.pattern(ways({0.1: [0.3, 0.3, 0.02, 0.1, 0.4]}))) == "fails"
    assert said(starts.pattern(ways({0.1: [0.01, 0.3, 0.02, 0.4, 0.015]}))) == "fails"


def test_starts_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="starts: expected two different rates"):
        rates.scale(SMOKE, starts=(0.1, 0.1))
    with pytest.raises(ValueError, match="starts: expected a rate"):
        rates.scale(SMOKE, starts=(0.1, 1.5))


def boluki_rows(scale: float = 1.0, **changed: float) -> Rows:
    """The published numbers as rows; `changed` are points by kind, for all three."""
    rows = []
    for method, published in boluki.PUBLISHED.items():
        more = changed.get(method.kind, 0.0)
        for metric, value in zip(boluki.METRICS, published, strict=True):
            rows += of_forks(method, metric, scale * (value + more) / 100)
        rows += [
            row for k in range(5) for row in of_forks(method, "PAvgPU", published[2] / 100, t=k / 4)
        ]
        rows += of_forks(method, "mean rank PAvgPU", published[2] / 100)
        rows += of_forks(method, "error AUROC", published[2] / 100)
        rows += of_forks(method, "mean PAvgPU of bands", published[2] / 100 - 0.1)
        rows += of_forks(method, "mean PAvgPU of sums", published[2] / 100)
    return Rows(rows)


def test_rules_of_five_kinds_of_dropout() -> None:
    rows = boluki_rows()
    best = {metric: said(boluki.is_best(metric, rows)) for metric in boluki.METRICS}
    # 85.16 against 85.02 are 1.7 standard errors
    assert best == {"accuracy": "agrees", "mean IoU": "agrees", "mean PAvgPU": "fails"}
    assert said(boluki.is_best("mean PAvgPU", boluki_rows(bernoulli=1.0))) == "agrees"
    for metric in boluki.METRICS:
        assert said(boluki.is_as_good(metric, rows)) == "agrees"
        assert said(boluki.is_as_good(metric, boluki_rows(bernoulli=2.0))) == "beyond"
        assert said(boluki.is_as_good(metric, boluki_rows(0.9))) == "fails"
    assert said(boluki.is_best_at_most_thresholds(rows)) == "agrees"
    assert said(boluki.learning_helps(rows)) == "agrees"
    assert said(boluki.learning_helps(boluki_rows(gaussian=-4.0))) == "fails"
    assert said(boluki.ranks_agree(rows)) == "agrees"
    assert said(boluki.ranks_agree(boluki_rows(gaussian=3.0))) == "fails"
    assert "bands −10.0, sums +0.0 points" in boluki.code_matters(rows).ours
    assert said(boluki.code_matters(rows)) == "agrees"
    assert said(boluki.code_matters(boluki_rows(fixed=-30.0))) == "fails"


def test_a_curve_that_is_not_the_highest() -> None:
    rows = [row for row in boluki_rows() if not (row["metric"] == "PAvgPU" and row["t"] == 0.5)]
    low = {LBD: 0.5, CONCRETE: 0.6, GAUSSIAN: 0.5, MC: 0.5, REGULAR: 0.5}
    middle = [row for m, mean in low.items() for row in of_forks(m, "PAvgPU", mean, t=0.5)]
    finding = boluki.is_best_at_most_thresholds(Rows([*rows, *middle]))
    assert said(finding) == "fails"
    assert "at 67% of 3 thresholds" in finding.ours


def test_a_page_has_strips_if_there_are_photographs() -> None:
    rows = [
        *table("mean IoU", AS_PUBLISHED),
        *table("accuracy", AS_PUBLISHED),
        *table("nll", AS_PUBLISHED),
        *(row for m in iou.PUBLISHED for row in of_forks(m, "IoU", 0.5, **{"class": "sky"})),
        *(row for m in iou.PUBLISHED for row in of_forks(m, "IoU", 0.7, **{"class": "road"})),
    ]
    without = IOU.exhibits(Rows(rows))
    assert [type(exhibit) for exhibit in without] == [Table, Table]
    assert without[1].rows[-1][1] == "60.0"  # type: ignore[union-attr]
    own = {"kind": "concrete", "sampling": "draws", "restart": 1}
    shape = {"place": 40, "height": 2, "width": 2}
    maps = [
        {**own, "metric": "predicted", **shape, "value": "00010100"},
        {**own, "metric": "entropy", **shape, "unit": 0.01, "value": "00102030"},
        {**own, "metric": "information", **shape, "unit": 0.01, "value": "00001020"},
    ]
    backdrop = [
        {"metric": "photograph", **shape, "value": "80" * 12},
        {"metric": "truth", **shape, "value": "0001010b"},
        {"metric": "colour", "class": "sky", "value": "#7ec8f2"},
        {"metric": "colour", "class": "road", "value": "#5e4b8b"},
    ]
    *_, strips = IOU.exhibits(Rows([*rows, *maps, *backdrop]))
    assert isinstance(strips, Plot)
    for size in (strips.wide, strips.narrow):
        assert strips.draw(size).get_axes()


def test_the_published_numbers_are_on_the_page() -> None:
    extra = ("nll", "IoU by image", "mean IoU with void in unions")
    rows = [*boluki_rows()]
    for metric in extra:
        rows += table(metric, dict.fromkeys(boluki.PUBLISHED, 0.5))
    for method in boluki.PUBLISHED:
        if method.sampling == "draws":
            for layer in (1, 2):
                fields = {"kind": method.kind, "metric": "drop", "layer": layer, "epoch": 4}
                rows += [{**fields, "restart": k, "value": 0.1 * layer} for k in (1, 2, 3)]
    exhibits = BOLUKI.exhibits(Rows(rows))
    first = exhibits[0]
    assert isinstance(first, Table)
    assert first.rows[0] == ["LBD", "89.18 ± 0.06", "89.18", "60.42 ± 0.06", "60.42",
                             "85.16 ± 0.06", "85.16"]  # fmt: skip
    for exhibit in exhibits:
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.narrow).get_axes()
