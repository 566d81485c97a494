"""Networks that learn CIFAR-10 from scratch, and what averages over views and draws add."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio.data import cifar10
from dubio.data.download import cache_directory
from dubio.likelihoods import Categorical
from dubio_studies.framework.recipe import digest
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.networks.airbench import Airbench
from dubio_studies.uncertainty.cifar_accuracy.learning import CifarTraining, learn, standardised

REVISION = 1  # raise it when training changes: networks in the cache then count no more
Source = Literal["cifar10", "squares"]
BATCH = 500  # photographs that are predicted at a time
SHIFTS = (0, -1, 1)  # pixels down and right, of the views that are averaged


@dataclass(frozen=True)
class Config:
    """Settings of the networks.

    Attributes:
        source: cifar10; or squares, made-up photographs with a bright square at one of ten places,
            for a trial without any data.
        images: Photographs to learn from.
        test_images: Photographs to recognise.
        widths: Channels of the three blocks.
        drops: Rates of dropout before the last layer; 0 for none.
        restarts: Networks for each rate, each with its own start and noise.
        epochs: Passes over the photographs.
        batch_size: Photographs of a step.
        draws: Stochastic passes for a prediction.
    """

    source: Source = "cifar10"
    images: int = 50_000
    test_images: int = 10_000
    widths: tuple[int, ...] = (64, 256, 256)
    drops: tuple[float, ...] = (0.0, 0.1, 0.5)
    restarts: int = 5
    epochs: int = 10
    batch_size: int = 1000
    draws: int = 50

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            test_images=self.test_images,
            restarts=self.restarts,
            epochs=self.epochs,
            batch_size=self.batch_size,
            draws=self.draws,
        )
        checks.each_at_least(1, widths=self.widths)
        if len(self.widths) != 3:
            raise ValueError(f"widths: expected three numbers of channels, got {self.widths}.")
        if not self.drops or not all(0.0 <= drop < 1.0 for drop in self.drops):
            raise ValueError(f"drops: expected one or more rates in [0, 1), got {self.drops}.")
        if self.images > 50_000 or self.test_images > 10_000:
            raise ValueError(
                "images, test_images: expected at most 50,000 and 10,000, got "
                f"{self.images:,} and {self.test_images:,}; ask for fewer."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each network."""
    return [
        {"drop": drop, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for drop in config.drops
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Train a network, and judge averages over views and draws."""
    drop = cast(float, piece["drop"])
    images, labels, copy = photographs(config, "train")
    test, test_labels, _ = photographs(config, "test")
    identity = [
        REVISION, dict(piece), config.source, config.images, config.widths, config.epochs,
        config.batch_size, seed.given, torch.__version__, copy,
    ]  # fmt: skip
    file = cache_directory() / "networks" / f"{digest(identity)[:16]}.pt"
    started = time.process_time()
    network = Airbench(10, config.widths, drop)
    learn(network, images, labels, CifarTraining(config.epochs, config.batch_size), file)
    yield {
        "metric": "images", "value": len(images), "cpu_seconds": time.process_time() - started,
        "copy": copy,
    }  # fmt: skip
    network.eval()
    by_draws = {0: "no noise"} | ({config.draws: "draws"} if drop > 0 else {})
    for draws, noise in by_draws.items():
        for views in (1, 2 * len(SHIFTS)):
            found = probabilities(network, test, views, draws)
            values = {
                "accuracy": metrics.accuracy(found, test_labels),
                "nll": metrics.nll(found, test_labels),
                "ece": metrics.ece(found, test_labels),
                "error auroc": metrics.error_detection(found, test_labels).auroc,
            }
            for metric, value in values.items():
                yield {
                    "metric": metric, "noise": noise, "views": views, "value": float(value),
                    "cases": len(test),
                }  # fmt: skip


def photographs(config: Config, split: Literal["train", "test"]) -> tuple[Tensor, Tensor, str]:
    """Bytes and labels: the first to test, and to learn from in an order of its own.

    And what copy of the data they come from: there are lossy ones.
    """
    count = config.images if split == "train" else config.test_images
    if config.source == "squares":
        return *_squares(count, seed=count), "made up"
    given = cifar10(split)
    order = torch.arange(len(given.labels))
    if split == "train":
        order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
    copy = given.source.partition(":")[0]  # the files follow
    return given.images[order[:count]], given.labels[order[:count]], copy


def _squares(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(160, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 5)
        image[:, 4 + 14 * row : 14 + 14 * row, 1 + 6 * column : 7 + 6 * column] += 90
    return images, labels


@torch.inference_mode()
def probabilities(network: nn.Module, images: Tensor, views: int, draws: int) -> Tensor:
    """Class probabilities (N, K): means over views, and over draws if there are any.

    Args:
        network: In eval mode.
        images: Bytes.  # (N, 3, 32, 32)
        views: 1; or 6: three places, as they are and mirrored.
        draws: Passes with dropout for each view; 0 for one without.
    """
    found = []
    for batch in standardised(images).split(BATCH):
        seen = [batch]
        if views > 1:
            moved = [torch.roll(_padded(batch), (s, s), (2, 3))[..., 1:-1, 1:-1] for s in SHIFTS]
            seen = [view for each in moved for view in (each, each.flip(-1))]
        predict = _passed if draws == 0 else partial(_drawn, draws=draws)
        found.append(torch.stack([predict(network, view) for view in seen]).mean(0))
    return torch.cat(found).double()


def _padded(images: Tensor) -> Tensor:
    return nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")


def _passed(network: nn.Module, images: Tensor) -> Tensor:
    probabilities: Tensor = network(images).softmax(-1)
    return probabilities


def _drawn(network: nn.Module, images: Tensor, *, draws: int) -> Tensor:
    prediction = dubio.predict(
        network, images, draws=draws, likelihood=Categorical(), keep_draws=False
    )
    return prediction.mean


COMPUTATION = Computation(
    protocol="A network of three blocks (Jordan 2024) learns CIFAR-10's 50,000 photographs from "
    "scratch, in ten epochs on a CPU: a first layer that whitens patches of 2 × 2 pixels and does "
    "not learn, SGD with Nesterov's momentum and a learning rate that rises and falls along a "
    "triangle, labels smoothed by 0.2, photographs shifted by up to two pixels and mirrored in "
    "every other epoch, bfloat16. There is dropout before the last layer, and it is there while "
    "all layers learn: rates of a head that is trained afterwards, on features of photographs that "
    "the trunk has learned by heart, would mean little. Predictions are of one view, or means of "
    "probabilities over six: three places a pixel apart, as they are and mirrored. Nothing is "
    "chosen by the test photographs. Claims and rules were written before the first run.",
    scales={
        "smoke": Config(
            source="squares", images=200, test_images=100, widths=(8, 8, 8), drops=(0.1,),
            restarts=1, epochs=2, batch_size=50, draws=3,
        ),
        "small": Config(drops=(0.1,), restarts=1, draws=20),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "No Lookahead and no second learning rate of the first layer's shifts after three epochs; "
        "the learning rate falls to zero instead.",
        "Six views are averaged with equal weights, as probabilities.",
    ),
)  # fmt: skip
