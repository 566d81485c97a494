"""A training step of Mult-VAE against RecBole's, its memory, and how cost grows with data.

600-200-600, 20,000 items, batch 500, histories of about 70 items. Contenders take turns in one
process: compare ratios within a run. See README.md in this folder.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn

from dubio import masks
from dubio.recommend import VAE, evaluate
from dubio.recommend.sparse import SparseRows
from dubio.recommend.step_noise import step_noise
from dubio.recommend.training import TrainingRun
from dubio.recommend.training_plan import TrainingPlan
from dubio.recommend.weights import initialise

ITEMS, BATCH, HIDDEN, LATENT = 20_000, 500, 600, 200
USERS, LENGTH = 2_000, 73
PLAIN, MIXTURE, LEARNED, RECBOLE = "dubio", "dubio, V = 2", "dubio, learned rates", "RecBole"
NARROW = "dubio, bfloat16"
MODELS: dict[str, Callable[[], VAE]] = {
    PLAIN: VAE,
    MIXTURE: lambda: VAE(mixture=3),
    LEARNED: lambda: VAE(mask=masks.LearnableBernoulli, mixture=3),
}

Step = Callable[[], float]


def histories(users: int, items: int = ITEMS, length: int = LENGTH) -> csr_array:
    """Items that follow Zipf's law, in histories whose lengths vary as widely as MovieLens'."""
    rng = np.random.default_rng(0)
    popularity = np.cumsum(1 / np.arange(10, items + 10) ** 0.8)
    lengths = rng.gamma(1.2, length / 1.2, users).astype(np.int64) + 5
    chosen = np.searchsorted(popularity, popularity[-1] * rng.random(lengths.sum()))
    rows = np.repeat(np.arange(users), lengths)
    found = csr_array((np.ones(len(rows), np.float32), (rows, chosen)), shape=(users, items))
    found.sum_duplicates()
    found.data[:] = 1
    return found


def plan(**changes: Any) -> TrainingPlan:
    numbers = {
        "epochs": 10**6,
        "batch_size": BATCH,
        "learning_rate": 1e-3,
        "rate_learning_rate": 1e-2,
        "weight_decay": 0.0,
        "patience": 10**6,
        "beta": 0.2,
        "anneal": 200_000,
        "seed": 0,
    }
    return TrainingPlan(**{**numbers, **changes})


def start(model: VAE, x: csr_array, **changes: Any) -> TrainingRun:
    network = model._build(x.shape[1], x.shape[0])
    initialise(network, torch.Generator().manual_seed(0))
    return TrainingRun(network, x, plan(**changes))


def dubio_step(model: VAE, x: csr_array, **changes: Any) -> Step:
    """The loop of `fit`, one step at a time, with batches, noise and Adam."""
    run = start(model, x, **changes)

    def forever() -> Any:
        while True:
            yield from run.steps()
            run.end_epoch(None)

    steps = forever()
    return lambda: next(steps)


class History:
    """As much of a data set as RecBole's autoencoders ask for."""

    def __init__(self, x: csr_array) -> None:
        lengths = np.diff(x.indptr)
        self._items = torch.zeros(x.shape[0], int(lengths.max()), dtype=torch.long)
        self._values = torch.zeros(self._items.shape)
        for user, (first, last) in enumerate(zip(x.indptr, x.indptr[1:], strict=False)):
            self._items[user, : last - first] = torch.from_numpy(x.indices[first:last]).long()
            self._values[user, : last - first] = 1
        self._counts = {"user": x.shape[0], "item": x.shape[1]}

    def num(self, field: str) -> int:
        """How many users or items."""
        return self._counts[field]

    def history_item_matrix(self) -> tuple[Tensor, Tensor, None]:
        """Items and values of each user, padded."""
        return self._items, self._values, None


class DenseMultVAE(nn.Module):
    """RecBole's MultiVAE written anew, for machines without it: dense rows and dense scores."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.items, self.values, _ = history.history_item_matrix()
        count = history.num("item")
        self.encoder = nn.Sequential(
            nn.Linear(count, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2 * LATENT)
        )
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, count))

    def calculate_loss(self, interaction: dict[str, Tensor]) -> Tensor:
        """The mean loss of a batch of users."""
        user = interaction["user"]
        columns = self.items[user].flatten()
        rows = torch.arange(len(user)).repeat_interleave(self.items.shape[1])
        x = torch.zeros(1).repeat(len(user), self.decoder[-1].out_features)
        x.index_put_((rows, columns), self.values[user].flatten())
        h = self.encoder(F.dropout(F.normalize(x), 0.5))
        mean, log_variance = h[:, :LATENT], h[:, LATENT:]
        std = torch.exp(0.5 * log_variance)
        g = self.decoder(mean + torch.zeros_like(std).normal_(mean=0, std=0.01) * std)
        kl = -0.5 * torch.mean(
            torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp(), dim=1)
        )
        return -(F.log_softmax(g, 1) * x).sum(1).mean() + 0.2 * kl


def recbole_step(x: csr_array) -> tuple[Step, str]:
    """A step of RecBole's trainer, and where the model is from."""
    history = History(x)
    try:
        from recbole.model.general_recommender.multivae import MultiVAE
    except ImportError:
        model: Any = DenseMultVAE(history)
        source = "written anew, RecBole is not installed"
    else:
        config = {
            "USER_ID_FIELD": "user",
            "ITEM_ID_FIELD": "item",
            "NEG_PREFIX": "neg_",
            "device": torch.device("cpu"),
            "mlp_hidden_size": [HIDDEN],
            "latent_dimension": 2 * LATENT,
            "dropout_prob": 0.5,
            "anneal_cap": 0.2,
            "total_anneal_steps": 200_000,
        }
        model, source = MultiVAE(config, history), "RecBole's own"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # as its trainer makes it
    order = torch.Generator().manual_seed(0)

    def take() -> float:
        optimizer.zero_grad()
        users = torch.randperm(x.shape[0], generator=order)[:BATCH]
        loss = model.calculate_loss({"user": users})
        value = loss.item()
        loss.backward()
        optimizer.step()
        return value

    return take, source


@dataclass(frozen=True)
class Row:
    """One contender.

    Attributes:
        seconds: Of a step: with one thread the median of CPU time, with more the minimum of wall
            time.
        ratio: Of its time over that of the plain VAE: with one thread the median over rounds.
        spread: Half the distance of the quartiles of the ratio over rounds.
    """

    threads: int
    contender: str
    seconds: float
    ratio: float
    spread: float
    target: str


def measure(threads: int, rounds: int) -> list[Row]:
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    x = histories(USERS)
    steps: dict[str, Step] = {name: dubio_step(make(), x) for name, make in MODELS.items()}
    steps[NARROW] = dubio_step(VAE(), x, precision="bfloat16")
    steps[RECBOLE], source = recbole_step(x)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, take in steps.items():
            began = clock()
            take()
            if number >= 2:  # the first rounds warm up
                seconds[name].append(clock() - began)
    print(f"\n{threads} thread{'s' * (threads > 1)}; the peer is {source}")
    targets = {RECBOLE: f"at least {2.5 if threads == 1 else 3}", MIXTURE: "at most 1.35"}
    rows = []
    for name, values in seconds.items():
        ratios = [one / base for one, base in zip(values, seconds[PLAIN], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        best, ratio = statistics.median(values), middle
        if threads > 1:  # threads wait for each other: another process delays them all
            best, ratio = min(values), min(values) / min(seconds[PLAIN])
        row = Row(threads, name, best, ratio, (high - low) / 2, targets.get(name, ""))
        print(f"{name:24}{best:8.3f} s {ratio:6.2f} ± {row.spread:.2f}  {row.target}")
        rows.append(row)
    return rows


def show_noise(rows: list[Row]) -> None:
    """The noise of a step with learned rates, beside the step."""
    torch.set_num_threads(1)
    x = SparseRows.of(histories(BATCH))
    seeds = np.arange(BATCH, dtype=np.uint64)
    mask = masks.LearnableBernoulli(ITEMS)
    seconds = []
    for _ in range(11):
        began = time.process_time()
        step_noise(x, seeds, mask, mixture=3, latent=LATENT)
        seconds.append(time.process_time() - began)
    noise = statistics.median(seconds)
    step = next(row.seconds for row in rows if row.contender == LEARNED)
    print(f"\nnoise of a step with learned rates: {noise:.4f} s, {100 * noise / step:.1f} % of it")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def memory_of(name: str) -> tuple[float, float]:
    """Gigabytes of a process beyond data and parameters, and those of gradient and moments."""
    torch.set_num_threads(1)
    x = histories(USERS)
    if name == RECBOLE:
        step, _ = recbole_step(x)
    else:
        step = dubio_step(MODELS[name](), x)
    before = peak()
    for _ in range(4):
        step()
    weights = (2 * ITEMS * HIDDEN + 2 * HIDDEN * LATENT + HIDDEN * LATENT) * 4e-9
    return peak() - before, 3 * weights


def evaluation_memory(users: int) -> float:
    """Gigabytes that an evaluation adds to data and model."""
    torch.set_num_threads(1)
    x = histories(users, 2_000, 20)
    held = histories(users, 2_000, 10)
    held = csr_array(held - held.multiply(x))
    held.eliminate_zeros()
    model = VAE(100, 20).fit(x[:500], epochs=1, progress=False)
    before = peak()
    evaluate(model, x, held, ["ndcg@100"], draws=2)
    return peak() - before


def in_child(*arguments: str) -> Any:
    """What a process of its own measures: peaks of memory do not fall again."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def show_memory() -> None:
    print("\nmemory beyond parameters, GB (of it gradients and Adam's moments); at most .6")
    for name in [*MODELS, RECBOLE]:
        extra, moments = in_child("--memory", name)
        print(f"{name:24}{extra:6.2f} ({moments:.2f})", flush=True)


def show_growth() -> None:
    torch.set_num_threads(1)
    print("\nan epoch with 1×, 10× and 100× the interactions, 2,000 items, 100-20-100")
    for users in (500, 5_000, 50_000):
        x = histories(users, 2_000, 20)
        run = start(VAE(100, 20), x)
        seconds = []
        for _ in range(2 if users == 50_000 else 5):
            began = time.process_time()
            for _ in run.steps():
                pass
            run.end_epoch(None)
            seconds.append(time.process_time() - began)
        each = 1e6 * min(seconds) / x.nnz
        print(f"{x.nnz:9,} interactions{min(seconds):8.2f} s{each:8.2f} µs each")
    print("evaluation, GB beyond data and model")
    for users in (2_000, 20_000, 200_000):
        print(f"{users:9,} users{in_child('--evaluation', str(users)):8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps-only", action="store_true", help="no memory and no growth")
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--evaluation", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory_of(options.memory)))
        return
    if options.evaluation:
        print(json.dumps(evaluation_memory(options.evaluation)))
        return
    if not options.steps_only:
        show_memory()
        show_growth()
    rows = [row for threads in options.threads for row in measure(threads, options.rounds)]
    if rows and rows[0].threads == 1:
        show_noise(rows)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
