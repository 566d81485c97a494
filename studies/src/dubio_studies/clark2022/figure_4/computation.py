"""A digit, attacked through the gradient of a small convolutional network."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dubio
from dubio import attack
from dubio.likelihoods import Categorical
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.mnist.images import CLASSES, Source, load

WHITE = 255.0


@dataclass(frozen=True)
class Config:
    """Settings of the picture.

    Attributes:
        source: mnist; or digits, those of scikit-learn, for a trial without any data.
        images: Images to learn from.
        epochs: How often training goes through them.
        digit: Which test image.
        epsilons: The largest change of a pixel, from 0 to 1.
    """

    source: Source = "mnist"
    images: int = 5_000
    epochs: int = 3
    digit: int = 0
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3)

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(1, images=self.images, epochs=self.epochs)
        checks.at_least(0, digit=self.digit)
        checks.positive(**{f"epsilons[{k}]": value for k, value in enumerate(self.epsilons)})


def pieces(config: Config) -> list[Piece]:
    """One piece."""
    return [{"part": "digit"}]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Images as bytes in hexadecimal digits, and what the network takes them for."""
    digits = load(config.source, config.images, config.digit + 1, seed=0)
    network = convolutional()
    elbo = dubio.ELBO(network, Categorical(), num_data=len(digits.train))
    data = digits.train.float()[:, None] / WHITE, digits.train_labels
    dubio.fit(elbo, data, epochs=config.epochs, progress=False)
    network.eval()
    image = digits.test[config.digit :].float()[:, None] / WHITE  # (1, 1, 28, 28)
    label = digits.test_labels[config.digit :]
    attacked = {
        epsilon: attack.fgsm(network, image, label, epsilon, likelihood=Categorical(), draws=1)
        for epsilon in config.epsilons
    }
    largest = max(config.epsilons)
    unbounded = attack.fgsm(
        network, image, label, largest, likelihood=Categorical(), draws=1, bounds=None
    )
    sign = (unbounded - image) / (2 * largest) + 0.5  # −1, 0 and 1 as 0, 1/2 and 1
    yield {"metric": "sign", "epsilon": 0.0, "value": shown(sign), "label": int(label)}
    for epsilon, changed in {0.0: image, **attacked}.items():
        with torch.no_grad():
            chances = network(changed).softmax(-1)[0]
        yield {
            "metric": "image",
            "epsilon": epsilon,
            "value": shown(changed),
            "label": int(label),
            "taken_for": int(chances.argmax()),
            "chance": float(chances.max()),
            "chance_of_label": float(chances[int(label)]),
        }


def convolutional() -> nn.Sequential:
    """Two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 4 * 4, CLASSES),
    )  # fmt: skip


def shown(image: Tensor) -> str:
    """Pixels as bytes, in hexadecimal digits."""
    return bytes((WHITE * image).round().clamp(0, WHITE).byte().flatten().tolist()).hex()


COMPUTATION = Computation(
    protocol="A small convolutional network learns digits; the fast gradient sign method of the "
    "library changes one test digit along its gradient, with rising ε.",
    scales={
        "smoke": Config(source="digits", images=100, epochs=1, epsilons=(0.1, 0.3)),
        "small": Config(),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=("The paper does not say which image it shows, nor how its network looks.",),
)
