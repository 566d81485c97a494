"""The numbers of figure 2: networks and a Gaussian process on CO2, and far to the right of it."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from dubio import data
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.gal2016.bands import X_STAR
from dubio_studies.gal2016.curves import (
    CO2_KINDS,
    DEVIATIONS,
    SCALES,
    Config,
    co2_observed,
    curve,
    learning_curve,
    mc_dropout,
    standard_dropout,
    train,
)
from dubio_studies.gal2016.gaussian_process import SquaredExponential

DRAWN = ("relu", "tanh")
FAR = (X_STAR, 10.0, 30.0, 100.0, 300.0, 1000.0)

Distribution = Callable[[Tensor], tuple[Tensor, Tensor]]  # inputs to means and deviations


def pieces(config: Config) -> list[Piece]:
    """A piece for each network and restart, and the Gaussian process."""
    networks: list[Piece] = [
        {"model": model, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for model in CO2_KINDS
    ]
    return [*networks, {"model": "gp", "restart": 1}]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The rows of a piece."""
    observed = data.co2()
    x, y = observed.x.float(), observed.y.float()
    drawn = torch.linspace(-1.8, float(observed.test_x.max()), config.points)[:, None]
    model = str(piece["model"])
    if model == "gp":
        process = SquaredExponential.fit(x, y)
        for metric, value in process.settings.items():
            yield {"metric": metric, "value": value}
        yield from described("gp", process.predict, x, y)
        yield from curve(drawn, *process.predict(drawn), method="gp")
        return
    network, losses = train(config, CO2_KINDS[model], x, y)
    yield from learning_curve(losses, config.iterations)

    def mc(places: Tensor) -> tuple[Tensor, Tensor]:
        found = mc_dropout(network, places, config.draws)
        return found.mean, found.std

    def averaged(places: Tensor) -> tuple[Tensor, Tensor]:
        return standard_dropout(network, places), torch.zeros(len(places))

    methods: dict[str, Distribution] = {"mc": mc}
    if model == "relu":
        methods["standard"] = averaged
    for method, predicted in methods.items():
        yield from described(method, predicted, x, y)
        if piece["restart"] == 1 and model in DRAWN:
            yield from curve(drawn, *predicted(drawn), method=method)


def described(method: str, predicted: Distribution, x: Tensor, y: Tensor) -> Iterator[Measurement]:
    """Fit and spread on the data, and what is predicted at x* and further out."""
    mean, std = (part.flatten().double() for part in predicted(x))
    rmse = (mean - y.flatten()).square().mean().sqrt()
    yield {"method": method, "metric": "rmse", "value": float(rmse)}
    yield {"method": method, "metric": "std-on-data", "value": float(std.square().mean().sqrt())}
    mean, std = (part.flatten() for part in predicted(torch.tensor(FAR)[:, None]))
    for place, value, spread in zip(FAR, mean.tolist(), std.tolist(), strict=True):
        yield {"method": method, "metric": "far", "x": place, "value": value, "std": spread}


COMPUTATION = Computation(
    protocol="Networks with four hidden layers and dropout after each are trained on 272 months "
    "of CO2 at Mauna Loa, with the date as the only input. Standard dropout is one pass with "
    "averaged weights. MC dropout is the mean and standard deviation of many stochastic "
    "passes plus noise of precision 1e5, on the data, to the right of it and at x*. The "
    "Gaussian process of scikit-learn has a constant times a squared exponential kernel plus "
    "white noise. Its amplitude, length scale and noise maximise the evidence, starting from "
    "three length scales, since a second optimum treats the seasons as noise. Errors are "
    "over restarts of the networks.",
    scales=SCALES,
    pieces=pieces,
    run=run,
    backdrop=co2_observed,
    deviations=(
        *DEVIATIONS,
        "The data come from the authors' files: 272 months, not about 200 points, "
        "standardised and linearly detrended, which the paper does not say. Their 1000 test "
        "inputs have no observations, so there is no truth to compare with.",
        "The paper does not say where x* is: ours is 3, in the middle of the test inputs. "
        "The inputs beyond them, up to 1000, are also ours.",
        "In the authors' files the TanH network with rate 0.2 has no weight decay, and the "
        "one with rate 0.1 does.",
    ),
)
