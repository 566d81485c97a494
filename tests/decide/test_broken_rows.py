"""Rows that are NaN or infinite are deferred, whatever they come as, and the others are not."""

import math

import pytest
import torch
from torch import Tensor

from dubio.decide import Deferral
from dubio.likelihoods import Categorical, Gaussian
from dubio.predictive.predictive import Predictive, StoredDraws

BROKEN = [math.nan, math.inf, -math.inf]
ROWS = 400


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labelled() -> tuple[Tensor, Tensor]:
    logits = 4 * torch.randn(ROWS, 3, generator=seeded())
    q = logits.softmax(-1)
    return q, torch.multinomial(q, 1, generator=seeded(1)).squeeze(-1)


def real() -> tuple[Tensor, Tensor, Tensor]:
    std = 0.1 + torch.rand(ROWS, 2, generator=seeded())
    mean = torch.zeros(ROWS, 2)
    return mean, std, std * torch.randn(ROWS, 2, generator=seeded(1))


@pytest.mark.parametrize("bad", BROKEN)
@pytest.mark.parametrize("column", [0, slice(None)], ids=["one", "all"])
def test_probabilities(bad: float, column: int | slice) -> None:
    q, y = labelled()
    broken = q.clone()
    broken[[1, 7], column] = bad
    for fit_on in (q, broken):
        deferral = Deferral().fit_error_rate(fit_on, y, 0.2)
        found, expected = deferral(broken), deferral(q)
        assert found.answered[[1, 7]].tolist() == [False, False]
        assert found.answer[[1, 7]].tolist() == [-1, -1]
        assert bool(found.scores[[1, 7]].isnan().all())
        others = torch.arange(ROWS) % 400 > 7
        assert torch.equal(found.answer[others], expected.answer[others])
        assert found.coverage > 0.3
    for score in ("entropy", "std"):
        deferral = Deferral(score).fit_coverage(broken, 0.8)
        assert deferral(broken).coverage >= 0.8
        assert not bool(deferral(broken).answered[[1, 7]].any())


@pytest.mark.parametrize("bad", BROKEN)
@pytest.mark.parametrize("part", ["mean", "std"])
def test_mean_and_deviation(bad: float, part: str) -> None:
    mean, std, y = real()
    broken = {"mean": mean.clone(), "std": std.clone()}
    broken[part][[1, 7], 0] = bad
    pair = (broken["mean"], broken["std"])
    for fit_on in ((mean, std), pair):
        deferral = Deferral("std", tolerance=1.5).fit_error_rate(fit_on, y, 0.2)
        found = deferral(pair)
        assert not bool(found.answered[[1, 7]].any())
        assert bool(found.answer[[1, 7]].isnan().all())
        assert found.coverage > 0.3


@pytest.mark.parametrize("bad", BROKEN)
def test_draws(bad: float) -> None:
    logits = 4 * torch.randn(5, ROWS, 3, generator=seeded())
    y = logits.mean(0).argmax(-1)
    logits[2, [1, 7]] = bad
    p = Predictive(Categorical(), StoredDraws(logits))
    for score in ("entropy", "mutual_information", "variation_ratio", "std"):
        deferral = Deferral(score).fit_error_rate(p, y, 0.5)
        assert not bool(deferral(p).answered[[1, 7]].any())
        assert not bool(Deferral(score).fit_coverage(p, 0.5)(p).answered[[1, 7]].any())
    numbers = Predictive(Gaussian(2.0), StoredDraws(logits))
    deferral = Deferral("std", tolerance=9.0).fit_error_rate(numbers, torch.zeros(ROWS, 3), 0.5)
    assert not bool(deferral(numbers).answered[[1, 7]].any())


def test_an_infinite_mean_is_no_answer() -> None:
    """Its deviation may be small."""
    mean, std, y = real()
    deferral = Deferral("std", tolerance=1.5).fit_error_rate((mean, std), y, 0.2)
    mean[0] = math.inf
    std[0] = 1e-3
    assert not bool(deferral((mean, std)).answered[0])


def test_too_many_for_a_wanted_coverage() -> None:
    q, _ = labelled()
    q[: ROWS // 2] = math.nan
    with pytest.raises(ValueError, match=r"at least \d+ finite scores for 0.8.*got 200"):
        Deferral().fit_coverage(q, 0.8)
    assert Deferral().fit_coverage(q, 0.4)(q).coverage >= 0.4


def test_all_rows() -> None:
    q, y = labelled()
    with pytest.raises(ValueError, match="got NaN or infinite ones in all rows"):
        Deferral().fit_error_rate(q * math.nan, y, 0.1)
    deferral = Deferral().fit_error_rate(q, y, 0.2)
    assert deferral(q * math.nan).coverage == 0


def test_what_is_no_probability_is_still_an_error() -> None:
    q, y = labelled()
    broken = q.clone()
    broken[3] = math.nan
    with pytest.raises(ValueError, match=r"p: .*pass logits.softmax"):
        Deferral().fit_error_rate(2 * broken, y, 0.2)
    mean, std, _ = real()
    std[4] = -1.0
    with pytest.raises(ValueError, match="standard deviations > 0"):
        Deferral("std").fit_coverage((mean, std), 0.5)


def test_classes_must_be_those_of_the_validation_data() -> None:
    q, y = labelled()
    deferral = Deferral().fit_error_rate(q, y, 0.2)
    with pytest.raises(ValueError, match="expected 3 classes, as in the validation data, got 5"):
        deferral(torch.full((4, 5), 0.2))
    mean, std, y = real()
    deferral = Deferral("std", tolerance=1.5).fit_error_rate((mean, std), y, 0.2)
    with pytest.raises(ValueError, match=r"targets of shape \(2,\).*got \(1,\)"):
        deferral((mean[:, :1], std[:, :1]))
