"""Calibrators know the classes they were fitted on, and take probabilities of any precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dubio.calibrate import (
    AdaptiveSets,
    LeastAmbiguousSets,
    PrecisionScaling,
    QuantileIntervals,
    StandardisedIntervals,
    TemperatureScaling,
    VarianceScaling,
)
from dubio.likelihoods import Bernoulli, Categorical, Gaussian
from dubio.predictive.predictive import Predictive, StoredDraws

OF_LABELS = [TemperatureScaling, LeastAmbiguousSets, AdaptiveSets]
OF_NUMBERS = [PrecisionScaling, VarianceScaling, StandardisedIntervals, QuantileIntervals]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labelled(classes: int, rows: int = 200) -> tuple[Tensor, Tensor]:
    q = torch.randn(rows, classes, generator=seeded()).softmax(-1)
    return q, torch.multinomial(q, 1, generator=seeded(1)).squeeze(-1)


@pytest.mark.parametrize("kind", OF_LABELS)
@pytest.mark.parametrize("other", [2, 4])
def test_other_classes(kind: Callable[[], Any], other: int, tmp_path: Path) -> None:
    fitted = kind().fit(*labelled(3))
    torch.save(fitted.state_dict(), tmp_path / "state.pt")
    loaded = kind()
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    q, _ = labelled(other)
    message = f"expected 3 classes, as in the validation data, got {other}; fit on"
    for it in (fitted, loaded, loaded.half()):
        it(labelled(3)[0])
        with pytest.raises(ValueError, match=message):
            it(q)
        with pytest.raises(ValueError, match=message):
            it(Predictive(Categorical(), StoredDraws(q.log().expand(2, *q.shape))))
    if other == 2:
        with pytest.raises(ValueError, match=message):
            it(Predictive(Bernoulli(), StoredDraws(q[None, :, :1].logit())))
    assert kind().fit(q, labelled(other)[1])(q) is not None


@pytest.mark.parametrize("kind", OF_NUMBERS)
def test_other_targets(kind: Callable[[], Any], tmp_path: Path) -> None:
    mean, y = torch.zeros(100, 2), torch.randn(100, 2, generator=seeded())
    fitted = kind().fit((mean, mean + 1), y)
    torch.save(fitted.state_dict(), tmp_path / "state.pt")
    loaded = kind()
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for it in (fitted, loaded):
        it((mean[:3], mean[:3] + 1))
        for size in (1, 3):
            other = torch.zeros(5, size)
            with pytest.raises(ValueError, match=rf"of shape \(2,\).*got \({size},\)"):
                it((other, other + 1))


@pytest.mark.parametrize("kind", [PrecisionScaling, VarianceScaling])
def test_images_of_another_size_have_the_same_factor(kind: Callable[[], Any]) -> None:
    draws = torch.randn(3, 20, 4, 4, generator=seeded())
    fitted = kind().fit(Predictive(Gaussian(1.0), StoredDraws(draws)), torch.zeros(20, 4, 4))
    fitted(Predictive(Gaussian(1.0), StoredDraws(draws[:, :, :2, :3])))
    with pytest.raises(ValueError, match="expected targets of shape"):
        fitted(Predictive(Gaussian(1.0), StoredDraws(draws[..., 0])))


def test_segmentations_of_another_size_have_the_same_temperature() -> None:
    logits = torch.randn(2, 10, 3, 4, 4, generator=seeded())
    p = Predictive(Categorical(dim=1), StoredDraws(logits))
    y = torch.randint(3, (10, 4, 4), generator=seeded(1))
    y[0] = logits.mean(0)[0].argmax(0)
    fitted = TemperatureScaling().fit(p, logits.mean(0).argmax(1).where(y > 0, 0))
    fitted(Predictive(Categorical(dim=1), StoredDraws(logits[..., :2])))
    with pytest.raises(ValueError, match="expected 3 classes"):
        fitted(Predictive(Categorical(dim=1), StoredDraws(logits[:, :, :2])))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("kind", OF_LABELS)
def test_half_precision(kind: Callable[[], Any], classes: int, dtype: torch.dtype) -> None:
    """As they are, or in other types by now; and averaged."""
    logits = torch.randn(300, classes, generator=seeded())
    y = torch.multinomial(logits.softmax(-1), 1, generator=seeded(1)).squeeze(-1)
    exact = kind().fit(logits.softmax(-1), y)
    for q in (logits.softmax(-1).to(dtype), logits.to(dtype).softmax(-1)):
        means = torch.stack([q.float(), q.roll(1, 0).float()]).mean(0)
        for given in (q, q.float(), q.double(), means, means.to(dtype)):
            kind().fit(given, y)(given)
        if kind is TemperatureScaling:
            found = kind().fit(q, y).temperature
            torch.testing.assert_close(found, exact.temperature, rtol=0.05, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", OF_NUMBERS)
def test_numbers_in_half_precision(kind: Callable[[], Any], dtype: torch.dtype) -> None:
    mean = torch.randn(200, 2, generator=seeded()).to(dtype)
    std = (0.1 + torch.rand(200, 2, generator=seeded(1))).to(dtype)
    y = mean + std * torch.randn(200, 2, generator=seeded(2)).to(dtype)
    assert kind().fit((mean, std), y)((mean, std)) is not None


@pytest.mark.parametrize("kind", OF_LABELS)
@pytest.mark.parametrize("factor", [0.9, 0.98, 1.02, 1.5])
def test_what_does_not_sum_to_1_is_still_refused(kind: Callable[[], Any], factor: float) -> None:
    q, y = labelled(3)
    with pytest.raises(ValueError, match="that sum to 1"):
        kind().fit(factor * q, y)
