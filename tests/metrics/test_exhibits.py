"""Exhibits of numbers by class and by layer: cells and points are those numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dubio import metrics
from dubio.report import ink
from dubio.report.class_table import class_table
from dubio.report.exhibits import Table
from dubio.report.html import table_html
from dubio.report.rates import draw_rates
from metric_references import LABELS, MAPS, VOID

NAN = math.nan


class TestClassTable:
    def test_cells(self) -> None:
        scores = {"plain": [0.5, 0.25, NAN], "draws": torch.tensor([0.40004, 0.75, NAN])}
        table = class_table(scores, ["sky", "road", "car"])
        assert table.columns == ("class", "plain", "draws")
        assert table.rows == [
            ["sky", "**50.0**", "40.0"],
            ["road", "25.0", "**75.0**"],
            ["car", "–", "–"],
            ["mean", "37.5", "**57.5**"],
        ]
        assert "<td><b>57.5</b></td>" in table_html(table)

    def test_the_mean_is_that_of_mean_iou(self) -> None:
        found = metrics.class_iou(MAPS, LABELS, 3, void=VOID)
        [*_, [_, mean]] = class_table({"net": found}, "abc").rows
        assert mean == f"{100 * float(metrics.mean_iou(MAPS, LABELS, 3, void=VOID)):.1f}"

    def test_equal_cells_are_all_bold_or_none(self) -> None:
        rows = class_table({"a": [0.5, 0.1], "b": [0.5, 0.2], "c": [NAN, 0.2]}, "xy").rows
        assert rows[0][1:] == ["50.0", "50.0", "–"]
        assert rows[1][1:] == ["10.0", "**20.0**", "**20.0**"]
        assert rows[2][1:] == ["30.0", "**35.0**", "20.0"]

    def test_nothing_known(self) -> None:
        assert class_table({"a": [NAN]}, "x").rows == [["x", "–"], ["mean", "–"]]

    @pytest.mark.parametrize(
        ("scores", "message"),
        [([0.5], "one for each of 2 classes, got 1 of net"), ([0.5, 50.0], "got 50.0 of net; div")],
    )
    def test_errors(self, scores: list[float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            class_table({"net": scores}, ["a", "b"])

    def test_no_method(self) -> None:
        with pytest.raises(ValueError, match="scores: expected one method or more, got none"):
            class_table({}, ["a"])


class TestRates:
    RATES: dict[str, list[float]] = {"concrete": [0.1, 0.2, NAN], "learned": [0.3, 0.25, 0.05]}  # noqa: RUF012

    def test_points_and_bars(self) -> None:
        errors = {"learned": [0.01, 0.02, 0.03]}
        figure = draw_rates(self.RATES, ["in", "2", "out"], errors=errors)
        [axes] = figure.axes
        assert [text.get_text() for text in axes.get_xticklabels()] == ["in", "2", "out"]
        legend = axes.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == list(self.RATES)
        for lines, own in zip(axes.containers, self.RATES.values(), strict=True):
            x, y = lines[0].get_data()
            assert [round(float(place)) for place in x] == [0, 1, 2]
            np.testing.assert_equal(np.array(y, float), own)
        assert not axes.containers[0][2]  # no bars
        [bars] = axes.containers[1][2]
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, [[0.29, 0.31], [0.23, 0.27], [0.02, 0.08]])
        assert ink.to_png(figure, dots_per_inch=30).startswith(b"\x89PNG")

    def test_one_method_stands_in_the_middle(self) -> None:
        [axes] = draw_rates({"one": [0.5]}, ["a"]).axes
        assert axes.containers[0][0].get_xdata().tolist() == [0]

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda r: draw_rates(r, ["a", "b"]), "rates: .* each of 2 layers, got 3 of concrete"),
            (lambda r: draw_rates({"x": [-2.0]}, ["a"]), "rates: expected probabilities, got -2.0"),
            (lambda r: draw_rates({"x": [1.5]}, ["a"]), "rates: expected probabilities, got 1.5"),
            (lambda r: draw_rates(r, "abc", errors={"learned": [0.1]}), "errors: .* got 1 of lea"),
            (lambda r: draw_rates(r, "abc", errors={"lrned": [0.1] * 3}), "errors: .* got lrned"),
            (lambda r: draw_rates({"x": [0.1]}, "a", errors={"x": [-1.0]}), "errors: .* >= 0, got"),
        ],
    )
    def test_errors(self, call: Callable[[Any], Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            call(self.RATES)


def test_a_table_refuses_a_row_of_another_length() -> None:
    with pytest.raises(ValueError, match="expected 2 cells"):
        Table("t", ("method", "error"), [["dropout", "1.2", "3.4"]])
