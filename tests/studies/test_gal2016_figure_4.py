"""gal2016/figure-4: rotations and doubts against other code, the networks, rules that fail."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage, special, stats
from torch import nn

import dubio
from dubio.likelihoods import Categorical
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, Mask
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.gal2016.figure_4.claims import CLAIMS, NAMES, PUBLISHED, SHOWN
from dubio_studies.gal2016.figure_4.computation import (
    ONES,
    Config,
    described,
    pieces,
    run,
    scattered,
)
from dubio_studies.gal2016.figure_4.lenet import Noise, lenet
from dubio_studies.gal2016.figure_4.page import PAGE
from dubio_studies.gal2016.figure_4.rotation import turned, turned_digit
from dubio_studies.mnist.images import load
from verdicts import said

TINY = Config(source="digits", images=60, test_images=60, epochs=1, members=2, draws=4, number=0)
SEED = Seed(own=1, common=2, given=0)
DRAWN: dict[str, Any] = {
    "drop": 0.5, "drop_channels": 0.2, "prior_sigma": 0.1, "deviation": 0.02,
}  # fmt: skip


def test_quarter_turns_are_exact() -> None:
    image = torch.randint(256, (28, 28), dtype=torch.uint8, generator=torch.manual_seed(0))
    for k, copy in enumerate(turned(image, 90.0)):
        assert torch.equal(copy, torch.rot90(image, k))


def test_other_turns_are_those_of_scipy() -> None:
    image = np.zeros((28, 28))
    image[6:22, 11:16] = np.random.default_rng(0).integers(256, size=(16, 5))
    copies = turned(torch.from_numpy(image).byte(), 25.0)
    for k, copy in enumerate(copies):
        expected = ndimage.rotate(image, 25.0 * k, reshape=False, order=1)
        assert np.abs(copy.numpy() - expected).max() <= 0.5 + 1e-6  # rounded to bytes


def test_the_digit_is_a_one() -> None:
    digits = load("digits", 10, 100, seed=0)
    ones = digits.test[digits.test_labels == 1]
    assert torch.equal(turned_digit(digits, 2, 10.0)[0], ones[2])
    with pytest.raises(ValueError, match="raise test_images"):
        turned_digit(digits, len(ones), 10.0)


@pytest.mark.parametrize(
    ("noise", "kind", "drops"),
    [
        ("mc", Bernoulli, [0.5]),
        ("mc-all", Bernoulli, [0.2, 0.2, 0.5]),
        ("concrete", Concrete, [0.1] * 3),
        ("bernoulli", LearnableBernoulli, [0.1] * 3),
        ("bayes", Mask, []),
        ("plain", Mask, []),
    ],
)
def test_networks_have_the_noise_of_their_method(
    noise: Noise, kind: type[Mask], drops: list[float]
) -> None:
    made = lenet(noise, **DRAWN)
    masks = [module for module in made.modules() if isinstance(module, Mask)]
    assert [float(mask.drop) for mask in masks] == pytest.approx(drops)
    assert all(isinstance(mask, kind) for mask in masks)
    bayesian = sum(isinstance(module, dubio.Bayesian) for module in made.modules())
    assert bayesian == (4 if noise == "bayes" else 0)
    shapes = [
        tuple(module.weight.shape)
        for module in made.modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    ]
    assert shapes == [(20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500)]
    assert sum(isinstance(module, nn.ReLU) for module in made.modules()) == 1
    if noise == "mc":
        last = made[-1]
        assert isinstance(last, dubio.Masked)
        assert last.mask is masks[0]


def test_doubts_are_those_of_scipy() -> None:
    torch.manual_seed(0)
    outputs = 2 * torch.randn(9, 3, 10)
    predictive = Predictive(Categorical(), StoredDraws(outputs))
    each = special.softmax(outputs.double().numpy(), -1)
    mean = each.mean(0)
    for image in range(3):
        rows = Rows(list(described(predictive, image)))
        entropy = stats.entropy(mean[image])
        information = entropy - stats.entropy(each[:, image], axis=-1).mean()
        mode = stats.mode(each[:, image].argmax(-1))
        assert rows.value(metric="class") == mean[image].argmax()
        assert rows.value(metric="entropy") == pytest.approx(entropy, rel=1e-5)
        assert rows.value(metric="mutual information") == pytest.approx(information, rel=1e-4)
        assert rows.value(metric="variation ratio") == pytest.approx(1 - mode.count / 9)
        for shown in SHOWN:
            row = rows.row(metric="probability", shown=shown)
            assert row["value"] == pytest.approx(mean[image, shown], rel=1e-5)
            ends = np.quantile(each[:, image, shown], [0.1, 0.9])
            assert [row["low"], row["high"]] == pytest.approx(ends.tolist(), rel=1e-4)
    for row in scattered(predictive):
        own = outputs[int(row["draw"]) - 1, int(row["image"]) - 1]  # type: ignore[arg-type]
        assert row["value"] == int(own.argmax())
        for shown in SHOWN:
            assert row[f"input {shown}"] == pytest.approx(float(own[shown]), abs=1e-4)
            assert row[f"output {shown}"] == pytest.approx(float(own.softmax(-1)[shown]), abs=1e-5)


def test_a_run_without_data_sets_has_everything() -> None:
    found: list[dict[str, Any]] = []
    for piece in pieces(TINY):
        torch.manual_seed(0)
        found += [{**piece, **row} for row in run(TINY, piece, SEED)]
    rows = Rows(found)
    for method in NAMES:
        assert len(rows.where(method=method, metric="class")) == len(PUBLISHED)
    assert len(rows.where(metric="draw")) == TINY.draws * len(PUBLISHED)
    assert rows.where(metric="draw").distinct("method") == ["mc"]
    assert len(rows.where(method="ensemble", metric="test error")) == TINY.members
    assert set(rows.where(metric="mutual information", method="plain").values()) == {0.0}
    for method in ("concrete", "bernoulli"):
        assert len(rows.where(method=method, metric="drop")) == 3
    for claim in CLAIMS:
        assert claim.judge(rows).ours
    here = [
        {"metric": "pixels", "image": k, "number": 0, "degrees": TINY.step * (k - 1),
         "value": "7f" * 28 * 28}
        for k in range(1, 13)
    ]  # fmt: skip
    elsewhere = [{**row, "number": 1} for row in here]
    for backdrop, images in ((here, 24), (elsewhere, 0), ([], 0)):
        shown = PAGE.exhibits(Rows([*rows, *backdrop]))
        figure = next(e for e in shown if isinstance(e, Plot) and e.name == "scatter")
        assert sum(len(axes.images) for axes in figure.draw(figure.wide).axes) == images
    for exhibit in PAGE.exhibits(rows):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.wide)
            assert exhibit.draw(exhibit.narrow)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}

    table = next(e for e in PAGE.exhibits(rows) if isinstance(e, Table))
    for line, method in zip(table.rows[1:], NAMES, strict=True):
        wrong = np.mean(rows.where(method=method, metric="test error").values())
        error = stats.binom(TINY.test_images, wrong).std() / TINY.test_images
        assert line[-1] == f"{100 * wrong:.1f} ± {100 * error:.1f}"
    for text in ("Each method has one network, the ensemble 2.", "first 60 test images", "± is"):
        assert text in table.note
    backwards = Rows([{**r, "degrees": -r["degrees"]} if "degrees" in r else r for r in rows])
    for exhibit in PAGE.exhibits(backwards):
        if isinstance(exhibit, Plot):
            drawn = exhibit.draw(exhibit.wide)
            drawn.draw_without_rendering()
            ticks = [t.get_text() for axes in drawn.axes for t in axes.get_xticklabels()]
            assert {"0°", "−18°"} <= set(ticks)
            assert not [text for text in [exhibit.note, *ticks] if "-" in text]


def made_up(change: dict[tuple[str, int], float]) -> Rows:
    """Rows in which all claims hold, but for values by metric and image."""
    rows: list[dict[str, Any]] = []
    for image, taken in enumerate(PUBLISHED, start=1):
        middle = image in (6, 7)
        for method in NAMES:
            values = {"class": taken, "variation ratio": 0.3 * middle}
            values["mutual information"] = 0.1 + 0.1 * middle
            rows += [
                {"method": method, "metric": metric, "image": image,
                 "value": change.get((metric, image), value)}
                for metric, value in values.items()
            ]  # fmt: skip
        for draw in range(5):
            spread = change.get(("spread", image), 3.0 if middle else 0.1)
            inputs = {k: 4.0 * (k == taken) + spread * (draw - 2) * (k == taken) for k in SHOWN}
            outputs = special.softmax(list(inputs.values()))
            rows.append(
                {"method": "mc", "metric": "draw", "image": image, "draw": draw,
                 **{f"input {k}": v for k, v in inputs.items()},
                 **{f"output {k}": v for k, v in zip(SHOWN, outputs, strict=True)}}
            )  # fmt: skip
    return Rows(rows)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({("class", 6): 3, ("class", 7): 3, ("class", 8): 3}, set()),
        ({("class", 6): 3, ("class", 7): 3, ("class", 8): 3, ("class", 9): 3}, {0}),
        ({("class", 12): 1}, {0}),
        ({("spread", 1): 3.0}, {1}),
        ({("spread", 6): 0.1}, {2}),
        ({("variation ratio", 1): 0.5}, {3}),
        ({("mutual information", 1): 0.3}, {4}),
    ],
)
def test_rules_can_fail(change: dict[tuple[str, int], float], failing: set[int]) -> None:
    verdicts = [said(claim.judge(made_up(change))) for claim in CLAIMS]
    assert {k for k, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_minus_signs_are_no_hyphens() -> None:
    finding = CLAIMS[1].judge(made_up({("spread", 1): 3.0}))
    assert "from −2.0 to 10.0" in finding.ours


@pytest.mark.parametrize(
    "wrong",
    [
        {"draws": 1},
        {"members": 1},
        {"epochs": 0},
        {"images": 1_348},
        {"test_images": 451},
        {"number": -1},
        {"number": 99},
        {"step": 0.0},
        {"step": math.nan},
        {"drop": 1.0},
        {"drop": math.nan},
        {"drop_channels": 0.0},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"drop_learning_rate": -1.0},
        {"prior_sigma": 0.0},
        {"deviation": math.inf},
    ],
)
def test_what_cannot_be_computed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected .*, got "):
        dataclasses.replace(TINY, **wrong)


def test_the_last_digit_1_can_turn() -> None:
    digits = load("digits", 10**9, 10**9, seed=0)
    assert int((digits.test_labels == 1).sum()) == ONES["digits"]
    last = dataclasses.replace(TINY, test_images=450, number=45)
    assert len(turned_digit(digits, last.number, last.step)) == len(PUBLISHED)
