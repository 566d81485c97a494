"""A bound on the KL to a mixture against integration; starts and claims of the study."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

import dubio
from dubio_studies.clark2022.kl_terms.computation import as_started, median_deviation, start_of
from dubio_studies.clark2022.kl_terms.mixture_bound import BoundedMixture
from dubio_studies.clark2022.kl_terms.page import CLAIMS
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


def made_up(**changed: float) -> Rows:
    """Three restarts of 400 units by kind."""
    errors = {
        "authors": 1.3,
        "even": 1.9,
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
            rows.append({**row, "metric": "kl", "value": 28.0 if variant == "authors" else 0.5})
    return Rows(rows)


@pytest.mark.parametrize(
    ("place", "broken"),
    [(0, {"authors": 1.5}), (2, {"even": 1.3}), (3, {"mixture by bound": 2.6})],
)
def test_claims_can_fail(place: int, broken: dict[str, float]) -> None:
    assert [said(claim.judge(made_up())) for claim in CLAIMS] == ["agrees"] * 4
    assert said(CLAIMS[place].judge(made_up(**broken))) == "fails"
