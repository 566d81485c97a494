"""uncertainty/cifar-accuracy: the network, how it learns, averages over views, rules that fail."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dubio_studies.framework.rows import Rows
from dubio_studies.networks.airbench import Airbench
from dubio_studies.photographs.images import WatchedImages
from dubio_studies.uncertainty.cifar_accuracy.computation import (
    COMPUTATION,
    Config,
    averaged,
    photographs,
    pieces,
    views_of,
)
from dubio_studies.uncertainty.cifar_accuracy.heads import (
    AirbenchTrunk,
    learned_head,
    training_views,
)
from dubio_studies.uncertainty.cifar_accuracy.learning import (
    AugmentedLoss,
    CifarTraining,
    flipped,
    learn,
    shifted,
    standardised,
    triangle,
)
from dubio_studies.uncertainty.cifar_accuracy.page import CLAIMS


def test_parameters_and_shapes() -> None:
    """24 whitened channels; convolutions without shift, BatchNorm without scale."""
    net = Airbench()
    learned = sum(p.numel() for p in net.parameters() if p.requires_grad)
    convolutions = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256)
    assert learned == 24 + convolutions + 2 * (64 + 256 + 256) + 256 * 10
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert not any(isinstance(layer, nn.Dropout) for layer in net.modules())
    (dropout,) = (m for m in Airbench(drop=0.3).modules() if isinstance(m, nn.Dropout))
    assert dropout.p == 0.3


def test_whitened_patches_are_uncorrelated() -> None:
    torch.manual_seed(0)
    mixed = torch.einsum("nchw,dc->ndhw", torch.randn(300, 3, 6, 6), torch.randn(3, 3))
    images = nn.functional.avg_pool2d(mixed, 3, stride=1)  # neighbours resemble each other
    net = Airbench(widths=(4, 4, 4))
    net.whiten_like(images, least=0.0)
    with torch.no_grad():
        seen = net.whiten(images).movedim(1, -1).flatten(0, 2)  # (rows, 24)
    moments = seen.T @ seen / len(seen)
    torch.testing.assert_close(moments[:12, :12], torch.eye(12), atol=2e-3, rtol=0)
    torch.testing.assert_close(seen[:, 12:], -seen[:, :12])


def test_convolutions_start_as_the_identity() -> None:
    block = Airbench(widths=(32, 16, 16)).blocks[1]
    assert isinstance(block, nn.Sequential)
    x = torch.randn(2, 24, 6, 6)
    with torch.no_grad():
        torch.testing.assert_close(block[0](x)[:, :24], x)


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 32, 32), (3, 32, 32)])
def test_images_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="images: expected shape"):
        Airbench(widths=(4, 4, 4))(torch.zeros(shape))


def test_widths_that_are_none() -> None:
    with pytest.raises(ValueError, match="widths: expected three"):
        Airbench(widths=(4, 4))


def test_shifts_move_whole_photographs() -> None:
    torch.manual_seed(0)
    images = torch.rand(40, 3, 6, 5)
    padded = nn.functional.pad(images, (2, 2, 2, 2), mode="reflect")
    places = set()
    for image, wide in zip(shifted(images), padded, strict=True):
        found = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if torch.equal(image, wide[:, i : i + 6, j : j + 5])
        ]
        assert found
        places.add(found[0])
    assert len(places) > 10  # of 25; by chance once in 10⁶ or less


def test_flips_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every photograph is seen both ways in two neighbouring epochs."""
    monkeypatch.setattr(
        "dubio_studies.uncertainty.cifar_accuracy.learning.shifted", lambda images: images
    )
    torch.manual_seed(0)
    net = Airbench(widths=(4, 4, 4))
    seen: list[torch.Tensor] = []
    net.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    images = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
    objective = AugmentedLoss(net, 6, steps=1)
    for _ in range(4):
        objective((images, torch.arange(6)), torch.zeros(6, dtype=torch.long))
    plain = standardised(images)
    ways = [[torch.equal(a, b) for a, b in zip(epoch, plain, strict=True)] for epoch in seen]
    assert ways[0] == ways[2]
    assert [not way for way in ways[0]] == ways[1] == ways[3]
    mirrored = flipped(plain, torch.tensor([not way for way in ways[0]]))
    assert torch.equal(seen[0], mirrored)


def test_the_learning_rate_is_a_triangle() -> None:
    rates = [triangle(100, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[23] == 1.0
    assert rates[-1] == 0.0
    assert rates[:24] == sorted(rates[:24])
    assert rates[23:] == sorted(rates[23:], reverse=True)


def test_it_learns_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Bright or dark photographs, twenty steps; a second call trains no more."""
    torch.manual_seed(0)
    labels = torch.arange(80) % 2
    images = torch.randint(100, (80, 3, 32, 32), dtype=torch.uint8)
    images[labels == 1] += 150
    net = Airbench(2, (4, 8, 8))
    training = CifarTraining(epochs=5, batch_size=20, learning_rate=0.3)
    learn(net, images, labels, training, tmp_path / "net.pt")
    found = averaged(net.eval(), [standardised(images)], 0)
    assert float((found.argmax(-1) == labels).double().mean()) > 0.95
    again = Airbench(2, (4, 8, 8))
    learn(again, images, labels, training, tmp_path / "net.pt")
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_views_are_averaged() -> None:
    class Corner(nn.Module):
        """Scores from the two upper corners."""

        def __init__(self) -> None:
            super().__init__()
            self.register_parameter("nothing", nn.Parameter(torch.zeros(())))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x[:, 0, 0, 0], x[:, 0, 0, -1]], -1)

    images = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8)
    plain = standardised(images)[:, 0]
    wide = nn.functional.pad(plain, (1, 1, 1, 1), mode="reflect")
    views = []
    for shift in (0, -1, 1):
        left, right = wide[:, 1 - shift, 1 - shift], wide[:, 1 - shift, 32 - shift]
        views += [torch.stack(pair, -1).softmax(-1) for pair in ((left, right), (right, left))]
    seen = [*views_of(images)]
    torch.testing.assert_close(seen[0], standardised(images))
    found = averaged(Corner(), seen, 0)
    torch.testing.assert_close(found.float(), torch.stack(views).mean(0))


def test_heads_learn_from_what_the_network_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dark or bright photographs: features, views both ways, and a head that tells them apart."""
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path))
    torch.manual_seed(0)
    labels = torch.arange(60) % 2
    images = torch.randint(100, (60, 3, 32, 32), dtype=torch.uint8)
    images[labels == 1] += 150
    net = Airbench(10, (4, 8, 8)).eval()
    with torch.no_grad():
        last = net.last(AirbenchTrunk(net)(standardised(images)).float()) * net.SCALE
        torch.testing.assert_close(last, net(standardised(images)), atol=0.05, rtol=0.05)
    seen = [AirbenchTrunk(net)(view) for view in training_views(images)]
    examples = WatchedImages(torch.cat(seen), labels.repeat(len(seen)), seen[0], labels)
    head = learned_head("lbd-layer", "net, 1", 20, examples)
    found = averaged(head, seen, 3)
    assert float((found.argmax(-1) == labels).double().mean()) > 0.95


def test_pieces_and_settings() -> None:
    assert len(pieces(Config(drops=(0.0, 0.2), restarts=3))) == 6
    with pytest.raises(ValueError, match="drops: expected one or more rates"):
        Config(drops=(1.0,))
    with pytest.raises(ValueError, match="images, test_images: expected at most"):
        Config(images=60_000)


def rows_with(changes: dict[str, float]) -> Rows:
    """A network that agrees with all claims, but for what is changed."""
    levels = {
        "accuracy, 1, no noise": 0.93,
        "accuracy, 6, no noise": 0.94,
        "nll, 1, no noise": 0.3,
        "nll, 6, no noise": 0.25,
        "nll, 1, draws": 0.29,
        "accuracy, 6, draws, lbd-layer": 0.935,
    } | changes
    rows: list[dict[str, Any]] = []
    for name, value in levels.items():
        metric, views, noise, *head = name.split(", ")
        rows.append(
            {"metric": metric, "views": int(views), "noise": noise, "drop": 0.1, "value": value,
             "cases": 10_000, "head": head[0] if head else "its own"}
        )  # fmt: skip
    return Rows(rows)


@pytest.mark.parametrize(
    ("changes", "agree"),
    [
        ({}, [True, True, True, True]),
        ({"accuracy, 6, no noise": 0.934}, [False, True, True, True]),
        ({"accuracy, 1, no noise": 0.95}, [True, False, True, True]),
        ({"nll, 6, no noise": 0.31}, [True, False, True, True]),
        ({"nll, 1, draws": 0.31}, [True, True, False, True]),
        ({"accuracy, 6, draws, lbd-layer": 0.929}, [True, True, True, False]),
    ],
)
def test_rules(changes: dict[str, float], agree: list[bool]) -> None:
    rows = rows_with(changes)
    assert [claim.judge(rows).agrees for claim in CLAIMS] == agree


def test_rows_say_which_copy_was_read() -> None:
    """A network of lossy photographs is not taken for one of the original pixels."""
    *tensors, copy = photographs(COMPUTATION.scales["smoke"], "train")
    assert copy == "made up"
    assert [len(each) for each in tensors] == [200, 200]
