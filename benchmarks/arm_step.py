"""Cost of one training step with learned rates over the same step with ``nn.Dropout``.

A step is: zero the gradients, loss of a batch, backward, fused Adam. The rates stand where the
dropouts stood, one for each unit, and the KL is part of the loss. Contenders take turns in one
process; a cell is the median over rounds of the ratio within a round. One thread: CPU time.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import get_args

import torch
import torch.nn.functional as F
from predict import conv
from torch import Tensor, nn

from dubio import ELBO, Masked
from dubio.likelihoods import Categorical
from dubio.masks import Concrete, LearnableBernoulli, Mask
from dubio.objectives.estimators import Estimator

TURN = 0.3  # seconds: fast contenders take several steps in a turn

Step = Callable[[], object]


def mlp(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(0.2), nn.Linear(784, width), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(width, 10),
    )  # fmt: skip


def learned(network: nn.Sequential, mask: Callable[..., Mask]) -> nn.Sequential:
    """The network with learned rates in place of its dropouts."""
    parts: list[nn.Module] = []
    drop = 0.0
    for part in network:
        if isinstance(part, nn.Dropout):
            drop = part.p
        elif drop and isinstance(part, nn.Linear):
            parts.append(Masked(part, mask(part.in_features, drop=drop)))
            drop = 0.0
        else:
            parts.append(part)
    return nn.Sequential(*parts)


def step(
    network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> Step:
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)

    def take() -> None:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return take


def plain(network: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: F.cross_entropy(network(x), y)


def contenders(build: Callable[[], nn.Sequential], x: Tensor, y: Tensor) -> dict[str, Step]:
    reference = build()
    steps = {"nn.Dropout": step(reference, plain(reference), x, y)}
    for name in ["concrete", *get_args(Estimator)]:
        network = learned(build(), Concrete if name == "concrete" else LearnableBernoulli)
        estimator = "trapezoid_once" if name == "concrete" else name
        steps[name] = step(network, ELBO(network, Categorical(), 60_000, estimator=estimator), x, y)
    return steps


def measure(
    steps: dict[str, Step], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Seconds for one step of each over those of the first, median over rounds."""
    repeats = {}
    for name, take in steps.items():
        take()  # the first call allocates
        start = clock()
        take()
        repeats[name] = max(1, round(TURN / max(clock() - start, 1e-6)))
    ratios: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        seconds = {}
        for name, take in steps.items():
            start = clock()
            for _ in range(repeats[name]):
                take()
            seconds[name] = (clock() - start) / repeats[name]
        reference = next(iter(seconds.values()))
        for name in steps:
            ratios[name].append(seconds[name] / reference)
    return {name: statistics.median(values) for name, values in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    cells = {
        "MLP 400": (lambda: mlp(400), torch.rand(128, 784)),
        "MLP 1200": (lambda: mlp(1200), torch.rand(128, 784)),
        "conv trunk": (conv, torch.rand(64, 3, 32, 32)),
    }
    for title, (build, x) in cells.items():
        torch.manual_seed(0)
        y = torch.randint(10, (len(x),))
        found = measure(contenders(build, x, y), arguments.rounds, clock)
        print(f"\n{title}, batch {len(x)}, {arguments.threads} thread(s)")
        for name, ratio in found.items():
            print(f"{name:<16} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
