"""Every method on the same data: ranks and claims from made-up rows, scores against formulas."""

from typing import Any, get_args

import pytest
import torch
from scipy import stats
from torch import nn

import dubio
from dubio.masks import Mask
from dubio_studies.framework.rows import Rows
from dubio_studies.uncertainty.methods.networks import QUIET, Method, candidates, network
from dubio_studies.uncertainty.methods.page import CLAIMS, NAMES, differences, ranks
from dubio_studies.uncertainty.methods.tables import LEVELS, gap
from verdicts import said

BETTER_THAN_PLAIN, ENSEMBLES_LEAD, LEARNED_RATES, NOTICE_SHIFT = CLAIMS


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
    ],
)
def test_claims_can_fail(claim: Any, broken: dict[str, float]) -> None:
    assert said(claim.judge(made_up())) == "agrees"
    assert said(claim.judge(made_up(**broken))) == "fails"


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
