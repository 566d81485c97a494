"""Likelihoods against scipy, torch.distributions and the formulas done naively."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from torch import Tensor, nn

from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    LearnedGaussian,
    Likelihood,
    Multinomial,
    NegativeBinomial,
    Point,
    Poisson,
    StudentT,
)

INF = math.inf
CONTINUOUS = [Gaussian(1.0), LearnedGaussian(1.0), HeteroscedasticGaussian()]
NEW = [Laplace(), StudentT(3.0), Poisson(), NegativeBinomial()]
DISCRETE = [Categorical(), Bernoulli()]
COUNTS = [Multinomial(), Multinomial(7, coefficient=False)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mixture_quantile(mean: np.ndarray, std: np.ndarray, q: float) -> float:
    """Brent's method on the cdf, or on the survival function above the median."""

    def excess(y: float) -> float:
        if q > 0.5:
            return float((1 - q) - scipy.stats.norm.sf(y, mean, std).mean())
        return float(scipy.stats.norm.cdf(y, mean, std).mean() - q)

    reach = 40 * std.max()
    root = scipy.optimize.brentq(excess, mean.min() - reach, mean.max() + reach, xtol=1e-14)
    return float(root)


class TestGaussian:
    def test_log_prob_is_the_joint_density_of_equation_13(self) -> None:
        outputs, y, tau = normal(5, 4, 3), normal(4, 3, seed=1), 2.5
        squared = ((y - outputs) ** 2).sum(-1)
        dims = 3
        equation = (
            -0.5 * tau * squared - dims / 2 * math.log(2 * math.pi) + dims / 2 * math.log(tau)
        )
        torch.testing.assert_close(Gaussian(tau).log_prob(outputs, y), equation)

    def test_log_prob_with_one_precision_an_output_and_several_event_dims(self) -> None:
        outputs, y = normal(5, 4, 2, 3), normal(4, 2, 3, seed=1)
        tau = torch.tensor([0.1, 1.0, 40.0], dtype=torch.float64)
        expected = scipy.stats.norm.logpdf(y, outputs, tau.numpy() ** -0.5).sum((-1, -2))
        np.testing.assert_allclose(Gaussian(tau).log_prob(outputs, y), expected, rtol=1e-12)

    def test_log_prob_of_scalar_targets(self) -> None:
        outputs, y = normal(5, 4), normal(4, seed=1)
        expected = scipy.stats.norm.logpdf(y, outputs, 2**-0.5)
        np.testing.assert_allclose(Gaussian(2.0).log_prob(outputs, y), expected, rtol=1e-12)

    def test_moments(self) -> None:
        outputs = normal(5, 4, 2)
        tau = torch.tensor([4.0, 0.5], dtype=torch.float64)
        assert torch.equal(Gaussian(tau).mean(outputs), outputs)
        expected = torch.tensor([0.25, 2.0], dtype=torch.float64).expand(5, 4, 2)
        assert torch.equal(Gaussian(tau).variance(outputs), expected)

    @pytest.mark.parametrize("q", [1e-9, 0.025, 0.3, 0.5, 0.9, 0.975, 1 - 1e-9])
    def test_quantile_is_exact_for_the_mixture(self, q: float) -> None:
        outputs = 3 * normal(23, 6, 2)  # far apart: multi-modal, no plateau at these levels
        outputs[:, 0] += 1e4
        tau = torch.tensor([1.0, 400.0], dtype=torch.float64)
        actual = Gaussian(tau).quantile(outputs, q)
        std = tau.numpy() ** -0.5
        for row in range(6):
            for k in range(2):
                expected = mixture_quantile(outputs[:, row, k].numpy(), std[k], q)
                assert float(actual[row, k]) == pytest.approx(expected, rel=1e-13, abs=1e-11)

    @pytest.mark.parametrize("q", [1e-6, 0.025, 0.5, 1 - 1e-6])
    def test_quantile_in_float32(self, q: float) -> None:
        outputs = normal(50, 6, dtype=torch.float32)
        expected = [
            mixture_quantile(outputs[:, b].double().numpy(), np.ones(50), q) for b in range(6)
        ]
        actual = Gaussian(1.0).quantile(outputs, q)
        assert actual.dtype == torch.float32
        np.testing.assert_allclose(actual, expected, atol=3e-6)

    def test_quantile_of_identical_draws_is_the_normal_quantile(self) -> None:
        outputs = normal(1, 6, 1).expand(9, 6, 1)
        expected = scipy.stats.norm.ppf(0.9, outputs[0], 0.5)
        np.testing.assert_allclose(Gaussian(4.0).quantile(outputs, 0.9), expected, rtol=1e-13)

    def test_quantile_at_the_ends_is_infinite(self) -> None:
        outputs = normal(5, 3, 1)
        assert (Gaussian(1.0).quantile(outputs, 0.0) == -INF).all()
        assert (Gaussian(1.0).quantile(outputs, 1.0) == INF).all()

    def test_sample_has_the_moments(self) -> None:
        outputs = torch.tensor([1.0, -2.0]).expand(1, 100_000, 2)
        y = Gaussian(torch.tensor([4.0, 0.25])).sample(outputs, torch.Generator().manual_seed(0))
        assert y.shape == outputs.shape
        torch.testing.assert_close(y.mean((0, 1)), torch.tensor([1.0, -2.0]), atol=0.03, rtol=0)
        torch.testing.assert_close(y.std((0, 1)), torch.tensor([0.5, 2.0]), atol=0.03, rtol=0)

    def test_log_prob_has_gradients_for_outputs_and_precision(self) -> None:
        outputs = normal(3, 4, 2).requires_grad_()
        tau = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = normal(4, 2, seed=1)
        assert torch.autograd.gradcheck(lambda f, t: Gaussian(t).log_prob(f, y), (outputs, tau))

    @pytest.mark.parametrize("tau", [0.0, -1.0, INF, math.nan, torch.tensor([1.0, 0.0])])
    def test_precision_must_be_positive_and_finite(self, tau: float | Tensor) -> None:
        with pytest.raises(ValueError, match=r"noise_precision: expected finite and > 0, got .*;"):
            Gaussian(tau)

    @pytest.mark.parametrize("tau", ["a", None])
    def test_precision_must_be_a_number(self, tau: Any) -> None:
        with pytest.raises(TypeError, match=r"noise_precision: expected a number or a tensor, got"):
            Gaussian(tau)

    @pytest.mark.parametrize("shape", [(4,), (4, 3), (1, 1, 3)])
    def test_precision_must_broadcast_to_the_event(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(
            ValueError, match=r"noise_precision: expected .* event \(2, 3\) of .*got"
        ):
            Gaussian(torch.ones(shape)).mean(torch.zeros(5, 4, 2, 3))

    def test_rescaled_to_the_units_of_the_targets(self) -> None:
        outputs, y, tau = normal(5, 4, 3), normal(4, 3, seed=1), torch.tensor([0.5, 1.0, 2.0])
        scale, shift = torch.tensor([3.0, 0.1, 10.0]).double(), 7.0
        raw = Gaussian(tau.double()).rescaled(scale)
        found = raw.log_prob(outputs * scale + shift, y * scale + shift)
        expected = Gaussian(tau).log_prob(outputs, y) - scale.log().sum()  # change of variables
        torch.testing.assert_close(found, expected)
        assert Gaussian(8.0).rescaled(2.0).noise_precision == 2.0

    @pytest.mark.parametrize("scale", [0.0, -1.0, torch.tensor([1.0, 0.0])])
    def test_scales_are_positive(self, scale: float | Tensor) -> None:
        with pytest.raises(ValueError, match=r"scale: expected > 0, got .*; pass what the targets"):
            Gaussian(1.0).rescaled(scale)

    def test_targets_are_never_broadcast(self) -> None:
        with pytest.raises(ValueError, match=r"y: expected shape \(4, 1\) .*got \(4,\); reshape"):
            Gaussian(1.0).log_prob(torch.zeros(3, 4, 1), torch.zeros(4))


class TestHeteroscedasticGaussian:
    def test_reads_means_and_then_log_variances(self) -> None:
        mean, log_variance = normal(5, 4, 3), normal(5, 4, 3, seed=1)
        outputs = torch.cat([mean, log_variance], -1)
        assert torch.equal(HeteroscedasticGaussian().mean(outputs), mean)
        torch.testing.assert_close(HeteroscedasticGaussian().variance(outputs), log_variance.exp())

    def test_log_prob(self) -> None:
        outputs, y = normal(5, 4, 6), normal(4, 3, seed=1)
        std = np.exp(outputs[..., 3:].numpy() / 2)
        expected = scipy.stats.norm.logpdf(y, outputs[..., :3], std).sum(-1)
        actual = HeteroscedasticGaussian().log_prob(outputs, y)
        np.testing.assert_allclose(actual, expected, rtol=1e-12)

    def test_quantile_of_a_mixture_with_different_widths(self) -> None:
        outputs = 2 * normal(20, 5, 2)
        for q in (0.025, 0.5, 0.975):
            actual = HeteroscedasticGaussian().quantile(outputs, q)
            assert actual.shape == (5, 1)
            for row in range(5):
                mean, std = outputs[:, row, 0].numpy(), outputs[:, row, 1].div(2).exp().numpy()
                expected = mixture_quantile(mean, std, q)
                assert float(actual[row, 0]) == pytest.approx(expected, rel=1e-13, abs=1e-12)

    @pytest.mark.parametrize("log_variance", [-170.0, -80.0, 80.0, 170.0])
    def test_log_prob_of_extreme_variances_in_float32(self, log_variance: float) -> None:
        outputs = torch.tensor([[[0.5, log_variance]]])
        actual = HeteroscedasticGaussian().log_prob(outputs, torch.tensor([[0.5]]))
        assert float(actual) == pytest.approx(
            -0.5 * (math.log(2 * math.pi) + log_variance), rel=1e-6
        )

    def test_sample_has_the_moments(self) -> None:
        outputs = torch.tensor([1.0, math.log(9.0)]).expand(1, 100_000, 2)
        y = HeteroscedasticGaussian().sample(outputs, torch.Generator().manual_seed(0))
        assert y.shape == (1, 100_000, 1)
        assert float(y.mean()) == pytest.approx(1, abs=0.05)
        assert float(y.std()) == pytest.approx(3, abs=0.05)

    @pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (5, 4, 2, 1)])
    def test_last_dimension_has_two_halves(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"outputs: expected .*2 \* D\).*got shape .*; make"):
            HeteroscedasticGaussian().mean(torch.zeros(shape))


class TestCategorical:
    def test_mean_and_variance_of_one_hot_targets(self) -> None:
        outputs = 3 * normal(5, 4, 3)
        p = np.exp(outputs.numpy()) / np.exp(outputs.numpy()).sum(-1, keepdims=True)
        np.testing.assert_allclose(Categorical().mean(outputs), p, rtol=1e-12)
        np.testing.assert_allclose(Categorical().variance(outputs), p * (1 - p), rtol=1e-9)

    def test_log_softmax_outputs_are_logits(self) -> None:
        outputs = normal(5, 4, 3)
        again = Categorical().mean(outputs.log_softmax(-1))
        torch.testing.assert_close(again, Categorical().mean(outputs))

    def test_entropies(self) -> None:
        p = Categorical().mean(3 * normal(5, 4, 3))
        given = Categorical(outputs="probabilities")
        np.testing.assert_allclose(
            given.entropy(p), scipy.stats.entropy(p.numpy(), axis=-1), rtol=1e-12
        )
        np.testing.assert_allclose(
            given.marginal_entropy(p[0]), scipy.stats.entropy(p[0].numpy(), axis=-1), rtol=1e-12
        )

    def test_log_prob(self) -> None:
        outputs, y = 3 * normal(5, 4, 3), torch.tensor([0, 2, 1, 2])
        expected = torch.distributions.Categorical(logits=outputs).log_prob(y)
        torch.testing.assert_close(Categorical().log_prob(outputs, y), expected)
        p = outputs.softmax(-1)
        given = Categorical(outputs="probabilities")
        torch.testing.assert_close(given.log_prob(p, y.to(torch.uint8)), expected)

    @pytest.mark.parametrize("dim", [1, -3])
    def test_segmentation_counts_the_class_dimension_without_the_draws(self, dim: int) -> None:
        outputs, y = 3 * normal(5, 2, 3, 4, 6), torch.arange(48).reshape(2, 4, 6) % 3
        last, pixels = outputs.movedim(2, -1), Categorical(dim=dim)
        flat = Categorical()
        expected = torch.distributions.Categorical(logits=last)
        torch.testing.assert_close(pixels.mean(outputs), outputs.softmax(2))
        torch.testing.assert_close(pixels.entropy(outputs), expected.entropy())
        torch.testing.assert_close(pixels.log_prob(outputs, y), expected.log_prob(y).sum((-1, -2)))
        torch.testing.assert_close(
            pixels.marginal_entropy(pixels.mean(outputs)[0]),
            flat.marginal_entropy(flat.mean(last)[0]),
        )
        assert torch.equal(pixels.votes(outputs), flat.votes(last))
        sample = pixels.sample(outputs, torch.Generator().manual_seed(0))
        assert torch.equal(sample, flat.sample(last, torch.Generator().manual_seed(0)))
        assert sample.shape == (5, 2, 4, 6)

    def test_votes_count_the_draws_that_prefer_each_class(self) -> None:
        outputs = torch.tensor([[[0.0, 1.0, 2.0]], [[5.0, 1.0, 2.0]], [[0.0, 1.0, 9.0]]])
        assert Categorical().votes(outputs).tolist() == [[1, 0, 2]]

    def test_sample_has_the_probabilities(self) -> None:
        p = torch.tensor([0.0, 0.2, 0.8])
        y = Categorical(outputs="probabilities").sample(
            p.expand(1, 100_000, 3), torch.Generator().manual_seed(0)
        )
        shares = torch.bincount(y.flatten(), minlength=3) / y.numel()
        torch.testing.assert_close(shares, p, atol=0.01, rtol=0)
        assert shares[0] == 0

    @pytest.mark.parametrize(
        "logits", [[0.0, -INF, -INF], [1e4, -1e4, 0.0], [0.0, 0.0, -INF], [-1e4, -1e4, -1e4]]
    )
    def test_extreme_logits_stay_finite(self, logits: list[float]) -> None:
        outputs = torch.tensor(logits).expand(2, 1, 3)
        p = Categorical().mean(outputs)
        assert float(p[0].sum()) == pytest.approx(1)
        expected = scipy.stats.entropy(p[0, 0].double().numpy())
        np.testing.assert_allclose(Categorical().entropy(outputs), expected, atol=1e-6)
        assert (Categorical().variance(outputs) >= 0).all()
        likeliest = torch.tensor([0])
        expected_log = math.log(float(p[0, 0, 0]))
        np.testing.assert_allclose(
            Categorical().log_prob(outputs, likeliest), expected_log, atol=1e-6
        )

    def test_unlikely_labels_keep_their_log_probability(self) -> None:
        outputs = torch.tensor([[[0.0, -200.0]]])  # softmax underflows in float32
        assert float(Categorical().log_prob(outputs, torch.tensor([1]))) == -200

    def test_probabilities_of_zero_and_one(self) -> None:
        given, p = Categorical(outputs="probabilities"), torch.tensor([[[1.0, 0.0]]])
        assert float(given.entropy(p)) == 0
        assert given.variance(p).tolist() == [[[0, 0]]]
        assert float(given.log_prob(p, torch.tensor([0]))) == 0
        assert float(given.log_prob(p, torch.tensor([1]))) == -INF

    def test_impossible_classes_spoil_no_gradient(self) -> None:
        p = torch.tensor([[[0.25, 0.75, 0.0]]], requires_grad=True)
        Categorical(outputs="probabilities").log_prob(p, torch.tensor([0])).sum().backward()
        torch.testing.assert_close(p.grad, torch.tensor([[[4.0, 0.0, 0.0]]]))

    def test_probabilities_rounded_above_one_are_one(self) -> None:
        given, p = Categorical(outputs="probabilities"), torch.tensor([[[1.00001, 0.0]]])
        assert given.mean(p).tolist() == [[[1, 0]]]
        assert float(given.entropy(p)) == 0

    @pytest.mark.parametrize("row", [[1.5, -0.5], [0.6, 0.6], [2.0, 3.0]])
    def test_probabilities_are_validated(self, row: list[float]) -> None:
        outputs = torch.tensor([[[0.5, 0.5], row]])
        with pytest.raises(ValueError, match=r"outputs: expected probabilities .*outputs='logits'"):
            Categorical(outputs="probabilities").mean(outputs)

    @pytest.mark.parametrize("likelihood", [Categorical, Bernoulli])
    def test_nan_is_called_nan(self, likelihood: type[Categorical | Bernoulli]) -> None:
        with pytest.raises(ValueError, match=r"outputs: expected prob.*got NaN in 1 of 2 entries"):
            likelihood(outputs="probabilities").mean(torch.tensor([[[math.nan, 1.0]]]))

    def test_rounded_bfloat16_probabilities_pass(self) -> None:
        p = normal(5, 40, 300).softmax(-1).to(torch.bfloat16)
        assert Categorical(outputs="probabilities").mean(p).dtype == torch.float32

    @pytest.mark.parametrize(
        ("dim", "shape"), [(0, (2, 3, 4)), (-1, (2, 3)), (2, (2, 3, 4)), (-2, (2, 3, 4))]
    )
    def test_class_dimension_must_exist(self, dim: int, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=rf"outputs: expected classes along dim={dim} .*got"):
            Categorical(dim=dim).mean(torch.zeros(shape))

    def test_one_class_is_no_choice(self) -> None:
        with pytest.raises(ValueError, match=r"at least 2 classes .*got shape .*use Bernoulli"):
            Categorical().mean(torch.zeros(2, 3, 1))

    @pytest.mark.parametrize("label", [-1, 3])
    def test_labels_must_be_in_range(self, label: int) -> None:
        with pytest.raises(ValueError, match=r"y: expected class labels from 0 to 2, got labels"):
            Categorical().log_prob(torch.zeros(2, 2, 3), torch.tensor([0, label]))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
    def test_labels_must_be_integers(self, dtype: torch.dtype) -> None:
        with pytest.raises(ValueError, match=r"y: expected integer class labels, got torch"):
            Categorical().log_prob(torch.zeros(2, 2, 3), torch.zeros(2, dtype=dtype))

    @pytest.mark.parametrize(("dim", "shape"), [(-1, (2, 3)), (1, (2, 3, 4, 4))])
    def test_one_hot_targets_are_none(self, dim: int, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=rf"y: expected one label .*pass y.argmax\({dim}\)"):
            Categorical(dim).log_prob(torch.zeros(2, *shape), torch.zeros(shape).long())


class TestBernoulli:
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
    def test_log_prob_and_entropy(self, kind: str, dtype: torch.dtype) -> None:
        logits, y = 3 * normal(5, 4, 3), torch.arange(12).reshape(4, 3) % 2
        expected = torch.distributions.Bernoulli(logits=logits)
        likelihood = Bernoulli(outputs=kind)  # type: ignore[arg-type]
        outputs = logits if kind == "logits" else logits.sigmoid()
        torch.testing.assert_close(likelihood.mean(outputs), expected.mean)
        torch.testing.assert_close(likelihood.variance(outputs), expected.variance)
        torch.testing.assert_close(likelihood.entropy(outputs), expected.entropy())
        torch.testing.assert_close(
            likelihood.log_prob(outputs, y.to(dtype)), expected.log_prob(y.double()).sum(-1)
        )

    def test_extreme_logits(self) -> None:
        outputs = torch.tensor([[[INF, -INF, 1e4, -1e4]]])
        assert Bernoulli().mean(outputs).tolist() == [[[1, 0, 1, 0]]]
        assert Bernoulli().entropy(outputs).tolist() == [[[0, 0, 0, 0]]]
        assert Bernoulli().variance(outputs).tolist() == [[[0, 0, 0, 0]]]
        assert float(Bernoulli().log_prob(outputs, torch.tensor([[1, 0, 1, 0]]))) == 0
        last = Bernoulli().log_prob(outputs[..., 3:], torch.tensor([[1]]))
        assert float(last) == -1e4

    def test_probabilities_of_zero_and_one(self) -> None:
        given, p = Bernoulli(outputs="probabilities"), torch.tensor([[[1.0, 0.0]]])
        assert given.entropy(p).tolist() == [[[0, 0]]]
        assert float(given.log_prob(p, torch.tensor([[1, 0]]))) == 0
        assert float(given.log_prob(p, torch.tensor([[0, 0]]))) == -INF

    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    def test_votes(self, kind: str) -> None:
        logits = torch.tensor([[[1.0, -2.0]], [[3.0, -1.0]], [[-1.0, -0.1]]])
        outputs = logits if kind == "logits" else logits.sigmoid()
        likelihood = Bernoulli(outputs=kind)  # type: ignore[arg-type]
        assert likelihood.votes(outputs).tolist() == [[[1, 2], [3, 0]]]

    def test_sample_has_the_probabilities(self) -> None:
        p = torch.tensor([0.0, 0.3, 1.0])
        y = Bernoulli(outputs="probabilities").sample(
            p.expand(1, 100_000, 3), torch.Generator().manual_seed(0)
        )
        torch.testing.assert_close(y.mean((0, 1)), p, atol=0.01, rtol=0)
        assert set(y.unique().tolist()) == {0, 1}

    @pytest.mark.parametrize("value", [-0.1, 1.1])
    def test_probabilities_are_validated(self, value: float) -> None:
        with pytest.raises(ValueError, match=r"outputs: expected probabilities in \[0, 1\], got"):
            Bernoulli(outputs="probabilities").mean(torch.tensor([[[0.5, value]]]))

    def test_soft_labels_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"y: expected only 0 and 1, got values in \[0, 0.5\]"):
            Bernoulli().log_prob(torch.zeros(2, 1, 2), torch.tensor([[0.0, 0.5]]))

    def test_targets_are_never_broadcast(self) -> None:
        with pytest.raises(ValueError, match=r"y: expected shape \(4, 1\) .*got \(4,\)"):
            Bernoulli().log_prob(torch.zeros(3, 4, 1), torch.zeros(4))


class TestMultinomial:
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    def test_against_torch(self, kind: str) -> None:
        logits = 2 * normal(5, 4, 3)
        y = torch.tensor([[2, 0, 5], [0, 0, 0], [1, 1, 1], [0, 40, 2]])
        totals = y.sum(-1).tolist()
        outputs = logits if kind == "logits" else logits.softmax(-1)
        found = Multinomial(outputs=kind).log_prob(outputs, y)  # type: ignore[arg-type]
        for row, total in enumerate(totals):
            expected = torch.distributions.Multinomial(total, logits=logits[:, row])
            torch.testing.assert_close(found[:, row], expected.log_prob(y[row].double()))

    def test_moments(self) -> None:
        logits = normal(5, 4, 3)
        expected = torch.distributions.Multinomial(9, logits=logits)
        torch.testing.assert_close(Multinomial(9).mean(logits), expected.mean)
        torch.testing.assert_close(Multinomial(9).variance(logits), expected.variance)

    def test_all_counts_have_probability_one_and_all_orders_too(self) -> None:
        total, logits = 4, normal(1, 1, 3)
        counts = [c for c in itertools.product(range(total + 1), repeat=3) if sum(c) == total]
        y, rows = torch.tensor(counts), logits.expand(1, len(counts), 3)
        logs = Multinomial().log_prob(rows, y)
        assert float(logs.exp().sum()) == pytest.approx(1, rel=1e-12)
        orders = torch.tensor(list(itertools.product(range(3), repeat=total)))  # (3^4, 4)
        y, rows = nn.functional.one_hot(orders, 3).sum(1), logits.expand(1, len(orders), 3)
        logs = Multinomial(coefficient=False).log_prob(rows, y)
        assert float(logs.exp().sum()) == pytest.approx(1, rel=1e-12)

    def test_without_the_coefficient_it_is_the_loss_of_recommenders(self) -> None:
        logits, y = normal(5, 4, 30), torch.arange(120).reshape(4, 30) % 2
        expected = (y * logits.log_softmax(-1)).sum(-1)
        plain, full = Multinomial(coefficient=False), Multinomial()
        torch.testing.assert_close(plain.log_prob(logits, y.float()), expected)
        for likelihood in (plain, full):
            outputs = logits.clone().requires_grad_()
            likelihood.log_prob(outputs, y).sum().backward()
            shares = y.sum(-1, keepdim=True) * logits.softmax(-1)
            torch.testing.assert_close(outputs.grad, y - shares)

    @pytest.mark.parametrize("dim", [1, -2])
    def test_categories_along_another_dimension(self, dim: int) -> None:
        outputs, y = normal(5, 2, 3, 4), torch.arange(24).reshape(2, 3, 4) % 5
        inner, last = Multinomial(6, dim=dim), Multinomial(6)
        found = inner.log_prob(outputs, y)
        expected = last.log_prob(outputs.movedim(2, -1), y.movedim(1, -1))
        torch.testing.assert_close(found, expected)
        sample = inner.sample(outputs, torch.Generator().manual_seed(0))
        again = last.sample(outputs.movedim(2, -1), torch.Generator().manual_seed(0))
        assert torch.equal(sample, again.movedim(-1, 2))
        assert (sample.sum(2) == 6).all()

    def test_one_event_is_a_category(self) -> None:
        outputs, labels = normal(5, 4, 3), torch.tensor([0, 2, 1, 2])
        y = nn.functional.one_hot(labels)
        torch.testing.assert_close(Multinomial().mean(outputs), Categorical().mean(outputs))
        torch.testing.assert_close(Multinomial().variance(outputs), Categorical().variance(outputs))
        torch.testing.assert_close(
            Multinomial().log_prob(outputs, y), Categorical().log_prob(outputs, labels)
        )

    def test_impossible_categories(self) -> None:
        outputs = torch.tensor([[[0.0, 0.0, -INF]]])
        for kind, scores in (("logits", outputs), ("probabilities", outputs.softmax(-1))):
            likelihood = Multinomial(outputs=kind)  # type: ignore[arg-type]
            leaf = scores.clone().requires_grad_()
            found = likelihood.log_prob(leaf, torch.tensor([[1, 1, 0]]))
            assert found.item() == pytest.approx(math.log(0.5), rel=1e-6)
            found.sum().backward()
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()
            assert float(likelihood.log_prob(scores, torch.tensor([[1, 0, 1]]))) == -INF

    def test_sample_has_the_moments(self) -> None:
        p = torch.tensor([0.0, 0.2, 0.8])
        likelihood = Multinomial(5, outputs="probabilities")
        y = likelihood.sample(p.expand(1, 100_000, 3), torch.Generator().manual_seed(0))
        assert (y.sum(-1) == 5).all()
        # 100,000 counts of variance 0.8: a deviation of 0.02 is 7 standard errors
        torch.testing.assert_close(y.mean((0, 1)), 5 * p, atol=0.02, rtol=0)
        torch.testing.assert_close(y.var((0, 1)), 5 * p * (1 - p), atol=0.03, rtol=0)

    @pytest.mark.parametrize("value", [-1.0, 0.5, INF])
    def test_counts_are_whole_numbers(self, value: float) -> None:
        with pytest.raises(ValueError, match=r"y: expected (counts, whole numbers|finite numbers)"):
            Multinomial().log_prob(torch.zeros(2, 1, 2), torch.tensor([[1.0, value]]))

    def test_labels_have_the_wrong_shape(self) -> None:
        with pytest.raises(ValueError, match=r"y: expected shape \(2, 3\) .*got \(2,\)"):
            Multinomial().log_prob(torch.zeros(2, 2, 3), torch.zeros(2))

    def test_total_count(self) -> None:
        with pytest.raises(ValueError, match="total_count: expected at least 1, got 0; pass the"):
            Multinomial(0)
        with pytest.raises(TypeError, match=r"total_count: expected an int, got 2\.5; totals"):
            Multinomial(2.5)  # type: ignore[arg-type]

    def test_entropies_are_those_of_one_event(self) -> None:
        outputs = torch.zeros(2, 3, 4)
        for call in (
            lambda: Multinomial().entropy(outputs),
            lambda: Multinomial().marginal_entropy(outputs[0]),
            lambda: Multinomial().votes(outputs),
        ):
            with pytest.raises(TypeError, match=r"no closed form.*use Categorical\(\) on the same"):
                call()


class TestPoint:
    def test_outputs_are_the_values(self) -> None:
        outputs = normal(5, 4, 3)
        assert torch.equal(Point().mean(outputs), outputs)
        assert torch.equal(Point().sample(outputs), outputs)

    @pytest.mark.parametrize("likelihood", [Point(), *DISCRETE, *COUNTS])
    @pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.77, 1.0])
    @pytest.mark.parametrize("draws", [1, 2, 10])
    def test_empirical_quantile_is_numpys(
        self, likelihood: Likelihood, q: float, draws: int
    ) -> None:
        outputs = normal(draws, 4, 3)
        expected = np.quantile(likelihood.mean(outputs).numpy(), q, axis=0)
        np.testing.assert_allclose(likelihood.quantile(outputs, q), expected, rtol=1e-13)

    def test_quantile_has_no_size_limit(self) -> None:
        outputs = torch.arange(3.0).reshape(3, 1, 1).expand(3, 1, 6_000_000)
        assert (Point().quantile(outputs, 0.25) == 0.5).all()

    def test_undefined_quantities_say_what_to_pass(self) -> None:
        outputs, message = (
            torch.zeros(2, 3, 4),
            (
                r"not defined for Point\(\); pass likelihood= .*Gaussian\(noise_precision\), "
                r"HeteroscedasticGaussian\(\), Categorical\(\) or Bernoulli\(\)"
            ),
        )
        for call in (
            lambda: Point().variance(outputs),
            lambda: Point().entropy(outputs),
            lambda: Point().marginal_entropy(outputs[0]),
            lambda: Point().log_prob(outputs, outputs[0]),
            lambda: Point().votes(outputs),
        ):
            with pytest.raises(TypeError, match=message):
                call()


@pytest.mark.parametrize("likelihood", CONTINUOUS)
def test_mixtures_of_numbers_have_no_entropy_or_votes(likelihood: Likelihood) -> None:
    outputs, message = torch.zeros(2, 3, 4), r"entropy of a mixture of Gaussians has no closed form"
    for call in (
        lambda: likelihood.marginal_entropy(outputs[0]),
        lambda: likelihood.votes(outputs),
    ):
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize("likelihood", [*CONTINUOUS, *NEW, *DISCRETE, *COUNTS, Point()])
class TestEveryLikelihood:
    def test_refuses_integers(self, likelihood: Likelihood) -> None:
        with pytest.raises(ValueError, match=r"outputs: expected floating-point .*got torch.int64"):
            likelihood.check(torch.zeros(2, 3, 4, dtype=torch.long))

    @pytest.mark.parametrize("shape", [(), (3,), (0, 3, 4), (2, 0, 4), (2, 3, 0)])
    def test_refuses_what_has_no_draws_or_rows(
        self, likelihood: Likelihood, shape: tuple[int, ...]
    ) -> None:
        with pytest.raises(
            ValueError, match=r"outputs: expected a non-empty tensor \(draws, batch"
        ):
            likelihood.check(torch.zeros(shape))

    @pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
    def test_refuses_impossible_levels(self, likelihood: Likelihood, q: float) -> None:
        with pytest.raises(ValueError, match=r"q: expected a level in \[0, 1\], got"):
            likelihood.quantile(torch.zeros(2, 3, 4), q)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision_is_computed_in_float32(
        self, likelihood: Likelihood, dtype: torch.dtype
    ) -> None:
        outputs = normal(5, 3, 4).to(dtype)
        wide = outputs.float()
        assert likelihood.mean(outputs).dtype == torch.float32
        assert torch.equal(likelihood.mean(outputs), likelihood.mean(wide))
        assert torch.equal(likelihood.quantile(outputs, 0.3), likelihood.quantile(wide, 0.3))
        if likelihood.noisy:
            assert torch.equal(likelihood.variance(outputs), likelihood.variance(wide))
            y = likelihood.sample(wide)[0]
            assert torch.equal(likelihood.log_prob(outputs, y), likelihood.log_prob(wide, y))
        if likelihood.discrete:
            assert torch.equal(likelihood.entropy(outputs), likelihood.entropy(wide))
            assert torch.equal(likelihood.votes(outputs), likelihood.votes(wide))

    def test_identical_draws_give_identical_means(self, likelihood: Likelihood) -> None:
        # torch's softmax and sigmoid round an element by its position in memory
        outputs = normal(1, 13, 34, dtype=torch.float32).expand(29, 13, 34).contiguous()
        mean = likelihood.mean(outputs)
        assert torch.equal(mean, mean[:1].expand_as(mean))

    def test_samples_repeat_with_the_generator(self, likelihood: Likelihood) -> None:
        outputs = normal(5, 3, 4)
        once = likelihood.sample(outputs, torch.Generator().manual_seed(1))
        again = likelihood.sample(outputs, torch.Generator().manual_seed(1))
        assert torch.equal(once, again)


def test_identical_draws_of_a_segmentation_give_identical_means() -> None:
    outputs = normal(1, 39, 75, 5, 7, dtype=torch.float32).expand(15, 39, 75, 5, 7).contiguous()
    mean = Categorical(dim=1).mean(outputs)
    assert torch.equal(mean, mean[:1].expand_as(mean))


@pytest.mark.parametrize("kind", [Categorical, Bernoulli, Multinomial])
def test_the_kind_of_outputs_is_known(kind: type) -> None:
    with pytest.raises(ValueError, match=r"outputs: expected 'logits' or 'probabilities', got 'p'"):
        kind(outputs="p")


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), Bernoulli(), Multinomial()])
def test_missing_targets_are_refused(likelihood: Likelihood) -> None:
    with pytest.raises(ValueError, match=r"y: expected numbers, got NaN; remove"):
        likelihood.log_prob(torch.zeros(2, 1, 2), torch.tensor([[0.0, math.nan]]))


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), Bernoulli(), Multinomial()])
def test_targets_on_another_device_are_refused(likelihood: Likelihood) -> None:
    with pytest.raises(ValueError, match=r"y: expected device cpu of the outputs, got meta; move"):
        likelihood.log_prob(torch.zeros(2, 1, 2), torch.zeros(1, 2, device="meta"))
