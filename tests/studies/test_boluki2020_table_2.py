"""Table 2 and the feedback loop: numbers by another way, rules that fail, what is skipped."""

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

from dubio.recommend import EASE, Popular, evaluate
from dubio.report.exhibits import Plot
from dubio_studies.boluki2020 import tasks
from dubio_studies.boluki2020.comparison import gain
from dubio_studies.boluki2020.table_2 import computation, methods
from dubio_studies.boluki2020.table_2.claims import CLAIMS, VAES
from dubio_studies.boluki2020.table_2.linear import SLIM, WMF
from dubio_studies.boluki2020.table_2.page import PAGE
from dubio_studies.boluki2020.table_2.published import DATASETS, METHODS, published
from dubio_studies.boluki2020.table_2.ranking import Ranking, group_means
from dubio_studies.boluki2020.table_2.reading import ABLATION, in_table
from dubio_studies.boluki2020.table_2.spread import BLOCK, hit_rates
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = dataclasses.replace(computation.COMPUTATION.scales["smoke"], datasets=("tastes",))


def test_metrics_are_those_of_evaluate() -> None:
    task = tasks.load("tastes", seed=0)
    model = EASE(20.0).fit(task.train)
    ranking = Ranking.of(model, task.test, draws=0)
    expected = evaluate(model, *task.test, task.metrics)
    for metric in task.metrics:
        values = ranking.by_user(metric)
        assert values.mean() == pytest.approx(expected[metric])
        assert len(values) == expected.users
        groups = [float(word) for word in group_means(values).split()]
        assert np.mean(groups) == pytest.approx(values.mean(), abs=1e-4)


def test_a_split_has_no_interaction_twice() -> None:
    task = tasks.load("tastes-split", seed=3)
    assert task.whole is not None
    shown, wanted = task.validation
    assert shown.multiply(wanted).nnz == 0
    assert task.whole.nnz == task.train.nnz + wanted.nnz
    assert task.whole.multiply(task.test[1]).nnz == 0
    assert 0.07 < wanted.nnz / task.whole.nnz < 0.13  # a tenth: 4.4 standard deviations
    assert (np.diff(task.train.indptr) > 0).all()
    new = tasks.load("tastes", seed=3)
    assert new.whole is None
    assert new.train.shape[0] + 100 == (np.diff(tasks.tastes(0).indptr) >= 5).sum()


def test_linear_models_of_others_rank_better_than_popularity() -> None:
    task = tasks.load("tastes", seed=0)
    popular = evaluate(Popular().fit(task.train), *task.test, ["ndcg@20"])["ndcg@20"]
    for model in (WMF(8, seed=1), SLIM()):
        found = evaluate(model.fit(task.train), *task.test, ["ndcg@20"])["ndcg@20"]
        assert found > popular + 0.05
        with pytest.raises(NotImplementedError, match="own library"):
            model.save("model.safetensors")


@pytest.mark.parametrize(("method", "name"), [("wmf", "implicit.cpu.als"), ("slim", "irspack")])
def test_a_row_without_its_package_is_skipped(
    method: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    piece = {"dataset": "tastes", "method": method, "restart": 1}
    (row,) = computation.run(TINY, piece, SEED)
    assert row["metric"] == "skipped"
    assert "pip install 'dubio-studies[recommend]'" in str(row["value"])


def test_pieces_are_the_rows_of_the_table() -> None:
    config = computation.Config(datasets=("movielens-1m", "gowalla"), restarts=2)
    found = computation.pieces(config)
    assert len({tuple(piece.items()) for piece in found}) == len(found)
    assert {piece["method"] for piece in found} == set(METHODS)
    assert {p["dataset"] for p in found if p["method"] == "cdae"} == {"gowalla"}
    assert sum(p["method"] == "ease" for p in found) == 2
    assert set(tasks.NAMES) == set(DATASETS)
    assert set(methods.NEURAL) | set(methods.DETERMINISTIC) | {"wmf"} == set(METHODS)


def test_settings_that_cannot_be_computed_are_refused() -> None:
    for wrong in ({"datasets": ("ml",)}, {"methods": ("x",)}, {"draws": 1}, {"restarts": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataclasses.replace(TINY, **wrong)


def test_published_numbers_are_those_of_the_paper() -> None:
    assert published("ml-20m")["sivae-lbdrop"]["ndcg@100"] == 43.01
    assert published("netflix")["dae"]["recall@50"] == 43.41
    assert "slim" not in published("msd")
    assert published("gowalla")["vae-drop"] == {"recall_all@20": 16.41, "ndcg@20": 13.35}
    assert published("movielens-1m") == {}


def made_ranking(low: float, high: float, users: int = 400, items: int = 40) -> Ranking:
    """Half of each user's items have a low spread; hit rates are as they are told."""
    rng = np.random.default_rng(0)
    shape = users, items
    is_low = rng.random(shape) < 0.5
    scores = rng.random(shape).astype(np.float32)
    spread = np.where(is_low, 0.1, 0.2) + 0.01 * rng.random(shape)
    return Ranking(
        users=np.arange(users),
        ids=np.broadcast_to(np.arange(items), shape),
        scores=scores,
        spread=spread.astype(np.float32),
        total=scores.sum(1),
        found=rng.random(shape) < np.where(is_low, low, high),
        wanted=np.full(users, 3),
    )


def test_hit_rates_by_spread_are_those_that_were_made() -> None:
    """Pairs are independent here, so that the error is the binomial one."""
    ranking = made_ranking(0.4, 0.2)
    whole, *bins = hit_rates(ranking, ranking.scores.astype(float), 5)
    pairs = 400 * 40 // BLOCK * BLOCK
    assert whole.pairs == pairs == sum(part.pairs for part in bins)
    assert len(bins) == 5
    assert [part.score for part in bins] == sorted(part.score for part in bins)
    # blocks whose halves are not exactly the low ones blur the difference by about a tenth
    assert 0.14 < whole.low - whole.high < 0.2
    expected = np.sqrt((whole.low * (1 - whole.low) + whole.high * (1 - whole.high)) / (pairs / 2))
    assert whole.difference_error == pytest.approx(expected, rel=0.15)
    assert abs(whole.score_gap) < 0.005


def test_the_error_of_hit_rates_knows_that_a_user_is_one_user() -> None:
    """Each user's hits are all or none: the error is that of as many users, not pairs."""
    ranking = made_ranking(0.3, 0.3)
    every = np.random.default_rng(1).random(400) < 0.3
    tied = dataclasses.replace(ranking, found=np.repeat(every[:, None], 40, 1))
    whole, *_ = hit_rates(tied, tied.scores.astype(float), 2)
    assert whole.low_error == pytest.approx(np.sqrt(0.3 * 0.7 / 400), rel=0.1)


def test_gains_pair_users() -> None:
    rng = np.random.default_rng(0)
    users = rng.random(100)
    ours = [users + 0.1 + 0.01 * rng.standard_normal(100) for _ in range(3)]

    def rows(restarts: list[Any]) -> Rows:
        return Rows([{"value": " ".join(f"{v:.6f}" for v in values)} for values in restarts])

    found = gain(rows(ours), rows([users]))
    assert found.mean == pytest.approx(0.1, abs=0.005)
    assert found.error < 0.002  # unpaired it would be 0.04
    assert found.clear
    assert not gain(rows([users]), rows(ours)).clear
    apart = [users, users + 0.2]  # restarts differ: that is an error, too
    assert gain(rows(apart), rows([users])).error == pytest.approx(0.1, rel=1e-3)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(
        [
            {**piece, **row}
            for piece in computation.pieces(TINY)
            for row in computation.run(TINY, piece, SEED)
        ]
    )


def test_a_tiny_run_has_everything(rows: Rows) -> None:
    for claim in CLAIMS:
        assert claim.judge(rows).ours
    for exhibit in PAGE.exhibits(rows):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.wide)
            assert exhibit.draw(exhibit.narrow)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}
    keep = rows.where(metric="keep", method="sivae-lbdrop")
    assert all(0 < value < 1 for value in keep.values())
    assert rows.where(metric="recommended").distinct("rank") == list(range(1, 11))
    piece = {"dataset": "tastes", "method": "sivae-lbdrop", "restart": 1}
    again = Rows([{**piece, **row} for row in computation.run(TINY, piece, SEED)])
    assert again.comparable() == rows.where(method="sivae-lbdrop").comparable()


def made_up(**changes: float) -> Rows:
    """Rows in which every rule holds, unless a number is changed by ``method_prediction``."""
    best = {
        "vae": 0.30, "vamp": 0.30, "iaf": 0.30, "sivae-gdrop": 0.32, "sivae-cdrop": 0.33,
        "vae-drop": 0.36, "vamp-drop": 0.37, "iaf-drop": 0.37, "vae-drop-mixture": 0.38,
        "vae-lbdrop": 0.385, "sivae-lbdrop": 0.39, "ease": 0.35,
    }  # fmt: skip
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal(100)
    noise -= noise.mean()
    found: list[dict[str, Any]] = []
    for method, value in best.items():
        for prediction in ("mean", "draws"):
            key = f"{method}_{prediction}".replace("-", "")
            mean = changes.get(key, value + (0.005 if prediction == "draws" else 0.0))
            fields = {"dataset": "d", "method": method, "prediction": prediction}
            small = 0.001 * rng.standard_normal(100)
            groups = " ".join(f"{v:.5f}" for v in mean + noise + small - small.mean())
            found.append({**fields, "metric": "groups", "of": "ndcg@100", "value": groups})
            found += [
                {**fields, "metric": metric, "value": mean, "error": 0.01}
                for metric in ("recall@20", "recall@50", "ndcg@100")
            ]
    for equal in ("score", "predicted hits"):
        low = changes.get(equal.replace(" ", ""), 0.12)
        found.append(
            {
                "dataset": "d", "method": "sivae-lbdrop", "metric": "hits by spread", "bin": 0,
                "equal": equal, "low": low, "high": 0.1, "value": low - 0.1, "error": 0.005,
            }
        )  # fmt: skip
    return Rows(found)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()),
        ({"vampdrop_mean": 0.40}, {0}),
        ({"sivaelbdrop_draws": 0.3601, "vaelbdrop_draws": 0.391}, {0, 4, 6}),
        ({"vae_mean": 0.37}, {1}),
        ({"iaf_mean": 0.3699}, {1}),
        ({"sivaegdrop_draws": 0.361}, {2}),
        ({"ease_mean": 0.40}, {3}),
        ({"vaedropmixture_draws": 0.395}, {4}),
        ({"vaedropmixture_mean": 0.36}, {5}),
        ({"vaelbdrop_draws": 0.384}, {6}),
        ({"score": 0.105}, {7}),
        ({"predictedhits": 0.09}, {8}),
    ],
)
def test_rules_can_fail(change: dict[str, float], failing: set[int]) -> None:
    verdicts = [said(claim.judge(made_up(**change))) for claim in CLAIMS]
    assert {k for k, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_a_rule_about_models_that_were_not_run_fails() -> None:
    without = Rows([row for row in made_up() if row["method"] != "vamp"])
    finding = CLAIMS[0].judge(without)
    assert not finding.agrees
    assert "not run: VAE-VampPrior" in finding.ours


def test_rows_of_the_table_predict_as_their_authors_do() -> None:
    assert in_table("vae-drop") == ("vae-drop", "mean")
    assert in_table("sivae-cdrop") == ("sivae-cdrop", "draws")
    assert set(ABLATION) & set(VAES) == {"vae-drop", "sivae-lbdrop"}
