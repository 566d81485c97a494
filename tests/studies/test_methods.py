"""Every method on the same data: ranks and claims from made-up rows, scores against formulas."""

from typing import Any, get_args

import pytest
import torch
from scipy import stats
from torch import nn

import dubio
from dubio.masks import Mask
from dubio_studies.framework.rows import Rows
from dubio_studies.uci.splits import Splits, predictions
from dubio_studies.uncertainty.methods import tables as on_tables
from dubio_studies.uncertainty.methods.claims import CLAIMS
from dubio_studies.uncertainty.methods.comparison import NAMES, agreement, differences, ranks
from dubio_studies.uncertainty.methods.networks import QUIET, Method, candidates, network
from dubio_studies.uncertainty.methods.tables import LEVELS, chosen, gap
from verdicts import said

BETTER_THAN_PLAIN, ENSEMBLES_LEAD, LEARNED_RATES, NOTICE_SHIFT, LOSERS_FIT_LESS, ORDER = CLAIMS


def made_up(**changed: float) -> Rows:
    """Scores of three splits of two tables; ensembles first, plain networks last."""
    scores = {"plain": 2.0, "ensemble": 1.0, "linear": 3.0}
    rows: list[dict[str, Any]] = []
    for table in ("boston", "yacht"):
        for method in NAMES:
            nll = changed.get(method.replace("-", "_"), scores.get(method, 1.5))
            auroc = 0.5 if method == "plain" else changed.get("auroc", 0.9)
            for split in range(3):
                row = {"part": "tables", "table": table, "method": method, "split": split}
                rows.append({**row, "metric": "nll", "value": nll + 0.01 * split})
                rows.append({**row, "metric": "auroc", "value": auroc})
                fit = changed.get("fit", nll)
                rows.append({**row, "metric": "training rmse", "value": fit})
                if table == "yacht":
                    later = changed.get("reversed", 1.0) * nll
                    rows.append({**row, "part": "longer", "metric": "nll", "value": later})
    return Rows(rows)


def test_names_are_those_of_all_methods() -> None:
    assert set(NAMES) == set(get_args(Method))


def test_ranks_share_ties_and_turn_for_what_is_to_be_high() -> None:
    found = ranks(made_up(), "nll")
    assert set(found["ensemble"]) == {1.0}
    assert set(found["mc"]) == {5.0}  # seven share the places 2 to 8
    assert set(found["plain"]) == {9.0}
    assert len(found["plain"]) == 6
    for split in range(6):
        scores = [made_up().where(method=m, metric="nll").values()[split] for m in NAMES]
        assert [found[m][split] for m in NAMES] == stats.rankdata(scores).tolist()
    assert set(ranks(made_up(), "auroc")["plain"]) == {10.0}


def test_differences_are_paired() -> None:
    assert differences(made_up(), "plain", "mc", "nll") == pytest.approx([0.5] * 6)


@pytest.mark.parametrize(
    ("claim", "broken"),
    [
        (BETTER_THAN_PLAIN, {"bayes": 2.0}),
        (ENSEMBLES_LEAD, {"mc": 0.5}),
        (LEARNED_RATES, {"bernoulli": 1.6}),
        (NOTICE_SHIFT, {"auroc": 0.55}),
        (LOSERS_FIT_LESS, {"bayes": 3.0, "fit": 1.0}),
        (ORDER, {"reversed": -1.0}),
    ],
)
def test_claims_can_fail(claim: Any, broken: dict[str, float]) -> None:
    assert said(claim.judge(made_up())) == "agrees"
    assert said(claim.judge(made_up(**broken))) == "fails"


def test_losses_are_explained_by_worse_fits() -> None:
    found = LOSERS_FIT_LESS.judge(made_up(bayes=3.0))
    assert said(found) == "agrees"
    assert found.ours == "2 pairs of method and table lose, 0 of them fit as well"
    found = LOSERS_FIT_LESS.judge(made_up(bayes=3.0, fit=1.0))
    assert "Bayes by Backprop on Yacht hydrodynamics" in found.ours


def test_the_agreement_of_ranks_is_spearmans() -> None:
    rng = torch.Generator().manual_seed(0)
    once, twice = torch.rand(2, len(NAMES), generator=rng).tolist()
    rows = Rows(
        [
            {"part": part, "table": "yacht", "method": method, "metric": "nll", "value": value}
            for part, values in (("tables", once), ("longer", twice))
            for method, value in zip(NAMES, values, strict=True)
        ]
    )
    assert agreement(rows) == pytest.approx(stats.spearmanr(once, twice).statistic)


def test_runs_without_these_rows_decide_nothing() -> None:
    known = [row for row in made_up() if row["part"] == "tables"]
    rows = Rows([row for row in known if row["metric"] != "training rmse"])
    assert said(LOSERS_FIT_LESS.judge(rows)) == said(ORDER.judge(rows)) == "fails"
    assert said(BETTER_THAN_PLAIN.judge(rows)) == "agrees"


@pytest.mark.parametrize("method", ["ensemble", "plain"])
def test_splits_are_predicted_by_networks_that_learned_them(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 40
    starts = [size * split for split in range(3)]
    data = Splits(
        torch.randn(3 * size, 2),
        torch.randn(3 * size, 1),
        torch.ones(3),
        [torch.arange(36) + start for start in starts],
        [torch.arange(36, size) + start for start in starts],
    )
    learned: dict[nn.Module, tuple[int, int]] = {}  # the split, and how many of its rows
    asked: list[tuple[list[tuple[int, int]], list[int]]] = []

    def train(objectives: Any, _: Splits, rows: list[torch.Tensor], steps: int) -> None:
        for each, own in zip(objectives, rows, strict=True):
            learned[each.model] = (int(own[0]) // size, len(own))

    def predict(networks: Any, precisions: Any, x: Any, rows: Any, *counts: int) -> Any:
        asked.append(([learned[each] for each in networks], [int(own[0]) // size for own in rows]))
        return predictions(networks, precisions, x, rows, *counts)

    monkeypatch.setattr(Splits, "of", lambda name, count: data)
    monkeypatch.setattr(on_tables, "train", train)
    monkeypatch.setattr(on_tables, "predictions", predict)
    sizes = {"splits": 3, "hidden": 4, "steps": 1, "draws": 2, "members": 2}
    rows = list(on_tables.on_table(method, "made up", **sizes))
    assert {row["split"] for row in rows if row["metric"] == "training rmse"} == {0, 1, 2}
    restarts = 2 if method == "ensemble" else 1
    (validated, held_out), *final = asked
    assert validated == [(split, 29) for split in held_out] * restarts
    assert len(final) == 3
    for networks, tested in final:
        assert tested == [0, 1, 2]
        assert networks == [(split, 36) for split in tested] * restarts


def test_rows_say_what_was_chosen_and_learned() -> None:
    candidate = candidates("mc")[1]
    length_scale, *rates = chosen(3, candidate, network("mc", (4, 5, 1), candidate))
    assert length_scale["value"] == candidate.length_scale
    assert [rate["layer"] for rate in rates] == [0, 1]
    assert [rate["value"] for rate in rates] == pytest.approx([candidate.drop] * 2)
    assert len(list(chosen(0, candidate, network("bayes", (4, 5, 1), candidate)))) == 1


def test_the_gap_of_calibration() -> None:
    even = (torch.arange(10_000) + 0.5) / 10_000
    assert gap(even) == pytest.approx(0.0, abs=1e-3)
    assert gap(torch.full((10,), 0.5)) == pytest.approx(1 - sum(LEVELS) / len(LEVELS))
    narrow = stats.norm.cdf(2 * stats.norm.ppf(even.numpy()))  # half the true deviation
    shares = [2 * stats.norm.cdf(stats.norm.ppf(0.5 + level / 2) / 2) - 1 for level in LEVELS]
    truth = sum(level - share for level, share in zip(LEVELS, shares, strict=True)) / len(LEVELS)
    assert gap(torch.from_numpy(narrow)) == pytest.approx(truth, abs=2e-3)


@pytest.mark.parametrize("method", [m for m in get_args(Method) if m != "linear"])
def test_networks_have_the_noise_of_their_method(method: Method) -> None:
    assert len(set(candidates(method))) == 3
    made = network(method, (4, 5, 3), candidates(method)[0])
    assert made(torch.randn(2, 4)).shape == (2, 3)
    masks = [m for m in made.modules() if isinstance(m, Mask)]
    random = [m for m in made.modules() if isinstance(m, dubio.Bayesian)]
    counts = {"bayes": (0, 2), "last-layer": (0, 1)} | dict.fromkeys(QUIET, (0, 0))
    assert (len(masks), len(random)) == counts.get(method, (2, 0))
    assert sum(isinstance(m, nn.Linear) for m in made.modules()) == 2
