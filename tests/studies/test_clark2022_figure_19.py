"""Calibration on MNIST: numbers by hand, two ways to read two softmaxes, rules that fail."""

import dataclasses

import pytest
import torch
from sklearn import metrics as reference
from torch.nn import functional as F

from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio_studies.clark2022.digits import SMOKE
from dubio_studies.clark2022.figure_19.computation import (
    COMPUTATION,
    Config,
    bootstrap_error,
    measured,
    pieces,
    run,
)
from dubio_studies.clark2022.figure_19.page import CLAIMS
from dubio_studies.clark2022.legend import (
    BAYESIAN,
    DROPOUT,
    PLAIN,
)
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = Config(**SMOKE, width=8, resamples=2)


def test_scores_are_those_of_scikit_learn() -> None:
    torch.manual_seed(0)
    draws, labels = 2 * torch.randn(3, 500, 10), torch.randint(10, (500,))
    p = draws.double().softmax(-1).mean(0)
    rows = Rows(list(measured(Predictive(Categorical(), StoredDraws(draws)), labels, 2)))
    hits, claimed = p.argmax(-1) == labels, p.amax(-1)
    nll = reference.log_loss(labels, p, labels=range(10))
    assert rows.value(metric="accuracy") == pytest.approx(float(hits.double().mean()))
    assert rows.value(metric="nll") == pytest.approx(nll, rel=1e-5)
    brier = ((p - F.one_hot(labels, 10)) ** 2).sum(-1).mean()
    assert rows.value(metric="brier") == pytest.approx(float(brier), rel=1e-5)
    excess = claimed - hits.double()
    over = rows.row(metric="overconfidence")
    assert over["value"] == pytest.approx(float(excess.mean()), abs=1e-6)
    assert over["error"] == pytest.approx(float(excess.std()) / 500**0.5, rel=1e-5)
    bins = (claimed * 15).ceil().long() - 1
    gaps = torch.stack([excess[bins == m].sum().abs() for m in range(15)])
    assert rows.value(metric="ece") == pytest.approx(float(gaps.sum()) / 500, abs=1e-6)
    curve = rows.where(metric="reliability")
    assert curve.values("cases") == [int((bins == m).sum()) for m in range(15)]
    assert curve[0]["value"] is None  # nobody is less sure than one tenth


def test_the_error_of_ece_is_that_of_a_mean_in_one_bin() -> None:
    """Then ECE is |hits − confidence|; 400 resamples, 20 % off is 5.6 deviations: 2e-8."""
    torch.manual_seed(1)
    labels = (torch.rand(400) < 0.4).long()
    probabilities = torch.tensor([0.1, 0.9]).expand(400, 2)
    share = float(labels.double().mean())
    expected = (share * (1 - share) / 400) ** 0.5
    assert bootstrap_error(probabilities, labels, 400) == pytest.approx(expected, rel=0.2)


def test_two_softmaxes_are_read_as_outputs_and_as_the_loss_reads_them() -> None:
    piece = {"method": "plain", "loss": "double softmax", "restart": 1}
    rows = Rows(list(run(TINY, piece, SEED)))
    digits = TINY.digits()
    network = TINY.trained("plain", 8, 1, SEED.given, "double softmax").network
    outputs = network(digits.test).detach()  # probabilities
    once = F.nll_loss(outputs.log(), digits.test_labels)
    twice = F.cross_entropy(outputs, digits.test_labels)
    assert rows.value(metric="nll", softmaxes=1) == pytest.approx(float(once), rel=1e-5)
    assert rows.value(metric="nll", softmaxes=2) == pytest.approx(float(twice), rel=1e-5)
    high = [r for r in rows.where(metric="reliability", softmaxes=2) if r["cases"]]
    assert max(r["confidence"] for r in high) < 0.2321
    hits = {rows.value(metric="accuracy", softmaxes=k) for k in (1, 2)}
    assert len(hits) == 1


def test_every_network_is_a_piece_and_is_read_in_all_ways() -> None:
    found = [(p["method"], p["loss"]) for p in pieces(COMPUTATION.scales["small"])]
    assert len(found) == len(set(found)) == 11
    assert {("cold gaussian", "cross-entropy"), ("cold mixture", "cross-entropy")} <= set(found)
    assert len(pieces(dataclasses.replace(TINY, restarts=2))) == 22
    piece = {"method": "gaussian", "loss": "cross-entropy", "restart": 1}
    rows = Rows(list(run(TINY, piece, SEED)))
    assert rows.distinct("reading") == ["draws", "pass"]
    assert rows.distinct("softmaxes") == [1]
    assert rows.value(metric="nll", reading="draws") != rows.value(metric="nll", reading="pass")
    with pytest.raises(ValueError, match="resamples: expected at least 2, got 1"):
        dataclasses.replace(TINY, resamples=1)
    with pytest.raises(ValueError, match="draws: expected at least 1"):
        dataclasses.replace(TINY, draws=0)


def made_up(**changes: float) -> Rows:
    """Rows as the paper would have them, with changes by name."""
    numbers = {"ece_plain": 0.02, "ece_gaussian": 0.01, "excess": 0.01, "sure_gaussian": 1.0}
    numbers |= changes
    rows = []
    for method, reading in (PLAIN, DROPOUT, *BAYESIAN):
        row = {"method": method, "reading": reading, "loss": "cross-entropy", "softmaxes": 1}
        row["restart"] = 1
        ece, sure = numbers.get(f"ece_{method}", 0.01), numbers.get(f"sure_{method}", 0.9)
        rows += [
            {**row, "metric": "ece", "value": ece, "error": 0.001},
            {**row, "metric": "overconfidence", "value": numbers["excess"], "error": 0.001},
            {**row, "metric": "reliability", "bin": 14, "value": sure, "cases": 30},
        ]
    return Rows(rows)


@pytest.mark.parametrize(
    ("claim", "change"),
    [(0, {"ece_gaussian": 0.03}), (1, {"excess": 0.0019}), (2, {"sure_plain": 1.0})],
)
def test_rules_hold_and_fail(claim: int, change: dict[str, float]) -> None:
    assert said(CLAIMS[claim].judge(made_up())) == "agrees"
    assert said(CLAIMS[claim].judge(made_up(**change))) == "fails"


@pytest.mark.parametrize("claim", [0, 2])
def test_cold_networks_are_shown_and_not_judged(claim: int) -> None:
    bad = {"ece_cold gaussian": 0.5, "ece_cold mixture": 0.5, "sure_cold gaussian": 0.1}
    good = {"ece_cold gaussian": 0.0, "ece_cold mixture": 0.0, "sure_cold gaussian": 1.0}
    fails = {"ece_gaussian": 0.03, "sure_gaussian": 0.5}
    found = CLAIMS[claim].judge(made_up(**bad))
    assert said(found) == "agrees"
    assert "cold Bayes, Gaussian prior" in found.ours
    assert said(CLAIMS[claim].judge(made_up(**good, **fails))) == "fails"


def test_all_networks_below_the_plain_one_are_named() -> None:
    high = ("mixture", "slow gaussian", "cold gaussian", "authors gaussian")
    found = CLAIMS[0].judge(made_up(**{f"ece_{method}": 0.021 for method in high}))
    assert found.ours.endswith(": Bayes, Gaussian prior; cold Bayes, mixture prior")
    none = CLAIMS[0].judge(made_up(**{f"ece_{method}": 0.02 for method, _ in BAYESIAN}))
    assert none.ours.endswith(": none")
