"""The numbers of table 2: recommenders on data sets, their ablation, rates and spreads."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dubio.data import movielens_movies
from dubio.data.inventory import DATASETS
from dubio.recommend import VAE, Recommender
from dubio_studies.boluki2020.table_2 import methods
from dubio_studies.boluki2020.table_2.linear import NotInstalledError
from dubio_studies.boluki2020.table_2.methods import DETERMINISTIC, AutoencoderTraining
from dubio_studies.boluki2020.table_2.published import METHODS
from dubio_studies.boluki2020.table_2.ranking import Ranking, group_means, mean_and_error
from dubio_studies.boluki2020.table_2.spread import hit_rates
from dubio_studies.boluki2020.tasks import NAMES, NEW_USERS, Task, load
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

LEARNED = ("sivae-lbdrop", "vae-lbdrop", "sivae-cdrop", "sivae-gdrop")
SPREADS = ("sivae-lbdrop", "vae-drop")  # whose spreads are compared with hits
BINS = 8  # of scores
POPULARITIES = 25  # bins of items by popularity, each with as many
SHOWN = 10  # recommendations to the example user
LIKED = 8  # items of the example user's history


@dataclass(frozen=True)
class Config(AutoencoderTraining):
    """Settings of the comparison.

    Attributes:
        datasets: By Liang's protocol with new users: movielens-1m, ml-20m, netflix, msd; with the
            users of the training: gowalla, yelp2018, movielens-1m-diffrec,
            movielens-1m-infinite-ae.
        methods: Rows of the table.
        restarts: Networks of each row, which differ in initial weights and noise.
        draws: Stochastic passes at test time.
    """

    datasets: tuple[str, ...] = ("movielens-1m", "gowalla", "yelp2018")
    methods: tuple[str, ...] = tuple(METHODS)
    restarts: int = 3
    draws: int = 50

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if unknown := set(self.datasets) - set(NAMES):
            raise ValueError(f"datasets: expected some of {', '.join(NAMES)}, got {unknown}.")
        if unknown := set(self.methods) - set(METHODS):
            raise ValueError(f"methods: expected some of {', '.join(METHODS)}, got {unknown}.")
        if (lowest := min(self.restarts, self.epochs, self.anneal_epochs)) < 1:
            raise ValueError(f"restarts, epochs, anneal_epochs: expected at least 1, got {lowest}.")
        if self.draws < 2:
            raise ValueError(f"draws: expected at least 2, got {self.draws}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each data set, row and restart: first the whole table once.

    CDAE has a vector for each user of the training, so that new users are not for it.
    """
    return [
        {"dataset": dataset, "method": method, "restart": restart}
        for dataset in config.datasets
        for restart in range(1, config.restarts + 1)
        for method in config.methods
        if not (method == "cdae" and dataset in NEW_USERS)
        if not (method in DETERMINISTIC and restart > 1)
    ]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Fit a row of the table, and test it with the mean mask and with draws."""
    dataset, method = str(piece["dataset"]), str(piece["method"])
    task = load(dataset, seed.common)
    started = time.process_time()
    try:
        fitted = methods.fit(method, task, config, seed.own)
    except NotInstalledError as error:
        yield {"metric": "skipped", "value": str(error)}
        return
    yield {
        "metric": "users", "value": task.train.shape[0], "items": task.train.shape[1],
        "interactions": int(task.train.nnz), "cpu_seconds": time.process_time() - started,
    }  # fmt: skip
    for name, value in fitted.chosen.items():
        yield {"metric": f"chosen {name}", "value": value}
    model = fitted.model
    predictions = {"mean": 0, "draws": config.draws} if model.stochastic else {"mean": 0}
    for prediction, draws in predictions.items():
        ranking = Ranking.of(model, task.test, draws, seed.own)
        for row in scores(ranking, task.metrics):
            yield {"prediction": prediction, **row}
    if method in LEARNED:
        yield from kept(model, task)
    if method in SPREADS:
        yield from spreads(ranking)
    if method == "sivae-lbdrop" and piece["restart"] == 1:
        yield from example(ranking, task)


def scores(ranking: Ranking, metrics: tuple[str, ...]) -> Iterator[Measurement]:
    """Means over users with their standard errors; of the last metric also means of groups."""
    for metric in metrics:
        values = ranking.by_user(metric)
        mean, error = mean_and_error(values)
        yield {"metric": metric, "value": mean, "error": error, "cases": len(values)}
    yield {"metric": "groups", "of": metric, "value": group_means(values)}


def kept(model: Recommender, task: Task) -> Iterator[Measurement]:
    """Learned keep rates in bins of items by popularity, and their rank correlation."""
    assert isinstance(model, VAE)
    keep = model.keep
    popularity = np.bincount(task.train.indices, minlength=len(keep)) / task.train.shape[0]
    order = np.argsort(popularity, kind="stable")
    for part in np.array_split(order, min(POPULARITIES, len(order))):
        low, high = np.quantile(keep[part], (0.1, 0.9))
        yield {
            "metric": "keep", "value": float(keep[part].mean()), "low": float(low),
            "high": float(high), "popularity": float(popularity[part].mean()),
        }  # fmt: skip
    yield {"metric": "mean keep", "value": float(keep.mean())}
    if keep.std() > 0:
        rank = stats.spearmanr(keep, popularity).statistic
        yield {"metric": "keep against popularity", "value": float(rank)}


def spreads(ranking: Ranking) -> Iterator[Measurement]:
    """Hit rates of low and of high spreads at equal score; bin 0 is all of them together."""
    held_equal = {
        "score": ranking.scores.astype(np.float64),
        "predicted hits": ranking.predicted_hits,
    }
    for equal, values in held_equal.items():
        for number, rates in enumerate(hit_rates(ranking, values, BINS)):
            yield {
                "metric": "hits by spread", "equal": equal, "bin": number,
                "value": rates.low - rates.high, "error": rates.difference_error,
                "score": rates.score, "low": rates.low, "low_error": rates.low_error,
                "high": rates.high, "high_error": rates.high_error,
                "score_gap": rates.score_gap, "pairs": rates.pairs,
            }  # fmt: skip


def example(ranking: Ranking, task: Task) -> Iterator[Measurement]:
    """The test user with the median number of items: some of them, and what is recommended."""
    shown = task.test[0][ranking.users]
    lengths = np.diff(shown.indptr)
    row = int(np.argsort(lengths, kind="stable")[len(lengths) // 2])
    liked = shown[[row]].indices
    popularity = np.bincount(task.train.indices, minlength=shown.shape[1])
    for item in liked[np.argsort(-popularity[liked], kind="stable")][:LIKED]:
        yield {
            "metric": "liked", "value": int(task.items[item]), "of": int(lengths[row]),
        }  # fmt: skip
    for rank in range(min(SHOWN, ranking.ids.shape[1])):
        yield {
            "metric": "recommended", "rank": rank + 1,
            "value": int(task.items[ranking.ids[row, rank]]),
            "score": float(ranking.scores[row, rank]), "spread": float(ranking.spread[row, rank]),
            "hit": int(ranking.found[row, rank]),
        }  # fmt: skip


def backdrop() -> Iterator[Measurement]:
    """Titles of films, for the example user."""
    if DATASETS["movielens-1m"].here() is None:  # pages are made without downloads
        return
    for movie in movielens_movies():
        yield {"metric": "title", "item": movie.item, "value": movie.title}


COMPUTATION = Computation(
    protocol="Liang's protocol (MovieLens 1M, ML-20M, Netflix, MSD): ratings of 4 and 5, users "
        "with at least five; validation and test users are new, and a fifth of their items is "
        "held out. MovieLens 1M has 500 validation and 1000 test users. LightGCN's splits "
        "(Gowalla, Yelp 2018): held-out items of training users; Recall is over all held-out "
        "items. There a tenth of the training interactions selects epoch and β; then the model "
        "is refitted on all of them, and the test part is read once. VAEs have the layers of the "
        "paper, a multinomial likelihood and tanh. β rises from 0, and the epoch with the "
        "highest validation NDCG@100, with its β, is kept. SIVAE has three masks in the "
        "posterior. SIVAE rows of the table average draws at test time, as the authors do; the "
        "others make one pass without noise, as in Liang et al. Settings of EASE, SLIM and WMF "
        "are selected on the validation users. The ablation has both kinds of prediction for "
        "four models: rates fixed at 0.5 or learned, one mask or three. Claims and rules were "
        "written before the run.",
    scales={
        "smoke": Config(
            datasets=("tastes", "tastes-split"), restarts=1, draws=4, hidden=12, latent=6, epochs=3,
            batch_size=60,
        ),
        "small": Config(
            datasets=("movielens-1m",), epochs=100, anneal_epochs=120, patience=12,
            batch_size=250, learning_rate=2e-3,
        ),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    backdrop=backdrop,
    deviations=(
        "We do not have ML-20M, Netflix and MSD, the data sets of the paper; with their "
            "files in place, --datasets ml-20m netflix msd runs them. MovieLens 1M replaces "
            "them, with fewer held-out users.",
        "The gradient for learned rates is the trapezoid rule on all masks together, with "
            "the path through 1/keep and common noise. The authors' code multiplies two means "
            "over the batch, which hardly moves the rates: effectively they stay at 0.5, with "
            "mixture and draws.",
        "One of the three masks is decoded per step; the authors decode all three. The bound "
            "has the same expectation.",
        "Validation uses no noise; the authors average ten draws. There is no second "
            "training with β fixed at its best value.",
        "tanh as in Liang et al. 2018; the authors' code uses ReLU.",
        "VampPrior has 100 pseudo-inputs, IAF one autoregressive layer; the paper does not say.",
        "WMF is from the package implicit and SLIM from irspack, with a few settings each; "
            "the paper copies published numbers.",
    ),
)  # fmt: skip
