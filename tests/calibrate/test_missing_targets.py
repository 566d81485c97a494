"""Calibration on targets of which some are missing: the same as on those that are known."""

import math

import pytest
import torch
from torch import Tensor

from dubio.calibrate import (
    PrecisionScaling,
    QuantileIntervals,
    StandardisedIntervals,
    VarianceScaling,
)
from dubio.calibrate.intervals import Intervals
from dubio.decide import Deferral
from dubio.likelihoods import Gaussian, Likelihood, StudentT
from dubio.predictive.predictive import Predictive, StoredDraws


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


F, Y = normal(3, 40, 2), normal(40, 2, seed=1)
KNOWN = normal(40, 2, seed=2) < 0.6
GAPS = Y.where(KNOWN, math.nan)
P = Predictive(Gaussian(2.0, missing="ignore"), StoredDraws(F))


@pytest.mark.parametrize("kind", [StandardisedIntervals, QuantileIntervals])
def test_every_output_has_the_threshold_of_its_known_targets(
    kind: type[StandardisedIntervals | QuantileIntervals],
) -> None:
    found = kind(0.2).fit(P, GAPS).threshold
    for k in range(2):
        rows = KNOWN[:, k]
        one = Predictive(Gaussian(2.0), StoredDraws(F[:, rows, k : k + 1]))
        torch.testing.assert_close(
            found[k : k + 1], kind(0.2).fit(one, Y[rows, k : k + 1]).threshold
        )


def test_factors_are_those_of_the_known_targets() -> None:
    errors = (P.mean - Y).square() / P.variance
    torch.testing.assert_close(VarianceScaling().fit(P, GAPS).factor, errors[KNOWN].mean())
    one = Predictive(P.likelihood, StoredDraws(F[:1]))
    squares = 2.0 * (F[0] - Y).square()[KNOWN]
    torch.testing.assert_close(PrecisionScaling().fit(one, GAPS).factor, 1 / squares.mean())
    best = PrecisionScaling().fit(P, GAPS)
    value = best(P).log_prob(GAPS).mean()
    for factor in (0.99, 1.01):
        other = Predictive(
            Gaussian(2.0 * float(best.factor) * factor, missing="ignore"), StoredDraws(F)
        )
        assert other.log_prob(GAPS).mean() < value


def test_noise_of_another_form_is_scaled_to_the_likeliest() -> None:
    likelihood: Likelihood = StudentT(3.0, missing="ignore")
    outputs = torch.cat([F, torch.full_like(F, 1.5)], -1)
    p = Predictive(likelihood, StoredDraws(outputs))
    found = PrecisionScaling().fit(p, GAPS)
    value = found(p).log_prob(GAPS).mean()
    for shift in (-0.01, 0.01):
        log_scale = 1.5 - 0.5 * math.log(float(found.factor)) + shift
        other = torch.cat([F, torch.full_like(F, log_scale)], -1)
        assert Predictive(likelihood, StoredDraws(other)).log_prob(GAPS).mean() < value


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="got none that is not missing"):
        VarianceScaling().fit(P, torch.full_like(Y, math.nan))
    with pytest.raises(ValueError, match="expected at least 4 validation rows"):
        StandardisedIntervals(0.2).fit(P, Y.where(torch.arange(40)[:, None] < 3, math.nan))
    with pytest.raises(ValueError, match="missing ones too"):
        Deferral("std", tolerance=1.0).fit_error_rate(P, GAPS, 0.3)
    with pytest.raises(ValueError, match="missing='ignore'"):
        VarianceScaling().fit(Predictive(Gaussian(2.0), StoredDraws(F)), GAPS)


def test_contains_refuses_missing_targets() -> None:
    interval = Intervals(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match=r"got NaN.*metrics\.interval_coverage"):
        interval.contains(torch.tensor([0.5, torch.nan, 2.0]))
    assert interval.contains(torch.tensor([0.5, 0.0, 2.0])).tolist() == [True, True, False]
