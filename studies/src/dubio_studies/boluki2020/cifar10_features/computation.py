"""Networks pretrained on ImageNet, frozen or trained with their heads, at several sizes."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import cast, final

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import OneCycleLR

import dubio
from dubio import metrics
from dubio.likelihoods import Categorical
from dubio_studies.boluki2020.table_1_cifar10.scores import entropy, scores, summed_over_batches
from dubio_studies.framework.network_cache import kept
from dubio_studies.framework.recipe import digest
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.mnist.training import DigitTraining, noise_parameters, trained
from dubio_studies.photographs.features import cached_features
from dubio_studies.photographs.heads import LEARNED, Method, masked_head, probabilities, rates
from dubio_studies.photographs.images import CLASSES, LARGEST, Photographs, WatchedImages, load
from dubio_studies.photographs.trunks import Trunk, TrunkName, trunk

REVISION = 1  # raise it when training changes: rows and networks in the cache then count no more
FROZEN: dict[TrunkName, tuple[int, ...]] = {
    "vgg16": (32, 64),
    "efficientnet-lite0": (64, 128, 224),
}
TRAINED: dict[TrunkName, tuple[int, ...]] = {"vgg16": (64,), "efficientnet-lite0": (64,)}
"""Pixels of an edge that each network sees."""
METHODS: dict[TrunkName, tuple[Method, ...]] = {
    "vgg16": ("dropout", "lbd-layer"),
    "efficientnet-lite0": ("dropout",),
}
LEVELS = (0.0, 0.025, 0.5, 0.975, 1.0)  # of the distribution over orders of photographs


@dataclass(frozen=True)
class Config:
    """Settings of the comparison.

    Attributes:
        images: Training photographs.
        test_images: Test photographs.
        largest: The most pixels of an edge that a network sees.
        restarts: Networks of each kind, each with its own initial weights and noise.
        hidden: Units of each of the two hidden layers of a head.
        head_epochs: Passes over the features of frozen networks.
        head_batch_size: Features per step.
        epochs: Passes over the photographs in which all layers learn.
        batch_size: Photographs per step.
        learning_rate: The highest of weights pretrained on ImageNet.
        head_learning_rate: The highest of weights of heads.
        drop_learning_rate: The highest of logits of dropout rates.
        drop: The fixed rate, and the initial learned rate.
        length_scale: ℓ of the prior N(0, 1/ℓ²) on masked weights.
        draws: Stochastic passes per prediction.
        orders: Random orders of the test photographs, for entropies summed over batches.
    """

    images: int = LARGEST
    test_images: int = 10_000
    largest: int = 224
    restarts: int = 3
    hidden: int = 1024
    head_epochs: int = 10
    head_batch_size: int = 256
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-4
    head_learning_rate: float = 1e-3
    drop_learning_rate: float = 1e-2
    drop: float = 0.5
    length_scale: float = 1.0
    draws: int = 10
    orders: int = 1000

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            restarts=self.restarts,
            hidden=self.hidden,
            head_epochs=self.head_epochs,
            head_batch_size=self.head_batch_size,
            epochs=self.epochs,
            batch_size=self.batch_size,
            draws=self.draws,
        )
        checks.at_least(2, orders=self.orders)
        checks.at_least(100, test_images=self.test_images)  # a batch, with right and wrong answers
        checks.at_least(32, largest=self.largest)
        checks.positive(
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
            drop_learning_rate=self.drop_learning_rate,
            length_scale=self.length_scale,
        )
        checks.rates(drop=self.drop)
        if self.images > LARGEST or self.test_images > 10_000:
            raise ValueError(
                f"images, test_images: expected at most {LARGEST:,} and 10,000, got "
                f"{self.images:,} and {self.test_images:,}; ask for fewer."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each network: frozen ones first, then those that learn."""
    return [
        {"trunk": name, "pixels": size, "trained": learns, "method": method, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for learns in (False, True)
        for name, sizes in (TRAINED if learns else FROZEN).items()
        for size in sizes
        for method in METHODS[name]
        if size <= config.largest
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Train a head, perhaps with the network below it, and judge it."""
    name, size = cast(TrunkName, piece["trunk"]), cast(int, piece["pixels"])
    method, learns = cast(Method, piece["method"]), cast(bool, piece["trained"])
    photographs = bytes_of(config)
    if not learns:
        photographs = seen_by(trunk(name, size), photographs)
    started = time.process_time()
    if learns:
        network = trained_whole(config, piece, seed, photographs)
    else:
        network = trained_head(config, piece, seed, photographs)
    yield {
        "metric": "images", "value": len(photographs.train), "copy": photographs.copy,
        "cpu_seconds": time.process_time() - started,
    }  # fmt: skip
    yield from rates(network)
    for prediction in ("mean", "draws") if method == "dropout" else ("draws",):
        draws = config.draws if prediction == "draws" else 0
        test, validation = (
            probabilities(network, part, draws)
            for part in (photographs.test, photographs.validation)
        )
        found = (
            *(row for row in scores(test, photographs.test_labels, validation) if "t" not in row),
            *by_order(test, photographs.test_labels, config.orders, seed.own),
        )
        for row in found:
            yield {"prediction": prediction, **row}


@lru_cache(maxsize=1)
def bytes_of(config: Config) -> Photographs:
    """The photographs, as bytes."""
    given = load("cifar10", "vgg16", 0, config.images, as_bytes=True)
    return given._replace(
        validation=given.validation[: config.test_images],
        validation_labels=given.validation_labels[: config.test_images],
        test=given.test[: config.test_images],
        test_labels=given.test_labels[: config.test_images],
    )


def seen_by(eye: Trunk, given: Photographs) -> Photographs:
    """The same as features."""
    return given._replace(
        train=cached_features(eye, given.train),
        validation=cached_features(eye, given.validation),
        test=cached_features(eye, given.test),
    )


def trained_head(config: Config, piece: Piece, seed: Seed, photographs: Photographs) -> nn.Module:
    """A head that has learned from features, or is in the cache."""

    def make() -> dubio.ELBO:
        return objective(config, piece, photographs, nn.Identity(), photographs.train.shape[1])

    training = DigitTraining(
        config.head_epochs,
        config.head_batch_size,
        config.head_learning_rate,
        config.drop_learning_rate if piece["method"] in LEARNED else None,
    )
    identity = {
        **piece,
        **identity_of(config, photographs, seed),
        "network": "a head on frozen features",
    }
    watched = WatchedImages(
        photographs.train,
        photographs.train_labels,
        photographs.validation,
        photographs.validation_labels,
    )
    return trained(make, identity, watched, training).network


def trained_whole(config: Config, piece: Piece, seed: Seed, photographs: Photographs) -> nn.Module:
    """A network and its head that have learned together, or are in the cache."""
    paces = (config.learning_rate, config.head_learning_rate, config.drop_learning_rate)
    identity = {**piece, **identity_of(config, photographs, seed), "epochs": config.epochs}
    identity |= {"batch": config.batch_size, "paces": repr(paces)}
    key = digest([REVISION, identity, torch.__version__])

    def train(file: Path) -> nn.Module:
        torch.manual_seed(int(key[:8], 16))
        eye = InBfloat16(trunk(cast(TrunkName, piece["trunk"]), cast(int, piece["pixels"])))
        with torch.inference_mode():
            features = eye(photographs.train[:1]).shape[1]
        whole = objective(config, piece, photographs, eye, features)
        steps = config.epochs * -(-len(photographs.train) // config.batch_size)
        dubio.fit(
            whole,
            (photographs.train, photographs.train_labels),
            epochs=config.epochs,
            batch_size=config.batch_size,
            optimizer=partial(adam, paces, whole, eye),
            schedule=partial(OneCycleLR, max_lr=list(paces), total_steps=steps),
            schedule_every="step",
            checkpoint=file,
            save_every=300.0,
            progress=False,
        )
        return whole.model.eval()

    return kept(key, train)


def identity_of(
    config: Config, photographs: Photographs, seed: Seed
) -> dict[str, str | int | float]:
    """What tells a network apart besides its piece."""
    return {
        "study": "cifar10-features",
        "images": config.images,
        "copy": photographs.copy,
        "hidden": config.hidden,
        "drop": config.drop,
        "length scale": config.length_scale,
        "seed": seed.given,
    }


def objective(
    config: Config, piece: Piece, photographs: Photographs, eye: nn.Module, features: int
) -> dubio.ELBO:
    """The ELBO of a head on top of something."""
    top = masked_head(
        cast(Method, piece["method"]),
        features,
        CLASSES,
        hidden=config.hidden,
        drop=config.drop,
        length_scale=config.length_scale,
    )
    return dubio.ELBO(
        nn.Sequential(eye, top),
        Categorical(),
        num_data=len(photographs.train),
        estimator="trapezoid_once",
    )


@final
class InBfloat16(nn.Module):
    """A network whose products are computed in bfloat16; features come out in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Features."""
        with torch.autocast(images.device.type, torch.bfloat16):
            features: Tensor = self.network(images)
        return features.float()


def adam(
    paces: Sequence[float], whole: nn.Module, eye: nn.Module, parameters: Sequence[nn.Parameter]
) -> Adam:
    """Groups for what is pretrained, for the head and for logits of rates, each at its pace."""
    old, logits = set(eye.parameters()), set(noise_parameters(whole))
    belongs: tuple[Callable[[nn.Parameter], bool], ...] = (
        lambda p: p in old,
        lambda p: p not in old and p not in logits,
        lambda p: p in logits,
    )
    groups = [
        {"params": [p for p in parameters if own(p)], "lr": pace}
        for own, pace in zip(belongs, paces, strict=True)
    ]
    return Adam(groups, fused=True)


def by_order(
    test: Tensor, labels: Tensor, orders: int, seed: int
) -> Iterator[Measurement]:  # test: (N, K)
    """Mean PAvgPU by entropies summed over batches, in random orders of the photographs."""
    generator = torch.Generator().manual_seed(seed)
    doubt = entropy(test)
    found = []
    for _ in range(orders):
        order = torch.randperm(len(labels), generator=generator)
        summed = summed_over_batches(doubt[order])
        curve = metrics.pavgpu(test[order], labels[order], uncertainty=summed)
        found.append(float(curve.mean))
    values = torch.tensor(found, dtype=torch.float64)
    numbers = {"mean": values.mean(), "deviation": values.std()}
    numbers |= {f"{level:g}": values.quantile(level) for level in LEVELS}
    for level, value in numbers.items():
        yield {"metric": "pavgpu by order", "level": level, "value": float(value)}


COMPUTATION = Computation(
    protocol="A network pretrained on ImageNet stands below the paper's head, two hidden ReLU "
        "layers with a mask behind each. It is frozen, so that only the head is trained, or all "
        "layers are trained together. Both see the same photographs, enlarged to several sizes. "
        "Masks are MC dropout with a rate of 0.5, and on VGG16 also LBD with a learned rate for "
        "each layer. Frozen features and heads are those of boluki2020/table-1-cifar10. All layers "
        "are trained by Adam, whose learning rates rise and fall once: the pretrained weights have "
        "a tenth of the head's. PAvgPU is computed by the entropies of photographs, by those "
        "summed over batches of 100, in a thousand random orders of the photographs. Nothing "
        "is chosen by the test photographs. Claims and rules were written before the first run.",
    scales={
        "smoke": Config(
            images=200, test_images=200, largest=64, restarts=1, hidden=16,
            head_epochs=1, epochs=1, draws=2, orders=3,
        ),
        "small": Config(largest=128, restarts=1, epochs=1),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    revision=REVISION,
    deviations=(
        "VGG16 and EfficientNet-Lite0 stand for the paper's VGG19, whose weights we do not have.",
        "All layers are trained for ten epochs at most; the paper trains for 300.",
        "Products of pretrained layers are computed in bfloat16.",
    ),
)  # fmt: skip
