"""Two classes on a line, a network with dropout, and what it says far away."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Bernoulli
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

SEEN = 1.0  # training data lie between −1 and 1
FAR = 6.0  # x*


@dataclass(frozen=True)
class Config:
    """Settings of the sketch.

    Attributes:
        rows: Training data.
        width: Units of each of two hidden layers.
        drop: The dropout rate.
        epochs: How often training goes through the data.
        draws: Stochastic passes.
        points: Inputs of the curves.
    """

    rows: int = 200
    width: int = 100
    drop: float = 0.2
    epochs: int = 300
    draws: int = 1000
    points: int = 121

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if (lowest := min(self.rows, self.width, self.epochs)) < 1:
            raise ValueError(f"rows, width, epochs: expected at least 1, got {lowest}.")
        if (lowest := min(self.draws, self.points)) < 2:
            raise ValueError(f"draws, points: expected at least 2, got {lowest}.")
        if not 0 < self.drop < 1:
            raise ValueError(f"drop: expected a rate in (0, 1), got {self.drop}.")


def pieces(config: Config) -> list[Piece]:
    """One piece."""
    return [{"part": "sketch"}]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Logits and probabilities on a line that goes far beyond the data."""
    x = torch.empty(config.rows, 1).uniform_(-SEEN, SEEN)
    y = (x + 0.3 * torch.randn_like(x) > 0).float()  # classes overlap at zero
    network = perceptron(config)
    elbo = dubio.ELBO(network, Bernoulli(), num_data=config.rows)
    dubio.fit(elbo, (x, y), epochs=config.epochs, batch_size=50, progress=False)
    at = torch.linspace(-FAR, FAR, config.points)[:, None]
    drawn = dubio.predict(network, at, draws=config.draws).draws[..., 0]  # (S, N)
    with torch.no_grad():
        point = network.eval()(at)[:, 0]
    yield from curves(at[:, 0], point, drawn)


def perceptron(config: Config) -> nn.Sequential:
    """1 – width – width – 1 with dropout behind both hidden layers."""
    width, drop = config.width, config.drop
    return nn.Sequential(
        nn.Linear(1, width), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(width, 1),
    )  # fmt: skip


def curves(at: Tensor, point: Tensor, drawn: Tensor) -> Iterator[Measurement]:
    """Softmax input and output: of one pass without noise, and quantiles over draws."""
    levels = drawn.new_tensor([0.05, 0.95])
    for metric, one, many in (
        ("input", point, drawn),
        ("output", point.sigmoid(), drawn.sigmoid()),
    ):
        low, high = many.quantile(levels, dim=0)
        columns = {"x": at, "value": one, "mean": many.mean(0), "low": low, "high": high}
        for place in range(len(at)):
            numbers = {name: float(f"{column[place]:.6g}") for name, column in columns.items()}
            yield {"metric": metric, **numbers}


COMPUTATION = Computation(
    protocol=f"Two classes that overlap at zero are seen between −{SEEN:g} and {SEEN:g}. A network "
    "with two hidden layers and dropout learns them; its softmax input and output are drawn far "
    "beyond the data, by one pass without noise and by many with it.",
    scales={
        "smoke": Config(rows=40, width=10, epochs=3, draws=20, points=13),
        "small": Config(),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=("The paper's figure is a drawing of an idealised problem; this one is computed.",),
)
