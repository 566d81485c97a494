"""Gradients for learned rates against the enumeration of all masks.

Sampled gradients are compared to exact ones by t-tests on means of many samples, Bonferroni over
all coordinates of all cases: false alarms at most 1e-6 for the whole file. Expectations of the
trapezoid rule are taken exactly, without sampling.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import scipy.stats
import torch
from torch import Tensor, nn

from dubio.layers.masked import Masked
from dubio.likelihoods import Categorical, Gaussian, Likelihood
from dubio.masks import LearnableBernoulli
from dubio.objectives import estimators
from dubio.objectives.elbo import ELBO
from dubio.objectives.passes import Passes
from estimator_cases import CASES, every_unbiased_estimator

SIZES = (3, 4, 3)  # seven masked units
ROWS = 3
FALSE_ALARMS = 1e-6
TESTS = 10 * len(CASES) * 40  # tests times estimators times coordinates, rounded up


class Unscaled(LearnableBernoulli):  # type: ignore[misc]
    """The binary mask itself: no 1/keep, hence nothing pathwise."""

    def multiply(self, xs: list[Tensor], axis: int, *noises: Tensor) -> list[Tensor]:
        keep = torch.sigmoid(self.logit_along(noises[0], axis))
        return [y * keep for y in super().multiply(xs, axis, *noises)]


class Unaware(LearnableBernoulli):  # type: ignore[misc]
    """A defect: scaled by 1/keep, without the derivative through it."""

    def multiply(self, xs: list[Tensor], axis: int, *noises: Tensor) -> list[Tensor]:
        keep = torch.sigmoid(self.logit_along(noises[0], axis))
        return [y * keep / keep.detach() for y in super().multiply(xs, axis, *noises)]


def build(
    activation: type[nn.Module] = nn.Tanh,
    mask: type[LearnableBernoulli] = LearnableBernoulli,
    one_rate: bool = False,
) -> nn.Sequential:
    """Two masked layers with rates and weights of all sizes."""
    torch.manual_seed(0)
    inputs, hidden, outputs = SIZES
    net = nn.Sequential(
        Masked(nn.Linear(inputs, hidden), mask(inputs, drop=0.3)),
        activation(),
        Masked(nn.Linear(hidden, outputs), mask(1 if one_rate else hidden, drop=0.3)),
    ).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    return net


def data(likelihood: Likelihood) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, SIZES[0], dtype=torch.float64, generator=generator)
    if isinstance(likelihood, Categorical):
        return x, torch.randint(SIZES[-1], (ROWS,), generator=generator)
    return x, torch.randn(ROWS, SIZES[-1], dtype=torch.float64, generator=generator)


def flat_grad(loss: Tensor, net: nn.Module) -> Tensor:  # (parameters,)
    """Gradients for logits and weights, in one row."""
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])


def all_masks() -> list[Tensor]:  # (128, 3), (128, 4)
    masks = torch.tensor(list(itertools.product([0.0, 1.0], repeat=sum(SIZES[:2]))))
    return list(masks.double().split(list(SIZES[:2]), dim=1))


def keeps(net: nn.Sequential) -> list[Tensor]:
    """Probabilities of keeping, by site and unit."""
    return [net[i].mask.logit.sigmoid().expand(n) for i, n in zip((0, 2), SIZES, strict=False)]


def losses(
    net: nn.Sequential, multipliers: list[Tensor], likelihood: Likelihood, x: Tensor, y: Tensor
) -> Tensor:  # (masks,)
    """Mean loss of all rows under each of some masks, done by hand."""
    first, second = multipliers
    hidden = net[1](net[0].layer(x * first[:, None]))  # (masks, B, hidden)
    return -likelihood.log_prob(net[2].layer(hidden * second[:, None]), y).mean(1)


def probabilities(net: nn.Sequential) -> Tensor:  # (128,)
    sites = zip(all_masks(), keeps(net), strict=True)
    return torch.cat([torch.where(z > 0, keep, 1 - keep) for z, keep in sites], dim=1).prod(1)


def exact_grad(net: nn.Sequential, likelihood: Likelihood, *, scaled: bool = True) -> Tensor:
    """The gradient of E[ℓ] = Σ_z p(z)·ℓ(z)."""
    x, y = data(likelihood)
    multipliers = [
        z / keep if scaled else z for z, keep in zip(all_masks(), keeps(net), strict=True)
    ]
    expected = (probabilities(net) * losses(net, multipliers, likelihood, x, y)).sum()
    return flat_grad(expected, net)


def sampled_grads(
    net: nn.Sequential, likelihood: Likelihood, estimator: str, *, shared: bool
) -> Tensor:  # (samples, parameters)
    """Independent estimates by the ELBO: 300 with shared masks, or 40 means of 500 per row."""
    x, y = data(likelihood)
    samples, copies = (300, 1) if shared else (40, 500)
    x, y = x.repeat(copies, 1), y.repeat(copies, *[1] * (y.dim() - 1))
    elbo = ELBO(
        net,
        likelihood,
        num_data=1,
        estimator=estimator,  # type: ignore[arg-type]
        kl_weight=0.0,
        shared=shared,
        generator=torch.Generator().manual_seed(2),
    )
    return torch.stack([flat_grad(elbo(x, y), net) for _ in range(samples)])


def is_unbiased(samples: Tensor, exact: Tensor) -> bool:
    """A t-test of every coordinate."""
    errors = samples.std(0) / len(samples) ** 0.5
    critical = scipy.stats.t.isf(FALSE_ALARMS / TESTS / 2, len(samples) - 1)
    return bool(((samples.mean(0) - exact).abs() <= critical * errors + 1e-12).all())


@pytest.mark.parametrize("shared", [False, True], ids=["per row", "shared"])
@every_unbiased_estimator
def test_unbiased_estimators_with_the_scale(estimator: str, shared: bool) -> None:
    net = build()
    samples = sampled_grads(net, Categorical(), estimator, shared=shared)
    assert is_unbiased(samples, exact_grad(net, Categorical()))


@every_unbiased_estimator
def test_unbiased_estimators_without_the_scale(estimator: str) -> None:
    net = build(mask=Unscaled)
    samples = sampled_grads(net, Categorical(), estimator, shared=False)
    assert is_unbiased(samples, exact_grad(net, Categorical(), scaled=False))


@dataclass(frozen=True)
class Meeting:
    """A network in which a mask acts on the losses of several rows, and its exact gradient."""

    net: nn.Module
    x: Tensor
    y: Tensor
    exact: Tensor

    def grads(self, estimator: str) -> Tensor:  # (samples, parameters)
        """150 independent estimates: enough to find `_own_losses`."""
        elbo = ELBO(
            self.net, Gaussian(2.0), 1, estimator=estimator, kl_weight=0.0,  # type: ignore[arg-type]
            generator=torch.Generator().manual_seed(2),
        )  # fmt: skip
        return torch.stack([flat_grad(elbo(self.x, self.y), self.net) for _ in range(150)])


def normalised() -> Meeting:
    """Batch normalisation behind the mask: one for each row, that acts on the losses of all."""
    torch.manual_seed(107)
    net = nn.Sequential(
        Masked(nn.Linear(1, 2), LearnableBernoulli(1, drop=0.4)), nn.BatchNorm1d(2), nn.Tanh(),
        nn.Linear(2, 1),
    ).double()  # fmt: skip
    x = torch.tensor([[0.75], [3.5], [1.0]], dtype=torch.float64)
    y = torch.tensor([[-1.5], [1.5], [-1.0]], dtype=torch.float64)
    keep = net[0].mask.keep
    expected = torch.zeros(())
    for masks in itertools.product([0.0, 1.0], repeat=3):
        z = torch.tensor(masks).double()[:, None]
        p = torch.where(z > 0, keep, 1 - keep).prod()
        f = net[1:](net[0].layer(x * z / keep))
        expected = expected - p * Gaussian(2.0).log_prob(f[None], y)[0].mean()
    return Meeting(net, x, y, flat_grad(expected, net))


class TimeFirst(nn.Module):
    """A mask for every time step, on an axis that is as long as the batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.masked = Masked(nn.Linear(1, 1), LearnableBernoulli(1, drop=0.4))
        nn.init.constant_(self.masked.layer.weight, 1.5)
        self.double()

    def forward(self, x: Tensor) -> Tensor:  # (B, T)
        return self.masked(x.T[..., None]).tanh().sum(0)  # (B, 1)


def time_first() -> Meeting:
    """Two examples with two steps, whose masks they share."""
    net = TimeFirst()
    x = torch.tensor([[1.5, 0.25], [2.0, 1.75]], dtype=torch.float64)
    y = torch.tensor([[-0.25], [0.75]], dtype=torch.float64)
    keep = net.masked.mask.keep
    expected = torch.zeros(())
    for masks in itertools.product([0.0, 1.0], repeat=2):
        z = torch.tensor(masks).double()
        p = torch.where(z > 0, keep, 1 - keep).prod()
        f = net.masked.layer((x * z / keep)[..., None]).tanh().sum(1)  # (B, 1)
        expected = expected - p * Gaussian(2.0).log_prob(f[None], y)[0].mean()
    return Meeting(net, x, y, flat_grad(expected, net))


def _own_losses(passes: Passes, mask: LearnableBernoulli) -> bool:
    """A defect: row i of a mask is judged by the loss of row i alone."""
    (noise,), rows = passes.sites[mask].given, passes._request(mask).rows
    return rows is not None and noise.shape[rows] == passes._batch.rows


every_meeting = pytest.mark.parametrize("meeting", [normalised, time_first])


@every_meeting
@every_unbiased_estimator
def test_unbiased_estimators_where_rows_meet(
    estimator: str, meeting: Callable[[], Meeting]
) -> None:
    case = meeting()
    assert is_unbiased(case.grads(estimator), case.exact)


@every_meeting
@pytest.mark.parametrize("estimator", ["arm", "disarm", "reinforce_loo"])
def test_rows_that_are_judged_by_their_own_losses_are_found(
    estimator: str, meeting: Callable[[], Meeting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Passes, "_is_by_example", _own_losses)
    case = meeting()
    assert not is_unbiased(case.grads(estimator), case.exact)


@every_unbiased_estimator
def test_unbiased_estimators_with_one_rate_for_a_layer(estimator: str) -> None:
    net = build(one_rate=True)
    samples = sampled_grads(net, Categorical(), estimator, shared=False)
    assert is_unbiased(samples, exact_grad(net, Categorical()))


def _roll_losses(passes: Passes) -> Tensor:
    """ARM, but one row's mask is judged by another's loss."""
    right = passes.sum_over_rows
    passes.sum_over_rows = lambda mask, rows, noise: right(mask, rows.roll(1), noise)  # type: ignore[method-assign]
    return estimators.arm(passes)


def _slope_twice(passes: Passes) -> Tensor:
    """DisARM with the control variate, whose expectation is put back twice."""
    grad = torch.autograd.grad
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch.autograd,
            "grad",
            lambda *a, **k: [2 * slope for slope in grad(*a, **k)],
        )
        patch.setattr(
            passes,
            "by_row",
            lambda rows, masks: Passes.by_row(passes, rows, {m: v / 2 for m, v in masks.items()}),
        )
        return estimators.disarm_cv(passes)


def _weighted(weigh: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Passes], Tensor]:
    """An estimator of two losses with another weight than it should have."""

    def estimate(passes: Passes) -> Tensor:
        losses, difference = estimators._two_losses(passes, estimators._BITS_REFLECTED)
        return estimators._with_gradients(
            losses.mean(),
            passes,
            lambda mask, u: passes.sum_over_rows(mask, difference, weigh(u, passes.keep(mask))),
        )

    return estimate


BROKEN: dict[str, tuple[str, Callable[[Passes], Tensor]]] = {
    "sign": ("arm", _weighted(lambda u, keep: u - 0.5)),
    "one row's mask by another's loss": ("arm", _roll_losses),
    "no sigmoid": (
        "disarm",
        _weighted(lambda u, keep: 0.25 * ((u < keep).to(u.dtype) - (1 - u < keep).to(u.dtype))),
    ),
    "twice": (
        "reinforce_loo",
        lambda passes: 2 * estimators.reinforce_loo(passes) - estimators.trapezoid_once(passes),
    ),
    "slope counted twice": ("disarm_cv", _slope_twice),
    "no correction": ("corrected", estimators.trapezoid),
}


@pytest.mark.parametrize(
    ("defect", "shared"), [*((name, False) for name in BROKEN), ("sign", True)]
)
def test_broken_estimators_are_found(
    defect: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, broken = BROKEN[defect]
    monkeypatch.setitem(estimators.ESTIMATORS, name, broken)
    net = build()
    samples = sampled_grads(net, Categorical(), name, shared=shared)
    assert not is_unbiased(samples, exact_grad(net, Categorical()))


@every_unbiased_estimator
def test_a_missing_pathwise_term_is_found(estimator: str) -> None:
    net = build(mask=Unaware)
    samples = sampled_grads(net, Categorical(), estimator, shared=False)
    assert not is_unbiased(samples, exact_grad(net, Categorical()))


class TestTrapezoid:
    """Its expectation is Σ_z p(z)·∇ℓ(z), with the derivative that `Threshold` gives to masks."""

    @staticmethod
    def expected(net: nn.Sequential, likelihood: Likelihood) -> Tensor:
        x, y = data(likelihood)
        noise = [
            torch.where(z > 0, keep / 2, (1 + keep) / 2).detach()  # inside of the two intervals
            for z, keep in zip(all_masks(), keeps(net), strict=True)
        ]
        multipliers = [net[i].mask.multiplier(1, u) for i, u in zip((0, 2), noise, strict=True)]
        p = probabilities(net).detach()
        return flat_grad((p * losses(net, multipliers, likelihood, x, y)).sum(), net)

    @staticmethod
    def expected_of_pair(net: nn.Sequential, likelihood: Likelihood) -> Tensor:
        """Over the three intervals of u in which z(u) and z(1 − u) are constant."""
        x, y = data(likelihood)
        keep = torch.cat(keeps(net)).detach()
        low, high = torch.minimum(keep, 1 - keep), torch.maximum(keep, 1 - keep)
        middles = torch.stack([low / 2, torch.full_like(keep, 0.5), (1 + high) / 2], dim=1)
        widths = torch.stack([low, high - low, 1 - high], dim=1)
        u = torch.cartesian_prod(*middles)  # (3⁷, 7)
        p = torch.cartesian_prod(*widths).prod(1)
        total = torch.zeros(())
        for noise in (u, 1 - u):
            sites = zip((0, 2), noise.split(list(SIZES[:2]), dim=1), strict=True)
            multipliers = [net[i].mask.multiplier(1, part) for i, part in sites]
            total = total + 0.5 * (p * losses(net, multipliers, likelihood, x, y)).sum()
        return flat_grad(total, net)

    @pytest.mark.parametrize("mask", [LearnableBernoulli, Unscaled])
    def test_is_exact_for_losses_quadratic_in_each_mask(
        self, mask: type[LearnableBernoulli]
    ) -> None:
        """A linear net under squared loss, also where masks of two layers multiply each other."""
        net = build(nn.Identity, mask)
        exact = exact_grad(net, Gaussian(2.0), scaled=mask is LearnableBernoulli)
        torch.testing.assert_close(self.expected(net, Gaussian(2.0)), exact)
        torch.testing.assert_close(self.expected_of_pair(net, Gaussian(2.0)), exact)

    @pytest.mark.parametrize("shared", [False, True], ids=["per row", "shared"])
    @pytest.mark.parametrize("estimator", ["trapezoid_once", "trapezoid"])
    def test_is_exact_through_the_objective_too(self, estimator: str, shared: bool) -> None:
        net = build(nn.Identity)
        samples = sampled_grads(net, Gaussian(2.0), estimator, shared=shared)
        assert is_unbiased(samples, exact_grad(net, Gaussian(2.0)))

    def test_has_a_bias_on_other_losses_in_the_rates_alone(self) -> None:
        net = build()
        exact = exact_grad(net, Categorical())
        bias = self.expected(net, Categorical()) - exact
        torch.testing.assert_close(self.expected_of_pair(net, Categorical()) - exact, bias)
        of_rates = torch.cat(
            [torch.full((p.numel(),), "logit" in name) for name, p in net.named_parameters()]
        )
        assert bias[of_rates].norm() > 0.01 * exact[of_rates].norm()
        assert bias[~of_rates].abs().max() < 1e-12

    def test_the_bias_is_of_third_order(self) -> None:
        """Weights of the layer behind the mask times h: the bias of its rates falls like h³."""

        def bias(h: float) -> Tensor:
            net = build()
            with torch.no_grad():
                net[2].layer.weight.mul_(h)
            error = self.expected(net, Categorical()) - exact_grad(net, Categorical())
            return error[-SIZES[1] :].norm()  # its logits come last

        assert bias(0.004) / bias(0.002) == pytest.approx(8, abs=0.2)


def test_errors_tell_of_the_rows_that_there_are() -> None:
    """A pair of passes is one over all rows twice, of which nobody is to hear."""
    elbo = ELBO(build(), Gaussian(1.0), 10)
    with pytest.raises(ValueError, match=r"y: expected shape \(5, .*got \(5,\)"):
        elbo(torch.randn(5, 3).double(), torch.randn(5).double())
