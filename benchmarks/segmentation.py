"""Time of T draws of networks that concatenate: dubio, dubio without splitting, the Python loop.

Dropout is in the middle of these networks. Behind it they read skip connections, or earlier
features, that are the same for all draws. Passes of the loop are timed before and after each
prediction, in one process; a speed-up is a median over rounds. One thread: CPU time. More: wall
time. ``--memory`` asks instead by
how much draws raise the peak memory of a process. See README.md in this folder.
"""

import argparse
import copy
import multiprocessing
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor, nn

import dubio
from dubio.draws import tape
from dubio.likelihoods import Categorical
from dubio_studies.networks.tiramisu import tiramisu56, tiramisu103

PASSES = 4  # of the loop before a prediction, and as many behind it
LOOP, TRUNK, DUBIO = "loop", "trunk once", "dubio"
CHUNKS = (1, 2, 5, None)  # draws that are computed at a time; None: as many as dubio chooses


class UNet(nn.Module):
    """Five resolutions, dropout at the lowest (Ronneberger et al. 2015, with BatchNorm)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(5)]
        self.down = nn.ModuleList(map(twice, [3, *widths[:3]], widths[:4]))
        self.middle = nn.Sequential(nn.Dropout(0.5), twice(widths[3], widths[4]), nn.Dropout(0.5))
        self.grow = nn.ModuleList(
            nn.ConvTranspose2d(2 * n, n, 2, stride=2) for n in reversed(widths[:4])
        )
        self.up = nn.ModuleList(twice(2 * n, n) for n in reversed(widths[:4]))
        self.last = nn.Conv2d(width, 11, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of every pixel."""
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([skips.pop(), grow(x)], dim=1))
        return self.last(x)


def twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class DenseNet(nn.Module):
    """DenseNet-121 with dropout in the layers of its last block (Huang et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)
        )
        channels, counts = 64, (6, 12, 24, 16)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        for count in counts:
            drop = 0.2 if count is counts[-1] else 0.0
            self.blocks.append(
                nn.ModuleList(bottleneck(channels + 32 * i, drop) for i in range(count))
            )
            channels += 32 * count
            norm = [nn.BatchNorm2d(channels), nn.ReLU()]
            if count is counts[-1]:
                self.transitions.append(nn.Sequential(*norm, nn.AdaptiveAvgPool2d(1), nn.Flatten()))
            else:
                channels //= 2
                halve = [nn.Conv2d(2 * channels, channels, 1), nn.AvgPool2d(2)]
                self.transitions.append(nn.Sequential(*norm, *halve))
        self.last = nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of every image."""
        x = self.first(x)
        for block, transition in zip(self.blocks, self.transitions, strict=True):
            for layer in block:
                x = torch.cat([x, layer(x)], dim=1)
            x = transition(x)
        return self.last(x)


def bottleneck(channels: int, drop: float) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 128, 1, bias=False),
        nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1, bias=False),
        *([nn.Dropout(drop)] if drop else []),
    )  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A network, a batch, and the speed-ups over the loop to reach, by draws."""

    build: Callable[[], nn.Module]
    batch: tuple[int, ...]
    targets: dict[int, float]
    layout: torch.memory_format = torch.contiguous_format


_CAMVID = (1, 3, 180, 240)
CELLS = {
    "fc-densenet-103": Cell(lambda: tiramisu103(11, dropout="middle"), _CAMVID, {10: 2.5, 50: 3.0}),
    "fc-densenet-103, channels last": Cell(
        lambda: tiramisu103(11, dropout="middle"), _CAMVID, {}, torch.channels_last
    ),
    "fc-densenet-56": Cell(lambda: tiramisu56(11, dropout="middle"), _CAMVID, {}),
    "u-net": Cell(UNet, (1, 3, 176, 240), {}),
    "densenet-121": Cell(DenseNet, (4, 3, 128, 128), {}),
}


@contextmanager
def unsplit() -> Iterator[None]:
    """Tapes as they were recorded: only what is before the dropout is computed once."""
    with mock.patch.object(tape, "split_concatenations", lambda steps, *_: list(steps)):
        yield


def contenders(network: nn.Module, x: Tensor) -> dict[str, Callable[[int], object]]:
    """Functions from a number of draws to that many.

    Each has a network of its own: what dubio knows of it is the same then.
    """
    other = copy.deepcopy(network)
    dropouts = [module for module in network.modules() if isinstance(module, nn.Dropout)]

    def loop(draws: int) -> Tensor:
        for dropout in dropouts:
            dropout.train()
        outputs = [network(x) for _ in range(draws)]
        network.eval()
        return torch.stack(outputs)

    def trunk_once(draws: int) -> Tensor:
        with unsplit():
            return dubio.predict(other, x, draws=draws).draws

    return {
        LOOP: loop,
        TRUNK: trunk_once,
        DUBIO: lambda draws: dubio.predict(network, x, draws=draws).draws,
    }


def error(network: nn.Module, x: Tensor) -> float:
    """The largest difference from plain passes under the same noise, over the largest output."""
    draws = dubio.predict(network, x, draws=3, generator=torch.Generator().manual_seed(1)).draws
    noise = dubio.Noise(3, generator=torch.Generator().manual_seed(1))
    largest = 0.0
    for k in range(3):
        with noise[k]:
            plain = network(x)
        largest = max(largest, float((draws[k] - plain).abs().max() / plain.abs().max()))
    return largest


def measure(cell: Cell, draws: int, rounds: int, threads: int) -> dict[str, float]:
    """Seconds of a pass of the loop, speed-ups of the others, and the error."""
    torch.manual_seed(0)
    network = cell.build().eval().to(memory_format=cell.layout)  # type: ignore[call-overload]
    x = torch.randn(cell.batch).to(memory_format=cell.layout)
    runs = contenders(network, x)
    clock = time.process_time if threads == 1 else time.perf_counter

    def timed(name: str, draws: int) -> float:
        start = clock()
        runs[name](draws)
        return (clock() - start) / draws

    for _ in range(4):  # at first tapes are compared; flags are looked at in calls 1, 2, 4, 8 …
        for name in runs:
            timed(name, 2)
    order = random.Random(0)
    passes, gains = list[float](), {TRUNK: list[float](), DUBIO: list[float]()}
    for _ in range(rounds):
        for name in order.sample(list(gains), len(gains)):
            before, own, after = timed(LOOP, PASSES), timed(name, draws), timed(LOOP, PASSES)
            passes.append((before + after) / 2)
            gains[name].append(passes[-1] / own)
    found = {name: statistics.median(values) for name, values in gains.items()}
    return {LOOP: statistics.median(passes), **found, "error": error(network, x)}


def peak_rise(draws: int, chunk: int | None) -> float:
    """Megabytes by which FC-DenseNet-103's draws raise the peak memory of a process of their own.

    With no draws: by which plain passes do.
    """
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    network = tiramisu103(11, dropout="middle").eval()
    x = torch.randn(_CAMVID)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if draws:
        likelihood = Categorical(dim=1)
        dubio.predict(network, x, draws=draws, chunk=chunk, likelihood=likelihood, keep_draws=False)
    else:
        network(x)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6


def print_memory(numbers: list[int]) -> None:
    """A line for each number of draws, a column for each chunk."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**20)  # so that freed tensors are given back
    context = multiprocessing.get_context("spawn")

    def measured(draws: int, chunk: int | None) -> str:
        with context.Pool(1) as process:
            return f"{process.apply(peak_rise, (draws, chunk)):.0f}"

    print(f"\nFC-DenseNet-103, megabytes: a plain pass {measured(0, None)}")
    heads = [f"chunk {chunk}" if chunk else "chosen" for chunk in CHUNKS]
    print(f"{'draws':8}" + "".join(f"{head:>10}" for head in heads))
    for draws in numbers:
        print(f"{draws:<8}", end="", flush=True)
        for chunk in CHUNKS:
            print(f"{measured(draws, chunk):>10}", end="", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--draws", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--memory", action="store_true", help="peak memory, not time")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    if options.memory:
        print_memory(options.draws)
        return
    for threads in options.threads:
        torch.set_num_threads(threads)
        print(f"\n=== threads: {threads}\n{'':32}{'T':>4}{'pass, s':>9}{'trunk once':>12}", end="")
        print(f"{'dubio':>8}{'error':>9}   target")
        for name in options.cells:
            for draws in options.draws:
                found = measure(CELLS[name], draws, options.rounds, threads)
                target, gain = CELLS[name].targets.get(draws), found[DUBIO]
                verdict = "" if target is None else "reached" if gain >= target else "NOT reached"
                print(f"{name:32}{draws:4}{found[LOOP]:9.2f}{found[TRUNK]:11.2f}×", end="")
                print(f"{gain:7.2f}×{found['error']:9.0e}   {target or ''} {verdict}", flush=True)


if __name__ == "__main__":
    main()
