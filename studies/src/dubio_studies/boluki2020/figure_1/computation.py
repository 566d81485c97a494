"""The numbers of figure 1: gradient estimates on a grid of rates, along a path, and by width."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dubio_studies.boluki2020.gradients import (
    GROUPS,
    METHODS,
    Quality,
    bare_toy,
    gradients,
    jackknife,
    toy,
)
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed


@dataclass(frozen=True)
class Config:
    """Settings of the toy example.

    Attributes:
        grid: Rates of keeping, σ(α1) and σ(α2), at which gradients are compared.
        samples: One-sample gradients behind each bias, deviation and error.
        networks: Further random networks, each at random rates.
        trace_steps: Steps of gradient descent with the true gradient.
        trace_every: Steps between two points of the trace.
        trace_samples: One-sample gradients that are averaged at each point of the trace.
        trace_rate: Learning rate of the descent.
        trace_start: Rate of keeping of both units at its start.
        widths: Hidden units in the sequel.
        width_samples: One-sample gradients at each width; fewer at large ones.
        methods: Concrete, and estimators of the library for learnable Bernoulli masks.
        temperature: Of the Concrete masks.
    """

    grid: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    samples: int = 200
    networks: int = 50
    trace_steps: int = 200
    trace_every: int = 2
    trace_samples: int = 50
    trace_rate: float = 1.0
    trace_start: float = 0.5
    widths: tuple[int, ...] = (2, 20, 200, 2000)
    width_samples: int = 200
    methods: tuple[str, ...] = METHODS
    temperature: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        for rate in (*self.grid, self.trace_start):
            if not 0.0 < rate < 1.0:
                raise ValueError(f"grid, trace_start: expected rates in (0, 1), got {rate}.")
        if min(self.samples, self.width_samples) < 2 * GROUPS:
            raise ValueError(
                f"samples, width_samples: expected at least {2 * GROUPS}, got "
                f"{min(self.samples, self.width_samples)}."
            )
        counts = (self.networks, self.trace_steps, self.trace_every, self.trace_samples)
        if (lowest := min(*counts, *self.widths)) < 1:
            raise ValueError(
                "networks, trace_steps, trace_every, trace_samples, widths: expected at least 1, "
                f"got {lowest}."
            )
        if not {"concrete", "arm", "trapezoid"} <= set(self.methods) <= set(METHODS):
            raise ValueError(
                f"methods: expected concrete, arm, trapezoid and others of {', '.join(METHODS)}, "
                f"got {', '.join(self.methods)}."
            )
        if not (0 < self.temperature < math.inf and 0 < self.trace_rate < math.inf):
            raise ValueError(
                "temperature, trace_rate: expected positive numbers, got "
                f"{self.temperature} and {self.trace_rate}."
            )


def pieces(config: Config) -> list[Piece]:
    """A piece for each point of the grid, network, traced method, and method at a width."""
    grid: list[Piece] = [
        {"part": "grid", "keep1": keep1, "keep2": keep2}
        for keep1 in config.grid
        for keep2 in config.grid
    ]
    networks: list[Piece] = [
        {"part": "networks", "network": number} for number in range(1, config.networks + 1)
    ]
    trace: list[Piece] = [{"part": "trace", "method": method} for method in config.methods]
    width: list[Piece] = [
        {"part": "width", "width": width, "method": method}
        for width in sorted(config.widths, reverse=True)  # the longest first
        for method in config.methods
    ]
    return [*width, *trace, *grid, *networks]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The rows of a piece."""
    if piece["part"] == "grid":
        keep = [float(str(piece["keep1"])), float(str(piece["keep2"]))]
        yield from at_rates(config, keep, seed.common, seed.own)
    elif piece["part"] == "networks":
        keep = torch.empty(2).uniform_(0.1, 0.9).tolist()  # seeded, see `Seed`
        rows = at_rates(config, keep, seed.own, seed.own)
        yield from (row for row in rows if row["metric"] == "mse")
    elif piece["part"] == "trace":
        yield from along_descent(config, str(piece["method"]), seed)
    else:
        yield from at_width(config, int(str(piece["width"])), str(piece["method"]), seed)


def at_rates(
    config: Config, keep: Sequence[float], network_seed: int, noise_seed: int
) -> Iterator[Measurement]:
    """Truth, bias, standard deviation and mean squared error of a network at these rates."""
    problem = bare_toy(keep, network_seed)
    for unit, truth in enumerate(problem.truth.tolist(), start=1):
        yield {"unit": unit, "method": "truth", "metric": "gradient", "value": truth}
    for method in config.methods:
        drawn = gradients(
            problem, method, config.samples, seed=noise_seed, temperature=config.temperature
        ).double()  # (samples, 2)
        bias = drawn.mean(0) - problem.truth
        std = drawn.std(0)
        mse = (drawn - problem.truth).square().mean(0)
        for unit in (1, 2):
            of = unit - 1
            row: Measurement = {"unit": unit, "method": method}
            error = float(std[of]) / math.sqrt(len(drawn))
            yield {**row, "metric": "bias", "value": float(bias[of]), "error": error}
            yield {**row, "metric": "std", "value": float(std[of])}
            yield {**row, "metric": "mse", "value": float(mse[of])}


def along_descent(config: Config, method: str, seed: Seed) -> Iterator[Measurement]:
    """True and estimated gradients where gradient descent with the true ones passes by."""
    logit = torch.full((2,), config.trace_start, dtype=torch.float64).logit()
    for step in range(config.trace_steps + 1):
        problem = bare_toy(torch.sigmoid(logit).tolist(), seed.common)
        if step % config.trace_every == 0:
            drawn = gradients(
                problem,
                method,
                config.trace_samples,
                seed=seed.own + step,
                temperature=config.temperature,
            ).double()
            for unit in (1, 2):
                yield {
                    "unit": unit,
                    "step": step,
                    "metric": "gradient",
                    "value": float(drawn[:, unit - 1].mean()),
                    "truth": float(problem.truth[unit - 1]),
                }
        logit = logit - config.trace_rate * problem.truth


def at_width(config: Config, width: int, method: str, seed: Seed) -> Iterator[Measurement]:
    """Relative bias, deviation and RMSE with jackknife errors."""
    problem = toy(width, seed.common)
    samples = max(2 * GROUPS, config.width_samples // max(1, width // 500))
    drawn = gradients(problem, method, samples, seed=seed.own, temperature=config.temperature)

    def quality(metric: str, chosen: Tensor) -> float:
        return float(getattr(Quality.of(chosen, problem.truth), metric))

    for metric in ("bias", "deviation", "rmse"):
        yield {
            "metric": metric,
            "value": quality(metric, drawn),
            "error": jackknife(partial(quality, metric), drawn),
        }


COMPUTATION = Computation(
    protocol="A network with one input, two hidden ReLU units and one output has fixed random "
    "weights. Its 3000 data points come from the same network without ReLU and dropout. For "
    "every pair of rates the true gradient of the expected squared error is computed by "
    "summing over all masks. Bias, standard deviation and mean squared error come from "
    "one-sample gradients, with one mask per data point. The estimates are then compared "
    "along gradient descent with the true gradient. The sequel repeats the comparison at "
    "widths up to 2000, for all estimators of the library and with its masks z/keep.",
    scales={
        "smoke": Config(
            grid=(0.3, 0.7),
            samples=20,
            networks=2,
            trace_steps=4,
            trace_samples=5,
            widths=(2, 20),
            width_samples=20,
        ),
        "small": Config(grid=(0.1, 0.3, 0.5, 0.7, 0.9), networks=20, trace_every=4),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "The authors' code for this figure is not public, and the paper gives neither the "
        "weights nor their distribution: ours are N(0, 1), those of the output divided by "
        "√width, and the inputs N(0, 1). The outcome depends on the weights, so other random "
        "networks are compared too.",
        "Grid, learning rate, start and length of the descent are ours; the paper gives none.",
        "The paper does not give the temperature of Concrete: we use 0.1 as in Gal et al. "
        "2017. The authors' code for classification uses 0.67; try --temperature 0.67.",
        "The panels use bare masks z, as the paper's objective does; the library's masks z/keep "
        "are used in the sequel.",
        "Maps replace the paper's three-dimensional histograms.",
    ),
)
