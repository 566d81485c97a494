"""Evaluate recommendations, in batches of users, keeping only the best items of each."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, issparse

from dubio.ranks import RANKS
from dubio.recommend.arguments import whole
from dubio.recommend.asked import Users, check_users
from dubio.recommend.candidates import item_positions
from dubio.recommend.histories import histories
from dubio.recommend.hit_calibration import HitCalibration, Hits
from dubio.recommend.keyed_noise import seed_of
from dubio.recommend.recommender import Recommender
from dubio.report.progress import Progress

FloatArray: TypeAlias = npt.NDArray[np.float64]


class UserMean(NamedTuple):
    """A mean over users and its standard error."""

    mean: float
    standard_error: float


@final
@dataclass(frozen=True, eq=False)
class RankingEvaluation:
    """The result of `evaluate`.

    Attributes:
        scores: By metric, the mean over users and its standard error.
        by_user: By metric, the value of each user with held-out items, (users,).
        rows: Rows of these users in ``held_out``, (users,).
        users: Number of users in the means.
        left_out: Number of users without held-out items, which are in no mean.
        n: Number of recommendations per user for the rest.
        coverage: The share of all items that are recommended to anybody.
        popularity: Mean over recommendations of the share of users with the item in their fold-in.
        calibration: Calibration of models with probabilities; None for others.
    """

    scores: dict[str, UserMean]
    by_user: dict[str, FloatArray]
    rows: npt.NDArray[np.int64]
    users: int
    left_out: int
    n: int
    coverage: float
    popularity: float
    calibration: HitCalibration | None

    def __getitem__(self, metric: str) -> float:
        """Return the mean of a metric."""
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
        users = f"{self.users} user{'s' if self.users != 1 else ''}"
        return "\n".join([*lines, f"{users}; {self.left_out} without held-out items"])

    def to_frame(self) -> Any:
        """Return a pandas data frame with metric, mean and standard error, one row per metric."""
        import pandas

        return pandas.DataFrame(
            [(name, *score) for name, score in self.scores.items()],
            columns=["metric", "mean", "standard_error"],
        )


def evaluate(
    model: Recommender,
    fold_in: Any,
    held_out: Any,
    metrics: str | Sequence[str] = ("recall@20", "recall@50", "ndcg@100"),
    *,
    exclude: Any = None,
    n: int = 20,
    draws: int | None = None,
    generator: torch.Generator | int | None = None,
    users: Users | None = None,
    batch: int = 500,
) -> RankingEvaluation:
    """Evaluate a model: show it the fold-in items of users, and see which held-out items it finds.

    Fold-in items are never recommended. Equal scores are in the order of item numbers.

    Args:
        model: A fitted model.
        fold_in: What it is shown, users × items.
        held_out: What it should find, users × items; the same users in the same order.
        metrics: One name or several, with a cut-off: ``recall@R`` (over min(R, held-out), Liang et
            al. 2018), ``recall_all@R`` (over held-out, as LightGCN), ``ndcg@R``, ``hit@R``,
            ``mrr@R``, ``precision@R``; see `dubio.ranks`.
        exclude: Further items that are not recommended, such as those of the validation in a test:
            positions or names for everybody, or a sparse matrix users × items. They must not be
            held out, since nothing could find them.
        n: Number of recommendations per user for coverage, popularity and calibration.
        draws: Number of draws to average; 0 is one pass without noise. By default ``draws`` of the
            model.
        generator: As in `Recommender.recommend`.
        users: Ids of the users, as in `Recommender.recommend`. By default row numbers; models that
            know their users (`CDAE`) need them.
        batch: Number of users at a time.
    """
    if not isinstance(model, Recommender):
        raise TypeError(
            f"model: expected a recommender, got {type(model).__name__}; give a fitted one, such "
            "as EASE().fit(user_items)"
        )
    shown = histories(fold_in, model.num_items, "fold_in")
    wanted = histories(held_out, model.num_items, "held_out")
    _check_pair(shown, wanted, "fold_in")
    cutoffs = _parse(metrics)
    n = whole(1, advice="20 will do")("n", n)
    batch = whole(1, advice="500 will do")("batch", batch)
    depth = max([n, *(cutoff for _, cutoff in cutoffs.values())])
    seed = seed_of(generator)
    barred = _excluded(model, exclude, wanted)
    ids = None if users is None and model.knows_users else check_users(users, shown.shape[0])
    tested = np.flatnonzero(np.diff(wanted.indptr))
    if not len(tested):
        raise ValueError(
            "held_out: expected users with held-out items, got none; split the data "
            "again, with more users or a larger share"
        )
    tally = _Tally(model.num_items, n)
    popularity = np.bincount(shown.indices, minlength=model.num_items) / shown.shape[0]
    with Progress("evaluate", len(tested)) as progress:
        for some in _chunks(tested, batch):
            given = model.recommend(
                shown[some],
                depth,
                exclude=barred[some] if issparse(barred) else barred,
                draws=draws,
                generator=seed,
                users=None if ids is None else [ids[row] for row in some.tolist()],
            )
            counts = np.diff(wanted.indptr)[some]
            found = _found(given.ids, wanted[some])
            tally.add_users(
                {
                    name: RANKS[kind](torch.from_numpy(found), torch.from_numpy(counts), cutoff)
                    for name, (kind, cutoff) in cutoffs.items()
                }
            )
            tally.add_items(given.ids, popularity)
            if model.probabilities:
                share = given.scores.astype(np.float64) / given.total[:, None]
                tally.add_predictions(1 - (1 - share) ** counts[:, None], given.ids, found)
            progress.advance(len(some))
    by_user = tally.by_user()
    return RankingEvaluation(
        scores={name: _mean(values) for name, values in by_user.items()},
        by_user=by_user,
        rows=tested,
        users=len(tested),
        left_out=wanted.shape[0] - len(tested),
        n=n,
        coverage=float(tally.covered.mean()),
        popularity=tally.popularity / max(tally.items, 1),
        calibration=tally.hits.calibration() if model.probabilities else None,
    )


class _Tally:
    """Sums over batches: a number for each metric and user, and sums over items."""

    def __init__(self, num_items: int, n: int) -> None:
        self._n = n
        self._by_user: dict[str, list[FloatArray]] = {}
        self.covered = np.zeros(num_items, bool)
        self.items = 0
        self.popularity = 0.0
        self.hits = Hits()

    def add_users(self, scores: dict[str, torch.Tensor]) -> None:
        for name, values in scores.items():
            self._by_user.setdefault(name, []).append(values.double().numpy())

    def add_items(self, ids: npt.NDArray[Any], popularity: FloatArray) -> None:
        given = ids[:, : self._n]
        given = given[given >= 0]
        self.covered[given] = True
        self.items += len(given)
        self.popularity += float(popularity[given].sum())

    def add_predictions(
        self, predicted: FloatArray, ids: npt.NDArray[Any], found: npt.NDArray[Any]
    ) -> None:
        there = ids[:, : self._n] >= 0
        self.hits.add(predicted[:, : self._n][there], found[:, : self._n][there])

    def by_user(self) -> dict[str, FloatArray]:
        return {name: np.concatenate(values) for name, values in self._by_user.items()}


def _mean(values: FloatArray) -> UserMean:
    users = len(values)
    error = float(values.std(ddof=1)) / users**0.5 if users > 1 else float("nan")
    return UserMean(float(values.mean()), error)


def _parse(metrics: str | Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the kind and the cut-off of each metric."""
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    found = {}
    for name in names:
        match = re.fullmatch(r"(\w+)@([1-9]\d*)", name) if isinstance(name, str) else None
        if match is None or match[1] not in RANKS:
            raise ValueError(
                f"metrics: expected a name of {', '.join(RANKS)} with a cut-off, such as ndcg@100, "
                f"got {name!r}; choose one"
            )
        found[name] = match[1], int(match[2])
    if not found:
        raise ValueError("metrics: expected at least one, got none; pass ['ndcg@100'], for example")
    return found


def _excluded(model: Recommender, exclude: Any, wanted: csr_array) -> Any:
    """Return items to leave out: None, positions, or users × items."""
    if exclude is None:
        return None
    if issparse(exclude):
        pairs = histories(exclude, model.num_items, "exclude")
    else:
        names = None if model.catalogue is None else model.catalogue.items
        exclude = item_positions(exclude, model.num_items, "exclude", names).numpy()
        one = np.zeros((1, model.num_items), np.float32)
        one[:, exclude] = 1
        pairs = wanted.multiply(one)
    _check_pair(csr_array(pairs), wanted, "exclude")
    return pairs if issparse(exclude) else exclude


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
            "recommended; take them out of one"
        )


def _found(ids: npt.NDArray[np.int64], wanted: csr_array) -> npt.NDArray[np.bool_]:
    """Return which of the items (B, R) are entries of their row; −1 is not."""
    users, items = wanted.shape
    row = np.repeat(np.arange(users, dtype=np.int64), np.diff(wanted.indptr))
    entries = row * items + wanted.indices
    asked = np.arange(users)[:, None] * items + ids
    return np.isin(asked, entries) & (ids >= 0)


def _chunks(users: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    return (users[start : start + size] for start in range(0, len(users), size))
