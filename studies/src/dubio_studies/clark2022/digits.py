"""The networks of section 4.2: two hidden layers on MNIST, by several methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import nn

import dubio
from dubio.likelihoods import Categorical
from dubio.priors import Gaussian, Laplace, Prior, ScaleMixture
from dubio_studies.framework.study import Piece, Scale, Seed
from dubio_studies.mnist import checks
from dubio_studies.mnist.images import CLASSES, PIXELS, Digits, Scaled, Source, load
from dubio_studies.mnist.training import DigitTraining, TrainedDigits, trained

Method = Literal[
    "gaussian",
    "mixture",
    "laplace",
    "slow gaussian",
    "cold gaussian",
    "cold mixture",
    "dropout",
    "plain",
]
"""Bayes by Backprop with one of three priors; the same with the paper's Gaussian prior and
deviations that learn slowly, so that training ends before they have settled; the same with less
weight on the KL, which is no posterior of the model; fixed dropout; neither."""

BAYESIAN: tuple[Method, ...] = (
    "gaussian", "mixture", "laplace", "slow gaussian", "cold gaussian", "cold mixture",
)  # fmt: skip

Loss = Literal["cross-entropy", "double softmax"]
"""double softmax is the authors': a softmax in the network, and another in its loss."""


@dataclass(frozen=True)
class Networks:
    """Settings of the networks, which the studies of section 4.2 share.

    Attributes:
        source: mnist; or digits, those of scikit-learn, to try it without data.
        images: Training images.
        test_images: Test images.
        restarts: Networks of each kind, each with its own initial weights and noise.
        epochs: Epochs of Bayes by Backprop.
        point_epochs: Epochs of networks without random weights.
        batch_size: Images per step of Bayes by Backprop.
        learning_rate: Initial learning rate of Bayes by Backprop.
        cold: The weight of the KL in the variant called cold.
        slow: The learning rate of deviations in the variant called slow, relative to that of means.
        slow_sigma: The deviation of its prior.
        slow_deviation: Initial deviation of all its weights.
        prior_sigma: The deviation of the Gaussian prior.
        slab_sigma: The wide deviation of the mixture.
        spike_sigma: Its narrow one.
        laplace_scale: The scale b of the Laplace prior.
        deviation: Initial deviation of all weights.
        drop_pixels: The dropout rate of pixels.
        drop_units: The dropout rate of hidden units.
        draws: Draws of the weights per prediction.
    """

    source: Source = "mnist"
    images: int = 60_000
    test_images: int = 10_000
    restarts: int = 3
    epochs: int = 100
    point_epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 2e-3
    cold: float = 0.1
    slow: float = 0.2
    slow_sigma: float = 1.0
    slow_deviation: float = 0.01
    prior_sigma: float = 0.2
    slab_sigma: float = 0.2
    spike_sigma: float = 0.02
    laplace_scale: float = 0.05
    deviation: float = 0.02
    drop_pixels: float = 0.1
    drop_units: float = 0.3
    draws: int = 50

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        checks.at_least(
            1,
            images=self.images,
            restarts=self.restarts,
            epochs=self.epochs,
            point_epochs=self.point_epochs,
            batch_size=self.batch_size,
            draws=self.draws,
        )
        checks.at_least(2, test_images=self.test_images)  # for standard errors
        checks.available(self.source, {"images": self.images}, {"test_images": self.test_images})
        checks.positive(
            learning_rate=self.learning_rate,
            cold=self.cold,
            slow=self.slow,
            slow_sigma=self.slow_sigma,
            slow_deviation=self.slow_deviation,
            prior_sigma=self.prior_sigma,
            slab_sigma=self.slab_sigma,
            spike_sigma=self.spike_sigma,
            laplace_scale=self.laplace_scale,
            deviation=self.deviation,
        )
        checks.rates(drop_pixels=self.drop_pixels, drop_units=self.drop_units)

    def digits(self) -> Digits:
        """The images; the same for all networks."""
        return load(self.source, self.images, self.test_images, seed=0)

    def trained(
        self,
        method: Method,
        width: int,
        restart: int,
        seed: int,
        loss: Loss = "cross-entropy",
    ) -> TrainedDigits:
        """A network by one of the methods, trained now or before.

        Args:
            method: How its weights are learned.
            width: Units per hidden layer.
            restart: Tells equal networks apart.
            seed: That which the user gave.
            loss: Whether the classes' scores are made probabilities once, or twice.
        """
        digits = self.digits()
        bayesian = method in BAYESIAN
        kl_weight = self.cold if method.startswith("cold") else 1.0
        identity = {
            "method": method,
            "loss": loss,
            "width": width,
            "prior": repr(self.prior(method)) if bayesian else "",
            "deviation": self.start(method) if bayesian else 0.0,
            "kl weight": kl_weight,
            "source": self.source,
            "images": len(digits.train),
            "test images": len(digits.test),
            "restart": restart,
            "seed": seed,
        }
        if method == "dropout":
            identity |= {"drop pixels": self.drop_pixels, "drop units": self.drop_units}

        def make() -> dubio.ELBO:
            network = self.network(method, width)
            if loss == "double softmax":
                network.append(nn.Softmax(-1))
            return dubio.ELBO(
                network, Categorical(), num_data=len(digits.train), kl_weight=kl_weight
            )

        return trained(make, identity, digits, self.training(method))

    def of(self, piece: Piece, seed: Seed) -> TrainedDigits:
        """The network that a piece names by method, width, restart and, perhaps, loss."""
        return self.trained(
            cast(Method, piece["method"]),
            cast(int, piece["width"]),
            cast(int, piece["restart"]),
            seed.given,
            cast(Loss, piece.get("loss", "cross-entropy")),
        )

    def training(self, method: Method) -> DigitTraining:
        """How a method's networks learn."""
        if method not in BAYESIAN:
            return DigitTraining(self.point_epochs)
        pace = self.slow * self.learning_rate if method == "slow gaussian" else None
        return DigitTraining(self.epochs, self.batch_size, self.learning_rate, pace)

    def start(self, method: Method) -> float:
        """The deviation that random weights begin with."""
        return self.slow_deviation if method == "slow gaussian" else self.deviation

    def network(self, method: Method, width: int) -> nn.Sequential:
        """Bytes – width – width – 10 with ReLU."""

        def layer(inputs: int, outputs: int) -> nn.Module:
            plain = nn.Linear(inputs, outputs)
            if method in BAYESIAN:
                return dubio.Bayesian(plain, prior=self.prior(method), deviation=self.start(method))
            if method == "plain":
                return plain
            drop = self.drop_pixels if inputs == PIXELS else self.drop_units
            return nn.Sequential(nn.Dropout(drop), plain)

        return nn.Sequential(
            Scaled(),
            nn.Flatten(),
            layer(PIXELS, width),
            nn.ReLU(),
            layer(width, width),
            nn.ReLU(),
            layer(width, CLASSES),
        )

    def prior(self, method: Method) -> Prior:
        """What a weight is beforehand."""
        match method.removeprefix("cold "):
            case "mixture":
                return ScaleMixture(0.5, self.slab_sigma, self.spike_sigma)
            case "slow gaussian":
                return Gaussian(self.slow_sigma)
            case "laplace":
                return Laplace(self.laplace_scale)
            case _:
                return Gaussian(self.prior_sigma)


@dataclass(frozen=True)
class NetworksByWidth(Networks):
    """Settings of networks with several numbers of units.

    Attributes:
        widths: Units per hidden layer.
    """

    widths: tuple[int, ...] = (400, 800, 1200)

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        super().__post_init__()
        checks.each_at_least(1, widths=self.widths)

    def pieces(self, methods: Sequence[Method]) -> list[Piece]:
        """A piece for each network, the widest first."""
        return [
            {"method": method, "width": width, "restart": restart}
            for width in sorted(self.widths, reverse=True)
            for method in methods
            for restart in range(1, self.restarts + 1)
        ]


SMOKE: Mapping[str, Any] = {
    "source": "digits",
    "images": 300,
    "test_images": 100,
    "restarts": 1,
    "epochs": 3,
    "point_epochs": 2,
    "draws": 3,
}
SMALL: Mapping[str, Any] = {"restarts": 1, "epochs": 40, "point_epochs": 40}
PAPER: Mapping[str, Any] = {}
"""Settings at each scale: the same in all studies, so that they find each other's networks."""
SCALES_BY_WIDTH: Mapping[Scale, NetworksByWidth] = {
    "smoke": NetworksByWidth(**SMOKE, widths=(16,)),
    "small": NetworksByWidth(**SMALL, widths=(400,)),
    "paper": NetworksByWidth(**PAPER),
}
