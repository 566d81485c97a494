"""Scores of rankings against hand-made ranks, a naive loop and scikit-learn."""

import math
from typing import Any, Self

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.metrics import ndcg_score
from torch import Tensor

from dubio import ranks
from dubio.recommend import Popular, Recommender, evaluate
from dubio.recommend.keyed_noise import Seeds, normal

METRICS = tuple(f"{name}@{cutoff}" for name in ranks.RANKS for cutoff in (1, 3, 10, 50))


class Given(Recommender):
    """Scores that were given for each history, by its first item."""

    def __init__(self, table: Tensor, probabilities: bool = False, noise: float = 0.0) -> None:
        self.table = table
        self.probabilities = probabilities
        self.noise = noise
        self.stochastic = noise > 0
        self._items = table.shape[1]

    def fit(self, user_items: Any, validation: tuple[Any, Any] | None = None) -> Self:
        raise NotImplementedError

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        assert histories.shape[0] <= 500
        scores = self.table[histories.indices[histories.indptr[:-1]]]
        if seeds is None:
            return scores.clone()
        return scores + self.noise * normal(seeds[:, None], range(self._items))

    def _state(self) -> dict[str, Tensor]:
        return {}

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        pass


def naive(scores: Any, fold_in: Any, held_out: Any, metric: str) -> list[float]:
    """One user at a time, from the definitions."""
    name, _, cutoff = metric.partition("@")
    R = int(cutoff)  # noqa: N806
    found = []
    for user in range(len(scores)):
        wanted = set(np.flatnonzero(held_out[user]))
        if not wanted:
            continue
        items = [i for i in range(scores.shape[1]) if not fold_in[user, i]]
        items.sort(key=lambda i: (-scores[user, i], i))
        first = items[:R]
        hits = [rank for rank, item in enumerate(first, 1) if item in wanted]
        best = sum(1 / math.log2(rank + 1) for rank in range(1, min(R, len(wanted)) + 1))
        found.append(
            {
                "recall": len(hits) / min(R, len(wanted)),
                "recall_all": len(hits) / len(wanted),
                "precision": len(hits) / R,
                "hit": float(bool(hits)),
                "mrr": 1 / hits[0] if hits else 0.0,
                "ndcg": sum(1 / math.log2(rank + 1) for rank in hits) / best,
            }[name]
        )
    return found


@pytest.fixture(scope="module")
def case() -> tuple[Tensor, Any, Any]:
    """Scores with many ties, a table by first item, fold-in and held-out items of 60 users."""
    rng = np.random.default_rng(5)
    table = torch.from_numpy(rng.integers(0, 6, (20, 20))).float()
    kind = rng.choice(3, (60, 20), p=[0.6, 0.2, 0.2])
    kind[np.arange(60), np.arange(60) % 3] = 1
    kind[7][kind[7] == 2] = 0
    kind[9][kind[9] == 2] = 0
    return table, kind == 1, kind == 2


def test_hand_made_ranks() -> None:
    """Found at ranks 2 and 4, of three wanted."""
    found = torch.tensor([[False, True, False, True, False]])
    wanted = torch.tensor([3])
    best2 = 1 + 1 / math.log2(3)
    best3 = best2 + 1 / 2
    expected = {
        "recall": {1: 0, 2: 1 / 2, 5: 2 / 3, 9: 2 / 3},
        "recall_all": {1: 0, 2: 1 / 3, 5: 2 / 3, 9: 2 / 3},
        "precision": {1: 0, 2: 1 / 2, 5: 2 / 5, 9: 2 / 9},
        "hit": {1: 0, 2: 1, 5: 1},
        "mrr": {1: 0, 2: 1 / 2, 5: 1 / 2},
        "ndcg": {
            1: 0,
            2: (1 / math.log2(3)) / best2,
            5: (1 / math.log2(3) + 1 / math.log2(5)) / best3,
            9: (1 / math.log2(3) + 1 / math.log2(5)) / best3,
        },
    }
    assert expected.keys() == ranks.RANKS.keys()
    for name, values in expected.items():
        for cutoff, value in values.items():
            assert float(ranks.RANKS[name](found, wanted, cutoff)) == pytest.approx(value), name


def test_the_two_recalls_differ_with_many_held_out() -> None:
    found = torch.ones(1, 2, dtype=torch.bool)
    assert float(ranks.recall(found, torch.tensor([8]), 2)) == 1
    assert float(ranks.recall_all(found, torch.tensor([8]), 2)) == 0.25


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_against_a_loop(case: tuple[Tensor, Any, Any], batch: int) -> None:
    table, fold_in, held_out = case
    scores = table[fold_in.argmax(1)].numpy()
    result = evaluate(Given(table), csr_array(fold_in), csr_array(held_out), METRICS, batch=batch)
    assert (result.users, result.left_out) == (58, 2)
    for metric in METRICS:
        values = naive(scores, fold_in, held_out, metric)
        assert len(values) == 58
        mean, error = result.scores[metric]
        assert mean == result[metric] == pytest.approx(np.mean(values), abs=1e-12)
        assert error == pytest.approx(np.std(values, ddof=1) / math.sqrt(58), abs=1e-12)


def test_ndcg_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    scores = torch.from_numpy(rng.random((20, 20))).float()
    fold_in = np.eye(20, dtype=bool)
    held_out = (rng.random((20, 20)) < 0.3) & ~fold_in
    assert held_out.any(1).all()
    result = evaluate(Given(scores), csr_array(fold_in), csr_array(held_out), ["ndcg@5", "ndcg@19"])
    shown = np.where(fold_in, -1.0, scores.numpy())
    for cutoff in (5, 19):
        expected = ndcg_score(held_out, shown, k=cutoff)
        assert result[f"ndcg@{cutoff}"] == pytest.approx(expected, abs=1e-9)


def test_ties_are_broken_by_item_number() -> None:
    flat = Given(torch.zeros(4, 4))
    fold_in = csr_array([[0, 0, 1, 0]])
    for item, value in ((0, 1.0), (1, 0.5), (3, 1 / 3)):
        held_out = csr_array(([1.0], ([0], [item])), shape=(1, 4))
        assert evaluate(flat, fold_in, held_out, ["mrr@4"])["mrr@4"] == pytest.approx(value)


def test_items_of_the_validation_are_not_recommended(case: tuple[Tensor, Any, Any]) -> None:
    """Neither are they shown: scores are those of the fold-in items alone."""
    table, fold_in, held_out = case
    barred = (np.random.default_rng(2).random(fold_in.shape) < 0.3) & ~held_out & ~fold_in
    scores = table[fold_in.argmax(1)].numpy()
    parts = (csr_array(fold_in), csr_array(held_out), METRICS)
    result = evaluate(Given(table), *parts, exclude=csr_array(barred), batch=7)
    for metric in METRICS:
        expected = np.mean(naive(scores, fold_in | barred, held_out, metric))
        assert result[metric] == pytest.approx(expected, abs=1e-12)
    one = np.zeros_like(fold_in)
    one[:, 4] = True
    for_all = evaluate(
        Given(table), csr_array(fold_in), csr_array(held_out & ~one), METRICS, exclude=[4]
    )
    for metric in METRICS:
        expected = np.mean(naive(scores, fold_in | one, held_out & ~one, metric))
        assert for_all[metric] == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="expected other items than exclude, got"):
        evaluate(Given(table), *parts, exclude=csr_array(held_out & ~one))


def test_coverage_and_popularity(case: tuple[Tensor, Any, Any]) -> None:
    table, fold_in, held_out = case
    result = evaluate(Given(table), csr_array(fold_in), csr_array(held_out), ["hit@1"], n=2)
    share = fold_in.mean(0)
    given = []
    for user in np.flatnonzero(held_out.any(1)):
        order = sorted(range(20), key=lambda i: (-table[fold_in[user].argmax(), i], i))
        given += [i for i in order if not fold_in[user, i]][:2]
    assert result.coverage == len(set(given)) / 20
    assert result.popularity == pytest.approx(share[given].mean())
    assert result.calibration is None


class ByUser(Given):
    """Scores by user: the table has a row for each."""

    def recommend(self, user_items: Any, *args: Any, **options: Any) -> Any:
        self._rows = options["users"]
        return super().recommend(user_items, *args, **options)

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        return self.table[self._rows].clone()


class TestCalibration:
    """Held-out items are drawn from the very probabilities that the model gives."""

    def result(self, exponent: float) -> Any:
        rng = np.random.default_rng(0)
        users, items = 3000, 100
        truth = rng.dirichlet(np.full(items, 1.0), users)
        fold_in = np.zeros((users, items), bool)
        fold_in[:, :30] = True  # their mass is not that of candidates
        held_out = np.zeros((users, items), bool)
        for user in range(users):
            p = np.where(fold_in[user], 0, truth[user])
            held_out[user, rng.choice(items, 2, replace=False, p=p / p.sum())] = True
        claimed = truth**exponent / (truth**exponent).sum(1, keepdims=True)
        model = ByUser(torch.from_numpy(claimed).float(), probabilities=True)
        return evaluate(model, csr_array(fold_in), csr_array(held_out), ["hit@1"], n=5)

    def test_true_probabilities_are_calibrated(self) -> None:
        """Within 6 standard errors and the bias of 2 draws without replacement, below .005.

        False alarms: at most 9 bins · 2·10⁻⁹.
        """
        found = self.result(1.0).calibration
        full = found.count > 50
        assert full.sum() >= 2
        gap = abs(found.predicted - found.observed)[full]
        assert (gap < 0.005 + 6 * found.standard_error[full]).all()
        assert found.count.sum() == 3000 * 5
        assert found.mean_predicted == pytest.approx(found.mean_observed, abs=0.02)

    def test_sharpened_ones_are_not(self) -> None:
        found = self.result(2.0).calibration
        assert found.mean_predicted > 1.5 * found.mean_observed


class TestNoise:
    def test_draws_do_not_depend_on_batches(self, case: tuple[Tensor, Any, Any]) -> None:
        table, fold_in, held_out = case
        model = Given(table, noise=3.0)
        parts = (csr_array(fold_in), csr_array(held_out), ["ndcg@5"])
        whole, small = (evaluate(model, *parts, draws=2, batch=batch) for batch in (500, 3))
        assert whole["ndcg@5"] == pytest.approx(small["ndcg@5"], abs=1e-12)
        other = evaluate(model, *parts, draws=2, generator=1)
        assert whole["ndcg@5"] != other["ndcg@5"]
        generator = torch.Generator().manual_seed(3)
        one = evaluate(model, *parts, draws=2, generator=generator, batch=3)
        two = evaluate(model, *parts, draws=2, generator=generator.manual_seed(3))
        assert one["ndcg@5"] == pytest.approx(two["ndcg@5"], abs=1e-12)


class TestRefused:
    def test_items_in_both(self) -> None:
        model = Popular().fit(csr_array(np.eye(3)))
        with pytest.raises(ValueError, match="held_out: expected other items than fold_in, got 3"):
            evaluate(model, csr_array(np.eye(3)), csr_array(np.eye(3)))

    def test_other_users(self) -> None:
        model = Popular().fit(csr_array(np.eye(3)))
        with pytest.raises(ValueError, match="expected the users of fold_in, 3 rows, got 2"):
            evaluate(model, csr_array((3, 3)), csr_array((2, 3)))

    def test_nobody(self) -> None:
        model = Popular().fit(csr_array(np.eye(3)))
        with pytest.raises(ValueError, match="expected users with held-out items, got none"):
            evaluate(model, csr_array((3, 3)), csr_array((3, 3)))

    @pytest.mark.parametrize("metric", ["recall", "recall@0", "auc@5", "ndcg@x", "ndcg@5 "])
    def test_metrics(self, metric: str) -> None:
        model = Popular().fit(csr_array(np.eye(3)))
        with pytest.raises(ValueError, match=r"metrics: expected a name of recall, .*mrr, ndcg"):
            evaluate(model, csr_array((3, 3)), csr_array(np.eye(3)), [metric])


def test_it_prints(case: tuple[Tensor, Any, Any]) -> None:
    table, fold_in, held_out = case
    text = str(evaluate(Given(table), csr_array(fold_in), csr_array(held_out), ["ndcg@5"]))
    assert text.startswith("ndcg@5         0.")
    assert "58 users; 2 without held-out items" in text


class TestRules:
    def test_excluded_items_are_not_held_out(self, case: tuple[Tensor, Any, Any]) -> None:
        table, fold_in, held_out = case[0], csr_array(case[1]), csr_array(case[2])
        with pytest.raises(ValueError, match="held_out: expected other items than exclude, got"):
            evaluate(Given(table), fold_in, held_out, exclude=[int(held_out.indices[0])])
        others = case[2].copy()
        others[:, [4, 9]] = False
        evaluate(Given(table), fold_in, csr_array(others), exclude=[4, 9])

    def test_one_candidate(self) -> None:
        """All but the held-out item are excluded."""
        shown, wanted = csr_array(np.eye(1, 5)), csr_array(np.eye(1, 5, 1))
        model = Given(torch.full((5, 5), 0.2), probabilities=True)
        others = csr_array([[0, 0, 1, 1, 1]])
        found = evaluate(model, shown, wanted, "recall@5", exclude=others)
        assert found["recall@5"] == 1
        assert list(found.scores) == ["recall@5"]
        assert str(found).endswith("\n1 user; 0 without held-out items")

    def test_values_of_users_and_frames(self, case: tuple[Tensor, Any, Any]) -> None:
        table, fold_in, held_out = case
        metrics = ["recall@5", "ndcg@10"]
        found = evaluate(Given(table), csr_array(fold_in), csr_array(held_out), metrics, batch=7)
        np.testing.assert_array_equal(found.rows, np.flatnonzero(held_out.any(1)))
        scores = table[fold_in.argmax(1)].numpy()
        for name, values in found.by_user.items():
            np.testing.assert_allclose(values, naive(scores, fold_in, held_out, name), rtol=1e-9)
        frame = found.to_frame()
        assert frame["metric"].tolist() == metrics
        assert frame["mean"].tolist() == [found[name] for name in metrics]
