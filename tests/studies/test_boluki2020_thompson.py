"""The feedback loop: rewards by hand, nothing twice, rules that fail."""

import dataclasses
from typing import Any, get_args

import numpy as np
import pytest
from scipy.sparse import csr_array

from dubio.recommend import Popular
from dubio.report.exhibits import Plot
from dubio_studies.boluki2020.table_2.methods import fit
from dubio_studies.boluki2020.thompson.computation import COMPUTATION, pieces, run
from dubio_studies.boluki2020.thompson.page import PAGE
from dubio_studies.boluki2020.thompson.world import Offered, Policy, World, load, play, some_of
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SEED = Seed(own=1, common=2, given=0)
TINY = COMPUTATION.scales["smoke"]
LOOP: dict[str, Any] = {"draws": 4, "width": 1.0, "seed": 0}


@pytest.fixture(scope="module")
def world() -> World:
    return load("tastes", start=2, seed=0)


def test_new_users_begin_with_some_of_their_likes(world: World) -> None:
    assert set(np.diff(world.start.indptr)) == {2}
    assert world.start.multiply(world.liked).nnz == world.start.nnz
    assert world.liked.multiply(world.rated).nnz == world.liked.nnz < world.rated.nnz
    few = some_of(csr_array(np.eye(3)), 2, np.random.default_rng(0))
    assert (few.toarray() == np.eye(3)).all()
    many = [some_of(csr_array(np.ones((1, 9))), 4, np.random.default_rng(s)) for s in range(20)]
    assert {m.nnz for m in many} == {4}
    assert len({tuple(sorted(m.indices)) for m in many}) > 10


def test_rewards_of_the_most_popular_items_by_hand(world: World) -> None:
    """The ranking is the same for all, so that rewards follow from a sort."""
    model = Popular().fit(world.task.train)
    found = play(model, world, "mean", "all items", rounds=3, n=4, **LOOP)
    counts = np.bincount(world.task.train.indices, minlength=world.liked.shape[1])
    ranked = np.argsort(-counts, kind="stable")
    start, liked = world.start.toarray(), world.liked.toarray()
    for user in range(world.liked.shape[0]):
        fresh = [item for item in ranked if not start[user, item]]
        expected = [sum(liked[user, fresh[4 * k : 4 * k + 4]]) for k in range(3)]
        assert found[:, user].tolist() == expected


@pytest.mark.parametrize("policy", get_args(Policy))
def test_nothing_is_recommended_twice(world: World, policy: Policy) -> None:
    """After enough rounds every like has been found once, whatever the policy."""
    model = fit("vae-drop", world.task, TINY, seed=0).model
    likes = np.diff(world.liked.indptr) - np.diff(world.start.indptr)
    rounds = -(-world.liked.shape[1] // 10)
    for choice in get_args(Offered):
        found = play(model, world, policy, choice, rounds=rounds, n=10, **LOOP)
        assert (found.sum(0) == likes).all()
    early = play(model, world, policy, "rated items", rounds=1, n=5, **LOOP)
    everywhere = play(model, world, policy, "all items", rounds=1, n=5, **LOOP)
    assert early.sum() > everywhere.sum()


def test_a_tiny_run_has_everything() -> None:
    rows = Rows([{**piece, **row} for piece in pieces(TINY) for row in run(TINY, piece, SEED)])
    assert PAGE.claims[0].judge(rows).ours
    for exhibit in PAGE.exhibits(rows):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.wide)
            assert exhibit.draw(exhibit.narrow)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}
    curve = rows.where(metric="reward", method="popular", choice="all items").values()
    assert len(curve) == TINY.rounds
    assert curve == sorted(curve)


def made_up(**rewards: float) -> Rows:
    """Thompson sampling is better by half a film, unless changed by ``policy_choice``."""
    users = np.random.default_rng(0).random(50)
    rows: list[dict[str, Any]] = []
    for choice in get_args(Offered):
        for policy in get_args(Policy):
            key = f"{policy}_{choice.partition(' ')[0]}"
            mean = rewards.get(key, 5.5 if policy == "thompson" else 5.0)
            fields = {"method": "sivae-lbdrop", "policy": policy, "choice": choice}
            small = 0.1 * np.random.default_rng(len(rows)).standard_normal(50)
            text = " ".join(f"{v:.4f}" for v in users + mean + small)
            rows.append({**fields, "metric": "groups", "value": text})
            rows.append({**fields, "metric": "reward", "round": 1, "value": mean, "error": 0.1})
    return Rows(rows)


@pytest.mark.parametrize(
    ("rewards", "verdict"),
    [
        ({}, "agrees"),
        ({"thompson_all": 4.9}, "fails"),
        ({"thompson_rated": 5.0}, "fails"),
        ({"upper_all": 9.0}, "agrees"),
    ],
)
def test_the_rule_can_fail(rewards: dict[str, float], verdict: str) -> None:
    assert said(PAGE.claims[0].judge(made_up(**rewards))) == verdict


def test_settings_that_cannot_be_computed_are_refused() -> None:
    for wrong in ({"rounds": 0}, {"draws": 1}, {"start": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataclasses.replace(TINY, **wrong)
