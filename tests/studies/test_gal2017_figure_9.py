"""gal2017/figure-9: its rows, its test returns against a world, and rules that fail."""

import dataclasses
import sys
from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch

from dubio.report.exhibits import Plot
from dubio_studies.agents.pilco import PILCO
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.gal2017.figure_9.claims import CLAIMS, COMPONENTS, LATER, LONGER, LONGER_LATER
from dubio_studies.gal2017.figure_9.computation import (
    COMPUTATION,
    Config,
    elsewhere,
    pieces,
    returns_from_other_starts,
    run,
)
from dubio_studies.gal2017.figure_9.page import PAGE
from verdicts import said

SMOKE = COMPUTATION.scales["smoke"]
SEED = Seed(own=1, common=2, given=0)
START, MIDDLE, END = 1, 2, 3


def test_rows_of_a_run() -> None:
    pytest.importorskip("gymnasium")
    rows = Rows(list(run(SMOKE, pieces(SMOKE)[0], SEED)))
    counts = Counter(row["metric"] for row in rows)
    agents, episodes = SMOKE.seeds, SMOKE.episodes
    of_components, of_agents = agents * episodes * 4, agents * episodes
    assert counts == {
        "drop": agents * episodes * 3,
        LATER: agents * 3,
        **dict.fromkeys(("noise", "epistemic", "elsewhere"), of_components),
        **dict.fromkeys(("test return", "imagined return"), of_agents),
    }
    again = Rows(list(islice(run(SMOKE, pieces(SMOKE)[0], SEED), 30)))
    assert again.values() == rows[:30].values()


def test_rows_of_longer_training() -> None:
    pytest.importorskip("gymnasium")
    assert [(p["masks"], p.get("longer")) for p in pieces(SMOKE)] == [
        ("concrete", None), ("fixed", None), ("concrete", 4),
    ]  # fmt: skip
    rows = Rows(list(run(SMOKE, pieces(SMOKE)[-1], SEED)))
    assert Counter(row["metric"] for row in rows) == dict.fromkeys(
        (LONGER, LONGER_LATER), SMOKE.seeds * 2 * 3
    )
    more = dataclasses.replace(SMOKE, dynamics_steps=4 * SMOKE.dynamics_steps)
    same = Rows(list(run(more, pieces(more)[0], SEED))).where(episode=1)
    assert rows.where(metric=LONGER, episode=1).values() == same.where(metric="drop").values()
    later = rows.where(metric=LONGER_LATER, episode=1).values()
    assert later == same.where(metric=LATER).values()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"dubio-studies\[worlds\]\""):
        next(iter(run(SMOKE, pieces(SMOKE)[0], SEED)))


def test_test_returns_are_those_of_a_world() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    import numpy as np

    import dubio_studies.worlds  # noqa: F401

    agents = PILCO("fixed", [0, 1])
    found = returns_from_other_starts(agents, 1, seed=3)
    generator = np.random.default_rng(3)
    start = 0.1 * generator.standard_normal((1, 4))[0]
    noises = [0.01 * generator.standard_normal((1, 4))[0] for _ in range(25)]
    for agent in range(2):
        world = gymnasium.make("dubio/CartPoleSwingUp-v0", noise=0.0)
        state, _ = world.reset(seed=0, options={"state": start})
        earned = 0.0
        for noise in noises:
            observed = torch.from_numpy(state + noise).float()
            force = agents.act(observed.expand(2, 1, 4))[agent]
            state, reward, *_ = world.step(force.double().numpy())
            earned += reward
        assert float(found[agent]) == pytest.approx(earned, rel=1e-4, abs=1e-6)


def test_states_elsewhere_never_change() -> None:
    states, forces = elsewhere(PILCO("fixed", [0, 1]))
    assert states.shape == (2, 200, 4)
    assert torch.equal(states[0], elsewhere(PILCO("concrete", [7]))[0][0])
    assert 9 < float(forces.max()) <= 10
    assert 3 < float(states[..., 3].max()) < 3.15


@pytest.fixture(scope="module")
def made_up() -> list[dict[str, Any]]:
    """Rows in which all claims hold."""
    rows: list[dict[str, Any]] = []

    def add(metric: str, value: float, **fields: Any) -> None:
        rows.append({**fields, "metric": metric, "value": value})

    for masks in ("concrete", "fixed", "bernoulli"):
        for agent in (1, 2):
            for episode in (START, MIDDLE, END):
                own: dict[str, Any] = {"masks": masks, "agent": agent, "episode": episode}
                for layer in range(3):
                    drop = 0.1 if masks == "fixed" else 0.3 / episode + 0.01 * agent
                    add("drop", drop, layer=layer, **own)
                    if masks != "fixed" and episode != MIDDLE:
                        add(LATER, drop + 0.005, layer=layer, **own)
                for component in COMPONENTS:
                    power = 1 if masks == "fixed" else 2
                    for metric in ("epistemic", "elsewhere", "noise"):
                        add(metric, episode**-power + 0.01 * agent, component=component, **own)
                for metric in ("test return", "imagined return"):
                    add(metric, 16.6 + 0.1 * agent, **own)
    return rows


@pytest.mark.parametrize(
    ("where", "value", "failing"),
    [
        ({}, None, set()),
        ({"metric": "drop", "masks": "concrete", "layer": 0, "episode": END}, 0.5, {0, 6}),
        ({"metric": "epistemic", "masks": "concrete", "component": "ω"}, 0.5, {1, 4}),
        ({"metric": "test return", "masks": "fixed"}, 17.2, {2}),
        ({"metric": "test return", "masks": "concrete"}, 10.0, {2, 3}),
        ({"metric": "epistemic", "masks": "fixed", "episode": END}, 0.01, {4}),
        ({"metric": "elsewhere", "component": "x"}, 0.5, {5}),
        ({"metric": LATER, "masks": "bernoulli", "episode": START}, 0.2, {6}),
        ({"metric": "test return", "masks": "bernoulli"}, 10.0, {7}),
    ],
)
def test_rules_can_fail(
    made_up: list[dict[str, Any]], where: dict[str, Any], value: float | None, failing: set[int]
) -> None:
    changed = [
        {**row, "value": value}
        if value is not None and all(row.get(name) == v for name, v in where.items())
        else row
        for row in made_up
    ]
    verdicts = [said(claim.judge(Rows(changed))) for claim in CLAIMS]
    assert {k for k, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_nothing_is_matched_by_agents_that_learn_nothing(made_up: list[dict[str, Any]]) -> None:
    rows = Rows([{**r, "value": 3.0} if r["metric"] == "test return" else r for r in made_up])
    assert said(CLAIMS[2].judge(rows)) == said(CLAIMS[7].judge(rows)) == "fails"


def test_a_fall_within_its_error_is_none(made_up: list[dict[str, Any]]) -> None:
    """One agent's rate falls by 0.2 and the other's rises by 0.1."""
    ends = {(START, 1): 0.3, (START, 2): 0.2, (END, 1): 0.1, (END, 2): 0.3}
    rows = [
        {**row, "value": ends.get((row["episode"], row["agent"]), 0.2)}
        if row["metric"] == "drop" and row["masks"] == "concrete"
        else row
        for row in made_up
    ]
    assert said(CLAIMS[0].judge(Rows(rows))) == "fails"


def test_exhibits_show_all_rows(made_up: list[dict[str, Any]]) -> None:
    for exhibit in PAGE.exhibits(Rows(made_up)):
        if isinstance(exhibit, Plot):
            assert exhibit.draw(exhibit.narrow)
        else:
            assert {len(line) for line in exhibit.rows} == {len(exhibit.columns)}
            assert [line[0] for line in exhibit.rows] == [
                "Concrete",
                "fixed at 0.1",
                "learnable Bernoulli",
            ]


@pytest.mark.parametrize(
    "wrong",
    [{"masks": ("none",)}, {"seeds": 0}, {"episodes": 1}, {"draws": 1}, {"particles": 2}],
)
def test_what_cannot_be_computed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected .*, got "):
        dataclasses.replace(Config(), **wrong)
