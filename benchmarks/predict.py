"""Time of T draws: dubio, the Python loop, the peers that are installed, and two limits.

Contenders are measured in turns in one process, so compare them within a run, never across runs.
One thread: CPU time, median. More threads: wall time, minimum. See README.md in this folder.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from peers import PEERS, installed, limit, loop

TURN = 0.1  # seconds: fast contenders are called several times in a turn

Contender = Callable[[], Tensor]


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(0.2), nn.Linear(784, 400), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(400, 400), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(400, 10),
    )  # fmt: skip


def conv() -> nn.Sequential:
    trunk: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128), (128, 256)):
        trunk += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        trunk += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *trunk, nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(1024, 10),
    )  # fmt: skip


def regression(rate: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(8, 1024), nn.ReLU(),
        nn.Dropout(rate), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Dropout(rate), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Dropout(rate), nn.Linear(1024, 1),
    )  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A network, a batch and a number of draws, with the speed-ups to reach.

    Attributes:
        targets: The least speed-up of each of dubio's ways.
        against_loop: Whether that is against the loop; else against the best peer.
        slow: Whether one round takes most of a minute: fewer rounds, and no peer, since the batch
            repeated T times does not fit the memory of small machines.
    """

    build: Callable[[], nn.Sequential]
    batch: tuple[int, ...]
    draws: int
    targets: dict[str, float] = field(default_factory=dict)
    against_loop: bool = False
    slow: bool = False


PER_ROW, SHARED = "dubio, per row", "dubio, shared"
DENSE, GATHERED = "limit, dense", "limit, gathered"
LIMIT_OF = {SHARED: GATHERED, GATHERED: GATHERED}  # of all others: DENSE

_IMAGES = (64, 3, 32, 32)
CELLS = {
    "mlp-10": Cell(mlp, (128, 784), 10, {PER_ROW: 2.3}),
    "mlp-100": Cell(mlp, (128, 784), 100, {PER_ROW: 2.6, SHARED: 5.0}),
    "conv-10": Cell(conv, _IMAGES, 10, {PER_ROW: 8.0, SHARED: 8.0}, against_loop=True),
    "conv-100": Cell(conv, _IMAGES, 100, {PER_ROW: 30.0, SHARED: 30.0}, True, slow=True),
    "reg.1-10": Cell(lambda: regression(0.1), (1000, 8), 10, {PER_ROW: 1.3, SHARED: 2.0}),
    "reg.5-10": Cell(lambda: regression(0.5), (1000, 8), 10, {SHARED: 6.0}),
}


def contenders(cell: Cell, peers: list[str]) -> dict[str, Contender]:
    """Everything that is measured in a cell, by name; all but the limits give the draws."""
    torch.manual_seed(0)
    net, x, draws = cell.build(), torch.randn(cell.batch), cell.draws
    builders = {"loop": loop} | {name: PEERS[name] for name in peers if not cell.slow}
    samplers = {name: build(net, draws) for name, build in builders.items()}
    samplers[PER_ROW] = lambda x: dubio.predict(net, x, draws=draws).draws
    samplers[SHARED] = lambda x: dubio.predict(net, x, draws=draws, shared=True).draws
    for name, sampler in samplers.items():
        _check(name, sampler(x), (draws, *net(x).shape))
    samplers[DENSE] = limit(net, draws, len(x), gathered=False)
    samplers[GATHERED] = limit(net, draws, len(x), gathered=True)
    return {name: partial(sampler, x) for name, sampler in samplers.items()}


def _check(name: str, sample: Tensor, shape: tuple[int, ...]) -> None:
    """Everybody must have done the work."""
    if tuple(sample.shape) != shape or not (sample.std(0) > 0).all():
        raise RuntimeError(f"{name}: expected different draws {shape}, got {tuple(sample.shape)}.")


def measure(contenders: dict[str, Contender], rounds: int, threads: int) -> dict[str, list[float]]:
    """Seconds of every call; in each round every contender has its turn, in random order."""
    clock = time.process_time if threads == 1 else time.perf_counter
    order = random.Random(0)

    def call(name: str) -> float:
        start = clock()
        contenders[name]()
        return clock() - start

    calls = {name: max(1, int(TURN / call(name))) for name in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in order.sample(list(contenders), len(contenders)):
            seconds[name] += [call(name) for _ in range(calls[name])]
    return seconds


def typical(seconds: dict[str, list[float]], threads: int) -> dict[str, float]:
    """The median of each contender; of wall time, which others disturb, the minimum."""
    summary = statistics.median if threads == 1 else min
    return {name: summary(values) for name, values in seconds.items()}


@dataclass(frozen=True)
class Row:
    """One contender in one cell; ratios are speed-ups.

    Attributes:
        spread: Half the distance of the quartiles of the calls, as a fraction of their median.
        to_peer: Against the best peer, or the loop if no peer took part.
        of_limit: Time of the limit over its time: 1 could not be faster.
    """

    cell: str
    threads: int
    rounds: int
    contender: str
    milliseconds: float
    spread: float
    to_peer: float
    to_loop: float
    of_limit: float
    target: float | None
    reached: bool | None


def rows(name: str, threads: int, rounds: int, peers: list[str]) -> Iterator[Row]:
    """Measure a cell."""
    cell = CELLS[name]
    rounds = max(3, rounds // 5) if cell.slow else rounds
    seconds = measure(contenders(cell, peers), rounds, threads)
    took = typical(seconds, threads)
    best_peer = min((took[peer] for peer in peers if peer in took), default=took["loop"])
    for contender, values in seconds.items():
        low, median, high = statistics.quantiles(values, n=4)
        to_peer, to_loop = best_peer / took[contender], took["loop"] / took[contender]
        target = cell.targets.get(contender)
        speedup = to_loop if cell.against_loop else to_peer
        yield Row(
            cell=name,
            threads=threads,
            rounds=rounds,
            contender=contender,
            milliseconds=1e3 * took[contender],
            spread=(high - low) / 2 / median,
            to_peer=to_peer,
            to_loop=to_loop,
            of_limit=took[LIMIT_OF.get(contender, DENSE)] / took[contender],
            target=target,
            reached=None if target is None else speedup >= target,
        )


def cost_of_masks(rounds: int, threads: int) -> dict[float, float]:
    """Time of `F.dropout` on 1280 × 400 activations over that of their 400 × 400 layer, by rate."""
    x, weight = torch.randn(1280, 400), torch.randn(400, 400)
    runs: dict[str, Contender] = {
        "product": lambda: torch.mm(x, weight),
        "0.1": lambda: F.dropout(x, 0.1),
        "0.5": lambda: F.dropout(x, 0.5),
    }
    took = typical(measure(runs, rounds, threads), threads)
    return {rate: took[str(rate)] / took["product"] for rate in (0.1, 0.5)}


def show(table: list[Row]) -> None:
    head = table[0]
    print(f"\n{head.cell}: {CELLS[head.cell].draws} draws, {head.rounds} rounds")
    print(f"{'':20}{'ms':>9}{'±':>6}{'× peer':>9}{'× loop':>9}{'of limit':>10}   target")
    for row in table:
        verdict = ""
        if row.target is not None:
            whom = "loop" if CELLS[row.cell].against_loop else "peer"
            verdict = f"{row.target:g} × {whom}: {'reached' if row.reached else 'NOT reached'}"
        print(
            f"{row.contender:20}{row.milliseconds:9.1f}{row.spread:6.0%}{row.to_peer:9.2f}"
            f"{row.to_loop:9.2f}{row.of_limit:10.2f}   {verdict}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: expected at least 2")
    torch.set_grad_enabled(False)
    peers = installed()
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    print("peers:", ", ".join(f"{name} {version}" for name, version in peers.items()) or "none")
    everything: list[Row] = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        what = "wall time, minimum" if threads > 1 else "CPU time, median"
        masks = cost_of_masks(options.rounds, threads)
        print(f"\n=== threads: {threads} ({what})")
        print("F.dropout over its matrix product, 1280 × 400:", end=" ")
        print(", ".join(f"rate {rate}: {ratio:.2f}" for rate, ratio in masks.items()))
        for name in options.cells:
            table = list(rows(name, threads, options.rounds, list(peers)))
            show(table)
            everything += table
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in everything], indent=1) + "\n")


if __name__ == "__main__":
    main()
