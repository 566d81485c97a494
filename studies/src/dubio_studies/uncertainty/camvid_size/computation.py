"""The network of our studies of CamVid with fewer pixels, fewer channels or fewer epochs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, final

from torch import Tensor
from torch.nn import functional as F

import dubio
from dubio import data
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.networks.tiramisu_lite import GROWTH, MIDDLE, TiramisuLite
from dubio_studies.scenes.evaluation import scores
from dubio_studies.scenes.images import AVAILABLE, CLASSES, Labelled, Source, Split, load, size_of
from dubio_studies.scenes.likelihood import LIKELIHOOD
from dubio_studies.scenes.prediction import passed_once
from dubio_studies.scenes.training import SceneTraining, key_of, trained

Size = Literal["whole", "thin"]
"""That of our other studies; or a third of the middle layers, of half the channels each."""

SIZES: dict[Size, tuple[int, int]] = {"whole": (MIDDLE, GROWTH), "thin": (MIDDLE // 3, GROWTH // 2)}
KEPT = (
    "accuracy", "mean IoU", "mean IoU with void in unions", "mean PAvgPU", "mean PAvgPU of bands",
    "nll", "ECE",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        source: camvid; or blocks, made-up scenes, to try it without data.
        images: Scenes to learn from.
        validation_images: Scenes that give the bounds of PAvgPU's thresholds.
        test_images: Scenes to judge by.
        restarts: Networks of each kind, each with its own initial weights and order of scenes.
        epochs: Passes over the scenes; one kind has half of them.
        batch_size: Scenes per step.
        learning_rate: The highest, of one cycle.
    """

    source: Source = "camvid"
    images: int = AVAILABLE["train"]
    validation_images: int = 26
    test_images: int = AVAILABLE["test"]
    restarts: int = 3
    epochs: int = 48
    batch_size: int = 4
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            validation_images=self.validation_images,
            test_images=self.test_images,
            restarts=self.restarts,
            batch_size=self.batch_size,
        )
        checks.at_least(2, epochs=self.epochs)
        for name, most in (
            ("images", AVAILABLE["train"]),
            ("validation_images", AVAILABLE["val"]),
            ("test_images", AVAILABLE["test"]),
        ):
            if getattr(self, name) > most:
                raise ValueError(
                    f"{name}: expected at most {most}, got {getattr(self, name)}; ask for fewer."
                )
        checks.positive(learning_rate=self.learning_rate)

    def scenes(self, split: Split) -> Labelled:
        """Those of a split."""
        counts = {
            "train": self.images,
            "val": self.validation_images,
            "test": self.test_images,
        }
        return load(self.source, split, counts[split])


def pieces(config: Config) -> list[Piece]:
    """Two sizes of images by two of networks, and one of these with half the epochs."""
    whole, half = config.epochs, config.epochs // 2
    kinds: list[tuple[int, Size, int]] = [
        (1, "whole", whole), (2, "whole", whole), (1, "thin", whole), (2, "thin", whole),
        (1, "whole", half),
    ]  # fmt: skip
    return [
        {"shrunk": shrunk, "network": size, "epochs": epochs, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for shrunk, size, epochs in kinds
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Train a network without dropout, and judge one pass of it."""
    shrunk, size = cast(int, piece["shrunk"]), cast(Size, piece["network"])
    scenes = config.scenes("train")
    height, width = size_of(config.source)
    training = SceneTraining(cast(int, piece["epochs"]), config.batch_size, config.learning_rate)
    identity = {
        **piece,
        "part": "size",
        "source": config.source,
        "images": config.images,
        "height": height,
        "width": width,
        "seed": seed.given,
    }

    def make() -> dubio.ELBO:
        middle, growth = SIZES[size]
        network = Shrinking(shrunk, len(CLASSES), middle=middle, growth=growth)
        if config.source == "camvid":
            network.load_trunk(data.imagenet_weights("efficientnet-lite0"))
        return dubio.ELBO(network, LIKELIHOOD, num_data=len(scenes.images))

    network = trained(make, key_of(identity, training), scenes, training).network
    weights = sum(parameter.numel() for parameter in network.parameters())
    yield {"metric": "weights", "value": weights}
    yield {"metric": "pixels", "value": (height // shrunk) * (width // shrunk)}
    predict = passed_once(network)
    for row in scores(predict, config.scenes("val"), config.scenes("test")):
        if row["metric"] in KEPT:
            yield row


@final
class Shrinking(TiramisuLite):
    """A network that sees smaller images. Its logits are enlarged to the images it was given.

    Args:
        shrunk: How many times shorter each side is.
        classes: How many classes there are.
        middle: Layers of the middle block.
        growth: Channels that a layer adds.
    """

    def __init__(self, shrunk: int, classes: int, *, middle: int, growth: int) -> None:
        super().__init__(classes, middle=middle, growth=growth)
        self.shrunk = shrunk

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W), 0 to 255 -> (B, K, H, W)
        """Logits of every pixel."""
        if self.shrunk == 1:
            return super().forward(images)
        height, width = images.shape[-2:]
        small = F.interpolate(
            images.float(),
            (height // self.shrunk, width // self.shrunk),
            mode="bilinear",
            antialias=True,
        )
        return F.interpolate(super().forward(small), (height, width), mode="bilinear")


COMPUTATION = Computation(
    protocol="The network of our studies of CamVid, EfficientNet-Lite0 below a middle block and a "
    "decoder of FC-DenseNet, is trained without dropout on all 367 images: with the resolution "
    "that we have, or with half of it in each direction; with all channels, or with half of the "
    "channels and a third of the middle layers; and with half of the epochs. A network that sees "
    "smaller images has its logits enlarged, so that all are trained and judged on the same "
    "labelled pixels. Optimiser, augmentation and scores are those of the other studies; there is "
    "no fork. Claims and rules were written before the first run.",
    scales={
        "smoke": Config(
            source="blocks", images=4, validation_images=2, test_images=3, restarts=1, epochs=2,
            batch_size=2,
        ),
        "small": Config(restarts=2, epochs=12),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
)  # fmt: skip
