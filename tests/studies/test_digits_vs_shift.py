"""Digits against shift: numbers against scikit-learn, the noise of methods, rules that fail."""

import dataclasses
from typing import Any, get_args

import pytest
import torch
from scipy import stats
from sklearn import metrics as reference
from torch import nn
from torch.nn import functional as F

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, Mask
from dubio.report.exhibits import Plot
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.uncertainty.digits_vs_shift import computation
from dubio_studies.uncertainty.digits_vs_shift.claims import CLAIMS, NAMES
from dubio_studies.uncertainty.digits_vs_shift.computation import (
    Config,
    Method,
    Predictor,
    judged,
    network,
    pieces,
    run,
)
from dubio_studies.uncertainty.digits_vs_shift.images import load
from dubio_studies.uncertainty.digits_vs_shift.page import PAGE
from verdicts import said

TINY = Config(
    source="digits", restarts=1, images=300, test_images=120, width=8, epochs=2, draws=3, members=2
)
SEED = Seed(own=1, common=2, given=0)


def rows_of(config: Config) -> Rows:
    return Rows([{**piece, **row} for piece in pieces(config) for row in run(config, piece, SEED)])


@pytest.fixture(scope="module")
def rows() -> Rows:
    torch.manual_seed(0)
    return rows_of(TINY)


def test_numbers_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computation, "BATCH", 50)  # 120 images: the last batch is smaller
    torch.manual_seed(3)
    sets = load("digits", 300, 120, seed=5)
    members = [network(TINY, "plain", 64) for _ in range(3)]
    rows = Rows(list(judged(Predictor("ensemble", members, draws=9), sets)))

    def by_member(images: torch.Tensor) -> torch.Tensor:
        return torch.stack([F.softmax(member(images).double(), -1) for member in members])

    def doubts(images: torch.Tensor) -> dict[str, Any]:
        each = by_member(images).detach().numpy()
        entropy = stats.entropy(each.mean(0), axis=-1)
        return {
            "entropy": entropy,
            "mutual information": entropy - stats.entropy(each, axis=-1).mean(0),
        }

    mean = by_member(sets.test).mean(0).detach().numpy()
    labels = sets.test_labels.numpy()
    hits = mean.argmax(-1) == labels
    assert rows.value(metric="accuracy") == pytest.approx(hits.mean())
    nll = reference.log_loss(labels, mean, labels=range(10))
    assert rows.value(metric="nll") == pytest.approx(nll, rel=1e-5)
    assert rows.value(metric="passes") == 3
    for name, foreign in sets.foreign.items():
        for score, outside in doubts(foreign).items():
            inside = doubts(sets.test)[score]
            truth = [0] * len(inside) + [1] * len(outside)
            expected = reference.roc_auc_score(truth, [*inside, *outside])
            found = rows.value(metric="auroc", foreign=name, score=score)
            assert found == pytest.approx(expected, abs=2e-3)  # float32 makes and breaks ties
    for name in rows.distinct("images"):
        assert sum(rows.where(metric="entropies", images=name).values()) == pytest.approx(1)
    curve = rows.where(metric="risk")
    assert curve[-1]["coverage"] == 1
    assert curve[-1]["value"] == pytest.approx(1 - hits.mean())
    pavgpu = rows.where(metric="pavgpu at").values()
    assert pavgpu[0] == pytest.approx(1 - hits.mean())
    assert pavgpu[-1] == pytest.approx(hits.mean())
    cases = rows.where(metric="reliability").values("cases")
    assert sum(cases) == 120


@pytest.mark.parametrize("method", get_args(Method))
def test_networks_have_the_noise_of_their_method(method: Method) -> None:
    made = network(TINY, method, 64)
    linear = [module for module in made.modules() if isinstance(module, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(64, 8), (8, 8), (8, 10)]
    assert sum(isinstance(module, nn.ReLU) for module in made.modules()) == 2
    masks = [module for module in made.modules() if isinstance(module, Mask)]
    kinds = {"mc": Bernoulli, "concrete": Concrete, "bernoulli": LearnableBernoulli}
    assert [type(mask) for mask in masks] == [kinds[method]] * 3 if method in kinds else not masks
    if method == "mc":
        assert [round(float(mask.drop), 3) for mask in masks] == [0.2, 0.5, 0.5]
    bayesian = sum(isinstance(module, dubio.Bayesian) for module in made.modules())
    assert bayesian == (3 if method == "bayes" else 0)


def test_images_are_disjoint_and_the_same_for_the_same_seed() -> None:
    one, again, other = (load("digits", 2000, 2000, seed) for seed in (1, 1, 2))
    assert len(one.train) + len(one.test) == 1797
    assert torch.equal(one.train, again.train)
    assert not torch.equal(one.train, other.train)
    assert {tuple(row) for row in one.train.tolist()}.isdisjoint(map(tuple, one.test.tolist()))
    for foreign in one.foreign.values():
        assert foreign.shape == one.test.shape
        assert 0 <= float(foreign.min()) <= float(foreign.max()) <= 1


def test_a_run_without_data_sets_has_everything_and_repeats(rows: Rows) -> None:
    assert rows.distinct("method") == list(get_args(Method))
    for claim in CLAIMS:
        assert claim.judge(rows).ours
    for exhibit in PAGE.exhibits(rows):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.wide)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}
    torch.manual_seed(0)
    assert rows_of(TINY).comparable() == rows.comparable()


def made_up(**better: float) -> Rows:
    """Rows in which every method beats the plain network, unless changed by ``method_metric``."""
    made: list[dict[str, Any]] = []
    for method in NAMES:
        gain = 0.0 if method == "plain" else 0.02 if method == "ensemble" else 0.01
        values = {"accuracy": 0.9 + gain, "nll": 0.3 - gain, "ece": 0.05 - gain, "aurc": 0.1 - gain}
        values |= {
            name.removeprefix(f"{method}_"): value
            for name, value in better.items()
            if name.startswith(f"{method}_")
        }
        entropy, information = values.pop("entropy", 0.8 + gain), values.pop("information", 0.9)
        made += [{"method": method, "metric": m, "value": v} for m, v in values.items()]
        row = {"method": method, "metric": "auroc", "foreign": "letters"}
        made.append({**row, "score": "entropy", "value": entropy})
        if method != "plain":
            made.append({**row, "score": "mutual information", "value": information})
    return Rows(made)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"mc_nll": 0.31}, {0}),
        ({"bayes_ece": 0.06}, {1}),
        ({"concrete_aurc": 0.1}, {2}),
        ({"mc_accuracy": 0.896}, set()),
        ({"mc_accuracy": 0.894}, {3}),
        ({"ensemble_entropy": 0.79}, {4}),
        ({"bernoulli_information": 0.7}, {5}),
        ({"bayes_nll": 0.27}, {6}),
    ],
)
def test_rules_can_fail(change: dict[str, float], failing: set[int]) -> None:
    verdicts = [said(claim.judge(made_up(**change))) for claim in CLAIMS]
    assert {k for k, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_what_cannot_be_computed_is_refused() -> None:
    for wrong in ({"draws": 1}, {"members": 1}, {"width": 0}, {"drop_units": 1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataclasses.replace(TINY, **wrong)
