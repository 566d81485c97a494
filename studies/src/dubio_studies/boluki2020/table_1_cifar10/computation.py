"""The numbers of table 1, CIFAR-10: heads with several kinds of dropout on two trunks."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import nn

import dubio
from dubio.likelihoods import Categorical
from dubio.objectives.estimators import Estimator
from dubio_studies.boluki2020.table_1_cifar10.scores import scores
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.mnist.training import DigitTraining, trained
from dubio_studies.photographs.heads import LEARNED, Method, masked_head, probabilities, rates
from dubio_studies.photographs.images import (
    CLASSES,
    LARGEST,
    VALIDATION,
    Photographs,
    Source,
    WatchedImages,
    load,
)
from dubio_studies.photographs.trunks import TrunkName, trunk

METHODS: tuple[Method, ...] = ("dropout", *LEARNED)
TWICE: tuple[Method, ...] = ("dropout", "lbd-layer")  # also trained with the authors' loss
SIZES: dict[TrunkName, int] = {"efficientnet-lite0": 128, "vgg16": 64, "vgg19": 224}

Loss = Literal["cross-entropy", "double softmax"]
"""double softmax is the authors': a softmax in the network, and another in loss and test."""


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        source: cifar10; or clusters, made-up features, to try it without data.
        trunks: Networks from ImageNet, below the heads: efficientnet-lite0 sees 128 × 128 pixels,
            vgg16 64 × 64, and vgg19 224 × 224.
        fine_tune: Whether trunks are trained too. Frozen trunks see each photograph once.
        images: Training photographs.
        methods: Kinds of dropout.
        restarts: Networks of each kind, each with its own initial weights and noise.
        hidden: Units of each of the two hidden layers.
        epochs: Passes over the photographs.
        batch_size: Photographs per step.
        learning_rate: Initial learning rate of the weights.
        drop_learning_rate: Initial learning rate of the logits of rates.
        drop: The fixed rate, and the initial learned rate.
        length_scale: ℓ of the prior N(0, 1/ℓ²) on masked weights.
        estimator: Of gradients for the rates of learnable Bernoulli dropout.
        draws: Stochastic passes per prediction.
    """

    source: Source = "cifar10"
    trunks: tuple[TrunkName, ...] = ("vgg19",)
    fine_tune: bool = True
    images: int = LARGEST
    methods: tuple[Method, ...] = METHODS
    restarts: int = 3
    hidden: int = 4096
    epochs: int = 300
    batch_size: int = 64
    learning_rate: float = 1e-5
    drop_learning_rate: float = 1e-5
    drop: float = 0.5
    length_scale: float = 1.0
    estimator: Estimator = "trapezoid"
    draws: int = 10

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            restarts=self.restarts,
            hidden=self.hidden,
            epochs=self.epochs,
            batch_size=self.batch_size,
            draws=self.draws,
        )
        checks.positive(
            learning_rate=self.learning_rate,
            drop_learning_rate=self.drop_learning_rate,
            length_scale=self.length_scale,
        )
        checks.rates(drop=self.drop)
        if self.images > LARGEST:
            raise ValueError(
                f"images: expected at most {LARGEST:,}, as {VALIDATION:,} are for validation, got "
                f"{self.images:,}; ask for fewer."
            )
        for name, values, known in (
            ("trunks", self.trunks, tuple(SIZES)),
            ("methods", self.methods, METHODS),
        ):
            if not values or set(values) - set(known):
                raise ValueError(f"{name}: expected some of {', '.join(known)}, got {values}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each network: first every row of the table once."""
    kinds: list[tuple[Method, Loss]] = [(method, "cross-entropy") for method in config.methods]
    kinds += [(method, "double softmax") for method in config.methods if method in TWICE]
    return [
        {"trunk": name, "method": method, "loss": loss, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for name in config.trunks
        for method, loss in kinds
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Train a network, and judge it without and with its noise."""
    name, method = cast(TrunkName, piece["trunk"]), cast(Method, piece["method"])
    loss = cast(Loss, piece["loss"])
    photographs = load(config.source, name, SIZES[name], config.images, config.fine_tune)
    started = time.process_time()

    def make() -> dubio.ELBO:
        network = built(config, name, method, photographs)
        if config.fine_tune and torch.cuda.is_available():
            network = network.cuda()
        if loss == "double softmax":
            network = nn.Sequential(network, nn.Softmax(-1))
        return dubio.ELBO(
            network,
            Categorical(),
            num_data=len(photographs.train),
            estimator=config.estimator,
        )

    identity = {
        **piece,
        "network": "a head on a trunk",
        "pixels": SIZES[name],
        "fine-tuned": config.fine_tune,
        "hidden": config.hidden,
        "drop": config.drop,
        "length scale": config.length_scale,
        "estimator": config.estimator,
        "source": config.source,
        "images": len(photographs.train),
        "copy": photographs.copy,
        "seed": seed.given,
    }
    training = DigitTraining(
        config.epochs,
        config.batch_size,
        config.learning_rate,
        config.drop_learning_rate if method in LEARNED else None,
    )
    made = trained(make, identity, watched(photographs), training)
    yield {
        "metric": "images", "value": len(photographs.train), "copy": photographs.copy,
        "cpu_seconds": time.process_time() - started,
    }  # fmt: skip
    for epoch in made.history:
        yield {"metric": "watched", "epoch": epoch.epoch, "value": epoch.validation}
    yield from rates(made.network)
    for prediction in ("mean", "draws") if method == "dropout" else ("draws",):
        draws = config.draws if prediction == "draws" else 0
        test, validation = (
            probabilities(made.network, part, draws)
            for part in (photographs.test, photographs.validation)
        )
        for row in scores(test, photographs.test_labels, validation):
            yield {"prediction": prediction, **row}


def built(config: Config, name: TrunkName, method: Method, photographs: Photographs) -> nn.Module:
    """The head; upon its trunk, if that is to learn."""
    eye: nn.Module = nn.Identity()
    features = photographs.train.shape[1]
    if config.fine_tune:
        eye = trunk(name, SIZES[name])
        with torch.inference_mode():
            features = eye(photographs.train[:1]).shape[1]
    top = masked_head(
        method,
        features,
        CLASSES,
        hidden=config.hidden,
        drop=config.drop,
        length_scale=config.length_scale,
    )
    return nn.Sequential(eye, top)


def watched(photographs: Photographs) -> WatchedImages:
    """Training is watched on the validation, and nothing is chosen by it."""
    return WatchedImages(
        photographs.train,
        photographs.train_labels,
        photographs.validation,
        photographs.validation_labels,
    )


COMPUTATION = Computation(
    protocol="A network pretrained on ImageNet turns CIFAR-10's photographs into features for "
        "the paper's head: two hidden ReLU layers, each followed by a mask, and ten logits. "
        "5,000 of the 50,000 training photographs are held out. They bound the thresholds of one "
        "column and monitor training; nothing is selected on them or on the test photographs. "
        "All kinds of dropout start from rates of 0.5 and share prior, optimiser and number of "
        "steps. Adam's two learning rates, for weights and for logits of rates, fall to zero "
        "along half a cosine. A prediction is the mean of ten draws; regular dropout is one pass "
        "without noise through the networks of MC dropout. Two kinds are also trained with the "
        "authors' double softmax. At the scales smoke and small the trunk is frozen: a trunk "
        "trained on the same photographs would fit them so well that the rates of the head would "
        "mean little. Claims and rules were written before the first run.",
    scales={
        "smoke": Config(
            source="clusters", trunks=("efficientnet-lite0",), fine_tune=False, images=600,
            restarts=2, hidden=32, epochs=4, batch_size=100, learning_rate=1e-2,
            drop_learning_rate=1e-2, estimator="trapezoid_once", draws=3,
        ),
        "small": Config(
            trunks=("efficientnet-lite0", "vgg16"), fine_tune=False, hidden=1024, epochs=10,
            batch_size=256, learning_rate=1e-3, drop_learning_rate=1e-2,
            estimator="trapezoid_once",
        ),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    revision=2,
    deviations=(
        "The scale paper needs the ImageNet weights of VGG19, which we do not have, and a "
            "GPU. The scale small uses EfficientNet-Lite0 with 128 × 128 pixels and VGG16 with "
            "64 × 64, frozen, in bfloat16.",
        "The gradient for learned rates is the trapezoid rule. The authors' code uses a "
            "gradient of constant sign, which is not ARM's.",
        "The paper does not specify its Gaussian dropout; ours learns a variance for each "
            "layer (Kingma et al. 2015), without their bound α ≤ 1.",
        "The prior of masked weights is N(0, 1), and the KL has its full weight; the authors "
            "give it almost none.",
        "5,000 random photographs are held out; the authors hold out the last tenth of every "
            "file.",
        "Adam's learning rates fall along half a cosine; the paper's are constant.",
        "The paper takes thresholds from the entropies of validation data, its code from "
            "those of test data; we show both.",
    ),
)  # fmt: skip
