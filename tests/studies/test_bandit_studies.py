"""The studies of bandits: they run, and their pages are made."""

import math
from dataclasses import replace

import pytest

from dubio.data.inventory import DATASETS
from dubio_studies.clark2022.figure_23_27 import computation as mushrooms
from dubio_studies.clark2022.figure_23_27.page import PAGE as MUSHROOM_PAGE
from dubio_studies.clark2022.figure_26_27 import computation as variants
from dubio_studies.clark2022.figure_26_27.page import PAGE as VARIANTS_PAGE
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.uncertainty.bandits import computation as bandits
from dubio_studies.uncertainty.bandits.page import PAGE as BANDIT_PAGE

pytestmark = pytest.mark.skipif(
    DATASETS["mushroom"].here() is None, reason="the mushrooms are not here"
)
SEED = Seed(own=5, common=6, given=0)


def rows_of(study, config):
    computed = study.COMPUTATION
    return Rows(
        [
            {**piece, **row}
            for piece in computed.pieces(config)
            for row in computed.run(config, piece, SEED)
        ]
    )


def test_mushrooms():
    smoke = mushrooms.COMPUTATION.scales["smoke"]
    names = ("bayes", "greedy", "epsilon 1 %", "epsilon 5 %", "ensemble", "linear")
    rows = rows_of(mushrooms, replace(smoke, settings=names))
    ends = rows.where(metric="regret", step=smoke.interactions)
    assert len(ends) == 2 * len(names)
    for row in ends:
        own = rows.where(agent=row["agent"], seed=row["seed"], step=smoke.interactions)
        poison, refused = (own.value(metric=m) for m in ("poison eaten", "food refused"))
        assert row["value"] == pytest.approx(15 * poison + 5 * refused)
    assert all(claim.judge(rows).ours for claim in MUSHROOM_PAGE.claims)
    for exhibit in MUSHROOM_PAGE.exhibits(rows):
        assert exhibit.title


def test_other_priors_and_learning_rates():
    smoke = variants.COMPUTATION.scales["smoke"]
    rows = rows_of(variants, smoke)
    assert rows.distinct("agent") == list(variants.ALL)
    assert all(claim.judge(rows).ours for claim in VARIANTS_PAGE.claims)
    titles = [exhibit.title for exhibit in VARIANTS_PAGE.exhibits(rows)]
    assert titles[:3] == [
        "Figure 26: single runs", "Figure 27a: learning rates", "Figure 27b: widths of the prior",
    ]  # fmt: skip


def test_all_methods_play_all_bandits():
    smoke = bandits.COMPUTATION.scales["smoke"]
    rows = rows_of(bandits, replace(smoke, interactions=20))
    assert len(rows) == 2 * 8 * smoke.trials + 4  # and four methods on a long stream
    assert all(0 <= value < 1000 and math.isfinite(value) for value in rows.values())
    uniform = {row["uniform"] for row in rows.where(problem="mushroom", trial=1)}
    assert len(uniform) == 1  # methods meet the same contexts
    assert all(claim.judge(rows).ours for claim in BANDIT_PAGE.claims)
    assert len(BANDIT_PAGE.exhibits(rows)) == 2
