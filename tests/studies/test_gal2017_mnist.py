"""gal2017/mnist: the networks, the sweeps, the numbers against scikit-learn, rules that fail."""

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from sklearn import metrics as reference
from torch import nn

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli
from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Piece, Seed
from dubio_studies.gal2017.mnist.claims import CLAIMS
from dubio_studies.gal2017.mnist.computation import (
    Config,
    Method,
    judged,
    network,
    pieces,
    run,
)
from dubio_studies.gal2017.mnist.page import PAGE, learned
from dubio_studies.gal2017.mnist.training import annealing, loss, rates, train
from dubio_studies.mnist.images import CLASSES, PIXELS, Scaled, Source, load
from verdicts import said

TINY = Config(
    source="digits",
    restarts=1,
    sizes=(60, 200),
    widths=(4, 8),
    width=4,
    length_scales=(1e-2, 1.0),
    starts=(0.1, 0.5),
    steps=8,
    batch_size=50,
    test_images=60,
    draws=3,
)
SEED = Seed(own=1, common=2, given=0)
PIECE: Piece = {
    "method": "concrete",
    "size": 60,
    "width": 4,
    "length_scale": 0.01,
    "start": 0.5,
    "twice": None,
    "restart": 1,
}


@pytest.mark.parametrize(
    ("method", "kind"), [("concrete", Concrete), ("bernoulli", LearnableBernoulli)]
)
def test_networks_are_the_papers(method: Method, kind: type[nn.Module]) -> None:
    made = network(method, 16, length_scale=0.01, start=0.3)
    layers = [module for module in made.modules() if isinstance(module, dubio.Masked)]
    assert [type(layer.mask) for layer in layers] == [kind] * 4
    assert all(float(layer.mask.drop) == pytest.approx(0.3) for layer in layers)
    inputs = [PIXELS, 16, 16, 16]
    for layer, count in zip(layers, inputs, strict=True):
        assert layer.length_scale == pytest.approx(0.01 * math.sqrt(count))
    assert made(torch.zeros(2, 28, 28, dtype=torch.uint8)).shape == (2, CLASSES)
    assert sum(isinstance(module, nn.ReLU) for module in made.modules()) == 3


def test_rates_by_hand() -> None:
    masks = [m for m in network("mc", 8, 0.01, None).modules() if isinstance(m, Bernoulli)]
    assert [round(float(mask.drop), 6) for mask in masks] == [0.2, 0.5, 0.5, 0.5]


def test_a_network_of_several_sweeps_is_one_piece() -> None:
    config = dataclasses.replace(TINY, restarts=2)
    made = pieces(config)
    assert len({tuple(piece.items()) for piece in made}) == len(made)
    by_method = Counter(piece["method"] for piece in made)
    # 2 widths, 1 further size and 1 further length scale, each from 2 starts; twice; 4 checks
    assert by_method == {"concrete": 24, "bernoulli": 16, "mc": 4}
    checked = {(p["size"], p["width"], p["twice"]) for p in made if p["twice"] is not None}
    assert checked == {(s, w, c) for s, w in ((200, 8), (60, 4)) for c in ("annealed", "direct")}
    lonely = [piece for piece in made if piece["length_scale"] == 1.0]
    assert {piece["start"] for piece in lonely} == {0.1, 0.5}
    assert {(piece["size"], piece["width"]) for piece in lonely} == {(200, 4)}


def test_numbers_are_those_of_scikit_learn() -> None:
    torch.manual_seed(0)
    digits = load("digits", 10, 600, seed=0)  # fewer than that, and no multiple of a batch
    plain = nn.Linear(PIXELS, CLASSES)
    silent = dubio.Masked(plain, Bernoulli(drop=1e-7))
    made = nn.Sequential(Scaled(), nn.Flatten(), silent)
    rows = Rows(list(judged(made, digits, draws=2)))
    with torch.no_grad():
        probabilities = plain(Scaled()(digits.test).flatten(1)).double().softmax(-1).numpy()
    labels = digits.test_labels.numpy()
    nll = reference.log_loss(labels, probabilities, labels=range(10))
    assert rows.value(metric="log-likelihood") == pytest.approx(-nll, rel=1e-4)
    hits = reference.accuracy_score(labels, probabilities.argmax(-1))
    assert rows.value(metric="accuracy") == pytest.approx(hits)
    assert rows.row(metric="accuracy")["cases"] == len(labels) == 450


def test_few_images_have_as_many_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps: list[int] = []
    forward = dubio.ELBO.forward

    def counted(self: dubio.ELBO, *batch: Any) -> torch.Tensor:
        steps[-1] += 1
        return forward(self, *batch)

    monkeypatch.setattr(dubio.ELBO, "forward", counted)
    for size in TINY.sizes:
        steps.append(0)
        rows = Rows(list(run(TINY, {**PIECE, "size": size}, SEED)))
        moved = [abs(value - 0.5) for value in rows.where(metric="drop").values()]
        assert len(moved) == 4
        assert all(1e-6 < far < 0.06 for far in moved)  # at most 8 steps of 3e-2 in the logit
    assert steps == [8, 8]


def test_networks_of_one_kind_differ_in_the_initial_rate_alone() -> None:
    def outcome(start: float, own: int) -> list[Any]:
        return list(run(TINY, {**PIECE, "start": start}, Seed(own, 2, 0)))

    assert outcome(0.5, own=1) == outcome(0.5, own=3)
    assert outcome(0.5, own=1) != outcome(0.1, own=1)


def test_a_check_trains_twice() -> None:
    once = Rows(list(run(TINY, PIECE, SEED)))
    for check in ("annealed", "direct"):  # with so few images the KL has no larger weight
        rows = Rows(list(run(TINY, {**PIECE, "twice": check}, SEED)))
        first, second = (rows.where(metric="drop", training=k).values() for k in (1, 2))
        assert first == once.where(metric="drop").values()
        assert all(one != other for one, other in zip(first, second, strict=True))
        assert len(rows.where(metric="loss")) == 2


@pytest.mark.parametrize(
    ("share", "size", "weight"),
    [(0.0, 100, 1), (0.0, 1_000, 1), (0.0, 50_000, 50), (0.15, 16_000, 4), (0.3, 50_000, 1)],
)
def test_the_kl_first_weighs_as_with_few_images(share: float, size: int, weight: float) -> None:
    assert annealing(share, size) == pytest.approx(weight)
    assert annealing(0.9, size) == 1.0


def test_drift_is_that_of_the_last_fifth() -> None:
    digits = load("digits", 60, 1, seed=0)

    def trained(steps: int) -> tuple[list[float], list[float]]:
        torch.manual_seed(0)
        made = network("concrete", 4, 0.01, 0.3)
        before = train(
            made, digits, steps=steps, batch_size=20, learning_rate=1e-3, drop_learning_rate=1e-2
        )
        return before, rates(made)

    before, after = trained(steps=10)
    # learning rates fall as (1 − share)², so the last two of ten steps have these shares of Adam's
    # first one: no logit moves further
    for one, other in zip(before, after, strict=True):
        assert 0 < abs(math.log(one / (1 - one)) - math.log(other / (1 - other))) < 2 * 1e-2 * 0.05


def test_the_loss_is_the_negative_elbo() -> None:
    torch.manual_seed(0)
    digits = load("digits", 1_100, 1, seed=0)  # no multiple of what is looked at at a time
    plain = nn.Linear(PIXELS, CLASSES)
    silent = dubio.Masked(plain, Concrete(drop=1e-6), length_scale=0.5)
    made = nn.Sequential(Scaled(), nn.Flatten(), silent)
    with torch.no_grad():
        logits = plain(Scaled()(digits.train).flatten(1))
    nll = float(nn.functional.cross_entropy(logits, digits.train_labels))
    decay = 0.5**2 * float(plain.weight.detach().square().sum()) / 2 / 1_100
    entropy = PIXELS * stats.bernoulli(1e-6).entropy() / 1_100
    assert loss(made, digits, draws=2) == pytest.approx(nll + decay - entropy, rel=1e-3)


@pytest.fixture(scope="module")
def made_up() -> list[dict[str, Any]]:
    """Rows in which all claims hold."""
    rows: list[dict[str, Any]] = []
    config = dataclasses.replace(TINY, sizes=(100, 1000), widths=(64, 512), width=64)
    for piece in pieces(config):
        level = 0.2 * (1 + (piece["size"] == 100) + (piece["width"] == 512))
        drops = [0.01 * (1 + (piece["size"] == 100)), 0.04, level, level]
        for training in (None,) if piece["twice"] is None else (1, 2):
            again = {**piece} if training is None else {**piece, "training": training}
            rows += [
                {**again, "metric": "drop", "layer": k, "value": d} for k, d in enumerate(drops)
            ]
            if training is not None:
                value = -0.05 if piece["twice"] == "annealed" else -0.03
                rows.append({**again, "metric": "loss", "value": value})
        if piece["twice"] is not None:
            continue
        rows += [{**piece, "metric": "drift", "layer": k, "value": -0.01} for k in range(4)]
        rows += [
            {**piece, "metric": metric, "value": value, "cases": 100}
            for metric, value in {"accuracy": 0.986, "log-likelihood": -0.05}.items()
        ]
    return rows


@pytest.mark.parametrize(
    ("where", "value", "failing"),
    [
        ({}, None, set()),
        ({"metric": "accuracy", "method": "mc"}, 0.99, {1}),
        ({"metric": "accuracy", "method": "concrete"}, 0.98, {0, 1}),
        ({"metric": "drop", "size": 100}, 0.0, {2}),
        ({"metric": "drop", "layer": 1, "width": 512, "method": "bernoulli"}, 0.3, {3}),
        ({"metric": "drop", "layer": 0, "width": 512}, 0.06, {3, 4}),
        ({"metric": "drop", "width": 512, "method": "concrete"}, 0.01, {3, 5}),
        ({"metric": "log-likelihood", "length_scale": 1.0}, -0.03, {6}),
        ({"metric": "drop", "layer": 3, "size": 100, "start": 0.1, "twice": None}, 0.46, {7}),
        ({"metric": "drift", "layer": 2, "size": 100, "method": "bernoulli"}, -0.02, {7}),
        ({"metric": "drop", "layer": 2, "twice": "annealed", "training": 2, "size": 100}, 0.3, {7}),
        ({"metric": "drop", "twice": "direct", "training": 2}, 0.6, set()),
        ({"metric": "loss", "twice": "direct", "training": 2, "size": 100}, -0.06, {8}),
        ({"metric": "loss", "twice": "annealed", "training": 1, "size": 1000}, -0.02, {8}),
    ],
)
def test_rules_can_fail(
    made_up: list[dict[str, Any]], where: dict[str, Any], value: float | None, failing: set[int]
) -> None:
    changed = [
        {**row, "value": value}
        if value is not None and all(row.get(name) == v for name, v in where.items())
        else row
        for row in made_up
    ]
    verdicts = [said(claim.judge(Rows(changed))) for claim in CLAIMS]
    assert {k for k, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_better_than_published(made_up: list[dict[str, Any]]) -> None:
    rows = Rows([{**r, "value": 0.989} if r["metric"] == "accuracy" else r for r in made_up])
    assert said(CLAIMS[0].judge(rows)) == "beyond"


@pytest.mark.parametrize(
    ("claim", "by", "ends", "layers", "verdict"),
    [
        (5, "width", {64: (0.0006, 0.0015), 512: (0.0014, 0.0055)}, (1, 2, 3), "fails"),
        (5, "width", {64: (0.0006, 0.0015), 512: (0.0046, 0.0055)}, (1, 2, 3), "agrees"),
        (2, "size", {100: (0.0014, 0.0055), 1000: (0.0006, 0.0015)}, (0, 1, 2, 3), "fails"),
        (2, "size", {100: (0.0046, 0.0055), 1000: (0.0006, 0.0015)}, (0, 1, 2, 3), "agrees"),
    ],
)
def test_a_trend_is_more_than_the_gap_between_starts(
    made_up: list[dict[str, Any]],
    claim: int,
    by: str,
    ends: dict[int, tuple[float, float]],
    layers: tuple[int, ...],
    verdict: str,
) -> None:
    rows = [
        {**row, "value": ends[row[by]][TINY.starts.index(row["start"])]}
        if row.get("layer") in layers and row["start"] is not None
        else row
        for row in made_up
    ]
    finding = CLAIMS[claim].judge(Rows(rows))
    assert said(finding) == verdict
    assert f"starts up to {0.0041 if verdict == 'fails' else 0.0009:.4f} apart" in finding.ours


def test_rates_by_hand_are_not_called_tuned(made_up: list[dict[str, Any]]) -> None:
    level = CLAIMS[1].judge(Rows(made_up)).ours
    assert "fixed rates, not tuned" in level
    assert "too high" not in level
    mc = {"metric": "accuracy", "method": "mc"}
    weak = [{**r, "value": 0.96} if mc.items() <= r.items() else r for r in made_up]
    assert "too high for 512 units; this does not show" in CLAIMS[1].judge(Rows(weak)).ours


def test_best_of_how_many_length_scales(made_up: list[dict[str, Any]]) -> None:
    assert "2 length scales were compared" in CLAIMS[6].judge(Rows(made_up)).ours


def test_a_length_scale_without_learning_is_not_drawn(made_up: list[dict[str, Any]]) -> None:
    lost = {"metric": "accuracy", "length_scale": 1.0}
    rows = [{**r, "value": 0.11} if lost.items() <= r.items() else r for r in made_up]
    assert learned(Rows(made_up)).distinct("length_scale") == [0.01, 1.0]
    assert learned(Rows(rows)).distinct("length_scale") == [0.01]


def test_accuracies_have_the_error_of_a_binomial(made_up: list[dict[str, Any]]) -> None:
    table = PAGE.exhibits(Rows(made_up))[0]
    assert isinstance(table, Table)
    error = stats.binom(100, 0.986).std() / 100
    assert {line[1] for line in table.rows} == {f"98.60% ± {error:.2%}"}
    assert "Concrete 2, learnable Bernoulli 2, MC dropout, fixed rates 1" in table.note
    assert [line[2] for line in table.rows] == ["98.6%", "–", "–"]


def test_minus_signs_are_no_hyphens(made_up: list[dict[str, Any]]) -> None:
    rows = Rows(made_up)
    shown = [claim.judge(rows).ours for claim in CLAIMS]
    for exhibit in PAGE.exhibits(rows):
        if isinstance(exhibit, Table):
            shown += [cell for line in exhibit.rows for cell in line]
        else:
            figure = exhibit.draw(exhibit.wide)
            figure.draw_without_rendering()
            shown += [t.get_text() for axes in figure.axes for t in axes.get_yticklabels()]
    assert any("−0.05" in text for text in shown)
    assert not [text for text in shown if "-" in text]


def test_exhibits_show_all_rows(made_up: list[dict[str, Any]]) -> None:
    for exhibit in PAGE.exhibits(Rows(made_up)):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.wide)
            assert exhibit.draw(exhibit.narrow)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"draws": 0},
        {"sizes": (10,)},
        {"sizes": (10, 10)},
        {"sizes": (0, 10)},
        {"widths": (8, 4)},
        {"starts": (0.0, 0.5)},
        {"starts": (0.1,)},
        {"starts": (0.1, 0.1)},
        {"starts": (0.5, 0.1)},
        {"starts": (0.1, math.nan)},
        {"length_scale": 0.0},
        {"length_scale": math.inf},
        {"length_scales": (0.0,)},
        {"length_scales": (1.0, math.nan)},
        {"length_scales": (TINY.length_scale,)},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"drop_learning_rate": -1.0},
    ],
)
def test_what_cannot_be_computed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected .*, got "):
        dataclasses.replace(TINY, **wrong)


def test_a_wrong_number_is_named() -> None:
    with pytest.raises(ValueError, match=r"^learning_rate: expected a positive number, got -1\.$"):
        dataclasses.replace(TINY, learning_rate=-1.0)


@pytest.mark.parametrize(
    ("source", "train", "test"), [("digits", 1_347, 450), ("mnist", 60_000, 10_000)]
)
def test_more_images_than_there_are_are_refused(source: Source, train: int, test: int) -> None:
    all_images = dataclasses.replace(TINY, source=source, sizes=(10, train), test_images=test)
    with pytest.raises(ValueError, match=f"^sizes: .* {train:,}, .* {source}, got .*; ask for few"):
        dataclasses.replace(all_images, sizes=(10, train + 1))
    with pytest.raises(ValueError, match=f"^test_images: .* {test:,}, .* {source}, got .*; ask"):
        dataclasses.replace(all_images, test_images=test + 1)
