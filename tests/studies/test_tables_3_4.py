"""Concrete dropout on UCI tables: variants, choices on validation rows, and rules of our own."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import dubio
from dubio.data import DataError
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.gal2017.tables_3_4 import computation
from dubio_studies.gal2017.tables_3_4.claims import (
    gains_by_m_step,
    kl_underfits,
    last_layer_cures,
    longest,
    m_step_overfits,
)
from dubio_studies.gal2017.tables_3_4.computation import (
    VARIANTS,
    Config,
    Method,
    SplitCandidate,
    m_steps,
    objective,
    pieces,
    predict,
    residuals,
    select,
    with_noise,
)
from dubio_studies.gal2017.tables_3_4.page import PAGE
from dubio_studies.uci.splits import Splits, tuned_precisions
from verdicts import said

SPLITS = range(4)
CANDIDATE = SplitCandidate(0.1, 0.1)


@pytest.fixture(scope="module")
def yacht() -> Splits:
    try:
        return Splits.of("yacht", 2)
    except DataError as error:
        pytest.skip(str(error))


def test_variants_are_run_where_the_config_says() -> None:
    config = Config(tables=("boston", "power"), variants_on=("boston",))
    found = {(piece["table"], piece["method"]) for piece in pieces(config)}
    assert {table for table, method in found if method in VARIANTS} == {"boston"}
    assert {table for table, method in found if method == "bayes"} == {"boston", "power"}


def test_methods_of_the_paper_have_all_splits_of_small_tables() -> None:
    config = Config(splits=20, fewer_splits=10)
    whole = [("wine", "concrete"), ("wine", "mc"), ("wine", "linear"), ("power", "linear")]
    assert [config.splits_of(*each) for each in whole] == [20] * 4
    fewer = [("power", "concrete"), ("power", "mc"), ("wine", "bayes"), ("wine", "ensemble")]
    assert [config.splits_of(*each) for each in fewer] == [10] * 4
    with pytest.raises(ValueError, match=r"fewer_splits: expected 1 to 5.* got 6"):
        Config(splits=5, fewer_splits=6)
    with pytest.raises(ValueError, match=r"variants_on: expected some of boston.* got"):
        Config(variants_on=("mars",))


def test_methods_of_the_paper_are_trained_for_longer_on_some_large_tables() -> None:
    found = [
        (piece["table"], piece["method"])
        for piece in pieces(Config(steps_per_row=0.15))
        if str(piece["method"]).startswith("long ")
    ]
    assert sorted(found) == [
        (table, f"long {method}")
        for table in ("naval", "power", "protein")
        for method in ("concrete", "mc")
    ]
    assert not any(str(p["method"]).startswith("long ") for p in pieces(Config()))


def test_the_longest_training_stands_for_a_method() -> None:
    short, long = (list(values("power", m, "tuned", "rmse", 4.0)) for m in ("mc", "long mc"))
    others = list(values("yacht", "mc", "tuned", "rmse", 1.0))
    found = longest(Rows([*short, *long, *others]))
    assert list(found) == [*({**row, "method": "mc"} for row in long), *others]


@pytest.mark.parametrize(
    ("method", "layers", "deviation", "weight"),
    [
        ("bayes", 3, 0.01, 1.0),
        ("bayes-narrow", 3, 0.001, 1.0),
        ("bayes-cold", 3, 0.01, 0.1),
        ("bayes-last", 1, 0.01, 1.0),
    ],
)
def test_variants_of_bayes_by_backprop(
    method: Method, layers: int, deviation: float, weight: float
) -> None:
    elbo = objective(method, CANDIDATE, 3, 10)
    assert isinstance(elbo, dubio.ELBO)
    found = [m for m in elbo.modules() if isinstance(m, dubio.Bayesian)]
    assert len(found) == layers
    assert found[-1].deviations()["weight"].mean().item() == pytest.approx(deviation, rel=1e-4)
    loss = elbo(torch.randn(10, 3), torch.randn(10, 1)).detach()
    expected = elbo.nll + (weight * elbo.kl - elbo.log_prior) / 10
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["concrete", "ensemble"])
def test_networks_of_a_choice_are_those_that_were_best(yacht: Splits, method: Method) -> None:
    torch.manual_seed(0)
    choice = select(method, yacht, steps=5, draws=10)
    assert len(choice.networks) == len(yacht) * (5 if method == "ensemble" else 1)
    drawn = predict(method, choice.networks, yacht, yacht.validation, 10)
    precisions, _ = tuned_precisions(drawn, yacht, yacht.validation)
    # a prediction of the same networks, with other noise
    torch.testing.assert_close(precisions, choice.precisions, rtol=0.3, atol=0.1)


def test_an_m_step_on_other_rows_has_their_residuals(
    yacht: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1/τ is the squared residual of the rows that it was made on, but for the prior: 3 %."""
    monkeypatch.setattr(computation, "M_STEP_DRAWS", 2000)
    torch.manual_seed(0)
    choice = select("concrete", yacht, steps=60, draws=10)
    precisions = m_steps(choice.networks, yacht, yacht.validation)
    squares = [
        row["value"]
        for row in residuals("concrete", choice.networks, yacht)
        if (row["stage"], row["metric"]) == ("validation rows", "squared residual")
    ]
    for precision, square in zip(precisions.tolist(), squares, strict=True):
        assert 1 / precision == pytest.approx(square, rel=0.08)


def test_noise_changes_no_mean(yacht: Splits) -> None:
    networks: list[nn.Module] = [objective("mc", CANDIDATE, yacht.features, 10) for _ in range(2)]
    drawn = predict("mc", networks, yacht, yacht.test, 10)
    noisy = with_noise(drawn, torch.tensor([4.0, 9.0]))
    for one, other, precision in zip(drawn, noisy, (4.0, 9.0), strict=True):
        assert torch.equal(one.mean, other.mean)
        torch.testing.assert_close(other.variance - one.variance, one.mean * 0 + 1 / precision - 1)


def values(table: str, method: str, stage: str, metric: str, value: float) -> Iterator[Row]:
    """A value with a little noise, for each split."""
    for split in SPLITS:
        yield {"table": table, "method": method, "stage": stage, "metric": metric,
               "split": split, "value": value + 0.001 * split}  # fmt: skip


def m_step_rows(fall: float, held_out: float, unseen: float) -> Rows:
    density = {"learned": -2.0, "m-step": -2.0 - fall, "held-out m-step": held_out, "tuned": -2.0}
    squares = {"training rows": 0.1, "validation rows": unseen}
    return Rows(
        [
            row
            for metric, found in (("log-likelihood", density), ("squared residual", squares))
            for stage, value in found.items()
            for row in values("boston", "concrete", stage, metric, value)
        ]
    )


@pytest.mark.parametrize(
    ("fall", "held_out", "unseen", "verdict"),
    [
        (0.5, -2.1, 0.2, "agrees"),
        (0.5, -2.6, 0.2, "fails"),  # no better on validation rows
        (0.5, -2.1, 0.1, "fails"),  # residuals are the same
        (0.0, -1.9, 0.2, "fails"),  # there is nothing to explain
    ],
)
def test_rule_of_the_held_out_m_step(
    fall: float, held_out: float, unseen: float, verdict: str
) -> None:
    rows = m_step_rows(fall, held_out, unseen)
    assert said(m_step_overfits(rows)) == verdict
    assert said(gains_by_m_step(rows)) == ("fails" if fall else "agrees")


def bayes_rows(cold: float, narrow: float, last: float) -> Rows:
    errors = {"bayes": 1.0, "bayes-cold": cold, "bayes-narrow": narrow, "bayes-last": last}
    return Rows(
        [
            row
            for method, error in errors.items()
            for stage in ("training rows", "validation rows", "tuned")
            for metric, value in (("rmse", error), ("log-likelihood", -error))
            for row in values("boston", method, stage, metric, value)
        ]
    )


@pytest.mark.parametrize(
    ("cold", "narrow", "verdict"),
    [(0.5, 1.0, "agrees"), (1.1, 1.0, "fails"), (0.5, 0.5, "fails")],
)
def test_rule_of_the_kl(cold: float, narrow: float, verdict: str) -> None:
    assert said(kl_underfits(bayes_rows(cold, narrow, 1.0))) == verdict


def test_rule_of_the_last_layer() -> None:
    assert said(last_layer_cures(bayes_rows(0.5, 1.0, 0.5))) == "agrees"
    assert said(last_layer_cures(bayes_rows(0.5, 1.0, 1.0))) == "fails"


def test_rules_are_not_met_by_nothing() -> None:
    for claim in PAGE.claims:
        assert said(claim.judge(Rows([]))) == "fails"
    assert PAGE.exhibits(Rows([]))
