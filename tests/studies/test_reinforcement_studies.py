"""Figure 6 and deep sea: rules against made-up rows, and tallies against a naive count."""

from typing import Any

import numpy as np
import pytest

from dubio_studies.framework.claims import Claim
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.gal2016.figure_6 import claims as figure_6
from dubio_studies.gal2016.figure_6 import computation
from dubio_studies.uncertainty.deep_sea import claims as deep_sea
from dubio_studies.uncertainty.deep_sea.computation import Tally


def foragers(firsts: dict[str, list[float]], batches: int = 200, **ends: float) -> Rows:
    """Rows as those of a run, with an agent for each first batch above 1."""
    rows: list[dict[str, Any]] = []
    for agent, own in firsts.items():
        rows.append({"agent": agent, "metric": "average reward", "batch": batches, "value": 1.0})
        for seed, first in enumerate(own):
            end = ends.get(agent, 1.0) + 0.001 * seed
            rows.append({"agent": agent, "metric": "first above 1", "seed": seed, "value": first})
            rows.append({"agent": agent, "metric": "reward at the end", "seed": seed, "value": end})
    return Rows(rows)


def agrees(claim: Claim, rows: Rows) -> bool:
    return claim.judge(rows).agrees


AS_PUBLISHED = {
    "epsilon": [170.0, 175.0, 180.0], "thompson": [20.0, 25.0, 30.0],
    "greedy": [60.0, 62.0, 64.0], "episode": [9.0, 10.0, 11.0],
}  # fmt: skip


def test_figures_as_published_meet_all_rules() -> None:
    rows = foragers(AS_PUBLISHED, 1000, epsilon=1.2)
    assert all(agrees(claim, rows) for claim in figure_6.CLAIMS)


@pytest.mark.parametrize(
    ("number", "changes", "settings"),
    [
        (0, {"thompson": [20.0, 26.0, 26.0]}, {}),
        (1, {"epsilon": [201.0, 201.0, 201.0]}, {"batches": 200}),  # never
        (1, {"epsilon": [80.0, 80.0, 180.0]}, {}),
        (2, {"epsilon": [20.0, 25.0, 32.0]}, {}),
        (3, {}, {"batches": 999, "epsilon": 1.2}),
        (3, {}, {"epsilon": 1.0}),
        (4, {"greedy": [20.0, 25.0, 30.0]}, {}),
        (5, {"episode": [20.0, 25.0, 30.0]}, {}),
    ],
)
def test_a_rule_of_figure_6_can_fail(
    number: int, changes: dict[str, list[float]], settings: dict[str, Any]
) -> None:
    rows = foragers(AS_PUBLISHED | changes, **{"batches": 1000, **settings})
    assert not agrees(figure_6.CLAIMS[number], rows)


def divers(solved: dict[str, list[int]], spreads: dict[str, tuple[float, float]]) -> Rows:
    """Rows as those of a run of one sea."""
    rows: list[dict[str, Any]] = []
    for explorer, own in solved.items():
        for seed, episode in enumerate(own):
            row = {"explorer": explorer, "size": 10, "seed": seed}
            rows.append({**row, "metric": "solved", "value": episode})
            rows.append({**row, "metric": "treasures", "episode": 1000, "value": 0})
    for explorer, pair in spreads.items():
        for what, value in zip(("visited", "unvisited"), pair, strict=True):
            row = {"explorer": explorer, "size": 10, "episode": 50}
            rows.append({**row, "metric": f"spread, {what}", "value": value})
    return Rows(rows)


SOLVED = {
    "dropout 0.1, step": [1001, 1001], "dropout 0.1, episode": [1001, 1001],
    "concrete": [1001, 1001], "ensemble": [1001, 200], "prior": [100, 150],
}  # fmt: skip
SPREADS = {"dropout 0.1, episode": (0.1, 0.15), "prior": (0.1, 0.5)}


def test_what_is_expected_of_deep_sea_meets_all_rules() -> None:
    assert all(agrees(claim, divers(SOLVED, SPREADS)) for claim in deep_sea.CLAIMS)


@pytest.mark.parametrize(
    ("number", "solved", "spreads"),
    [
        (0, {"prior": [100, 1001]}, {}),
        (1, {"dropout 0.1, step": [1001, 999]}, {}),
        (2, {"concrete": [1000, 1001]}, {}),
        (3, {"ensemble": [100, 200]}, {}),
        (4, {}, {"prior": (0.1, 0.15)}),
        (4, {}, {"dropout 0.1, episode": (0.1, 0.25)}),
    ],
)
def test_a_rule_of_deep_sea_can_fail(
    number: int, solved: dict[str, list[int]], spreads: dict[str, tuple[float, float]]
) -> None:
    rows = divers(SOLVED | solved, SPREADS | spreads)
    assert not agrees(deep_sea.CLAIMS[number], rows)


def test_solved_is_the_first_episode_with_few_bad_ones_before() -> None:
    """Against a loop over the episodes, as bsuite's rule reads."""
    rng = np.random.default_rng(0)
    episodes, size = 60, 3
    found = rng.random((episodes, 4)) < np.array([0.0, 0.15, 0.3, 0.9])
    tally = Tally(4, episodes, size)
    for good in found:
        for step in range(size):
            rewards = np.where(good & (step == size - 1), 1.0, 0.0) - 0.01 / size
            tally.add(np.zeros((4, size, size), dtype=np.float32), rewards)
        tally.end_episode()
    rows = Rows([{**row} for row in tally.totals()])
    for agent in range(4):
        own = found[:, agent]
        bad = [1 - own[: n + 1].sum() / (n + 1) for n in range(episodes)]
        solved = next((n + 1 for n in range(episodes) if bad[n] < 0.8), episodes + 1)
        first = next((n + 1 for n in range(episodes) if own[n]), episodes + 1)
        assert rows.value(metric="solved", seed=agent + 1) == solved
        assert rows.value(metric="first treasure", seed=agent + 1) == first
    assert not tally.all_solved


def test_more_foragers_go_on_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the scale of the paper, for its two settings alone: in the worlds that follow."""
    pytest.importorskip("gymnasium")
    from dubio_studies.agents import play

    scales = computation.COMPUTATION.scales
    more = [piece for piece in computation.pieces(scales["paper"]) if "more" in piece]
    assert [piece["agent"] for piece in more] == ["epsilon", "thompson"]
    assert not any("more" in piece for piece in computation.pieces(scales["small"]))
    asked: list[tuple[int, int]] = []

    whole = play.play

    def watched(agents: Any, envs: Any, ticks: int, *, seed: int) -> Any:
        asked.append((envs.num_envs, seed))
        return whole(agents, envs, ticks, seed=seed)

    monkeypatch.setattr(play, "play", watched)
    monkeypatch.setattr(computation, "MORE", 3)
    smoke, seed = scales["smoke"], Seed(own=1, common=2, given=0)
    first = Rows(list(computation.run(smoke, {"agent": "thompson"}, seed)))
    later = Rows(list(computation.run(smoke, {"agent": "thompson", "more": 3}, seed)))
    assert asked == [(smoke.seeds, 2), (3, 2 + smoke.seeds)]
    assert first.where(metric="first above 1").distinct("seed") == [1, 2]
    assert later.where(metric="first above 1").distinct("seed") == [3, 4, 5]
    assert first.where(metric="pose")
    assert not later.where(metric="pose")
