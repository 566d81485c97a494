"""Gal et al. 2017, figure 1: what networks of a repeat share, and the rule of convergence."""

from collections.abc import Iterator

import pytest

from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Measurement, Seed
from dubio_studies.gal2017.figure_1.computation import Config, pieces, run
from dubio_studies.gal2017.figure_1.page import has_converged
from verdicts import said

TINY = Config(sizes=(10, 20), width=4, repeats=1, steps=5, batch_size=8, draws=4)


def outcome(config: Config, size: int, start: float) -> list[Measurement]:
    return list(run(config, {"repeat": 0, "size": size, "start": start}, Seed(1, 2, 0)))


def test_a_piece_is_a_network() -> None:
    assert len(pieces(TINY)) == 4
    assert pieces(TINY)[0] == {"repeat": 0, "size": 10, "start": 0.1}


def test_networks_of_one_size_differ_in_the_initial_rate_alone() -> None:
    """Random numbers come from the repeat: the same start gives the same rows, another does not."""
    assert outcome(TINY, 10, 0.1) == outcome(TINY, 10, 0.1)
    assert outcome(TINY, 10, 0.1) != outcome(TINY, 10, 0.4)


def test_settings_that_cannot_be_computed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sizes: expected two or more to compare, got \(10,\)"):
        Config(sizes=(10,))
    with pytest.raises(ValueError, match="expected positive numbers"):
        Config(drop_learning_rate=0.0)


def made_rows(apart: float, drift: float) -> Iterator[Row]:
    for start, rate in ((0.1, 0.3), (0.4, 0.3 + apart)):
        for layer in range(5):
            place = {"repeat": 0, "size": 1000, "start": start, "layer": layer}
            yield {**place, "metric": "drop", "value": rate}
            yield {**place, "metric": "drift", "value": -drift}


@pytest.mark.parametrize(
    ("apart", "drift", "verdict"),
    [(0.01, 0.01, "agrees"), (0.06, 0.01, "fails"), (0.01, 0.03, "fails")],
)
def test_rates_have_converged_if_starts_agree_and_nothing_moves(
    apart: float, drift: float, verdict: str
) -> None:
    assert said(has_converged(Rows(list(made_rows(apart, drift))))) == verdict
