"""Factors on precision and variance against closed forms and scipy."""

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import torch
from torch import Tensor

import dubio
from dubio.calibrate import PrecisionScaling, VarianceScaling
from dubio.likelihoods import (
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Multinomial,
)
from dubio.likelihoods.point import Point
from dubio.predictive.predictive import Predictive, StoredDraws


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def prediction(outputs: Tensor, likelihood: Likelihood) -> Predictive:
    return Predictive(likelihood, StoredDraws(outputs, chunk_bytes=2000))


MEAN, STD, Y = normal(50, 2), normal(50, 2, seed=1).exp(), 3 * normal(50, 2, seed=2)


class TestPrecision:
    def test_a_gaussian_has_a_closed_form(self) -> None:
        found = PrecisionScaling().fit((MEAN, STD), Y)
        expected = 1 / ((Y - MEAN) / STD).square().mean()
        assert float(found.factor) == pytest.approx(float(expected), rel=1e-12)
        torch.testing.assert_close(found((MEAN, STD)).std, STD / expected.sqrt())

    @pytest.mark.parametrize("draws", [2, 30])
    @pytest.mark.parametrize("spread", [0.1, 2.0])
    @pytest.mark.parametrize("noisy", ["one", "each", "heteroscedastic"])
    def test_a_mixture_is_at_scipys_optimum(self, draws: int, spread: float, noisy: str) -> None:
        f = MEAN + spread * normal(draws, 50, 2, seed=3)
        variance = torch.full_like(f, 0.25)
        likelihood: Likelihood = Gaussian(4.0)
        outputs = f
        if noisy == "each":
            likelihood = Gaussian(torch.tensor([4.0, 0.3]))
            variance = torch.tensor([0.25, 1 / 0.3], dtype=torch.float64).expand_as(f)
        if noisy == "heteroscedastic":
            likelihood = HeteroscedasticGaussian()
            variance = normal(draws, 50, 2, seed=4).exp()
            outputs = torch.cat([f, variance.log()], -1)
        p = prediction(outputs, likelihood)

        def loss(log_factor: float | np.ndarray) -> float:
            std = np.sqrt(variance.numpy() / np.exp(log_factor))
            logs = scipy.stats.norm.logpdf(Y.numpy(), f.numpy(), std).sum(-1)
            return -float(scipy.special.logsumexp(logs, axis=0).sum()) + 50 * math.log(draws)

        best = scipy.optimize.brute(loss, [(-8, 8)], Ns=80)
        found = PrecisionScaling().fit(p, Y)
        assert float(found.factor) == pytest.approx(math.exp(best[0]), rel=1e-3)
        scaled = found(p)
        log_factor = math.log(float(found.factor))
        assert -float(scaled.log_prob(Y).sum()) == pytest.approx(loss(log_factor), rel=1e-6)
        for step in (-1e-4, 1e-4):  # no better one beside it
            assert loss(log_factor) <= loss(log_factor + step)
        torch.testing.assert_close(scaled.mean, p.mean)
        torch.testing.assert_close(scaled.epistemic, p.epistemic)
        torch.testing.assert_close(scaled.aleatoric * found.factor, p.aleatoric)

    def test_three_optima(self) -> None:
        """Many distant draws, few close ones, one closer still: the best peak is taken."""
        distances = torch.tensor([0.05] + [0.3] * 9 + [100.0] * 990, dtype=torch.float64)
        f = distances.reshape(-1, 1, 1).expand(1000, 4, 1)
        p, y = prediction(f, Gaussian(1.0)), torch.zeros(4, 1, dtype=torch.float64)
        grid = np.geomspace(1e-6, 1e5, 500)
        at = np.array([float(prediction(f, Gaussian(c)).log_prob(y).sum()) for c in grid])
        assert ((at[1:-1] > at[:-2]) & (at[1:-1] > at[2:])).sum() == 3
        found = PrecisionScaling().fit(p, y)
        assert float(found(p).log_prob(y).sum()) >= at.max()

    def test_targets_without_a_dimension_of_their_own(self) -> None:
        f, y = normal(7, 50, seed=3), Y[:, 0]
        p, columns = prediction(f, Gaussian(4.0)), prediction(f[..., None], Gaussian(4.0))
        found, expected = PrecisionScaling().fit(p, y), PrecisionScaling().fit(columns, y[:, None])
        assert torch.equal(found.factor, expected.factor)
        assert torch.equal(found(p).std, expected(columns).std[:, 0])

    def test_kinds(self) -> None:
        with pytest.raises(TypeError, match="VarianceScaling takes"):
            PrecisionScaling().fit(prediction(normal(3, 50, 2), Point()), Y)
        with pytest.raises(TypeError, match="prediction of real targets"):
            PrecisionScaling().fit(prediction(normal(3, 50, 2), Categorical()), Y)


class TestVariance:
    @pytest.mark.parametrize("kind", ["point", "gaussian", "heteroscedastic"])
    def test_moments(self, kind: str) -> None:
        draws = normal(7, 50, 2, seed=3)
        likelihood: Likelihood = Point() if kind == "point" else Gaussian(4.0)
        if kind == "heteroscedastic":
            draws, likelihood = torch.cat([draws, draws.cos()], -1), HeteroscedasticGaussian()
        p = prediction(draws, likelihood)
        found = VarianceScaling().fit(p, Y)
        expected = ((Y - p.mean).square() / p.variance).mean()
        torch.testing.assert_close(found.factor, expected)
        scaled = found(p)
        torch.testing.assert_close(scaled.mean, p.mean)
        torch.testing.assert_close(scaled.epistemic, expected * p.epistemic)
        torch.testing.assert_close(scaled.variance, expected * p.variance)
        torch.testing.assert_close(((Y - p.mean) / scaled.std).square().mean().item(), 1.0)

    def test_it_is_the_density_of_the_moved_target(self) -> None:
        p = prediction(normal(7, 50, 2, seed=3), Gaussian(4.0))
        found = VarianceScaling().fit(p, Y)
        scale = found.factor.sqrt()
        expected = p.log_prob(p.mean + (Y - p.mean) / scale) - 2 * scale.log()
        torch.testing.assert_close(found(p).log_prob(Y), expected)

    def test_no_variance(self) -> None:
        with pytest.raises(ValueError, match="variance > 0 everywhere"):
            VarianceScaling().fit(prediction(normal(1, 50, 2), Point()), Y)

    def test_counts(self) -> None:
        scaling = VarianceScaling().fit((MEAN, STD), Y)
        with pytest.raises(TypeError, match="rescaled: not defined for Multinomial"):
            scaling(prediction(normal(2, 50, 2), Multinomial()))


@pytest.mark.parametrize("scaling", [PrecisionScaling, VarianceScaling])
class TestBoth:
    @pytest.mark.parametrize("outputs", [1, 2])
    def test_replayed_draws(
        self, scaling: type[PrecisionScaling | VarianceScaling], outputs: int
    ) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, outputs)
        )
        x, y = torch.randn(30, 4), torch.randn(30, 1)
        likelihood = Gaussian(2.0) if outputs == 1 else HeteroscedasticGaussian()
        scaled = []
        for keep in (True, False):
            generator = torch.Generator().manual_seed(0)
            p = dubio.predict(net, x, likelihood=likelihood, generator=generator, keep_draws=keep)
            scaled.append(scaling().fit(p, y)(p))
        stored, replayed = scaled
        torch.testing.assert_close(stored.variance, replayed.variance)
        torch.testing.assert_close(stored.log_prob(y), replayed.log_prob(y))
        assert stored.interval()[0].shape == (30, 1)

    def test_saved(self, scaling: type[PrecisionScaling | VarianceScaling], tmp_path: Path) -> None:
        fitted = scaling().fit((MEAN, STD), Y)
        torch.save(fitted.state_dict(), tmp_path / "state.pt")
        loaded = scaling()
        loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(loaded((MEAN, STD)).std, fitted((MEAN, STD)).std)

    @pytest.mark.parametrize(
        ("p", "y", "message"),
        [
            ((MEAN, STD), Y[:-1], "y: expected shape"),
            ((MEAN, STD), Y * math.nan, "got NaN"),
            ((MEAN, STD), Y * math.inf, "expected finite"),
            ((MEAN, STD), MEAN, "differ from the prediction"),
            ((MEAN, 0 * STD), Y, "standard deviations > 0"),
            ((MEAN * math.nan, STD), Y, "finite means"),
            ((MEAN[:, 0], STD[:, 0]), Y[:, 0], r"mean\[:, None\]"),
            ((MEAN, STD[:1]), Y, "both"),
            ((MEAN[:0], STD[:0]), Y[:0], "non-empty"),
        ],
    )
    def test_mistakes(
        self,
        scaling: type[PrecisionScaling | VarianceScaling],
        p: tuple[Tensor, Tensor],
        y: Tensor,
        message: str,
    ) -> None:
        with pytest.raises(ValueError, match=message):
            scaling().fit(p, y)

    def test_not_fitted(self, scaling: type[PrecisionScaling | VarianceScaling]) -> None:
        with pytest.raises(RuntimeError, match="fit first"):
            scaling()((MEAN, STD))
