"""How good recommendations are: users by batches, of each only the best items, never all scores."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, issparse

from dubio.ranks import RANKS
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import seed_of
from dubio.recommend.recommender import Recommender
from dubio.report.progress import Progress

Floats: TypeAlias = npt.NDArray[np.float64]

_EDGES = np.array([0, *(2.0**-power for power in range(8, 0, -1)), 1.0])  # of bins of probabilities


class UserMean(NamedTuple):
    """A mean over users, and its standard error."""

    mean: float
    standard_error: float


@final
@dataclass(frozen=True, eq=False)
class HitCalibration:
    """Whether items are found as often as the model says.

    With probability p of an item to be next, among those that can be recommended, and m items to
    be found, the model says that it is one of them with probability 1 − (1 − p)ᵐ, which is right
    for small p: draws are taken to be with replacement. Bins are of this probability, each twice as
    wide as the one before; bins without items have NaN.

    Attributes:
        edges: Of the bins, (M + 1,).
        count: Recommended items, (M,).
        predicted: Mean predicted probability, (M,).
        observed: Share of items that were found, (M,).
    """

    edges: Floats
    count: npt.NDArray[np.int64]
    predicted: Floats
    observed: Floats

    @property
    def standard_error(self) -> Floats:
        """Of ``observed``, (M,), as if items were independent."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.observed * (1 - self.observed) / self.count)

    @property
    def mean_predicted(self) -> float:
        """Over all recommended items."""
        return float(np.nansum(self.predicted * self.count) / self.count.sum())

    @property
    def mean_observed(self) -> float:
        """Over all recommended items: what ``mean_predicted`` should be."""
        return float(np.nansum(self.observed * self.count) / self.count.sum())


@final
@dataclass(frozen=True, eq=False)
class RankingEvaluation:
    """What `evaluate` has found.

    Attributes:
        scores: By metric.
        users: How many users the means are over.
        left_out: How many users had no held-out items, and are in no mean.
        n: How many recommendations of each user the rest is about.
        coverage: The share of all items that are recommended to anybody.
        popularity: Mean over recommendations of the share of users with the item in their fold-in.
        calibration: Of models with probabilities; else None.
    """

    scores: dict[str, UserMean]
    users: int
    left_out: int
    n: int
    coverage: float
    popularity: float
    calibration: HitCalibration | None

    def __getitem__(self, metric: str) -> float:
        """The mean of a metric."""
        return self.scores[metric].mean

    def __str__(self) -> str:
        lines = [
            f"{name:<14} {score.mean:.4f} ± {score.standard_error:.4f}"
            for name, score in self.scores.items()
        ]
        lines += [
            f"{f'coverage@{self.n}':<14} {self.coverage:.4f}",
            f"{f'popularity@{self.n}':<14} {self.popularity:.4f}",
        ]
        if self.calibration is not None:
            said, seen = self.calibration.mean_predicted, self.calibration.mean_observed
            lines.append(f"{f'hits@{self.n}':<14} {seen:.4f}, predicted {said:.4f}")
        return "\n".join([*lines, f"{self.users} users; {self.left_out} without held-out items"])


def evaluate(
    model: Recommender,
    fold_in: Any,
    held_out: Any,
    metrics: Sequence[str] = ("recall@20", "recall@50", "ndcg@100"),
    *,
    exclude: Any = None,
    n: int = 20,
    draws: int | None = None,
    generator: torch.Generator | int | None = None,
    users: Sequence[Any] | npt.NDArray[Any] | None = None,
    batch: int = 500,
) -> RankingEvaluation:
    """Show a model the fold-in items of users, and see which held-out items it finds.

    Fold-in items are never recommended. Equal scores are in the order of item numbers.

    Args:
        model: A fitted model.
        fold_in: What it is shown, users × items.
        held_out: What it should find, users × items; the same users in the same order.
        metrics: Names with a cut-off: ``recall@R`` (over min(R, held-out), Liang et al. 2018),
            ``recall_all@R`` (over held-out, as LightGCN), ``ndcg@R``, ``hit@R``, ``mrr@R``,
            ``precision@R``; see `dubio.ranks`.
        exclude: Items that are not recommended either, such as those of the validation in a test:
            positions for everybody, or a sparse matrix users × items.
        n: How many recommendations of a user coverage, popularity and calibration are about.
        draws: Of the noise; 0 is one pass without noise. Default: ``draws`` of the model.
        generator: As in `Recommender.recommend`.
        users: Ids of the users, as in `Recommender.recommend`. Default: the numbers of the rows,
            but for models that know their users (`CDAE`), which must be told who they are.
        batch: How many users to go through at once.
    """
    shown = histories(fold_in, model.num_items, "fold_in")
    wanted = histories(held_out, model.num_items, "held_out")
    _check_pair(shown, wanted, "fold_in")
    cutoffs = {name: _parse(name) for name in metrics}
    if n < 1 or batch < 1:
        raise ValueError(f"n, batch: expected at least 1, got {n} and {batch}; 20 and 500 will do")
    depth = max([n, *(cutoff for _, cutoff in cutoffs.values())])
    seed = seed_of(generator)
    by_user = issparse(exclude)
    if by_user:
        exclude = histories(exclude, model.num_items, "exclude")
        _check_pair(exclude, wanted, "exclude")
    ids = _ids(model, users, shown.shape[0])
    tested = np.flatnonzero(np.diff(wanted.indptr))
    if not len(tested):
        raise ValueError("held_out: expected users with held-out items, got none; split anew")
    sums = _Sums(model.num_items, n)
    popularity = np.bincount(shown.indices, minlength=model.num_items) / shown.shape[0]
    with Progress("evaluate", len(tested)) as progress:
        for some in _chunks(tested, batch):
            given = model.recommend(
                shown[some],
                depth,
                exclude=exclude[some] if by_user else exclude,
                draws=draws,
                generator=seed,
                users=ids[some],
            )
            counts = np.diff(wanted.indptr)[some]
            found = _found(given.ids, wanted[some])
            sums.add_users(
                {
                    name: RANKS[kind](torch.from_numpy(found), torch.from_numpy(counts), cutoff)
                    for name, (kind, cutoff) in cutoffs.items()
                }
            )
            sums.add_items(given.ids, found, popularity)
            if model.probabilities:
                share = given.scores.astype(np.float64) / given.total[:, None]
                sums.add_predictions(1 - (1 - share) ** counts[:, None], given.ids, found)
            progress.advance(len(some))
    return RankingEvaluation(
        scores=sums.scores(),
        users=len(tested),
        left_out=wanted.shape[0] - len(tested),
        n=n,
        coverage=float(sums.covered.mean()),
        popularity=sums.popularity / max(sums.items, 1),
        calibration=sums.calibration() if model.probabilities else None,
    )


def _ids(
    model: Recommender, users: Sequence[Any] | npt.NDArray[Any] | None, rows: int
) -> npt.NDArray[Any]:
    if users is None:
        if model.knows_users:
            raise ValueError(
                f"users: expected the rows of these users in the training matrix, got none; "
                f"{type(model).__name__} has a vector for each of them: give −1 for new users"
            )
        return np.arange(rows)
    if len(users) != rows:
        raise ValueError(
            f"users: expected an id for each of the {rows} rows, got {len(users)}; give them in "
            "the order of the rows"
        )
    return np.asarray(users)


class _Sums:
    """What is added up over batches; its size does not depend on the number of users."""

    def __init__(self, num_items: int, n: int) -> None:
        self._n = n
        self._users = 0
        self._means: dict[str, float] = {}
        self._squares: dict[str, float] = {}
        self.covered = np.zeros(num_items, bool)
        self.items = 0
        self.popularity = 0.0
        self._bins = np.zeros((3, len(_EDGES) - 1))  # count, predicted, observed

    def add_users(self, scores: dict[str, torch.Tensor]) -> None:
        """Means and squared deviations of two samples together (Chan, Golub & LeVeque 1979)."""
        for name, values in scores.items():
            here, before = len(values), self._users
            change = float(values.mean()) - self._means.get(name, 0.0)
            squares = float(((values - values.mean()) ** 2).sum())
            self._means[name] = self._means.get(name, 0.0) + change * here / (before + here)
            self._squares[name] = (
                self._squares.get(name, 0.0) + squares + change**2 * before * here / (before + here)
            )
        self._users += here

    def add_items(self, ids: npt.NDArray[Any], found: npt.NDArray[Any], popularity: Floats) -> None:
        given = ids[:, : self._n]
        given = given[given >= 0]
        self.covered[given] = True
        self.items += len(given)
        self.popularity += float(popularity[given].sum())

    def add_predictions(
        self, predicted: Floats, ids: npt.NDArray[Any], found: npt.NDArray[Any]
    ) -> None:
        there = ids[:, : self._n] >= 0
        said, seen = predicted[:, : self._n][there], found[:, : self._n][there]
        bins = np.clip(np.digitize(said, _EDGES) - 1, 0, len(_EDGES) - 2)
        for row, weights in enumerate((None, said, seen)):
            self._bins[row] += np.bincount(bins, weights, minlength=len(_EDGES) - 1)

    def scores(self) -> dict[str, UserMean]:
        users = self._users
        return {
            name: UserMean(
                mean,
                (self._squares[name] / (users - 1) / users) ** 0.5 if users > 1 else float("nan"),
            )
            for name, mean in self._means.items()
        }

    def calibration(self) -> HitCalibration:
        count, predicted, observed = self._bins
        with np.errstate(invalid="ignore"):
            return HitCalibration(
                _EDGES.copy(), count.astype(np.int64), predicted / count, observed / count
            )


def _parse(metric: str) -> tuple[str, int]:
    """The name and the cut-off of a metric."""
    match = re.fullmatch(r"(\w+)@([1-9]\d*)", metric)
    if match is None or match[1] not in RANKS:
        raise ValueError(
            f"metrics: expected a name of {', '.join(RANKS)} with a cut-off, such as ndcg@100, got "
            f"{metric!r}; choose one"
        )
    return match[1], int(match[2])


def _check_pair(shown: csr_array, wanted: csr_array, name: str) -> None:
    if shown.shape != wanted.shape:
        raise ValueError(
            f"held_out: expected the users of {name}, {shown.shape[0]} rows, got "
            f"{wanted.shape[0]}; give both for the same users in the same order"
        )
    both = shown.multiply(wanted).nnz
    if both:
        raise ValueError(
            f"held_out: expected other items than {name}, got {both} in both, which are never "
            "recommended; split them"
        )


def _found(ids: npt.NDArray[np.int64], wanted: csr_array) -> npt.NDArray[np.bool_]:
    """Which of the items (B, R) are entries of their row; −1 is not."""
    users, items = wanted.shape
    row = np.repeat(np.arange(users, dtype=np.int64), np.diff(wanted.indptr))
    entries = row * items + wanted.indices
    asked = np.arange(users)[:, None] * items + ids
    return np.isin(asked, entries) & (ids >= 0)


def _chunks(users: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    return (users[start : start + size] for start in range(0, len(users), size))
