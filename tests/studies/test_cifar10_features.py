"""boluki2020/cifar10-features: pieces, groups of the optimizer, random orders, rules that fail."""

from itertools import product
from typing import Any, cast

import pytest
import torch
from torch import nn

from dubio_studies.boluki2020.cifar10_features.claims import CLAIMS, METHODS
from dubio_studies.boluki2020.cifar10_features.computation import (
    COMPUTATION,
    LEVELS,
    Config,
    InBfloat16,
    adam,
    by_order,
    objective,
    pieces,
)
from dubio_studies.boluki2020.table_1_cifar10.scores import entropy
from dubio_studies.framework.claims import Claim
from dubio_studies.framework.rows import Rows
from dubio_studies.photographs.images import Photographs


def test_pieces_are_frozen_first_and_no_larger_than_asked_for() -> None:
    found = pieces(COMPUTATION.scales["small"])
    learns = [bool(piece["trained"]) for piece in found]
    assert learns == sorted(learns)
    assert {piece["pixels"] for piece in found} == {32, 64, 128}
    smaller = pieces(Config(largest=64, restarts=2))
    assert {piece["pixels"] for piece in smaller} == {32, 64}
    assert len({tuple(piece.items()) for piece in smaller}) == len(smaller)


def test_pavgpu_in_random_orders_is_that_of_a_loop() -> None:
    """The mean over thresholds is that of 1 − r where right and of r where wrong.

    Here r is the place of a batch's sum between the smallest and the largest. The curve has 101
    points, so that the mean over them differs by at most a hundredth.
    """
    generator = torch.Generator().manual_seed(1)
    test = (3 * torch.randn(1000, 10, dtype=torch.float64, generator=generator)).softmax(-1)
    labels = torch.randint(10, (1000,), generator=generator)
    labels[:700] = test[:700].argmax(-1)
    found = by_order(test, labels, 40, seed=5)
    rows = {str(row["level"]): cast(float, row["value"]) for row in found}
    assert set(rows) == {"mean", "deviation", *(f"{level:g}" for level in LEVELS)}

    right = (test.argmax(-1) == labels).double()
    same = torch.Generator().manual_seed(5)
    expected = []
    for _ in range(40):
        order = torch.randperm(1000, generator=same)
        sums = [float(batch.sum()) for batch in entropy(test)[order].split(100)]
        total = 0.0
        for own, place in zip(right[order].split(100), sums, strict=True):
            r = (place - min(sums)) / (max(sums) - min(sums))
            total += float((own * (1 - r) + (1 - own) * r).sum())
        expected.append(total / 1000)
    values = torch.tensor(expected, dtype=torch.float64)
    assert rows["mean"] == pytest.approx(float(values.mean()), abs=0.01)
    assert rows["0"] == pytest.approx(float(values.min()), abs=0.01)
    assert rows["1"] == pytest.approx(float(values.max()), abs=0.01)
    assert rows["deviation"] == pytest.approx(float(values.std()), rel=0.1)
    assert rows["0"] < rows["0.025"] < rows["0.5"] < rows["0.975"] < rows["1"]


def whole_network(method: str) -> tuple[nn.Module, nn.Module]:
    eye = InBfloat16(nn.Linear(6, 5))
    x, y = torch.zeros(4, 6), torch.zeros(4, dtype=torch.long)
    given = Photographs(x, y, x, y, x, y, "made up")
    piece = {"method": method}
    return objective(Config(hidden=3), piece, given, eye, 5), eye


@pytest.mark.parametrize(("method", "logits"), [("dropout", 0), ("lbd-layer", 2)])
def test_every_parameter_has_one_pace(method: str, logits: int) -> None:
    whole, eye = whole_network(method)
    learned = [p for p in whole.parameters() if p.requires_grad]
    groups = adam((1.0, 2.0, 3.0), whole, eye, learned).param_groups
    assert [group["lr"] for group in groups] == [1.0, 2.0, 3.0]
    assert set(groups[0]["params"]) == set(eye.parameters())
    assert len(groups[2]["params"]) == logits
    together = [p for group in groups for p in group["params"]]
    assert len(together) == len(set(together)) == len(learned)


def test_features_are_float32_and_nearly_those_of_float32() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(20, 10)
    x = torch.randn(5, 20)
    found = InBfloat16(layer)(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, layer(x), atol=0.03, rtol=0.03)
    assert not torch.equal(found, layer(x))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": 50_000}, "images, test_images: expected at most 45,000 and 10,000"),
        ({"test_images": 10_001}, "images, test_images: expected at most"),
        ({"test_images": 99}, "test_images: expected at least 100, got 99"),
        ({"largest": 31}, "largest: expected at least 32"),
        ({"orders": 1}, "orders: expected at least 2"),
        ({"drop": 1.0}, "drop: expected a rate"),
        ({"learning_rate": 0.0}, "learning_rate: expected a positive number"),
    ],
)
def test_settings_that_cannot_be_computed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)


def made_up() -> list[dict[str, Any]]:
    """Rows by which every claim holds."""
    shares = {
        ("vgg16", 32): 0.70, ("vgg16", 64): 0.82, ("efficientnet-lite0", 64): 0.80,
        ("efficientnet-lite0", 128): 0.88, ("efficientnet-lite0", 224): 0.90,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for ((trunk, pixels), share), trained, method in product(
        shares.items(), (False, True), METHODS
    ):
        own = {
            "trunk": trunk, "pixels": pixels, "trained": trained, "method": method, "restart": 1,
            "prediction": "draws",
        }  # fmt: skip
        rows.append({**own, "metric": "accuracy", "value": share + 0.1 * trained})
        levels = {"0": 0.45, "0.025": 0.5, "0.975": 0.6, "1": 0.7}
        for level, value in levels.items():
            rows.append({**own, "metric": "pavgpu by order", "level": level, "value": value})
    return rows


def claim_with(words: str) -> Claim:
    (found,) = (claim for claim in CLAIMS if words in claim.text)
    return found


def test_rules_that_are_met() -> None:
    for claim in CLAIMS:
        finding = claim.judge(Rows(made_up()))
        assert finding.agrees, (claim.text, finding.ours)


@pytest.mark.parametrize(
    ("words", "which", "value"),
    [
        ("Frozen layers", {"metric": "accuracy", "trained": True, "method": "lbd-layer"}, 0.86),
        ("More pixels", {"metric": "accuracy", "pixels": 224}, 0.885),
        ("order of the photographs", {"level": "0.975", "method": "dropout"}, 0.54),
        ("published PAvgPU", {"level": "1", "method": "lbd-layer"}, 0.64),
        ("published PAvgPU", {"level": "0", "method": "dropout"}, 0.53),
    ],
)
def test_rules_that_are_broken(words: str, which: dict[str, Any], value: float) -> None:
    rows = made_up()
    for row in rows:
        if all(row.get(name) == wanted for name, wanted in which.items()):
            row["value"] = value
    assert not claim_with(words).judge(Rows(rows)).agrees


def test_what_was_not_run_meets_no_rule() -> None:
    rows = Rows([row for row in made_up() if not (row["trained"] and row["method"] == "lbd-layer")])
    for words in ("Frozen layers", "order of the photographs", "published PAvgPU"):
        finding = claim_with(words).judge(rows)
        assert not finding.agrees
        assert "Not run: LBD per layer" in finding.ours
