"""The numbers of figure 3: MC dropout from ten draws, against many."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from dubio import data, predict
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.gal2016.curves import (
    CO2_KINDS,
    DEVIATIONS,
    NOISE_PRECISION,
    SCALES,
    Config,
    co2_observed,
    curve,
    learning_curve,
    train,
)

GROUPS = 100
"""Independent estimates from T draws; the reference uses all of their draws."""


def pieces(config: Config) -> list[Piece]:
    """A piece for each restart."""
    return [{"model": "relu", "restart": restart} for restart in range(1, config.restarts + 1)]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The rows of a piece."""
    observed = data.co2()
    x, y = observed.x.float(), observed.y.float()
    network, losses = train(config, CO2_KINDS["relu"], x, y)
    yield from learning_curve(losses, config.iterations)
    drawn = torch.linspace(-1.8, float(observed.test_x.max()), config.points)[:, None]
    outputs = predict(network, drawn, draws=GROUPS * config.draws).draws.squeeze(2)  # (S, B)
    noise = 1 / NOISE_PRECISION
    mean, std = outputs.mean(0), (outputs.var(0, correction=0) + noise).sqrt()
    groups = outputs.unflatten(0, (GROUPS, config.draws))  # (groups, T, B)
    few_mean = groups.mean(1)
    few_std = (groups.var(1, correction=0) + noise).sqrt()
    yield {"metric": "mean-error", "value": rms((few_mean - mean) / std)}
    yield {"metric": "std-ratio", "value": float((few_std / std).mean())}
    yield {"metric": "std-error", "value": rms(few_std / std - 1)}
    if piece["restart"] == 1:
        yield from curve(drawn, few_mean[0], few_std[0], method="few")
        yield from curve(drawn, mean, std, method="many")


def rms(values: torch.Tensor) -> float:
    """Root mean square."""
    return float(values.square().mean().sqrt())


COMPUTATION = Computation(
    protocol="The ReLU network of figure 2 is trained again. Its mean and standard deviation are "
    "estimated from ten stochastic passes, a hundred times, and compared with those from all "
    "thousand passes.",
    scales={
        "smoke": replace(SCALES["smoke"], draws=10),
        "small": replace(SCALES["small"], draws=10),
        "paper": replace(SCALES["paper"], draws=10),
    },
    pieces=pieces,
    run=run,
    backdrop=co2_observed,
    deviations=(
        *DEVIATIONS,
        "The data come from the authors' files: 272 months, standardised and linearly "
        "detrended; x* is ours, see figure 2.",
    ),
)
