"""`ExactLinear` against formulas in numpy, scikit-learn and scipy.

Draws are compared with their distribution by Kolmogorov and Smirnov: p < 1e-7 is a failure, less
than 1e-6 false alarms for the file.
"""

import copy
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn.linear_model import Ridge
from torch import Tensor, nn

import dubio
from dubio.decide import ExactLinear
from dubio.layers.inverse_gamma import inverse_gamma

FALSE_ALARM = 1e-7
PRIOR = {"prior_precision": 0.7, "noise_shape": 2.5, "noise_rate": 1.5}
FEATURES, ACTIONS, ROWS = 3, 2, 12


def rows() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    h = torch.randn(ROWS, FEATURES, generator=draw)
    actions = torch.randint(ACTIONS, (ROWS,), generator=draw)
    return h, actions, torch.randn(ROWS, generator=draw), torch.rand(ROWS, generator=draw) * 3


def conditioned(*, bias: bool = True, weighted: bool = False) -> ExactLinear:
    h, actions, rewards, weight = rows()
    layer = ExactLinear(FEATURES, ACTIONS, **PRIOR, bias=bias).eval()
    layer.condition(h, actions, rewards, weight if weighted else None)
    return layer


def of_action(action: int, *, bias: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with ones, rewards and weights of one action."""
    h, actions, rewards, weight = (t.double().numpy() for t in rows())
    h = np.column_stack([h, np.ones(ROWS)]) if bias else h
    chosen = actions == action
    return h[chosen], rewards[chosen], weight[chosen]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("action", range(ACTIONS))
def test_posterior(action: int, bias: bool, weighted: bool) -> None:
    layer = conditioned(bias=bias, weighted=weighted)
    x, y, v = of_action(action, bias=bias)
    v = v if weighted else np.ones_like(v)
    ridge = Ridge(PRIOR["prior_precision"], fit_intercept=False).fit(x, y, sample_weight=v)
    np.testing.assert_allclose(layer.mean[action], ridge.coef_, rtol=1e-5, atol=1e-6)
    precision = PRIOR["prior_precision"] * np.eye(x.shape[1]) + x.T @ np.diag(v) @ x
    root = layer.root[action].double().numpy()
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-5, atol=1e-6)
    assert math.isclose(layer.shape[action], PRIOR["noise_shape"] + v.sum() / 2, rel_tol=1e-6)
    misfit = (v * (y - x @ ridge.coef_) ** 2).sum()  # Σ v r² − μᵀΛμ, in another way
    misfit += PRIOR["prior_precision"] * (ridge.coef_**2).sum()
    assert math.isclose(layer.rate[action], PRIOR["noise_rate"] + misfit / 2, rel_tol=1e-5)


def test_the_bound_with_its_divergence_is_the_evidence() -> None:
    """E[log p(r | w, σ²)] − KL = log p(r), a multivariate t, since the posterior is exact."""
    layer = conditioned().double()
    layer.condition(*rows()[:3])
    evidence = bound = 0.0
    for action in range(ACTIONS):
        x, y, _ = of_action(action, bias=True)
        scale = np.eye(len(x)) + x @ x.T / PRIOR["prior_precision"]
        scale *= PRIOR["noise_rate"] / PRIOR["noise_shape"]
        evidence += stats.multivariate_t(None, scale, df=2 * PRIOR["noise_shape"]).logpdf(y)
        a, b = float(layer.shape[action]), float(layer.rate[action])
        mean, root = layer.mean[action].numpy(), layer.root[action].numpy()
        squares = a / b * ((y - x @ mean) ** 2).sum() + ((x @ root) ** 2).sum()
        logs = special.digamma(a) - math.log(b) - math.log(2 * math.pi)
        bound += (len(x) * logs - squares) / 2
    assert math.isclose(bound - float(layer.kl()), evidence, rel_tol=1e-9)
    assert float(dubio.kl(layer)) == float(layer.kl())
    assert abs(float(ExactLinear(FEATURES, ACTIONS, **PRIOR).kl())) < 1e-5


@pytest.mark.parametrize("shape", [1.01, 2.5, 6.0, 50.0, 2000.0, 1e6])
def test_variances_are_quantiles(shape: float) -> None:
    z = torch.linspace(-6, 6, 501, dtype=torch.float64)
    found = inverse_gamma(z, torch.tensor(shape, dtype=torch.float64), torch.tensor(1.7))
    tails = special.ndtr(-np.abs(z.numpy()))
    law = stats.gamma(shape)
    expected = 1.7 / np.where(z.numpy() < 0, law.ppf(tails), law.isf(tails))
    np.testing.assert_allclose(found, expected, rtol=1e-7)  # 1.7 is a float32
    shapes, rates = torch.tensor([shape, 2 * shape]), torch.tensor([1.7, 1.7])
    together = torch.vmap(inverse_gamma, (None, 0, 0))(z, shapes, rates)  # as populations do
    np.testing.assert_allclose(together[0], expected, rtol=1e-4)  # shapes are float32


class TestDraws:
    draws = 20_000

    def drawn(self, x: Tensor, *, shared: bool = True) -> Tensor:  # (S, B, A)
        generator = torch.Generator().manual_seed(8)
        layer = conditioned()
        return dubio.predict(
            layer, x, draws=self.draws, shared=shared, generator=generator
        ).draws.double()

    def test_outputs_are_student_t(self) -> None:
        x = torch.tensor([[0.3, -1.0, 2.0]])
        outputs, layer = self.drawn(x), conditioned()
        h = torch.cat([x, torch.ones(1, 1)], 1).double()[0]
        for action in range(ACTIONS):
            a, b = float(layer.shape[action]), float(layer.rate[action])
            scale = math.sqrt(b / a) * float((h @ layer.root[action].double()).norm())
            law = stats.t(2 * a, float(h @ layer.mean[action].double()), scale)
            assert stats.kstest(outputs[:, 0, action], law.cdf).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("shared", [False, True])
    def test_weights_are_multivariate_t(self, shared: bool) -> None:
        """(w − μ)ᵀΛ(w − μ)·a/(b·D) ~ F(D, 2a); rows share w, so that outputs give it."""
        x = torch.cat([torch.eye(FEATURES), torch.zeros(1, FEATURES)])  # weights + bias, and bias
        outputs, layer = self.drawn(x, shared=shared), conditioned()
        weights = torch.cat([outputs[:, :-1] - outputs[:, -1:], outputs[:, -1:]], 1)  # (S, D, A)
        for action in range(ACTIONS):
            a, b = float(layer.shape[action]), float(layer.rate[action])
            apart = (weights[..., action] - layer.mean[action].double()).T  # (D, S)
            whitened = torch.linalg.solve(layer.root[action].double(), apart)
            ratio = whitened.square().mean(0) * a / b
            law = stats.f(FEATURES + 1, 2 * a)
            assert stats.kstest(ratio, law.cdf).pvalue > FALSE_ALARM

    def test_actions_are_independent(self) -> None:
        outputs = self.drawn(torch.tensor([[0.3, -1.0, 2.0]]))[:, 0]
        apart = (outputs - outputs.median(0).values).abs()  # shared σ² would show here
        for pair in (outputs, apart):
            assert stats.spearmanr(pair[:, 0], pair[:, 1]).pvalue > FALSE_ALARM


class TestModes:
    def test_without_noise_it_is_the_mean(self) -> None:
        layer, x = conditioned(), rows()[0]
        expected = x @ layer.mean[:, :-1].T + layer.mean[:, -1]
        torch.testing.assert_close(layer(x), expected)

    def test_training_is_that_of_a_plain_layer(self) -> None:
        x, y = rows()[0], torch.randn(ROWS, ACTIONS, generator=torch.Generator().manual_seed(1))
        net = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh(), conditioned())
        plain = nn.Sequential(*net[:2], net[2].linear)
        expected = torch.autograd.grad(
            dubio.ELBO(plain, dubio.likelihoods.Gaussian(2.0), ROWS)(x, y), plain.parameters()
        )
        for mode, draws in ((True, 1), (False, 1), (False, 2)):
            elbo = dubio.ELBO(net.train(mode), dubio.likelihoods.Gaussian(2.0), ROWS, draws=draws)
            found = torch.autograd.grad(elbo(x, y), net.parameters())
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other)
        torch.testing.assert_close(net.train()(x), plain(x))

    def test_predictions_do_not_depend_on_the_mode(self) -> None:
        layer, x = conditioned(), rows()[0]
        noise = dubio.Noise(4, generator=torch.Generator().manual_seed(3))
        generator = torch.Generator().manual_seed(3)
        draws = dubio.predict(layer, x, draws=4, generator=generator).draws
        for k in range(4):
            for mode in (True, False):
                with noise[k]:
                    torch.testing.assert_close(layer.train(mode)(x), draws[k])

    def test_copies_have_the_posterior(self) -> None:
        layer, x = conditioned(), rows()[0]
        loaded = ExactLinear(FEATURES, ACTIONS, **PRIOR).eval()
        loaded.load_state_dict(layer.state_dict())
        for twin in (loaded, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            one, other = (
                dubio.predict(net, x, draws=3, generator=torch.Generator().manual_seed(0)).draws
                for net in (layer, twin)
            )
            assert torch.equal(one, other)

    def test_half_precision(self) -> None:
        layer, x = conditioned(), rows()[0]
        exact = dubio.predict(layer, x, generator=torch.Generator().manual_seed(0)).draws
        generator = torch.Generator().manual_seed(0)
        rounded = dubio.predict(layer.bfloat16(), x.bfloat16(), generator=generator).draws
        assert rounded.dtype == torch.bfloat16
        torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.1)


class TestConditioning:
    def test_it_replaces(self) -> None:
        layer, again = conditioned(), conditioned(weighted=True)
        again.condition(*rows()[:3])
        for one, other in zip(layer.buffers(), again.buffers(), strict=True):
            assert torch.equal(one, other)

    def test_no_rows_leave_the_prior(self) -> None:
        layer = conditioned()
        layer.condition(*(t[:0] for t in rows()[:3]))
        for one, other in zip(
            layer.buffers(), ExactLinear(FEATURES, ACTIONS, **PRIOR).buffers(), strict=True
        ):
            torch.testing.assert_close(one, other)

    def test_weights_are_how_often_rows_count(self) -> None:
        h, actions, rewards, _ = rows()
        times = torch.arange(ROWS) % 3
        layer, other = conditioned(), conditioned()
        layer.condition(h, actions, rewards, times)
        other.condition(*(t.repeat_interleave(times, 0) for t in (h, actions, rewards)))
        for one, another in zip(layer.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(one, another)

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            (lambda h, a, r, w: (h[:, :2], a, r, w), ValueError, r"h: expected features \(N, 3\)"),
            (lambda h, a, r, w: (h, a, r[:3], w), ValueError, "rewards: expected one for each of"),
            (lambda h, a, r, w: (h, a.float(), r, w), TypeError, "actions: expected whole numbers"),
            (lambda h, a, r, w: (h, a + 1, r, w), ValueError, "actions: expected numbers from 0"),
            (lambda h, a, r, w: (h / 0, a, r, w), ValueError, "h: expected finite"),
            (lambda h, a, r, w: (h, a, r * math.nan, w), ValueError, "rewards: expected finite"),
            (lambda h, a, r, w: (h, a, r, -w), ValueError, "weight: expected numbers >= 0"),
            (lambda h, a, r, w: (h * 1e9, a, r, w), FloatingPointError, "h: .* scale them"),
            (lambda h, a, r, w: (h, a, r * 1e30, w), FloatingPointError, "rewards: .* fits torch"),
        ],
    )
    def test_mistakes(
        self, change: Callable[..., tuple[Tensor, ...]], error: type[Exception], message: str
    ) -> None:
        layer = conditioned()
        before = copy.deepcopy(layer.state_dict())
        with pytest.raises(error, match=message):
            layer.condition(*change(*rows()))
        assert all(map(torch.equal, layer.state_dict().values(), before.values()))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"features": 0}, "features: expected a whole number >= 1"),
            ({"actions": 2.0}, "actions: expected a whole number >= 1"),
            ({"prior_precision": 0.0}, "prior_precision: expected a number > 0"),
            ({"noise_shape": 1.0}, "noise_shape: expected a number > 1"),
            ({"noise_rate": math.inf}, "noise_rate: expected a number > 0"),
        ],
    )
    def test_priors_that_are_none(self, options: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExactLinear(**{"features": 3, "actions": 2, **options})  # type: ignore[arg-type]
