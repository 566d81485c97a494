"""The objective against its formula done by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.layers.masked import Masked
from dubio.likelihoods import Categorical, Gaussian, Likelihood
from dubio.masks import Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio.noise.stochastic import kl
from dubio.objectives.elbo import ELBO
from estimator_cases import CASES, FIRST_PASS, every_estimator
from mask_cases import MASKS, Case, every_mask

N = 50


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(kind: Callable[..., Mask] = Concrete) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 6), nn.ReLU(), Masked(nn.Linear(6, 4), kind(6, drop=0.3), length_scale=0.5),
        nn.Tanh(), Masked(nn.Linear(4, 3), kind(1, drop=0.2), length_scale=0.1),
    ).double()  # fmt: skip


def data(likelihood: Likelihood) -> tuple[Tensor, Tensor]:
    x = torch.randn(7, 5, dtype=torch.float64, generator=seeded(1))
    if isinstance(likelihood, Categorical):
        return x, torch.randint(3, (7,), generator=seeded(2))
    return x, torch.randn(7, 3, dtype=torch.float64, generator=seeded(2))


def outputs(net: nn.Module, x: Tensor, draw: int = 0, **options: Any) -> Tensor:
    """What the objective sees in one draw, from the same seed."""
    with dubio.Noise(draw + 1, generator=seeded(3), **options)[draw]:
        return net(x)


def nll_by_hand(likelihood: Likelihood, f: Tensor, y: Tensor) -> Tensor:
    if isinstance(likelihood, Categorical):
        return -torch.stack([row.softmax(0)[label].log() for row, label in zip(f, y, strict=True)])
    tau = 2.5
    return tau / 2 * (f - y).square().sum(1) - 3 / 2 * math.log(tau / (2 * math.pi))


def gradients(loss: Tensor, net: nn.Module) -> dict[str, Tensor]:
    named = {name: p for name, p in net.named_parameters() if p.requires_grad}
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(2.5)], ids=str)
@every_mask
def test_loss_is_mean_nll_plus_kl_over_n(kind: Case, likelihood: Likelihood, shared: bool) -> None:
    net, (x, y) = build(kind), data(likelihood)
    elbo = ELBO(net, likelihood, N, shared=shared, generator=seeded(3), estimator="trapezoid_once")
    loss = elbo(x, y)
    nll = nll_by_hand(likelihood, outputs(net, x, shared=shared), y).mean()
    torch.testing.assert_close(loss, nll + (net[2].kl() + net[4].kl()) / N)
    torch.testing.assert_close(elbo.nll, nll.detach())
    torch.testing.assert_close(elbo.kl, kl(net).detach())
    assert not elbo.nll.requires_grad
    assert not elbo.kl.requires_grad


def test_regulariser_of_cross_entropy_has_no_factor_of_two() -> None:
    """With mean cross-entropy: weights by ℓ²/(2N), entropy by 1/N.

    Gal et al. 2017's code, halved.
    """
    net, (x, y) = build(), data(Categorical())
    loss = ELBO(net, Categorical(), N, generator=seeded(3))(x, y)
    expected = nn.functional.cross_entropy(outputs(net, x), y)
    for layer, features in ((net[2], 6), (net[4], 4)):
        keep = layer.mask.keep.expand(features)
        squares = layer.layer.weight.square().sum(0)
        expected = expected + layer.length_scale**2 / (2 * N) * (squares / keep).sum()
        expected = expected + (keep * keep.log() + (1 - keep) * (1 - keep).log()).sum() / N
    torch.testing.assert_close(loss, expected)


@every_estimator
def test_value_of_the_loss_for_every_estimator(estimator: Any) -> None:
    """All report the loss of their first pass; the pair reports the mean of its two."""
    net, (x, y) = build(LearnableBernoulli), data(Categorical())
    elbo = ELBO(net, Categorical(), N, estimator=estimator, generator=seeded(3))
    loss = elbo(x, y)
    torch.testing.assert_close(loss.detach(), elbo.nll + elbo.kl / N)
    if CASES[estimator].first_pass:
        nll = nll_by_hand(Categorical(), outputs(net, x), y).mean()
        torch.testing.assert_close(elbo.nll, nll.detach())


@every_estimator
@pytest.mark.parametrize("kind", [c for c in MASKS.values() if c.make is not LearnableBernoulli])
def test_other_masks_have_the_gradient_of_their_noise(kind: Case, estimator: Any) -> None:
    net, (x, y) = build(kind), data(Categorical())
    loss = ELBO(net, Categorical(), N, estimator=estimator, generator=seeded(3))(x, y)
    by_hand = nll_by_hand(Categorical(), outputs(net, x), y).mean() + kl(net) / N
    torch.testing.assert_close(gradients(loss, net), gradients(by_hand, net))


@pytest.mark.parametrize("estimator", FIRST_PASS)
def test_weights_have_the_gradient_of_the_first_pass(estimator: Any) -> None:
    net, (x, y) = build(LearnableBernoulli), data(Categorical())
    loss = ELBO(net, Categorical(), N, estimator=estimator, generator=seeded(3))(x, y)
    by_hand = nll_by_hand(Categorical(), outputs(net, x), y).mean() + kl(net) / N
    found, expected = gradients(loss, net), gradients(by_hand, net)
    for name in found:
        if "logit" not in name:
            torch.testing.assert_close(found[name], expected[name])


def test_a_mixture_of_masks_learns_all_rates() -> None:
    net = nn.Sequential(
        Masked(nn.Linear(5, 4), Concrete(5)), nn.Dropout(0.5),
        Masked(nn.Linear(4, 4), LearnableBernoulli(4, drop=0.5)), nn.Tanh(),
        Masked(nn.Linear(4, 3), LearnableGaussian(1)),
    ).double()  # fmt: skip
    x, y = data(Categorical())
    for estimator in CASES:
        loss = ELBO(net, Categorical(), N, estimator=estimator)(x, y)
        for name, gradient in gradients(loss, net).items():
            assert gradient.isfinite().all(), name
            assert gradient.abs().sum() > 0, name


def test_draws_are_averaged() -> None:
    net, (x, y) = build(), data(Categorical())
    elbo = ELBO(net, Categorical(), N, draws=3, generator=seeded(3))
    elbo(x, y)
    with torch.no_grad():
        noise = dubio.Noise(3, generator=seeded(3))
        total = torch.zeros(())
        for k in range(3):
            with noise[k]:
                total = total + nll_by_hand(Categorical(), net(x), y).mean()
    torch.testing.assert_close(elbo.nll, total / 3)


def test_num_data_can_grow() -> None:
    net, (x, y) = build(), data(Categorical())
    elbo = ELBO(net, Categorical(), N)
    for count in (N, 10 * N):
        elbo.num_data = count
        torch.testing.assert_close(elbo(x, y).detach(), elbo.nll + elbo.kl / count)


def test_weight_of_the_kl() -> None:
    net, (x, y) = build(), data(Categorical())
    elbo = ELBO(net, Categorical(), N, kl_weight=0.25)
    torch.testing.assert_close(elbo(x, y).detach(), elbo.nll + 0.25 * elbo.kl / N)
    torch.testing.assert_close(elbo.kl, kl(net).detach())  # before any weight


def test_schedule_of_the_kl() -> None:
    net, (x, y) = build(), data(Categorical())
    seen: list[int] = []

    def warm_up(step: int) -> float:
        seen.append(step)
        return min(1.0, step / 2)

    elbo = ELBO(net, Categorical(), N, kl_weight=warm_up)
    for weight in (0.0, 0.5, 1.0, 1.0):
        torch.testing.assert_close(elbo(x, y).detach(), elbo.nll + weight * elbo.kl / N)
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("training", [False, True])
@every_estimator
def test_plain_dropout_is_sampled_and_has_no_kl(estimator: Any, training: bool) -> None:
    net = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3)).double()
    net.train(training)
    x, y = data(Categorical())
    elbo = ELBO(net, Categorical(), N, estimator=estimator, generator=seeded(3))
    loss = elbo(x, y)
    torch.testing.assert_close(loss, nll_by_hand(Categorical(), outputs(net, x), y).mean())
    assert float(elbo.kl) == 0
    assert not torch.equal(elbo(x, y), loss)


@every_estimator
def test_both_passes_share_the_noise_that_is_not_learned(estimator: Any) -> None:
    """With masks that never drop the passes are one, though there is plain dropout beside them."""
    net = nn.Sequential(
        nn.Linear(5, 6), nn.Dropout(0.5), Masked(nn.Linear(6, 3), LearnableBernoulli(6))
    ).double()
    nn.init.constant_(net[2].mask.logit, 50.0)
    x, y = data(Categorical())
    loss = ELBO(net, Categorical(), N, estimator=estimator, kl_weight=0.0, generator=seeded(3))(
        x, y
    )
    torch.testing.assert_close(loss, nll_by_hand(Categorical(), outputs(net, x), y).mean())
    assert gradients(loss, net)["2.mask.logit"].abs().max() < 1e-12


def test_the_same_seed_gives_the_same_losses_and_the_global_state_is_left_alone() -> None:
    net, (x, y) = build(LearnableBernoulli), data(Categorical())
    state = torch.get_rng_state()
    first, second = (ELBO(net, Categorical(), N, generator=seeded(3)) for _ in range(2))
    assert torch.equal(first(x, y), second(x, y))
    assert torch.equal(first(x, y), second(x, y))
    assert torch.equal(torch.get_rng_state(), state)


def test_errors() -> None:
    net = build()
    with pytest.raises(ValueError, match="num_data: expected the number of training rows, got 0"):
        ELBO(net, Categorical(), 0)
    with pytest.raises(ValueError, match="draws: expected a positive int"):
        ELBO(net, Categorical(), N, draws=0)
    with pytest.raises(ValueError, match=r"estimator: expected one of trapezoid, .*, got 'rebar'"):
        ELBO(net, Categorical(), N, estimator="rebar")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected an instance from dubio\.likelihoods"):
        ELBO(net, Categorical, N)  # type: ignore[arg-type]
