"""Scenes and forks: augmentation, training that resumes, scores by another way, maps as rows."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.scenes import evaluation
from dubio_studies.scenes.augmentation import AugmentedScenes
from dubio_studies.scenes.evaluation import judged, scores
from dubio_studies.scenes.images import CLASSES, VOID, Labelled, load
from dubio_studies.scenes.kinds import drops, with_dropout
from dubio_studies.scenes.likelihood import LIKELIHOOD
from dubio_studies.scenes.maps import LEVELS, SHOWN, STRIDE, map_rows
from dubio_studies.scenes.names import KINDS, Kind
from dubio_studies.scenes.networks import PAPER, SMOKE, Forks
from dubio_studies.scenes.prediction import drawn, passed_once
from dubio_studies.scenes.published_code import PublishedCode, image_iou
from dubio_studies.scenes.reading import (
    CONCRETE,
    MC,
    REGULAR,
    MethodDifference,
    difference,
    reliability,
)
from dubio_studies.scenes.strips import read_strips
from dubio_studies.scenes.training import SceneTraining, optimizer

SEED = Seed(own=1, common=2, given=0)


def test_scenes_of_a_split_are_equally_spaced_and_always_the_same() -> None:
    few, more = load("blocks", "val", 2), load("blocks", "val", 101)
    assert torch.equal(few.images, more.images[[0, 100]])
    assert torch.equal(few.labels, load("blocks", "val", 2).labels)
    assert not torch.equal(few.images, load("blocks", "test", 2).images)
    assert set(more.labels.unique().tolist()) == {*range(len(CLASSES)), VOID}
    with pytest.raises(ValueError, match="val: expected from 1 to 101 scenes, got 102"):
        load("blocks", "val", 102)


def test_augmentation_moves_labels_with_their_pixels() -> None:
    """Images whose pixels show their label still do, but for blends at edges."""
    labels = load("blocks", "train", 6).labels
    images = (labels * 20)[:, None].expand(-1, 3, -1, -1)
    torch.manual_seed(0)
    (batch,) = AugmentedScenes(Labelled(images, labels), 6, light=0.0)
    seen, named = batch
    assert (seen[:, 0] - 20 * named).abs().le(1).double().mean() > 0.75
    assert seen.shape == images.shape
    assert named.max() <= VOID
    assert not torch.equal(named, labels.long())


def test_augmentation_mirrors_half_of_the_scenes_and_nothing_else() -> None:
    scenes = load("blocks", "train", 64)
    torch.manual_seed(1)
    pairs = list(AugmentedScenes(scenes, 5, zoom=1.0, light=0.0))
    assert [len(seen) for seen, _ in pairs] == [5] * 12 + [4]
    seen = torch.cat([own for own, _ in pairs])
    named = torch.cat([own for _, own in pairs])
    mirrored = 0
    for image, labels in zip(seen, named, strict=True):
        flipped = image.flip(-1)
        plain = [(scenes.images - own).abs().amax((1, 2, 3)).min() for own in (image, flipped)]
        assert min(plain) < 1e-2
        place = (scenes.images - (image if plain[0] < plain[1] else flipped)).abs().amax((1, 2, 3))
        own = labels if plain[0] < plain[1] else labels.flip(-1)
        assert torch.equal(own, scenes.labels[place.argmin()].long())
        mirrored += int(plain[1] < plain[0])
    assert 12 <= mirrored <= 52  # outside with a probability of 3e-7 by Bin(64, 1/2)


def test_augmentation_changes_light_within_bounds() -> None:
    scenes = Labelled(torch.full((40, 3, 8, 8), 100).byte(), torch.zeros(40, 8, 8).byte())
    ((seen, _),) = AugmentedScenes(scenes, 40, light=0.3)
    assert 70 <= seen.min() <= seen.max() <= 130
    assert seen.amax((1, 2, 3)).unique().numel() == 40
    with pytest.raises(ValueError, match="zoom, light: expected at least 1"):
        AugmentedScenes(scenes, 4, zoom=0.5)


def tiny(**changes: Any) -> Forks:
    return Forks(**{**SMOKE, **changes})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_kinds_differ_in_their_masks_alone(kind: Kind) -> None:
    torch.manual_seed(0)
    net = with_dropout(tiny().built(), kind, 0.3, 0.6)
    assert [round(float(drop), 6) for drop in drops(net)] == [0.3] * 15
    learned = sum(p.numel() for name, p in net.named_parameters() if name.endswith("logit"))
    assert learned == (0 if kind == "fixed" else 15)
    elbo = dubio.ELBO(net.train(), LIKELIHOOD, num_data=2)
    scenes = load("blocks", "train", 2)
    elbo(scenes.images, scenes.labels).backward()
    logits = [p for name, p in net.named_parameters() if name.endswith("logit")]
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in logits)


def test_rates_have_a_pace_of_their_own_and_no_decay() -> None:
    torch.manual_seed(0)
    net = with_dropout(tiny().built(), "concrete", 0.3, 0.6)
    elbo = dubio.ELBO(net, LIKELIHOOD, num_data=2)
    parameters = list(elbo.parameters())
    training = SceneTraining(1, 2, 1e-3, trunk_share=0.1, drop_learning_rate=0.05)
    made = optimizer(training, elbo, parameters)
    rest, trunk, logits = made.param_groups
    assert [group["lr"] for group in (rest, trunk, logits)] == [1e-3, 1e-4, 0.05]
    assert logits["weight_decay"] == 0 < rest["weight_decay"]
    assert len(logits["params"]) == 15
    assert sum(len(group["params"]) for group in made.param_groups) == len(parameters)


def test_a_fork_keeps_the_trunk_and_is_made_once() -> None:
    config = tiny()
    first = config.first(0).network.state_dict()
    fork = config.fork("fixed", 1, 0)
    own = fork.network.state_dict()
    assert all(torch.equal(own[k], v) for k, v in first.items() if k.startswith("trunk."))
    moved = "up.0.layers.0.2.weight"
    assert not torch.equal(own[moved], first[moved])
    assert fork.rates.shape == (2, 15)
    assert not fork.network.training
    again = config.fork("fixed", 1, 0).network.state_dict()
    assert all(torch.equal(own[k], again[k]) for k in own)
    piece = {"kind": "fixed", "restart": 1}
    assert config.key(piece, SEED) != config.key({**piece, "restart": 2}, SEED)
    assert config.key(piece, SEED) != config.key({**piece, "drop": 0.3}, SEED)
    assert config.key(piece, SEED) == config.key({**piece, "drop": config.drop}, SEED)
    for same in ({"draws": 7}, {"test_images": 1}, {"estimator": "disarm"}):
        assert config.key(piece, SEED) == tiny(**same).key(piece, SEED)
    for other in ({"first_epochs": 2}, {"length_scale": 1.0}, {"images": 5}):
        assert config.key(piece, SEED) != tiny(**other).key(piece, SEED)


def test_rates_are_noted_before_every_step_and_at_the_end() -> None:
    fork = tiny(fork_epochs=2, drop_learning_rate=0.5).fork("bernoulli", 1, 0)
    assert fork.rates.shape == (3, 15)
    assert torch.allclose(fork.rates[0], torch.tensor(0.2))
    assert (fork.rates[1] - fork.rates[0]).abs().min() > 0
    found = torch.stack(drops(fork.network)).flatten()
    assert torch.equal(fork.rates[-1], found)


def test_the_published_network_takes_a_step_and_predicts() -> None:
    """FC-DenseNet-103 from nothing, by RMSProp; forks have no common start. It sees bytes."""
    settings = {**PAPER, "source": "blocks", "images": 2, "fork_epochs": 1, "estimator": "disarm"}
    config = Forks(**settings)
    fork = config.fork("bernoulli", 1, 0)
    images = config.scenes("train").images[:1]
    network = fork.network
    assert isinstance(network, nn.Sequential)
    assert network[0](torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [-1.0, 1.0]
    for predict in (passed_once(network), drawn(network, 2, torch.Generator().manual_seed(0))):
        probabilities, _ = predict(images)
        assert probabilities.shape == (1, len(CLASSES), *images.shape[-2:])
    assert fork.rates.shape == (2, 15)
    assert bool(fork.rates.isfinite().all())
    assert not torch.equal(fork.rates[0], fork.rates[1])


def test_settings_that_cannot_be_computed_are_refused() -> None:
    for name, value, text in (
        ("test_images", 234, "test_images: expected at most 233, got 234"),
        ("images", 0, "images: expected at least 1, got 0"),
        ("draws", 1, "draws: expected at least 2, got 1"),
        ("drop", 1.0, "drop: expected a rate"),
        ("drop_learning_rate", 0.0, "drop_learning_rate: expected a positive number"),
    ):
        with pytest.raises(ValueError, match=text):
            tiny(**{name: value})


def scores_of(rows: list[Any], metric: str, **fields: Any) -> list[float]:
    return Rows(rows).where(metric=metric, **fields).values()


def random_prediction(seed: int, height: int = 10, width: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, len(CLASSES), height, width, generator=generator)
    labels = torch.randint(len(CLASSES) + 1, (6, height, width), generator=generator)
    known = torch.rand(labels.shape, generator=generator) < 0.6
    return logits.softmax(1), logits.argmax(1).where(known, labels)


def test_scores_are_those_of_the_functions_on_all_scenes_at_once() -> None:
    """Batches of four against everything in one call; bounds are those of validation scenes."""
    probabilities, labels = random_prediction(0)
    images = torch.arange(6).reshape(6, 1, 1, 1).expand(6, 3, 10, 9).byte()
    scenes = Labelled(images, labels)
    validation = Labelled(images[:2], labels[:2])
    rows = list(scores(lambda x: (probabilities[x[:, 0, 0, 0].long()], None), validation, scenes))
    options: dict[str, Any] = {"void": VOID}
    expected = {
        "accuracy": metrics.global_accuracy(probabilities, labels, 11, **options),
        "mean IoU": metrics.mean_iou(probabilities, labels, 11, **options),
        "nll": metrics.nll(probabilities, labels, **options),
        "error AUROC": metrics.error_detection(probabilities, labels, **options).auroc,
        "ECE": metrics.ece(probabilities, labels, bins=15, **options),
    }
    for name, value in expected.items():
        assert scores_of(rows, name) == [pytest.approx(float(value))]
    entropies = metrics.pavgpu(probabilities[:2], labels[:2], points=2, window=2, **options)
    low, high = entropies.threshold.tolist()
    curve = metrics.pavgpu(probabilities, labels, bounds=(low, high), window=2, **options)
    assert scores_of(rows, "mean PAvgPU") == [pytest.approx(float(curve.mean))]
    assert scores_of(rows, "PAvgPU") == pytest.approx(curve.pavgpu[::5].tolist())
    assert scores_of(rows, "IoU", **{"class": "car"}) == pytest.approx(
        [float(metrics.class_iou(probabilities, labels, 11, **options)[CLASSES.index("car")])]
    )
    bins = Rows(rows).where(metric="frequency")
    assert sum(bins.values("cases")) == 11 * int((labels != VOID).sum())
    weights = np.array(bins.values("cases")) / sum(bins.values("cases"))
    gaps = np.array(bins.values("confidence")) - np.array(bins.values())
    weighted = scores_of(rows, "calibration RMSE, weighted")
    assert weighted == [pytest.approx(math.sqrt((weights * gaps**2).sum()))]
    assert not any(row["metric"] in ("predicted", "entropy") for row in rows)  # 6 scenes, 40 is not


def test_the_published_code_by_a_loop() -> None:
    probabilities, labels = random_prediction(1, height=7)
    theirs = PublishedCode(window=2)
    for rows in (slice(0, 4), slice(4, 6)):
        theirs.update(probabilities[rows], labels[rows])
    found = theirs.compute()
    entropy = -(probabilities.double() * probabilities.double().log()).sum(1)
    predicted = probabilities.argmax(1)
    doubts, hits, shares = [], [], []
    for image in range(6):
        for top in (0, 2, 4):  # the seventh row is left out
            known = labels[image, top : top + 2] != VOID
            own = (predicted == labels)[image, top : top + 2][known]
            doubts.append(float(entropy[image, top : top + 2][known].mean()))
            hits.append(bool(own.double().mean() > 0.5))
        each = []
        for label in set(labels[image].unique().tolist()) - {VOID}:
            true, said = labels[image] == label, predicted[image] == label
            each.append(float((true & said).sum()) / float((true | said).sum()))
        shares.append(sum(each) / len(each))
        assert float(image_iou(predicted[image], labels[image])) == pytest.approx(shares[-1])
    low, high = min(doubts), max(doubts)
    values = []
    for k in range(101):
        limit = low + k / 100 * (high - low)
        certain = [doubt <= limit + 1e-12 and k > 0 for doubt in doubts]
        values.append(np.mean([a == b for a, b in zip(certain, hits, strict=True)]))
    mean = np.trapezoid(values, np.linspace(0, 1, 101))
    assert found["mean PAvgPU of bands"] == pytest.approx(float(mean))
    assert found["mean IoU with void in unions"] == pytest.approx(sum(shares) / 6)
    void_counts = metrics.image_iou(probabilities, labels, 11, void=VOID)
    assert found["mean IoU with void in unions"] < float(void_counts)


def test_draws_average_and_inform_while_one_pass_is_the_network() -> None:
    torch.manual_seed(0)
    net = with_dropout(tiny().built(), "fixed", 0.5, 0.6).eval()
    images = load("blocks", "test", 1).images
    once, nothing = passed_once(net)(images)
    with torch.no_grad():
        assert torch.allclose(once, net(images).softmax(1), atol=1e-6)
    assert nothing is None
    (mean, information), (again, _) = (
        drawn(net, 4, torch.Generator().manual_seed(3))(images) for _ in range(2)
    )
    assert torch.equal(mean, again)
    assert information is not None
    assert information.shape == images[:, 0].shape
    assert float(information.min()) > -1e-6
    assert float(information.max()) > 0
    assert not torch.equal(mean, once)


def test_scores_of_a_fork_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config, piece = tiny(draws=2, test_images=1), {"kind": "fixed", "restart": 1}
    rows = judged(config, piece, SEED)
    assert set(Rows(rows).distinct("sampling")) == {"one pass", "draws"}
    assert len(Rows(rows).where(metric="drop")) == 2 * 15

    def never(*_: object) -> None:
        raise AssertionError("it was trained before")

    monkeypatch.setattr(Forks, "of", never)
    assert judged(config, piece, SEED) == rows
    with pytest.raises(AssertionError, match="trained before"):  # other draws are other scores
        judged(dataclasses.replace(config, draws=3), piece, SEED)
    (file,) = (tmp_path / "cache" / "scores").iterdir()
    file.write_text(json.dumps(rows)[:-9])
    with pytest.raises(AssertionError, match="trained before"):  # what is cut off is made anew
        judged(config, piece, SEED)
    monkeypatch.setattr(evaluation, "REVISION", 99)
    with pytest.raises(AssertionError, match="trained before"):
        judged(config, piece, SEED)


def test_maps_come_back_from_their_rows() -> None:
    torch.manual_seed(0)
    probabilities = (4 * torch.randn(11, 20, 31)).softmax(0)
    information = torch.rand(20, 31) * 0.5
    place = SHOWN[0]
    rows = list(map_rows(place, probabilities, information))
    assert list(map_rows(place, probabilities, None)) == rows[:2]
    small = [x[::STRIDE, ::STRIDE] for x in (probabilities.argmax(0), information)]
    height, width = small[0].shape
    shape = {"place": place, "height": height, "width": width}
    truth = torch.arange(height * width).remainder(12)
    backdrop = [
        {"metric": "photograph", **shape, "value": bytes(3 * [128] * height * width).hex()},
        {"metric": "truth", **shape, "value": bytes(truth.tolist()).hex()},
    ]
    (strip,) = read_strips(Rows([*rows, *backdrop]), classes=11)
    assert np.array_equal(strip.predicted, small[0].numpy())
    step = math.log(2) / LEVELS
    assert strip.mutual_information is not None
    assert np.abs(strip.mutual_information - small[1].numpy()).max() <= step / 2 + 1e-6
    entropy = torch.special.entr(probabilities).sum(0)[::STRIDE, ::STRIDE].numpy()
    assert np.abs(strip.entropy - entropy).max() <= math.log(11) / LEVELS / 2 + 1e-6
    assert np.array_equal(strip.known, truth.reshape(height, width).numpy() != VOID)
    assert strip.image.shape == (height, width, 3)
    assert read_strips(Rows(rows), classes=11) == []  # no photographs, no strips
    backdrop[0] = {**backdrop[0], "height": width, "width": height}
    assert read_strips(Rows([*rows, *backdrop]), classes=11) == []  # of another size


def fork_rows(kind: str, sampling: str, values: list[float]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "sampling": sampling, "restart": k, "metric": "mean IoU", "value": value}
        for k, value in enumerate(values, start=1)
    ]


def test_differences_are_in_pairs_for_predictions_of_the_same_forks() -> None:
    rows = Rows(
        [
            *fork_rows("fixed", "one pass", [0.50, 0.60, 0.70]),
            *fork_rows("fixed", "draws", [0.51, 0.61, 0.71]),
            *fork_rows("concrete", "draws", [0.62, 0.64, 0.66]),
        ]
    )
    paired = difference(rows, MC, REGULAR, "mean IoU")
    assert paired.mean == pytest.approx(0.01)
    assert paired.error == pytest.approx(0, abs=1e-12)
    assert paired.is_clear
    apart = difference(rows, CONCRETE, MC, "mean IoU")
    assert apart.mean == pytest.approx(0.03)
    assert apart.error == pytest.approx(math.hypot(0.1, 0.02) / math.sqrt(3))
    assert not apart.is_clear
    assert str(apart) == "+3.00 ± 5.89"
    one = Rows([row for row in rows if row["restart"] == 1])
    assert difference(one, CONCRETE, MC, "mean IoU") == MethodDifference(
        pytest.approx(0.11), math.inf
    )
    assert not difference(one, CONCRETE, MC, "mean IoU").is_clear


def test_a_reliability_curve_of_forks_weighs_their_cases() -> None:
    own = {"kind": "concrete", "sampling": "draws", "metric": "frequency", "bin": 4}
    rows = Rows(
        [
            {**own, "confidence": 0.42, "value": 0.5, "cases": 1},
            {**own, "confidence": 0.46, "value": 0.1, "cases": 3},
        ]
    )
    confidences, frequencies = reliability(rows, CONCRETE)
    assert confidences == [pytest.approx(0.45)]
    assert frequencies == [pytest.approx(0.2)]


def test_label_maps_that_do_not_fit_are_refused() -> None:
    torch.manual_seed(0)
    scenes = load("blocks", "train", 2)
    elbo = dubio.ELBO(tiny().built(), LIKELIHOOD, num_data=2)
    unknown = scenes.labels.clone()
    unknown[0, 0, 0] = VOID + 1
    with pytest.raises(ValueError, match=r"y: expected class labels from 0 to 10, got .* to 12"):
        elbo(scenes.images, unknown)
    with pytest.raises(ValueError, match=r"y: expected shape \(2, 35, 49\)"):
        elbo(scenes.images, scenes.labels[:, :-1])
