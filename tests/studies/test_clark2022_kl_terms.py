"""A bound on the KL to a mixture against integration; starts and claims of the study."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

import dubio
from dubio_studies.clark2022.kl_terms.computation import COMPUTATION, Config, pieces, schedule_in
from dubio_studies.clark2022.kl_terms.mixture_bound import BoundedMixture
from dubio_studies.clark2022.kl_terms.networks import (
    Schedule,
    as_started,
    median_deviation,
    schedule_of,
    start_of,
)
from dubio_studies.clark2022.kl_terms.page import CLAIMS, settled
from dubio_studies.framework.rows import Rows
from verdicts import said

PRIOR = BoundedMixture(0.5, 0.2, 0.02)


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.02), (0.1, 0.05), (0.3, 0.2), (0.02, 0.1)])
def test_it_is_a_bound_with_its_own_slopes(mean: float, deviation: float) -> None:
    q = stats.norm(mean, deviation)

    def gap(w: float) -> float:
        wide, narrow = (stats.norm(0, sigma).logpdf(w) + np.log(0.5) for sigma in (0.2, 0.02))
        return float(q.pdf(w) * (q.logpdf(w) - np.logaddexp(wide, narrow)))

    ends = mean - 9 * deviation, mean + 9 * deviation
    truth = integrate.quad(gap, *ends, limit=500, points=[0.0])[0]
    offset, sigma = (
        torch.tensor([v], dtype=torch.float64).requires_grad_() for v in (mean, deviation)
    )
    bound = PRIOR.kl(offset, sigma, None)
    assert truth <= float(bound.detach()) <= truth + 0.7  # log 2: as if the component were known
    slopes = torch.autograd.grad(bound, (offset, sigma))
    added = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    PRIOR.add_slopes(*added, offset.detach(), sigma.detach(), None, 1.0)
    assert [float(a) for a in added] == pytest.approx([float(s) for s in slopes])


def test_networks_start_as_the_authors_do() -> None:
    layer = as_started(dubio.Bayesian(nn.Linear(300, 100)))
    assert all(float(mean.detach().abs().max()) <= 0.2 for mean in layer.layer.parameters())
    assert median_deviation(layer) == pytest.approx(start_of({"variant": "authors"}), rel=0.02)


def test_schedules_of_the_variants() -> None:
    small, paper = (schedule_in(COMPUTATION.scales[scale]) for scale in ("small", "paper"))
    assert paper == Schedule(600, 75, 1e-4)
    assert schedule_of("even held", small, paper) == Schedule(44, 40, 1e-3)
    assert schedule_of("authors rate", small, paper) == Schedule(80, 75, 1e-4)
    assert schedule_of("authors mixture", small, paper) == small


def test_other_widths_of_the_paper_have_a_network_of_the_authors() -> None:
    def named(config: Config) -> list[tuple[object, ...]]:
        return [(p["variant"], p["width"]) for p in pieces(config)]

    small, paper = (named(COMPUTATION.scales[scale]) for scale in ("small", "paper"))
    assert [kind for kind in small if kind[1] != 400] == [("authors", 1200), ("authors", 800)]
    assert ("authors rate", 400) in small
    assert ("authors rate", 400) not in paper  # it is the rate of all of them
    assert paper.count(("authors", 800)) == 4  # three restarts, and one with the double softmax


def test_enough_epochs() -> None:
    assert settled([5.0, 1.55, 1.7, 1.59, 1.45, 1.5]) == 4
    assert settled([1.5]) == 1


def test_without_networks_nothing_holds() -> None:
    others = made_up().where(variant="authors")
    assert [said(claim.judge(others)) for claim in CLAIMS[1:]] == ["fails"] * 3


def made_up(**changed: float) -> Rows:
    """Three restarts of 400 units by kind."""
    errors = {
        "authors": 1.3,
        "authors held": 1.3,
        "even held": 1.9,
        "mixture by draws": 2.6,
        "mixture by bound": 1.5,
    } | changed
    rows: list[dict[str, Any]] = []
    for variant, error in errors.items():
        for restart in (1, 2, 3):
            row = {"variant": variant, "loss": "cross-entropy", "width": 400, "restart": restart}
            for reading in ("draws", "pass"):
                value = (error + 0.01 * restart) / 100
                rows.append({**row, "metric": "error", "reading": reading, "value": value})
            kl = 28.0 if variant.startswith("authors") else 0.5
            rows.append({**row, "metric": "kl", "value": kl})
            rows.append({**row, "metric": "deviation", "value": 0.02, "start": 0.01})
    return Rows(rows)


@pytest.mark.parametrize(
    ("place", "broken"),
    [(0, {"authors": 1.5}), (2, {"even held": 1.3}), (3, {"mixture by bound": 2.6})],
)
def test_claims_can_fail(place: int, broken: dict[str, float]) -> None:
    assert [said(claim.judge(made_up())) for claim in CLAIMS] == ["agrees"] * 4
    assert said(CLAIMS[place].judge(made_up(**broken))) == "fails"
