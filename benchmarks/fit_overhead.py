"""What `dubio.fit` adds to a bare training loop, per step, as a ratio.

Both train a network 784-400-400-10 on batches of 128 with fused Adam. They take turns step by step:
after every step of the optimizer of `fit` the bare loop makes a step on a network of its own. A
control has a bare loop in the place of `fit` too, since going first or second is not the same. One
thread: CPU time. More threads: wall time. See README.md in this folder.
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
TARGET = 0.03  # of a bare step


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


OBJECTIVES = {"cross-entropy": plain, "concrete-elbo": concrete}


Train = Callable[[nn.Module, Tensor, Tensor, torch.optim.Optimizer], object]


def bare_steps(
    objective: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer
) -> Iterator[None]:
    """An epoch as anyone would write it who knows that index_select beats indexing."""
    for rows in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        objective(x.index_select(0, rows), y.index_select(0, rows)).backward()
        optimizer.step()
        yield


def bare(objective: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer) -> None:
    for _ in bare_steps(objective, x, y, optimizer):
        pass


def fit(objective: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer) -> None:
    dubio.fit(objective, (x, y), epochs=1, batch_size=BATCH, optimizer=optimizer)


def ratios(
    build: Callable[[int], nn.Module], train: Train, rows: int, clock: Callable[[], float]
) -> list[float]:
    """Time of every step of ``train`` over that of the bare step before it, in one epoch."""
    x, y = torch.randn(rows, 784), torch.randint(10, (rows,))
    other, objective = build(rows), build(rows)
    others = bare_steps(other, x, y, torch.optim.Adam(other.parameters(), fused=True))
    optimizer = torch.optim.Adam(objective.parameters(), fused=True)
    ticks: list[tuple[float, float]] = []  # it stops for the bare step, and goes on

    def take_turns(*_: object) -> None:
        stopped = clock()
        next(others)
        ticks.append((stopped, clock()))

    optimizer.register_step_post_hook(take_turns)
    train(objective, x, y, optimizer)
    return [(after - on) / (on - before) for (before, on), (after, _) in pairwise(ticks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=12_800)
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"torch {torch.__version__}, threads: {options.threads}, rounds: {options.rounds}")
    print(f"{'':24}{'control':>9}{'fit':>9}{'overhead':>10}{'± s.e.':>8}   target")
    for name in options.objectives:
        medians: dict[Train, list[float]] = {bare: [], fit: []}
        for _ in range(options.rounds):
            for train, found in medians.items():
                steps = ratios(OBJECTIVES[name], train, options.rows, clock)
                found.append(statistics.median(steps))
        overheads = [a / b - 1 for a, b in zip(medians[fit], medians[bare], strict=True)]
        overhead = statistics.median(overheads)
        error = 1.25 * statistics.stdev(overheads) / len(overheads) ** 0.5  # of a median
        control, ours = (statistics.median(found) for found in medians.values())
        print(
            f"{name:24}{control:9.3f}{ours:9.3f}{overhead:10.1%}{error:8.1%}   < {TARGET:.0%} "
            f"{'reached' if overhead < TARGET else 'NOT reached'}"
        )


if __name__ == "__main__":
    main()
