"""Sketches of the papers against formulas, and their claims against made-up rows."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

from dubio_studies.catalogue import find
from dubio_studies.clark2022.figure_2_3.computation import log_density, mass
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from verdicts import said

SEED = Seed(own=1, common=2, given=0)


def rows_of(name: str, **piece: Any) -> Rows:
    computation = find(name).load().computation
    config = computation.scales["smoke"]
    return Rows([{**piece, **row} for row in computation.run(config, piece, SEED)])


def test_priors_that_the_claims_are_about_are_wanted() -> None:
    computation = find("clark2022/figure-2-3").load().computation
    for settings in ({"sigmas": (2,)}, {"spikes": (8,)}):
        with pytest.raises(ValueError, match="sigmas, spikes: expected 0 and 6 among them"):
            replace(computation.scales["smoke"], **settings)


def test_relaxed_masks_are_eq_5() -> None:
    for row in rows_of("gal2017/figure-10", drop=0.3, temperature=0.1):
        u = row["u"]
        logit = math.log(0.3 / 0.7) + math.log(u / (1 - u))
        assert row["value"] == pytest.approx(1 / (1 + math.exp(-logit / 0.1)), rel=2e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drops": (0.1, 1.5)}, "drops: expected rates"),
        ({"drops": ()}, "drops: expected rates"),
        ({"temperatures": (0.0,)}, "temperatures: expected positive"),
        ({"temperatures": (0.5,)}, r"temperatures: expected the paper's 0\.1 among them"),
    ],
)
def test_settings_without_a_mask_are_refused(
    settings: dict[str, tuple[float, ...]], message: str
) -> None:
    computation = find("gal2017/figure-10").load().computation
    with pytest.raises(ValueError, match=message):
        replace(computation.scales["smoke"], **settings)


def test_a_mask_that_is_not_binary_breaks_the_claim() -> None:
    (claim,) = find("gal2017/figure-10").load().page.claims
    binary = [{"drop": 0.5, "temperature": 0.1, "value": float(k % 2)} for k in range(10)]
    soft = [{**row, "value": 0.5} for row in binary]
    assert said(claim.judge(Rows(binary))) == "agrees"
    assert said(claim.judge(Rows(soft))) != "agrees"


@pytest.mark.parametrize(("sigma", "spike"), [(0, 6), (2, 8)])
def test_mixture_densities_and_masses(sigma: int, spike: int) -> None:
    weights = torch.linspace(-2, 2, 41, dtype=torch.float64)
    scales = torch.tensor([math.exp(-sigma), math.exp(-spike)], dtype=torch.float64)
    truth = MixtureSameFamily(
        Categorical(torch.ones(2, dtype=torch.float64)), Normal(torch.zeros_like(scales), scales)
    )
    piece = {"prior": "mixture", "sigma": sigma, "spike": spike}
    assert log_density(piece, weights).tolist() == pytest.approx(truth.log_prob(weights).tolist())
    bound = torch.tensor(0.5, dtype=torch.float64)
    assert mass(piece, 0.5) == pytest.approx(float(truth.cdf(bound) - truth.cdf(-bound)))
