"""What `dubio.fit` adds to a bare training loop, per step, as a ratio.

Both train a network 784-400-400-10 on batches of 128 with fused Adam. They take turns step by step:
after every step of the optimizer of `fit` the bare loop makes a step on a network of its own.
One thread: CPU time. More threads: wall time. See README.md in this folder.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio

BATCH = 128
TARGET = 1.03  # the largest ratio that is all right


class CrossEntropy(nn.Module):
    """A plain network and its loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The mean cross-entropy."""
        return F.cross_entropy(self.net(x), y)


def plain(num_data: int) -> nn.Module:
    return CrossEntropy(
        nn.Sequential(
            nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
        )
    )


def concrete(num_data: int) -> nn.Module:
    model = nn.Sequential(
        dubio.Masked(nn.Linear(784, 400), dubio.masks.Concrete(784)), nn.ReLU(),
        dubio.Masked(nn.Linear(400, 400), dubio.masks.Concrete(400)), nn.ReLU(),
        dubio.Masked(nn.Linear(400, 10), dubio.masks.Concrete(400)),
    )  # fmt: skip
    return dubio.ELBO(model, dubio.likelihoods.Categorical(), num_data)


OBJECTIVES = {"cross-entropy": plain, "ELBO, Concrete dropout": concrete}


def bare_steps(objective: nn.Module, x: Tensor, y: Tensor) -> Iterator[None]:
    """The loop as anyone would write it who knows that index_select beats indexing."""
    optimizer = torch.optim.Adam(objective.parameters(), fused=True)
    while True:
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            objective(x.index_select(0, rows), y.index_select(0, rows)).backward()
            optimizer.step()
            yield


def measure(
    build: Callable[[int], nn.Module], rows: int, epochs: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Seconds of every step of the bare loop and of the step of `fit` that follows it."""
    x, y = torch.randn(rows, 784), torch.randint(10, (rows,))
    bare = bare_steps(build(rows), x, y)
    objective = build(rows)
    optimizer = torch.optim.Adam(objective.parameters(), fused=True)
    ticks: list[tuple[float, float]] = []  # fit stops for the bare step, and goes on

    def take_turns(*_: object) -> None:
        stopped = clock()
        next(bare)
        ticks.append((stopped, clock()))

    optimizer.register_step_post_hook(take_turns)
    dubio.fit(objective, (x, y), epochs=epochs, batch_size=BATCH, optimizer=optimizer)
    by_bare = [on - stopped for stopped, on in ticks[:-1]]
    by_fit = [stopped - on for (_, on), (stopped, _) in pairwise(ticks)]
    return by_bare, by_fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=12_800)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"torch {torch.__version__}, threads: {options.threads}")
    print(f"{'':24}{'bare, ms':>10}{'fit, ms':>10}{'ratio':>8}{'quartiles':>14}   target {TARGET}")
    for name, build in OBJECTIVES.items():
        bare, fit = measure(build, options.rows, options.epochs, clock)
        ratios = [a / b for a, b in zip(fit, bare, strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:24}{1e3 * statistics.median(bare):10.2f}{1e3 * statistics.median(fit):10.2f}"
            f"{ratio:8.3f}{low:8.2f}–{high:.2f}   {'reached' if ratio < TARGET else 'NOT reached'}"
        )


if __name__ == "__main__":
    main()
