"""uncertainty/camvid-size: networks that see smaller images, and rules that fail."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from dubio_studies.framework.claims import Claim
from dubio_studies.framework.rows import Rows
from dubio_studies.networks.tiramisu_lite import TiramisuLite
from dubio_studies.uncertainty.camvid_size.computation import (
    COMPUTATION,
    SIZES,
    Config,
    Shrinking,
    pieces,
)
from dubio_studies.uncertainty.camvid_size.page import CLAIMS, KINDS, exhibits


def same_weights(shrunk: int) -> tuple[Shrinking, TiramisuLite]:
    torch.manual_seed(0)
    usual = TiramisuLite(3, middle=2, growth=4).eval()
    small = Shrinking(shrunk, 3, middle=2, growth=4).eval()
    small.load_state_dict(usual.state_dict())
    return small, usual


IMAGES = torch.randint(
    256, (2, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(2)
)


def test_whole_images_are_seen_as_they_are() -> None:
    small, usual = same_weights(1)
    with torch.no_grad():
        assert torch.equal(small(IMAGES), usual(IMAGES))


def test_smaller_images_are_enlarged_again() -> None:
    """Halves with antialiasing: far from the edge, weights 1, 3, 3 and 1 in each direction."""
    small, usual = same_weights(2)
    row = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    kernel = torch.outer(row, row).expand(3, 1, 4, 4)
    inner = F.conv2d(IMAGES.float(), kernel, stride=2, padding=1, groups=3)
    shrunk = F.interpolate(IMAGES.float(), (32, 48), mode="bilinear", antialias=True)
    torch.testing.assert_close(shrunk[..., 1:-1, 1:-1], inner[..., 1:-1, 1:-1])
    with torch.no_grad():
        expected = F.interpolate(usual(shrunk), (64, 96), mode="bilinear")
        torch.testing.assert_close(small(IMAGES), expected)


def test_thin_networks_have_fewer_weights() -> None:
    def count(size: tuple[int, int]) -> int:
        with torch.device("meta"):
            network = Shrinking(1, 11, middle=size[0], growth=size[1])
        return sum(parameter.numel() for parameter in network.parameters())

    assert count(SIZES["thin"]) < 0.65 * count(SIZES["whole"])


def test_pieces() -> None:
    found = pieces(COMPUTATION.scales["small"])
    assert len({tuple(piece.items()) for piece in found}) == len(found) == 2 * len(KINDS)
    assert {piece["epochs"] for piece in found} == {6, 12}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 1}, "epochs: expected at least 2"),
        ({"test_images": 234}, "test_images: expected at most 233, got 234"),
        ({"restarts": 0}, "restarts: expected at least 1"),
        ({"learning_rate": 0.0}, "learning_rate: expected a positive number"),
    ],
)
def test_settings_that_cannot_be_computed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)


METRICS = ("accuracy", "mean IoU", "mean IoU with void in unions", "mean PAvgPU",
           "mean PAvgPU of bands", "nll", "ECE", "weights", "pixels")  # fmt: skip


def made_up() -> list[dict[str, Any]]:
    """Rows by which every claim holds: other kinds than the usual one lose two points."""
    return [
        {
            "shrunk": shrunk, "network": network, "epochs": 12 if long else 6, "restart": restart,
            "metric": metric,
            "value": 0.5 + 0.01 * restart - 0.02 * ((shrunk, network, long) != (1, "whole", True)),
        }
        for shrunk, network, long in KINDS
        for restart in (1, 2)
        for metric in METRICS
    ]  # fmt: skip


def claim_with(words: str) -> Claim:
    (found,) = (claim for claim in CLAIMS if words in claim.text)
    return found


def test_rules_that_are_met() -> None:
    rows = Rows(made_up())
    for claim in CLAIMS:
        finding = claim.judge(rows)
        assert finding.agrees, (claim.text, finding.ours)
        assert "2.00 ± 0.00 points" in finding.ours
    (table,) = exhibits(rows)
    assert len(table.rows) == len(KINDS)


@pytest.mark.parametrize(
    ("words", "which"),
    [
        ("Half the resolution costs mean IoU", {"shrunk": 2, "metric": "mean IoU"}),
        ("A smaller network", {"network": "thin", "metric": "mean IoU"}),
        ("Half the epochs", {"epochs": 6, "metric": "mean IoU"}),
        ("costs accuracy and mean PAvgPU", {"shrunk": 2, "metric": "mean PAvgPU"}),
    ],
)
def test_one_restart_that_loses_little_breaks_a_rule(words: str, which: dict[str, Any]) -> None:
    rows = made_up()
    for row in rows:
        if row["restart"] == 2 and all(row[name] == wanted for name, wanted in which.items()):
            row["value"] += 0.011
    assert not claim_with(words).judge(Rows(rows)).agrees
