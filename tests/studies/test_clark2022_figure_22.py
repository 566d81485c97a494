"""Attacks on MNIST: gradients by hand, images in range and the same for all, rules that fail."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dubio import attack
from dubio.likelihoods import Categorical
from dubio.predictive.predictive import Predictive
from dubio_studies.clark2022.digits import SMOKE, Method
from dubio_studies.clark2022.figure_22 import computation
from dubio_studies.clark2022.figure_22.computation import (
    EPSILONS,
    Config,
    chosen,
    direction,
    pieces,
    run,
)
from dubio_studies.clark2022.figure_22.page import CLAIMS
from dubio_studies.clark2022.reading import quiet, read
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Piece, Seed
from dubio_studies.mnist.images import CLASSES, PIXELS, Digits, Scaled
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = Config(**SMOKE, width=8, attacked=40, attack_draws=2, cnn_epochs=1)


@pytest.fixture
def digits() -> Digits:
    return TINY.digits()


@pytest.mark.parametrize("method", ["plain", "dropout", "gaussian"])
def test_quiet_networks_have_no_noise(method: Method, digits: Digits) -> None:
    network = TINY.network(method, 8).eval()
    still = quiet(network)
    assert torch.equal(still(digits.test), network(digits.test))
    x, y = digits.test.double(), digits.test_labels
    changed = direction(network, digits.test, y, "pass", 1)
    moved = x.requires_grad_()
    F.cross_entropy(copy.deepcopy(network).double()(moved), y, reduction="sum").backward()
    assert moved.grad is not None
    assert torch.equal(changed, moved.grad.sign())
    if method != "plain":
        torch.manual_seed(0)
        noisy = direction(network, digits.test, y, "draws", 1)
        assert not torch.equal(noisy, changed)


def test_sure_predictions_have_the_right_gradient() -> None:
    """Single precision takes 1 − p of the label for zero, and part of the gradient with it."""
    torch.manual_seed(0)
    network = nn.Sequential(Scaled(), nn.Flatten(), nn.Linear(PIXELS, CLASSES))
    images = torch.randint(256, (1, 28, 28), dtype=torch.uint8)
    label = network(images).argmax(-1)
    with torch.no_grad():
        network[-1].bias[label] += 25
    weight = network[-1].weight.double()
    logits = copy.deepcopy(network).double()(images.double())[0]
    odds = (logits - logits[label]).exp()
    expected = (odds[:, None] * (weight - weight[label])).sum(0).sign().view(1, 28, 28)
    assert torch.equal(direction(network, images, label, "pass", 1), expected)
    single = attack.fgsm(
        network, images.float(), label, 1.0, likelihood=Categorical(), bounds=None, draws=1
    )
    assert not torch.equal((single - images).double(), expected)


def test_images_are_in_range_and_transferred_ones_are_the_same(
    monkeypatch: pytest.MonkeyPatch, digits: Digits
) -> None:
    seen: list[tuple[str, Tensor]] = []

    def watching(
        network: nn.Module, images: Tensor, reading: str, draws: int, seed: Seed
    ) -> Predictive:
        seen.append((reading, images))
        return read(network, images, "pass", draws, seed)

    monkeypatch.setattr(computation, "read", watching)

    def images_of(method: str) -> list[Tensor]:
        seen.clear()
        list(run(TINY, {"method": method, "restart": 1}, SEED))
        return [images for _, images in seen]

    plain, gaussian, cnn = (images_of(method) for method in ("plain", "gaussian", "cnn"))
    count = len(EPSILONS)
    assert [len(plain), len(gaussian), len(cnn)] == [3 * count, 6 * count, count]
    x, _ = chosen(digits, 40)
    for k, (epsilon, *images) in enumerate(
        zip(EPSILONS * 3, plain, gaussian[: 3 * count], strict=True)
    ):
        for changed in images:
            inside = bool(changed.min() >= 0) and bool(changed.max() <= 255)
            assert inside == (k not in range(count + 1, 2 * count))  # not clipped
            assert (changed - x).abs().max() <= 255 * epsilon * (1 + 1e-6)
    for one, other in zip(plain[: 2 * count], gaussian[: 2 * count], strict=True):
        assert torch.equal(one, other)
    for one, own in zip(plain[:count], cnn, strict=True):
        assert torch.equal(one, own)
    assert torch.equal(plain[0], x.float())
    assert not torch.equal(plain[2 * count + 1], gaussian[2 * count + 1])  # white-box


def test_attacked_images_are_evenly_spaced(digits: Digits) -> None:
    images, labels = chosen(digits, 34)
    assert torch.equal(images, digits.test[::3])
    assert torch.equal(labels, digits.test_labels[::3])
    assert len(chosen(digits, 1000)[0]) == len(digits.test)


def test_rows_of_a_network() -> None:
    assert [p["method"] for p in pieces(TINY)] == [
        "authors gaussian", "mixture", "cold mixture", "gaussian", "slow gaussian", "cold gaussian",
        "dropout", "plain", "cnn",
    ]  # fmt: skip
    piece: Piece = {"method": "dropout", "restart": 1}
    rows = Rows(list(run(TINY, piece, SEED)))
    assert rows.distinct("attack") == ["transferred", "stronger", "white-box"]
    assert rows.distinct("reading") == ["draws", "pass"]
    clean = rows.where(metric="accuracy", reading="pass", epsilon=0.0).values()
    assert len(set(clean)) == 1
    strong = rows.value(metric="accuracy", reading="pass", attack="white-box", epsilon=0.3)
    assert strong <= clean[0]
    with pytest.raises(ValueError, match="attack_draws: expected at least 1, got 0"):
        Config(attack_draws=0)


PAPER = {
    "plain": (0.98, 0.86, 0.5),
    "dropout": (0.98, 0.92, 0.6),
    "gaussian": (0.98, 0.96, 0.84),
    "mixture": (0.98, 0.95, 0.8),
    "slow gaussian": (0.98, 0.9, 0.55),
    "cold gaussian": (0.98, 0.9, 0.55),
    "cold mixture": (0.98, 0.9, 0.55),
    "authors gaussian": (0.98, 0.9, 0.55),
}


def made_up(**changes: tuple[float, float, float]) -> Rows:
    rows = []
    for method, curve in (PAPER | changes).items():
        reading = "pass" if method in ("plain", "dropout") else "draws"
        for kind in ("transferred", "stronger", "white-box"):
            rows += [
                {"metric": "accuracy", "method": method, "reading": reading, "restart": 1,
                 "attack": kind, "epsilon": epsilon, "value": value, "error": 0.005}
                for epsilon, value in zip((0.0, 0.05, 0.1), curve, strict=True)
            ]  # fmt: skip
    return Rows(rows)


@pytest.mark.parametrize(
    ("claim", "curve"),
    [(0, (0.98, 0.96, 0.6)), (1, (0.98, 0.949, 0.84)), (2, (0.98, 0.96, 0.81)), (3, (1, 1, 0.5))],
)
def test_rules_hold_and_fail(claim: int, curve: tuple[float, float, float]) -> None:
    assert said(CLAIMS[claim].judge(made_up())) == "agrees"
    assert said(CLAIMS[claim].judge(made_up(gaussian=curve))) == "fails"


@pytest.mark.parametrize(
    ("claim", "plain"),
    [(1, (0.98, 0.911, 0.5)), (2, (0.98, 0.86, 0.831))],  # by less than two standard errors
)
def test_others_must_be_clearly_worse(claim: int, plain: tuple[float, float, float]) -> None:
    assert said(CLAIMS[claim].judge(made_up(plain=plain))) == "fails"


def test_a_stronger_attack_may_change_what_holds() -> None:
    other = Rows([
        {**row, "value": 0.5} if (row["method"], row["attack"]) == ("gaussian", "stronger") else row
        for row in made_up()
    ])  # fmt: skip
    assert said(CLAIMS[4].judge(made_up())) == "agrees"
    assert said(CLAIMS[4].judge(other)) == "fails"
    assert all(said(claim.judge(other)) == "agrees" for claim in CLAIMS[:4])


@pytest.mark.parametrize("claim", range(4))
def test_variants_are_shown_and_not_judged(claim: int) -> None:
    variants = ("cold gaussian", "cold mixture", "authors gaussian")
    for curve in ((0.98, 0.1, 0.1), (0.98, 0.98, 0.98)):
        found = CLAIMS[claim].judge(made_up(**dict.fromkeys(variants, curve)))
        assert said(found) == "agrees"
        assert "cold Bayes, Gaussian prior" in found.ours
        assert "Bayes by the authors' protocol" in found.ours
