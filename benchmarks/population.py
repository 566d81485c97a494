"""Networks trained as a population, against the same networks one by one, as a ratio.

The networks of the regression tables, 13-50-1 and 8-50-50-1, by each method. One by one is a bare
loop with fused Adam, and `dubio.fit`; some of the networks are trained so, and their time is scaled
to all. The population's time has everything in it, stacking included. All take turns. One thread:
CPU time. More threads: wall time. See README.md in this folder.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

import dubio

ROWS, TARGET = 455, 10.0
SHAPES = {"13-50-1": (13, 50, 1), "8-50-50-1": (8, 50, 50, 1)}
Layer = Callable[[int, int], nn.Module]


def masked(mask: Callable[[], dubio.masks.Mask]) -> Layer:
    return lambda ins, outs: dubio.Masked(nn.Linear(ins, outs), mask())


METHODS: dict[str, Layer] = {
    "plain": nn.Linear,
    "mc-dropout": masked(dubio.masks.Bernoulli),
    "concrete": masked(dubio.masks.Concrete),
    "learnable": masked(dubio.masks.LearnableBernoulli),
    "bayes": lambda ins, outs: dubio.BayesLinear(ins, outs),
}


def objective(method: str, shape: tuple[int, ...]) -> dubio.ELBO:
    layers: list[nn.Module] = []
    for ins, outs in pairwise(shape):
        layers += [METHODS[method](ins, outs), nn.ReLU()]
    return dubio.ELBO(nn.Sequential(*layers[:-1]), dubio.likelihoods.Gaussian(4.0), ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--alone", type=int, default=5, help="networks trained one by one")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(
        f"torch {torch.__version__}, threads: {options.threads}, members: {options.members}, "
        f"batch size: {options.batch_size}, epochs: {options.epochs}"
    )
    print(f"{'':24}{'µs/step':>9}{'× loop':>8}{'× fit':>8}   target")
    for name, shape in SHAPES.items():
        x, y = torch.randn(ROWS, shape[0]), torch.randn(ROWS, 1)

        def loop(net: nn.Module, x: torch.Tensor = x, y: torch.Tensor = y) -> None:
            adam = torch.optim.Adam(net.parameters(), fused=True)
            for _ in range(options.epochs):
                for rows in torch.randperm(ROWS).split(options.batch_size):
                    adam.zero_grad()
                    net(x.index_select(0, rows), y.index_select(0, rows)).backward()
                    adam.step()

        def fit(net: nn.Module, x: torch.Tensor = x, y: torch.Tensor = y) -> None:
            dubio.fit(net, (x, y), epochs=options.epochs, batch_size=options.batch_size)

        for method in options.methods:
            seconds: dict[str, list[float]] = {"population": [], "loop": [], "fit": []}
            population = dubio.Population(
                [objective(method, shape) for _ in range(options.members)]
            )
            for _ in range(options.rounds):
                start = clock()
                outcome = population.fit(x, y, epochs=options.epochs, batch_size=options.batch_size)
                seconds["population"].append((clock() - start) / options.members)
                for kind, train in (("loop", loop), ("fit", fit)):
                    nets = [objective(method, shape) for _ in range(options.alone)]
                    start = clock()
                    for net in nets:
                        train(net)
                    seconds[kind].append((clock() - start) / options.alone)
            ours, bare, fitted = (statistics.median(found) for found in seconds.values())
            print(
                f"{method + ' ' + name:24}{ours / int(outcome.steps[0]) * 1e6:9.1f}"
                f"{bare / ours:8.1f}{fitted / ours:8.1f}   >= {TARGET:g} "
                f"{'reached' if bare / ours >= TARGET else 'NOT reached'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
