"""Where learned dropout rates end: from several starts, with more data, and in wider networks.

Networks learn y = 2x + 8 + N(0, 1) (Gal et al. 2017, section 4.1) until their rates stand still.
See README.md in this folder.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import torch
from torch import Tensor, nn

from dubio import ELBO, Masked
from dubio.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian, Likelihood
from dubio.masks import Concrete, LearnableBernoulli
from dubio.masks.mask import LearnedRate
from dubio.report.progress import Progress

STARTS = [0.05, 0.1, 0.2, 0.35, 0.5]
SIZES = [10, 25, 50, 100, 1000, 10_000]
WIDTHS = [16, 32, 64, 128, 256, 512]
MASKS: dict[str, type[LearnedRate]] = {"concrete": Concrete, "bernoulli": LearnableBernoulli}
NOISES: dict[str, Callable[[], Likelihood]] = {
    "fixed": lambda: Gaussian(1.0),
    "learned": lambda: LearnedGaussian(0.1),
    "by input": HeteroscedasticGaussian,
}
ESTIMATOR = "corrected"  # of Bernoulli masks: unbiased, also where one unit, the input, decides all
LENGTH_SCALE = 1e-4  # the authors': a prior that hardly matters
ROWS = 250  # of a batch: more masks for every example where there are fewer examples
BLOCK = 1000  # steps whose rates are averaged
STILL = 0.01  # a rate that moves less from block to block
TREND = 0.01  # what counts as a fall or a rise


@dataclass(frozen=True)
class Run:
    """One network to be trained."""

    mask: str = "concrete"
    noise: str = "fixed"
    num_data: int = 1000
    width: int = 64
    start: float = 0.1
    seed: int = 0
    blocks: int = 12  # at most


@dataclass(frozen=True)
class Outcome:
    """Where it ended.

    Attributes:
        rates: By layer, from the input on; averages over the last block.
        loss: The objective, averaged likewise.
        steps: How many it took.
        drift: The largest move of a rate over the last two pairs of blocks.
    """

    rates: list[float]
    loss: float
    steps: int
    drift: float

    @property
    def converged(self) -> bool:
        """Whether all rates stood still from block to block, twice in a row."""
        return self.drift < STILL


def network(run: Run) -> nn.Sequential:
    """Two hidden layers, and a mask with one rate before each layer of weights."""

    def masked(inputs: int, outputs: int) -> Masked:
        mask = MASKS[run.mask](drop=run.start)
        return Masked(nn.Linear(inputs, outputs), mask, length_scale=LENGTH_SCALE)

    outputs = 2 if run.noise == "by input" else 1
    return nn.Sequential(
        masked(1, run.width), nn.ReLU(),
        masked(run.width, run.width), nn.ReLU(),
        masked(run.width, outputs),
    )  # fmt: skip


def batches(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """All data, as often as they fit, or a random part of them; without end."""
    repeats = max(1, ROWS // len(x))
    everything = x.repeat(repeats, 1), y.repeat(repeats, 1)
    while True:
        if len(x) <= ROWS:
            yield everything
        else:
            rows = torch.randint(len(x), (ROWS,))
            yield x[rows], y[rows]


def train(run: Run) -> Outcome:
    """Train until the rates stand still at a constant learning rate.

    While the weights know nothing yet, all noise does harm; rates that learn from the first step
    on fall to where their gradient, which is proportional to the rate, is gone. So the weights
    have the first block for themselves, and the bias starts at the mean of the targets.
    """
    torch.set_num_threads(1)
    torch.manual_seed(run.seed)
    x = torch.randn(run.num_data, 1)
    y = 2 * x + 8 + torch.randn(run.num_data, 1)
    model = network(run)
    layers = [layer for layer in model if isinstance(layer, Masked)]
    with torch.no_grad():
        layers[-1].layer.bias[0] = y.mean()
    elbo = ELBO(model, NOISES[run.noise](), run.num_data, estimator=ESTIMATOR)
    logits = [layer.mask.logit for layer in layers]
    others = [p for name, p in elbo.named_parameters() if not name.endswith("logit")]
    optimizer = torch.optim.Adam(
        [{"params": others, "lr": 1e-2}, {"params": logits, "lr": 0.0}], fused=True
    )
    stream = batches(x, y)
    means: list[Tensor] = []  # rates by block
    outcome = Outcome([], math.nan, 0, math.inf)
    for block in range(run.blocks):
        rates, losses = [], []
        for _ in range(BLOCK):
            optimizer.zero_grad()
            loss = elbo(*next(stream))
            loss.backward()
            optimizer.step()
            rates.append(torch.cat([layer.mask.drop for layer in layers]))
            losses.append(loss.detach())
        means.append(torch.stack(rates).mean(0))
        optimizer.param_groups[1]["lr"] = 2e-2
        drift = math.inf
        if block >= 3:  # the first block has not moved any rate
            drift = float(torch.stack(means[-3:]).diff(dim=0).abs().max())
        loss = float(torch.stack(losses).mean())
        outcome = Outcome(means[-1].tolist(), loss, (block + 1) * BLOCK, drift)
        if outcome.converged:
            break
    return outcome


HEAD = f"{'input':>8} {'hidden 1':>8} {'hidden 2':>8} {'loss':>9} {'steps':>6} {'drift':>6}"


def row(label: str, outcome: Outcome) -> str:
    rates = " ".join(f"{rate:8.3f}" for rate in outcome.rates)
    end = "" if outcome.converged else "  NOT CONVERGED"
    return f"{label:>8} {rates} {outcome.loss:9.4f} {outcome.steps:6d} {outcome.drift:6.3f}{end}"


def spread(outcomes: Sequence[Outcome]) -> str:
    rates = torch.tensor([outcome.rates for outcome in outcomes])
    between = rates.amax(0) - rates.amin(0)
    return "largest difference: " + ", ".join(f"{value:.3f}" for value in between.tolist())


def trend(outcomes: Sequence[Outcome]) -> str:
    """Whether the rates of each hidden layer only fall or only rise, up to TREND."""
    steps = torch.tensor([outcome.rates for outcome in outcomes]).diff(dim=0)

    def name(changes: Tensor) -> str:
        if changes.abs().max() <= TREND:
            return "stays"
        if changes.max() <= TREND:
            return "falls"
        return "rises" if changes.min() >= -TREND else "neither falls nor rises throughout"

    names = ["input", "hidden 1", "hidden 2"]
    return "; ".join(f"{n} {name(steps[:, i])}" for i, n in enumerate(names))


@dataclass(frozen=True)
class Table:
    """Runs that differ in one respect, and what is to be read from them."""

    title: str
    column: str
    labels: Sequence[float]
    runs: Sequence[Run]
    conclude: Callable[[Sequence[Outcome]], str]


def tables(names: Sequence[str], base: Run) -> Iterator[Table]:
    def about(run: Run) -> str:
        return f"{run.mask} masks, {run.noise} noise precision"

    if "starts" in names:
        for mask in MASKS:
            run = replace(base, mask=mask)
            runs = [replace(run, start=start) for start in STARTS]
            title = f"starts: {about(run)}, N = {run.num_data}, width {run.width}"
            yield Table(title, "start", STARTS, runs, spread)
    if "data" in names:
        series = [("concrete", "fixed"), ("bernoulli", "learned"), ("concrete", "by input")]
        for mask, noise in series:
            run = replace(base, mask=mask, noise=noise)
            runs = [replace(run, num_data=size) for size in SIZES]
            yield Table(f"data: {about(run)}, width {run.width}", "N", SIZES, runs, trend)
    if "widths" in names:
        for mask in MASKS:
            run = replace(base, mask=mask)
            runs = [replace(run, width=width) for width in WIDTHS]
            yield Table(f"widths: {about(run)}, N = {run.num_data}", "width", WIDTHS, runs, trend)


def show(every: Iterable[Table], workers: int) -> None:
    every = list(every)
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        Progress("training", sum(len(table.runs) for table in every)) as progress,
    ):
        waiting = [[pool.submit(train, run) for run in table.runs] for table in every]
        for table, futures in zip(every, waiting, strict=True):
            print(f"\n{table.title}\n{table.column:>8} {HEAD}", flush=True)
            outcomes = []
            for label, future in zip(table.labels, futures, strict=True):
                outcomes.append(future.result())
                print(row(f"{label:g}", outcomes[-1]), flush=True)
                progress.advance()
            print(table.conclude(outcomes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["starts", "data", "widths"]
    parser.add_argument("tables", nargs="*", default=names, choices=names, metavar="table")
    parser.add_argument("--num-data", type=int, default=1000, help="examples, where it is fixed")
    parser.add_argument("--width", type=int, default=64, help="of a hidden layer, likewise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=12, help=f"of {BLOCK} steps, at most")
    parser.add_argument("--workers", type=int, default=2, help="networks to train at a time")
    arguments = parser.parse_args()
    base = Run(
        num_data=arguments.num_data,
        width=arguments.width,
        seed=arguments.seed,
        blocks=arguments.blocks,
    )
    show(tables(arguments.tables, base), arguments.workers)


if __name__ == "__main__":
    main()
