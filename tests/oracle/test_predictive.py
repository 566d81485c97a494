"""Summaries and predictive distributions against mixtures of torch.distributions and numpy."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor
from torch.distributions import Categorical as Mixing
from torch.distributions import Distribution, Independent, MixtureSameFamily, Normal

from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Point,
)
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.predictive.summary import Summary

LIKELIHOODS = [Gaussian(4.0), HeteroscedasticGaussian(), Categorical(), Bernoulli(), Point()]
STATISTICS = [
    "mean",
    "epistemic",
    "aleatoric",
    "variance",
    "std",
    "entropy",
    "expected_entropy",
    "mutual_information",
    "variation_ratio",
]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def predictive(likelihood: Likelihood, draws: Tensor, chunk_bytes: int = 1) -> Predictive:
    return Predictive(likelihood, StoredDraws(draws, chunk_bytes))


def defined(likelihood: Likelihood) -> list[str]:
    """The names of the statistics that a likelihood defines."""
    names = STATISTICS if likelihood.discrete else STATISTICS[:5]
    return names if likelihood.noisy else [name for name in names if name != "aleatoric"]


class Replayed:
    """Draws that are not kept: blocks of rows, each in chunks of draws."""

    def __init__(self, draws: Tensor, rows: int, chunk: int) -> None:
        self._draws, self._rows, self._chunk = draws, rows, chunk
        self.num_draws, self.num_rows = draws.shape[:2]
        self.passes = 0

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        self.passes += 1
        for start in range(0, self.num_rows, self._rows):
            rows = slice(start, min(start + self._rows, self.num_rows))
            for draw in range(0, self.num_draws, self._chunk):
                yield rows, self._draws[draw : draw + self._chunk, rows]


class TestSummary:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    @pytest.mark.parametrize("chunk", [1, 7, 50])
    def test_moments_are_numpys_for_any_chunk(self, likelihood: Likelihood, chunk: int) -> None:
        draws = 2 * normal(50, 4, 6)
        summary = Summary(likelihood)
        for start in range(0, 50, chunk):
            summary.update(draws[start : start + chunk])
        means = likelihood.mean(draws).numpy()
        assert summary.num_draws == 50
        np.testing.assert_allclose(summary.mean, means.mean(0), rtol=1e-12)
        np.testing.assert_allclose(summary.epistemic, means.var(0), rtol=1e-12)
        if likelihood.noisy:
            variances = likelihood.variance(draws).numpy()
            np.testing.assert_allclose(summary.aleatoric, variances.mean(0), rtol=1e-12)
        if likelihood.discrete:
            entropies = likelihood.entropy(draws).numpy()
            np.testing.assert_allclose(summary.expected_entropy, entropies.mean(0), rtol=1e-12)
            assert torch.equal(summary.votes, likelihood.votes(draws))

    @pytest.mark.parametrize("chunk", [1, 7, 1000])
    @pytest.mark.parametrize("offset", [1e6, -1e6])
    def test_a_huge_offset_does_not_cancel(self, chunk: int, offset: float) -> None:
        draws = offset + normal(1000, 5, 3, dtype=torch.float32)  # spacing of numbers there: 1/16
        summary = Summary(Point())
        for start in range(0, 1000, chunk):
            summary.update(draws[start : start + chunk])
        exact = draws.double().numpy()
        np.testing.assert_allclose(summary.epistemic, exact.var(0), rtol=1e-4)
        np.testing.assert_allclose(summary.mean, exact.mean(0), rtol=1e-7)

    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    @pytest.mark.parametrize("chunk", [1, 7, 50])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_identical_draws_spread_by_exactly_zero(
        self, likelihood: Likelihood, chunk: int, dtype: torch.dtype
    ) -> None:
        draws = (3 * normal(1, 11, 6)).to(dtype).expand(50, 11, 6).contiguous()
        result = Predictive(likelihood, Replayed(draws, 11, chunk))
        assert torch.equal(result.mean, likelihood.mean(draws)[0])
        assert (result.epistemic == 0).all()
        if likelihood.noisy:
            assert torch.equal(result.aleatoric, likelihood.variance(draws)[0])
        if likelihood.discrete:
            assert (result.mutual_information == 0).all()
            assert (result.variation_ratio == 0).all()

    @pytest.mark.parametrize("flip", [False, True])
    def test_averaged_probabilities_stay_within_bounds(self, flip: bool) -> None:
        # by rounding alone this mean would leave [0, 1], and its entropy would be -inf
        p = torch.zeros(10_000_000, 1)
        p[0] = 0.9665594
        result = predictive(Bernoulli(outputs="probabilities"), 1 - p if flip else p, 2**30)
        assert 0 <= float(result.mean) <= 1
        assert float(result.entropy) == pytest.approx(0, abs=1e-5)

    def test_memory_does_not_hold_on_to_chunks(self) -> None:
        summary, draws = Summary(Gaussian(1.0)), torch.zeros(100, 2, 3)
        summary.update(draws)
        held = [tensor.untyped_storage().nbytes() for tensor in summary._state.values()]
        assert max(held) == 2 * 3 * 4

    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_concatenate_joins_rows(self, likelihood: Likelihood) -> None:
        draws = normal(9, 5, 4)
        whole, blocks = Summary(likelihood), [Summary(likelihood), Summary(likelihood)]
        whole.update(draws)
        blocks[0].update(draws[:, :2])
        blocks[1].update(draws[:, 2:])
        joined = Summary.concatenate(blocks)
        assert joined.num_draws == 9
        torch.testing.assert_close(joined.mean, whole.mean)
        torch.testing.assert_close(joined.epistemic, whole.epistemic)
        if likelihood.discrete:
            torch.testing.assert_close(joined.expected_entropy, whole.expected_entropy)
            assert torch.equal(joined.votes, whole.votes)

    def test_concatenate_wants_the_same_draws(self) -> None:
        one, two = Summary(Point()), Summary(Point())
        one.update(torch.zeros(1, 3))
        two.update(torch.zeros(2, 3))
        for blocks in ([one, two], [], [one, Summary(Gaussian(1.0))]):
            with pytest.raises(ValueError, match=r"blocks: expected summaries of one likelihood"):
                Summary.concatenate(blocks)

    def test_update_wants_the_same_rows(self) -> None:
        summary = Summary(Point())
        summary.update(torch.zeros(1, 3, 2))
        with pytest.raises(ValueError, match=r"outputs: expected more draws of rows \(3, 2\), got"):
            summary.update(torch.zeros(1, 1, 2))

    def test_an_empty_summary_knows_nothing(self) -> None:
        with pytest.raises(ValueError, match=r"Summary: expected at least one draw, got none"):
            _ = Summary(Point()).mean

    def test_undefined_quantities_are_the_likelihoods_errors(self) -> None:
        summary = Summary(Gaussian(1.0))
        summary.update(torch.zeros(2, 3))
        with pytest.raises(TypeError, match=r"expected entropy: not defined for Gaussian"):
            _ = summary.expected_entropy
        with pytest.raises(TypeError, match=r"votes: not defined for Gaussian"):
            _ = summary.votes
        predictive = Predictive.from_draws(Gaussian(1.0), torch.zeros(2, 3))
        with pytest.raises(TypeError, match=r"mutual_information: not defined for Gaussian"):
            _ = predictive.mutual_information


def mixture(components: Distribution, draws: int) -> MixtureSameFamily:
    """Equal weights over draws; the batch shape of the components is (..., draws)."""
    weights = Mixing(logits=torch.zeros(*components.batch_shape[:-1], draws, dtype=torch.float64))
    return MixtureSameFamily(weights, components)


class TestRegression:
    @pytest.mark.parametrize("chunk_bytes", [1, 7 * 4 * 3 * 8, 2**20])
    def test_against_the_mixture(self, chunk_bytes: int) -> None:
        draws, y, tau = normal(50, 4, 3), normal(4, 3, seed=1), 4.0
        result = predictive(Gaussian(tau), draws, chunk_bytes)
        components = Normal(draws.movedim(0, 1), torch.tensor(tau**-0.5, dtype=torch.float64))
        expected = mixture(Independent(components, 1), 50)
        torch.testing.assert_close(result.mean, expected.mean)
        torch.testing.assert_close(result.variance, expected.variance)
        torch.testing.assert_close(result.std, expected.variance.sqrt())
        torch.testing.assert_close(result.aleatoric, torch.full_like(result.mean, 0.25))
        torch.testing.assert_close(result.log_prob(y), expected.log_prob(y))

    def test_log_prob_is_equation_13_as_printed_for_one_output(self) -> None:
        draws, y, tau = normal(50, 4, 1), normal(4, 1, seed=1), 0.3
        terms = -0.5 * tau * (y - draws).squeeze(-1) ** 2
        printed = (
            terms.logsumexp(0)
            - math.log(50)
            - 0.5 * math.log(2 * math.pi)
            - 0.5 * math.log(1 / tau)
        )
        torch.testing.assert_close(predictive(Gaussian(tau), draws).log_prob(y), printed)

    def test_log_prob_far_away_does_not_underflow(self) -> None:
        draws = normal(50, 4, 1, dtype=torch.float32)
        result = predictive(Gaussian(100.0), draws).log_prob(torch.full((4, 1), 100.0))
        exact = predictive(Gaussian(100.0), draws.double()).log_prob(
            torch.full((4, 1), 100.0, dtype=torch.float64)
        )
        assert (result < -1e5).all()
        np.testing.assert_allclose(result, exact, rtol=1e-6)

    def test_heteroscedastic_against_the_mixture(self) -> None:
        draws, y = normal(50, 4, 6), normal(4, 3, seed=1)
        result = predictive(HeteroscedasticGaussian(), draws)
        mean, log_variance = draws.movedim(0, 1).chunk(2, -1)
        expected = mixture(Independent(Normal(mean, (log_variance / 2).exp()), 1), 50)
        torch.testing.assert_close(result.mean, expected.mean)
        torch.testing.assert_close(result.variance, expected.variance)
        torch.testing.assert_close(result.log_prob(y), expected.log_prob(y))
        torch.testing.assert_close(result.aleatoric, log_variance.exp().mean(1))

    def test_an_interval_holds_its_share_of_the_mixture(self) -> None:
        draws = normal(50, 4, 3)
        low, high = predictive(Gaussian(4.0), draws).interval(0.8)
        components = Normal(draws.movedim(0, -1), torch.tensor(0.5, dtype=torch.float64))
        expected = mixture(components, 50)
        torch.testing.assert_close(expected.cdf(low), torch.full_like(low, 0.1))
        torch.testing.assert_close(expected.cdf(high), torch.full_like(high, 0.9))

    def test_the_default_interval_is_95_percent(self) -> None:
        result = predictive(Gaussian(1.0), torch.zeros(2, 3, 1, dtype=torch.float64))
        low, high = result.interval()
        np.testing.assert_allclose(high, scipy.stats.norm.ppf(0.975), rtol=1e-12)
        assert torch.equal(low, -high)

    def test_samples_follow_the_mixture(self) -> None:
        draws = normal(3, 2, 1, dtype=torch.float32) * 3
        result = predictive(Gaussian(1.0), draws)
        y = result.sample(40_000, torch.Generator().manual_seed(0))
        assert y.shape == (40_000, 2, 1)
        for row in range(2):
            means = draws[:, row, 0].numpy()
            _, p_value = scipy.stats.kstest(
                y[:, row, 0].numpy(),
                lambda t, means=means: scipy.stats.norm.cdf(t[:, None], means).mean(1),
            )
            assert p_value > 1e-4


class TestClassification:
    def test_decompositions_against_numpy(self) -> None:
        draws, y = 3 * normal(50, 4, 3), torch.tensor([0, 2, 1, 1])
        result = predictive(Categorical(), draws, 7 * 4 * 3 * 8)
        p = np.exp(draws.numpy())
        p /= p.sum(-1, keepdims=True)
        mean = p.mean(0)
        expected_entropy = scipy.stats.entropy(p, axis=-1).mean(0)
        entropy = scipy.stats.entropy(mean, axis=-1)
        counts = np.stack([(p.argmax(-1) == k).sum(0) for k in range(3)], -1)
        np.testing.assert_allclose(result.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(result.variance, mean * (1 - mean), rtol=1e-12)
        np.testing.assert_allclose(result.epistemic, p.var(0), rtol=1e-10)
        np.testing.assert_allclose(result.aleatoric, (p * (1 - p)).mean(0), rtol=1e-12)
        np.testing.assert_allclose(result.entropy, entropy, rtol=1e-12)
        np.testing.assert_allclose(result.expected_entropy, expected_entropy, rtol=1e-12)
        np.testing.assert_allclose(
            result.mutual_information, entropy - expected_entropy, rtol=1e-10
        )
        np.testing.assert_allclose(result.variation_ratio, 1 - counts.max(-1) / 50, rtol=1e-12)
        np.testing.assert_allclose(result.log_prob(y), np.log(mean[range(4), y]), rtol=1e-12)

    def test_bernoulli_decompositions_against_numpy(self) -> None:
        draws, y = 3 * normal(50, 4, 3), torch.arange(12).reshape(4, 3) % 2
        result = predictive(Bernoulli(), draws)
        p = 1 / (1 + np.exp(-draws.numpy()))
        mean = p.mean(0)
        entropy = scipy.stats.entropy(np.stack([mean, 1 - mean]))
        expected_entropy = scipy.stats.entropy(np.stack([p, 1 - p])).mean(0)
        share = (p > 0.5).mean(0)
        np.testing.assert_allclose(result.variance, mean * (1 - mean), rtol=1e-12)
        np.testing.assert_allclose(result.entropy, entropy, rtol=1e-12)
        np.testing.assert_allclose(result.mutual_information, entropy - expected_entropy, rtol=1e-9)
        np.testing.assert_allclose(
            result.variation_ratio, 1 - np.maximum(share, 1 - share), atol=1e-12
        )
        joint = np.where(y == 1, p, 1 - p).prod(-1).mean(0)
        np.testing.assert_allclose(result.log_prob(y), np.log(joint), rtol=1e-12)

    def test_segmentation_is_joint_over_pixels(self) -> None:
        draws, y = normal(50, 2, 3, 4, 5), torch.arange(40).reshape(2, 4, 5) % 3
        result = predictive(Categorical(dim=1), draws)
        p = draws.softmax(2)
        chosen = p.gather(2, y.expand(50, 2, 4, 5).unsqueeze(2)).flatten(2)
        expected = chosen.prod(-1).mean(0).log()
        torch.testing.assert_close(result.log_prob(y), expected)
        assert result.mean.shape == result.variance.shape == (2, 3, 4, 5)
        per_pixel = (result.entropy, result.mutual_information, result.variation_ratio)
        assert all(value.shape == (2, 4, 5) for value in per_pixel)
        np.testing.assert_allclose(
            result.entropy, scipy.stats.entropy(p.mean(0).numpy(), axis=1), rtol=1e-12
        )

    def test_rounding_does_not_make_mutual_information_negative(self) -> None:
        nearly_equal = normal(1, 1000, 10, dtype=torch.float32) + 1e-6 * normal(20, 1000, 10)
        result = predictive(Categorical(), nearly_equal.float(), 2**20)
        assert (result.entropy - result.expected_entropy < 0).any()
        assert (result.mutual_information >= 0).all()

    def test_certain_draws_that_disagree_are_all_mutual_information(self) -> None:
        draws = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
        result = predictive(Categorical(outputs="probabilities"), draws)
        assert float(result.mutual_information) == pytest.approx(math.log(2))
        assert float(result.expected_entropy) == 0
        assert result.aleatoric.tolist() == [[0, 0]]
        assert result.epistemic.tolist() == [[0.25, 0.25]]
        assert float(result.variation_ratio) == 0.5

    def test_a_class_that_no_draw_allows_has_log_probability_minus_infinity(self) -> None:
        draws = torch.tensor([[[1.0, 0.0]]]).expand(5, 1, 2)
        result = predictive(Categorical(outputs="probabilities"), draws)
        assert result.log_prob(torch.tensor([1])).tolist() == [-math.inf]
        assert result.log_prob(torch.tensor([0])).tolist() == pytest.approx([0], abs=1e-6)

    def test_variation_ratio_of_sampled_labels_tends_to_one_minus_the_largest_mean(self) -> None:
        draws = normal(200, 3, 4)
        result = predictive(Categorical(), draws)
        y = result.sample(50_000, torch.Generator().manual_seed(0))
        ratio = torch.stack([1 - (y == k).double().mean(0) for k in range(4)]).amin(0)
        torch.testing.assert_close(ratio, 1 - result.mean.amax(-1), atol=0.01, rtol=0)

    def test_quantiles_are_those_of_the_probabilities(self) -> None:
        draws = normal(50, 4, 3)
        expected = np.quantile(draws.softmax(-1).numpy(), 0.3, axis=0)
        np.testing.assert_allclose(predictive(Categorical(), draws).quantile(0.3), expected)


class TestPoint:
    def test_variance_is_epistemic(self) -> None:
        draws = normal(50, 4, 3)
        result = predictive(Point(), draws)
        assert torch.equal(result.variance, result.epistemic)
        np.testing.assert_allclose(result.variance, draws.numpy().var(0), rtol=1e-12)

    def test_samples_are_draws_picked_for_each_row(self) -> None:
        draws = torch.arange(20.0).reshape(5, 4, 1)
        y = predictive(Point(), draws).sample(1000, torch.Generator().manual_seed(0))
        for row in range(4):
            assert set(y[:, row, 0].tolist()) == set(draws[:, row, 0].tolist())
        assert len({tuple(pick.flatten().tolist()) for pick in y}) > 100

    @pytest.mark.parametrize(
        "name",
        ["aleatoric", "entropy", "expected_entropy", "mutual_information", "variation_ratio"],
    )
    def test_the_rest_needs_a_likelihood(self, name: str) -> None:
        with pytest.raises(TypeError, match=r"not defined for Point\(\); pass likelihood="):
            getattr(predictive(Point(), torch.zeros(2, 3)), name)

    def test_log_prob_needs_a_likelihood(self) -> None:
        with pytest.raises(TypeError, match=r"log_prob: not defined for Point\(\); pass"):
            predictive(Point(), torch.zeros(2, 3)).log_prob(torch.zeros(3))


class TestQuantile:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    @pytest.mark.parametrize("chunk_bytes", [1, 1000, 2**20])
    def test_one_level_or_many(self, likelihood: Likelihood, chunk_bytes: int) -> None:
        result = predictive(likelihood, normal(9, 5, 4), chunk_bytes)
        one = result.quantile(0.2)
        many = result.quantile([0.2, 0.7])
        assert one.shape == result.mean.shape
        assert many.shape == (2, *result.mean.shape)
        assert torch.equal(many[0], one)
        assert torch.equal(result.quantile(torch.tensor([0.2, 0.7], dtype=torch.float64)), many)
        torch.testing.assert_close(one, likelihood.quantile(result.draws, 0.2))
        assert (many[0] <= many[1]).all()

    @pytest.mark.parametrize("q", [[], [[0.1]]])
    def test_levels_are_a_sequence(self, q: list[float]) -> None:
        with pytest.raises(ValueError, match=r"q: expected a number or a sequence .*got shape"):
            predictive(Point(), torch.zeros(2, 3)).quantile(q)

    def test_levels_are_probabilities(self) -> None:
        with pytest.raises(ValueError, match=r"q: expected a level in \[0, 1\], got 95"):
            predictive(Point(), torch.zeros(2, 3)).quantile(95)

    @pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan, "a"])
    def test_interval_levels_are_probabilities(self, level: Any) -> None:
        with pytest.raises(ValueError, match=r"level: expected a probability in \(0, 1\), got"):
            predictive(Point(), torch.zeros(2, 3)).interval(level)

    @pytest.mark.parametrize("n", [0, -1, 2.5, True, "a"])
    def test_samples_are_counted_from_one(self, n: Any) -> None:
        with pytest.raises(ValueError, match=r"n: expected a positive int, got"):
            predictive(Point(), torch.zeros(2, 3)).sample(n)


class TestSources:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    @pytest.mark.parametrize("rows", [1, 3, 7])
    @pytest.mark.parametrize("chunk", [1, 7, 20])
    def test_replayed_draws_agree_with_stored_ones(
        self, likelihood: Likelihood, rows: int, chunk: int
    ) -> None:
        draws = normal(20, 7, 4)
        stored, source = predictive(likelihood, draws, 2**20), Replayed(draws, rows, chunk)
        replayed = Predictive(likelihood, source)
        for name in defined(likelihood):
            torch.testing.assert_close(getattr(replayed, name), getattr(stored, name))
        assert source.passes == 1
        if likelihood.noisy:
            y = stored.sample(1)[0]
            torch.testing.assert_close(replayed.log_prob(y), stored.log_prob(y))
            assert source.passes == 2

    def test_a_given_summary_is_used(self) -> None:
        draws, summary = normal(5, 3, 2), Summary(Point())
        summary.update(draws)
        source = Replayed(draws, 3, 1)
        result = Predictive(Point(), source, summary)
        assert torch.equal(result.mean, summary.mean)
        assert source.passes == 0

    def test_statistics_are_lazy_and_computed_once(self) -> None:
        source = Replayed(normal(5, 3, 2), 3, 2)
        result = Predictive(Categorical(), source)
        assert source.passes == 0
        assert result.num_draws == 5
        _ = result.mean, result.variance, result.mutual_information, result.variation_ratio
        assert source.passes == 1

    @pytest.mark.parametrize("chunk_bytes", [1, 100, 1000, 2**20])
    def test_stored_draws_come_in_order_and_in_bounds(self, chunk_bytes: int) -> None:
        source = StoredDraws(normal(9, 5, 2), chunk_bytes)
        rows, chunks = zip(*source.chunks(), strict=True)
        assert set(map(repr, rows)) == {"slice(0, 5, None)"}
        assert torch.equal(torch.cat(chunks), source.draws)
        assert torch.equal(torch.cat(list(source.columns()), 1), source.draws)
        assert all(len(chunk) == 1 or chunk.nbytes <= chunk_bytes for chunk in chunks)
        assert all(c.shape[1] == 1 or c.nbytes <= chunk_bytes for c in source.columns())

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("draws", lambda p: p.draws),
            ("quantile", lambda p: p.quantile(0.5)),
            ("quantile", lambda p: p.interval()),
            ("sample", lambda p: p.sample()),
        ],
    )
    def test_some_things_need_the_draws(self, name: str, call: object) -> None:
        assert callable(call)
        result = Predictive(Point(), Replayed(normal(5, 3, 2), 3, 2))
        message = rf"{name}: expected stored draws, got Replayed.*predict with keep_draws=True"
        with pytest.raises(ValueError, match=message):
            call(result)

    @pytest.mark.parametrize("shape", [(3,), (0, 3), (2, 0)])
    def test_stored_draws_are_not_empty(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"draws: expected a non-empty tensor \(draws, batch"):
            StoredDraws(torch.zeros(shape))

    def test_chunks_have_a_size(self) -> None:
        with pytest.raises(ValueError, match=r"chunk_bytes: expected at least 1, got 0"):
            StoredDraws(torch.zeros(2, 3), 0)

    def test_raw_draws_are_kept_as_they_are(self) -> None:
        draws = normal(5, 3, 2).to(torch.bfloat16)
        result = predictive(Categorical(), draws)
        assert result.draws is draws
        assert result.mean.dtype == torch.float32


class TestTargets:
    def test_rows_must_match(self) -> None:
        result = Predictive(Gaussian(1.0), Replayed(torch.zeros(5, 4, 1), 2, 2))
        for shape in [(3, 1), (5, 1), ()]:
            with pytest.raises(ValueError, match=r"y: expected one target for each of 4 rows, got"):
                result.log_prob(torch.zeros(shape))

    def test_a_missing_event_dimension_is_not_broadcast(self) -> None:
        result = predictive(Gaussian(1.0), torch.zeros(5, 4, 1))
        with pytest.raises(ValueError, match=r"y: expected shape \(4, 1\) .*got \(4,\); reshape y"):
            result.log_prob(torch.zeros(4))

    def test_missing_and_distant_targets(self) -> None:
        result = predictive(Gaussian(1.0), torch.zeros(5, 4, 1))
        with pytest.raises(ValueError, match="got NaN"):
            result.log_prob(torch.full((4, 1), math.nan))
        with pytest.raises(ValueError, match="expected device cpu of the outputs, got meta"):
            result.log_prob(torch.zeros(4, 1, device="meta"))


def test_repr_tells_what_it_is() -> None:
    text = repr(predictive(Gaussian(2.0), torch.zeros(5, 4, 1)))
    assert text == (
        "Predictive(likelihood=Gaussian(noise_precision=2.0, missing='error'), draws=5, rows=4, "
        "mean=(4, 1))"
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_statistics_have_gradients(likelihood: Likelihood) -> None:
    draws = normal(3, 2, 4).requires_grad_()
    names = [name for name in defined(likelihood) if name != "variation_ratio"]

    def statistics(outputs: Tensor) -> tuple[Tensor, ...]:
        result = predictive(likelihood, outputs)
        return tuple(getattr(result, name) for name in names)

    assert torch.autograd.gradcheck(statistics, draws)
