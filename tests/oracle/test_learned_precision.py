"""A learned noise precision against scipy, and the objective against its formula by hand.

Noise precisions are recovered from N Gaussian errors; an estimate's relative standard error is
sqrt(2/N). A bound of 6 of them has a false-alarm rate of 2e-9 for each of the two tests.
"""

import copy
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from dubio.likelihoods import GammaPrior, Gaussian, LearnedGaussian
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli

PAPER = GammaPrior(0.1, 0.01)
N = 40


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 6), nn.Tanh(), dubio.Masked(nn.Linear(6, outputs), Concrete(6, drop=0.3))
    ).double()  # fmt: skip


def data(rows: int = N, outputs: int = 3) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, 5, dtype=torch.float64, generator=seeded(1))
    return x, torch.randn(rows, outputs, dtype=torch.float64, generator=seeded(2))


def draws_of(net: nn.Module, x: Tensor, draws: int) -> Tensor:  # (S, B, K)
    """The outputs that the objective and the M-step see, from the same seed."""
    noise = dubio.Noise(draws, generator=seeded(3))
    outputs = []
    for k in range(draws):
        with noise[k], torch.no_grad():
            outputs.append(net(x))
    return torch.stack(outputs)


def objective(tau: float, outputs: np.ndarray, y: np.ndarray, prior: GammaPrior | None) -> float:
    """−(ELBO + log p(τ)) up to what does not depend on τ: a sum over data, a mean over draws."""
    logs = scipy.stats.norm.logpdf(y, outputs, tau**-0.5).sum() / len(outputs)
    if prior is not None:
        logs += scipy.stats.gamma.logpdf(tau, prior.shape, scale=1 / prior.rate)
    return -float(logs)


def maximised(outputs: np.ndarray, y: np.ndarray, prior: GammaPrior | None) -> float:
    best = scipy.optimize.minimize_scalar(
        objective, bracket=(0.3, 1.0), args=(outputs, y, prior), tol=1e-10
    )
    return float(best.x)


class TestLikeTheFixedGaussian:
    @pytest.mark.parametrize("tau", [2.5, torch.tensor([0.1, 1.0, 40.0])], ids=["one", "three"])
    def test_every_quantity(self, tau: float | Tensor) -> None:
        learned, fixed = LearnedGaussian(tau), Gaussian(tau)
        outputs, (_, y) = torch.randn(7, 4, 3, generator=seeded()), data(4)
        for name in ("mean", "variance"):
            found = getattr(learned, name)(outputs)
            torch.testing.assert_close(found, getattr(fixed, name)(outputs))
        torch.testing.assert_close(learned.log_prob(outputs, y), fixed.log_prob(outputs, y))
        torch.testing.assert_close(learned.quantile(outputs, 0.1), fixed.quantile(outputs, 0.1))
        torch.testing.assert_close(
            learned.sample(outputs, seeded()), fixed.sample(outputs, seeded())
        )

    @pytest.mark.parametrize("keep_draws", [False, True])
    def test_predictions(self, keep_draws: bool) -> None:
        net, (x, y) = build(), data()
        found, expected = (
            dubio.predict(net, x, likelihood=one, generator=seeded(), keep_draws=keep_draws)
            for one in (LearnedGaussian(4.0).double(), Gaussian(4.0))
        )
        torch.testing.assert_close(found.aleatoric, torch.full_like(y, 0.25))
        torch.testing.assert_close(found.variance, expected.variance)
        torch.testing.assert_close(found.log_prob(y), expected.log_prob(y))
        assert not found.variance.requires_grad
        assert not found.log_prob(y).requires_grad

    def test_predictions_keep_the_precision_they_were_made_with(self) -> None:
        net, (x, y) = build(), data()
        likelihood = LearnedGaussian(4.0)
        p = dubio.predict(net, x, likelihood=likelihood)
        before = p.log_prob(y)
        dubio.m_step(net, likelihood, (x, y))
        assert float(likelihood.noise_precision) != pytest.approx(4.0)
        assert torch.equal(p.log_prob(y), before)
        torch.testing.assert_close(p.aleatoric, torch.full_like(y, 0.25))

    def test_rescaled(self) -> None:
        likelihood = LearnedGaussian(torch.tensor([1.0, 8.0]))
        raw = likelihood.rescaled(torch.tensor([10.0, 2.0]))
        torch.testing.assert_close(raw.noise_precision, torch.tensor([0.01, 2.0]))
        nn.init.zeros_(likelihood.log_noise_precision)
        torch.testing.assert_close(raw.noise_precision, torch.tensor([0.01, 2.0]))


class TestPrior:
    @pytest.mark.parametrize("shape", [0.1, 1.0, 7.0])
    @pytest.mark.parametrize("rate", [0.01, 3.0])
    def test_density_against_scipy(self, shape: float, rate: float) -> None:
        tau = torch.tensor([1e-3, 0.5, 1.0, 80.0], dtype=torch.float64)
        expected = scipy.stats.gamma.logpdf(tau, shape, scale=1 / rate)
        np.testing.assert_allclose(GammaPrior(shape, rate).log_prob(tau), expected, rtol=1e-12)

    def test_sums_over_precisions(self) -> None:
        tau = torch.tensor([[0.5, 1.0, 8.0]], dtype=torch.float64)
        found = LearnedGaussian(tau, prior=PAPER).log_prior()
        assert found.item() == pytest.approx(float(PAPER.log_prob(tau).sum()), rel=1e-12)
        assert LearnedGaussian(tau).log_prior().item() == 0

    @pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
    def test_parameters_are_positive(self, value: float) -> None:
        with pytest.raises(ValueError, match="shape: expected finite and > 0"):
            GammaPrior(value, 1.0)
        with pytest.raises(ValueError, match="rate: expected finite and > 0"):
            GammaPrior(1.0, value)


class TestMaximum:
    @pytest.mark.parametrize("prior", [None, PAPER, GammaPrior(30.0, 50.0)], ids=str)
    def test_one_precision(self, prior: GammaPrior | None) -> None:
        net, (x, y) = build(), data()
        likelihood = LearnedGaussian(prior=prior).double()
        dubio.m_step(net, likelihood, (x, y), draws=4, generator=seeded(3))
        expected = maximised(draws_of(net, x, 4).numpy(), y.numpy(), prior)
        assert float(likelihood.noise_precision) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("prior", [None, PAPER], ids=str)
    def test_one_precision_for_each_output(self, prior: GammaPrior | None) -> None:
        net, (x, y) = build(), data()
        likelihood = LearnedGaussian(torch.ones(3), prior=prior).double()
        dubio.m_step(net, likelihood, (x, y), draws=4, generator=seeded(3))
        outputs = draws_of(net, x, 4).numpy()
        expected = [maximised(outputs[..., k], y[:, k].numpy(), prior) for k in range(3)]
        np.testing.assert_allclose(likelihood.noise_precision, expected, rtol=1e-6)

    def test_precisions_shared_by_part_of_the_event(self) -> None:
        outputs, y = torch.randn(5, 7, 2, 3).double(), torch.randn(7, 2, 3).double()
        for shape in [(), (3,), (1, 3), (2, 1), (2, 3)]:
            likelihood = LearnedGaussian(torch.ones(shape)).double()
            errors, count = likelihood.statistics(outputs, y)
            likelihood.maximise(errors.mean(0), count)
            errors = (outputs - y).square().mean((0, 1))  # (2, 3)
            axes = [i for i, size in enumerate((1, 1, *shape)[-2:]) if size == 1]
            expected = 1 / (errors.mean(axes, keepdim=True) if axes else errors)
            torch.testing.assert_close(likelihood.noise_precision, expected.reshape(shape))

    def test_the_mode_of_tau_is_not_that_of_its_logarithm(self) -> None:
        net, (x, y) = build(1), data(3, 1)
        prior = GammaPrior(1.5, 1.0)
        likelihood = LearnedGaussian(prior=prior).double()
        dubio.m_step(net, likelihood, (x, y), draws=4, generator=seeded(3))
        outputs = draws_of(net, x, 4).numpy()

        def in_log(logarithm: float) -> float:  # a density of log τ has a factor τ more
            return objective(math.exp(logarithm), outputs, y.numpy(), prior) - logarithm

        found = float(likelihood.noise_precision)
        other = math.exp(scipy.optimize.minimize_scalar(in_log).x)
        assert found == pytest.approx(maximised(outputs, y.numpy(), prior), rel=1e-6)
        assert other == pytest.approx(found * (1.5 + 1.5) / (1.5 + 0.5), rel=1e-6)

    @pytest.mark.parametrize("prior", [None, PAPER], ids=str)
    def test_is_a_fixed_point_of_gradient_ascent(self, prior: GammaPrior | None) -> None:
        """At the M-step's precision the objective, under the same noise, has no slope in τ."""
        net, (x, y) = build(), data()
        likelihood = LearnedGaussian(torch.ones(3), prior=prior).double()
        slopes = []
        for _ in range(2):
            elbo = dubio.ELBO(net, likelihood, N, draws=4, generator=seeded(3))
            (slope,) = torch.autograd.grad(elbo(x, y), likelihood.log_noise_precision)
            slopes.append(slope.abs().max().item())
            dubio.m_step(net, likelihood, (x, y), draws=4, generator=seeded(3))
        assert slopes[0] > 0.05
        assert slopes[1] < 1e-10

    def test_any_batches_and_chunks_give_the_same(self) -> None:
        """Where nothing is dropped the noise, which depends on the batches, plays no part."""
        net, (x, y) = build(), data()
        nn.init.constant_(net[2].mask.logit, 40.0)
        found = []
        for batch, chunk in itertools.product([7, N], [1, None]):
            likelihood = LearnedGaussian(prior=PAPER).double()
            loader = DataLoader(TensorDataset(x, y), batch_size=batch)
            dubio.m_step(net, likelihood, loader, draws=3, chunk=chunk)
            found.append(float(likelihood.noise_precision))
        whole = LearnedGaussian(prior=PAPER).double()
        dubio.m_step(net, whole, (x, y), draws=3)
        np.testing.assert_allclose(found, float(whole.noise_precision), rtol=1e-12)

    def test_inputs_and_outputs_of_several_parts(self) -> None:
        net, (x, y) = build(), data()

        def model(left: Tensor, right: Tensor) -> dict[str, Tensor]:
            return {"features": left, "y": net(left + right)}

        one, other = LearnedGaussian().double(), LearnedGaussian().double()
        pair = ((x, torch.zeros_like(x)), y)
        dubio.m_step(model, one, pair, draws=3, generator=seeded(3), select="y")
        dubio.m_step(net, other, (x, y), draws=3, generator=seeded(3))
        torch.testing.assert_close(one.noise_precision, other.noise_precision)

    def test_network_and_global_state_are_left_alone(self) -> None:
        net, (x, y) = build().train(), data()
        before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
        loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=False)
        dubio.m_step(net, LearnedGaussian().double(), loader, draws=3, generator=seeded())
        assert net.training
        torch.testing.assert_close(net.state_dict(), before)
        assert torch.equal(torch.get_rng_state(), state)


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-3, 1e3), st.floats(0.2, 5), st.integers(2, 40), st.floats(1e-3, 1e3))
def test_no_precision_nearby_is_better(shape: float, rate: float, rows: int, scale: float) -> None:
    outputs = np.zeros((1, rows, 1))
    y = scale * np.linspace(-1, 1, rows)[:, None]
    prior = GammaPrior(shape, rate)
    if rows / 2 + shape <= 1:
        return
    likelihood = LearnedGaussian(prior=prior).double()
    errors, count = likelihood.statistics(torch.tensor(outputs), torch.tensor(y))
    likelihood.maximise(errors.mean(0), count)
    tau = float(likelihood.noise_precision)
    best = objective(tau, outputs, y, prior)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert objective(factor * tau, outputs, y, prior) > best


class TestObjective:
    @pytest.mark.parametrize("prior", [None, PAPER], ids=str)
    @pytest.mark.parametrize("rows", [7, N])
    @pytest.mark.parametrize("draws", [1, 3])
    def test_the_prior_enters_once(self, prior: GammaPrior | None, rows: int, draws: int) -> None:
        net, (x, y) = build(), data()
        x, y = x[:rows], y[:rows]
        tau = torch.tensor([0.5, 1.0, 8.0], dtype=torch.float64)
        elbo = dubio.ELBO(
            net, LearnedGaussian(tau, prior=prior), N, draws=draws, kl_weight=0.5,
            generator=seeded(3),
        )  # fmt: skip
        loss = elbo(x, y)
        outputs = draws_of(net, x, draws)
        nll = -scipy.stats.norm.logpdf(y, outputs, tau.numpy() ** -0.5).sum() / (rows * draws)
        expected = nll + 0.5 * float(dubio.kl(net).detach()) / N
        if prior is not None:
            log_prior = scipy.stats.gamma.logpdf(tau, prior.shape, scale=1 / prior.rate).sum()
            expected -= log_prior / N
            assert elbo.log_prior.item() == pytest.approx(log_prior, rel=1e-12)
        assert loss.item() == pytest.approx(expected, rel=1e-12)
        assert elbo.nll.item() == pytest.approx(nll, rel=1e-12)
        assert not elbo.log_prior.requires_grad

    def test_a_likelihood_without_parameters_adds_nothing(self) -> None:
        net, (x, y) = build(), data()
        elbo = dubio.ELBO(net, Gaussian(1.0), N)
        loss = elbo(x, y)
        assert elbo.log_prior.item() == 0
        torch.testing.assert_close(loss.detach(), elbo.nll + elbo.kl / N)

    @pytest.mark.parametrize("estimator", ["trapezoid", "trapezoid_once", "arm", "disarm"])
    def test_gradient_for_the_precision(self, estimator: str) -> None:
        """d/d log τ of −D/2·log τ + τ/2·‖y − f‖² − log p(τ)/N, in the pass that trains weights."""
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(5, 6), dubio.Masked(nn.Linear(6, 3), LearnableBernoulli(6))
        ).double()
        x, y = data()
        likelihood = LearnedGaussian(2.0, prior=PAPER).double()
        elbo = dubio.ELBO(net, likelihood, N, estimator=estimator, generator=seeded(3))  # type: ignore[arg-type]
        elbo(x, y).backward()
        found = likelihood.log_noise_precision.grad
        assert found is not None
        # nll = τ/2·error − 3/2·log(τ/2π), so that its value gives the error
        error = elbo.nll + 1.5 * math.log(2 / (2 * math.pi))
        expected = -1.5 + error - ((0.1 - 1) - 0.01 * 2) / N
        torch.testing.assert_close(found, expected)

    def test_parameters_and_checkpoints(self) -> None:
        net = build()
        elbo = dubio.ELBO(net, LearnedGaussian(prior=PAPER), N).double()
        names = dict(elbo.named_parameters())
        assert "likelihood.log_noise_precision" in names
        assert len(names) == 1 + len(list(net.parameters()))
        nn.init.constant_(names["likelihood.log_noise_precision"], 1.5)
        other = dubio.ELBO(build(), LearnedGaussian(), N).double()
        other.load_state_dict(elbo.state_dict())
        twin = copy.deepcopy(elbo)
        nn.init.zeros_(names["likelihood.log_noise_precision"])
        for one in (other, twin):
            assert isinstance(one.likelihood, LearnedGaussian)
            assert float(one.likelihood.noise_precision) == pytest.approx(math.exp(1.5))
            assert one.likelihood.noise_precision.dtype == torch.float64
        assert twin.likelihood.prior == PAPER  # type: ignore[attr-defined]

    def test_moves_with_the_objective(self) -> None:
        elbo = dubio.ELBO(build(), LearnedGaussian(torch.ones(3)), N).to("meta")
        assert elbo.likelihood.log_noise_precision.device.type == "meta"  # type: ignore[attr-defined]

    def test_half_precision_outputs_train_it(self) -> None:
        net, (x, y) = build().float(), data()
        elbo = dubio.ELBO(net, LearnedGaussian(prior=PAPER), N)
        with torch.autocast("cpu", torch.bfloat16):
            loss = elbo(x.float(), y.float())
        loss.backward()
        assert loss.dtype == torch.float32
        assert elbo.likelihood.log_noise_precision.grad.isfinite()  # type: ignore[attr-defined]

    def test_gradcheck(self) -> None:
        net, (x, y) = build(), data()
        likelihood = LearnedGaussian(torch.tensor([0.5, 1.0, 3.0]), prior=PAPER).double()

        def loss(log_tau: Tensor) -> Tensor:
            elbo = dubio.ELBO(net, likelihood, N, generator=seeded())
            values = {"likelihood.log_noise_precision": log_tau}
            return torch.func.functional_call(elbo, values, (x, y))

        assert torch.autograd.gradcheck(loss, (likelihood.log_noise_precision,))


class TestRecovery:
    TAU = 4.0
    ROWS = 20_000
    TOLERANCE = 6 * math.sqrt(2 / ROWS)

    def problem(self) -> tuple[nn.Module, Tensor, Tensor]:
        """A network that is right about the mean, up to masks of rate one in a million."""
        layer = dubio.Masked(nn.Linear(2, 1), Bernoulli(drop=1e-6), length_scale=0.0)
        x = torch.randn(self.ROWS, 2, generator=seeded(1))
        noise = torch.randn(self.ROWS, 1, generator=seeded(2)) / math.sqrt(self.TAU)
        return layer, x, layer.layer(x).detach() + noise

    @pytest.mark.parametrize("prior", [None, PAPER], ids=str)
    def test_in_closed_form(self, prior: GammaPrior | None) -> None:
        net, x, y = self.problem()
        likelihood = LearnedGaussian(prior=prior)
        dubio.m_step(net, likelihood, (x, y), draws=2, generator=seeded())
        assert float(likelihood.noise_precision) == pytest.approx(self.TAU, rel=self.TOLERANCE)

    @pytest.mark.parametrize("prior", [None, PAPER], ids=str)
    def test_by_gradient(self, prior: GammaPrior | None) -> None:
        """Trained jointly with the network, from far away, to the closed form's precision."""
        net, x, y = self.problem()
        nn.init.zeros_(net.layer.weight)
        likelihood = LearnedGaussian(0.05, prior=prior)
        elbo = dubio.ELBO(net, likelihood, self.ROWS, generator=seeded())
        optimizer = torch.optim.Adam(elbo.parameters(), lr=0.05)
        for _ in range(300):
            optimizer.zero_grad()
            elbo(x, y).backward()
            optimizer.step()
        trained = float(likelihood.noise_precision)
        assert trained == pytest.approx(self.TAU, rel=self.TOLERANCE)
        dubio.m_step(net, likelihood, (x, y), draws=2, generator=seeded())
        assert trained == pytest.approx(float(likelihood.noise_precision), rel=1e-3)


class TestErrors:
    @pytest.mark.parametrize("tau", [0.0, -1.0, math.inf, math.nan, torch.tensor([1.0, 0.0])])
    def test_precisions_are_positive(self, tau: float | Tensor) -> None:
        with pytest.raises(ValueError, match=r"noise_precision: expected finite and > 0, got .*;"):
            LearnedGaussian(tau)

    def test_shape_of_the_precision(self) -> None:
        with pytest.raises(ValueError, match=r"noise_precision: expected .* event \(3,\) of .*got"):
            LearnedGaussian(torch.ones(2)).mean(torch.zeros(5, 4, 3))

    def test_data_are_pairs(self) -> None:
        net, (x, y) = build(), data()
        for wrong in (x, [x, y], [(x,)]):
            with pytest.raises(TypeError, match=r"data: expected \(inputs, targets\), got"):
                dubio.m_step(net, LearnedGaussian(), wrong)  # type: ignore[arg-type]

    def test_targets_fit_the_outputs(self) -> None:
        net, (x, y) = build(), data()
        with pytest.raises(ValueError, match=r"y: expected shape \(40, 3\) .*got \(40, 1\)"):
            dubio.m_step(net, LearnedGaussian(), (x, y[:, :1]))

    def test_too_few_targets_for_the_prior(self) -> None:
        likelihood = LearnedGaussian(prior=PAPER)
        with pytest.raises(ValueError, match=r"more than 1\.8 .*got 1\.0; .*shape >= 1"):
            likelihood.maximise(torch.tensor(1.0), torch.tensor(1.0))
        likelihood.maximise(torch.tensor(1.0), torch.tensor(2.0))

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            (torch.inf, "y: expected finite numbers, got infinite ones"),
            (1e200, r"squared errors: .*got inf; remove or scale"),
        ],
    )
    def test_errors_that_are_infinite(self, target: float, message: str) -> None:
        x, y = torch.ones(3, 1), torch.full((3, 1), target, dtype=torch.float64)
        with pytest.raises(ValueError, match=message):
            dubio.m_step(nn.Sequential(nn.Linear(1, 1), nn.Dropout()), LearnedGaussian(), (x, y))

    def test_a_perfect_fit_needs_a_prior(self) -> None:
        with pytest.raises(ValueError, match=r"squared errors: .*got 0\.0; the precision of a"):
            LearnedGaussian().maximise(torch.tensor(0.0), torch.tensor(10.0))
        LearnedGaussian(prior=PAPER).maximise(torch.tensor(0.0), torch.tensor(10.0))

    def test_repr_tells_precision_and_prior(self) -> None:
        assert repr(LearnedGaussian(2.0, prior=GammaPrior(1.0, 2.0))) == (
            "LearnedGaussian(noise_precision=2.0, prior=GammaPrior(shape=1.0, rate=2.0))"
        )
