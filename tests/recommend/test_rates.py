"""Gradients for the rates of masks on histories: enumeration, and variants that are wrong."""

import itertools

import numpy as np
import pytest
import torch

from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian
from dubio.recommend import rates
from dubio.recommend.sparse import SparseRows
from semi_implicit_toy import (
    HISTORY,
    ITEMS,
    LOGITS,
    cells,
    estimate,
    exact,
    gradients,
    naive_bound,
    network,
    stacks,
    weighted,
)

BETA = 0.6
PHI = "input.mask.logit"


def check_rates(mixture, decodings=1, nodes=10):
    net = network(mixture, decodings, "arm")
    ours = gradients(net, estimate(net, BETA, nodes))[PHI]
    truth = gradients(net, exact(net, BETA, nodes))[PHI]
    assert truth[:3].abs().min() > 1e-4  # there is something to find
    torch.testing.assert_close(ours, truth, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("mixture", "decodings"), [(1, 1), (2, 1), (2, 2)])
def test_arm_is_exact_on_average(mixture, decodings):
    check_rates(mixture, decodings)


def no_path(mask, rows, noise):
    keep = rates.keep_of_entries(mask, rows).detach()
    return (noise < keep) / keep


def first_only(noise):
    return torch.cat([1 - noise[:1], noise[1:]])


def own_noise_only(losses, mask, rows, noise):
    return with_arm(losses, mask, rows, noise[:1])


with_arm = rates.with_arm


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("path_multiplier", no_path),
        ("reflected", first_only),
        ("with_arm", own_noise_only),
        ("with_arm", lambda losses, *rest: losses.mean(0)),
    ],
)
def test_a_broken_gradient_is_caught(name, variant, monkeypatch):
    monkeypatch.setattr(rates, name, variant)
    with pytest.raises(AssertionError):
        check_rates(2)


def trapezoid_by_hand(net, beta, nodes):
    """E of ½(drop·g(1) if z = 1, keep·g(0) if z = 0) and of the path through 1/keep."""
    keep = net.input.mask.keep.detach()
    z, p = stacks(keep, net.mixture)
    z = z.requires_grad_()
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    total = torch.zeros((), dtype=torch.float64)
    for one, weight in zip(x, w / w.sum(), strict=True):
        f = naive_bound(net, z, torch.tensor([one]), beta)
        total = total + weight * (p * f).sum()
    by_z, by_path = torch.autograd.grad(total, [z, net.input.mask.logit])
    k = keep[: len(HISTORY)]
    weight_of = torch.where(z == 1, 0.5 * (1 - k), 0.5 * k)
    found = by_path.clone()
    found[: len(HISTORY)] += (by_z * weight_of).sum((0, 1))
    return found


@pytest.mark.parametrize("mixture", [1, 2])
@pytest.mark.parametrize("estimator", ["trapezoid", "trapezoid_once"])
def test_the_trapezoid_is_that_of_its_formula_and_near_the_truth(mixture, estimator):
    net = network(mixture, 1, estimator, scale=0.5)
    ours = gradients(net, estimate(net, BETA, 10))[PHI]
    torch.testing.assert_close(ours, trapezoid_by_hand(net, BETA, 10), rtol=1e-8, atol=1e-10)
    truth = gradients(net, exact(net, BETA, 10))[PHI]
    assert (ours - truth).norm() < 0.3 * truth.norm()  # an item is a third of a history here


def test_without_beta_the_other_masks_do_not_matter():
    one, two = (gradients(net, estimate(net, 0.0, 10))[PHI] for net in (network(1), network(2)))
    torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("estimator", ["trapezoid", "trapezoid_once", "arm"])
def test_items_outside_a_history_get_exactly_zero(estimator):
    net = network(2, 1, estimator)
    found = gradients(net, estimate(net, BETA, 4))[PHI]
    assert found[ITEMS - 1] == 0.0
    assert (found[:3] != 0).all()


def test_both_passes_train_the_weights():
    """Half the sum of the gradients of a pass with u and of one with 1 − u."""
    net = network(2, 1, "arm")
    users = cells(net, 1, 3)
    some = slice(0, 3 * 11)
    rows = SparseRows(users.rows.items[: 3 * 33], users.rows.offsets[:34], ITEMS)
    noise = users.noise._replace(
        masks=(users.noise.masks[0][:, : 3 * 33],), latent=users.noise.latent[:, some]
    )
    both = gradients(net, net(rows, noise, BETA).sum())
    net.input.estimator = "trapezoid_once"  # one pass
    parts = []
    for u in (noise.masks[0], 1 - noise.masks[0]):
        one = noise._replace(masks=(u,))
        parts.append(gradients(net, net(rows, one, BETA).sum()))
    for name in both:
        if name != PHI:
            torch.testing.assert_close(both[name], 0.5 * (parts[0][name] + parts[1][name]))


def test_common_noise_of_the_latent_vector_lowers_the_variance():
    """The exact variances of ARM's gradient: quadrature in u and in one ε, or in two."""
    net = network(1, 1, "arm")
    net.input.average = lambda losses, *rest: losses  # f(u) and f(1 − u)
    keep = net.input.mask.keep.detach()[:3].tolist()
    points = []  # two Gauss–Legendre points on each interval are exact for squares
    for k in keep:
        low, high = sorted((k, 1 - k))
        points.append(
            [
                ((a + b) / 2 + sign * (b - a) / 2 / 3**0.5, (b - a) / 2)
                for a, b in [(0, low), (low, high), (high, 1)]
                for sign in (-1, 1)
            ]
        )
    chosen = list(itertools.product(*points))
    u = torch.tensor([[one[0] for one in row] for row in chosen], dtype=torch.float64)[:, None]
    p = torch.tensor([np.prod([one[1] for one in row]) for row in chosen])

    def variance(separate):
        users = weighted(u, p, 2 if separate else 1, 16)
        latent = users.noise.latent
        noise = users.noise._replace(latent=latent[:, None] if separate else latent)
        with torch.no_grad():
            f = net(users.rows, noise, BETA)  # (2, B)
        slope = (f[1] - f[0])[:, None] * (users.noise.masks[0].view(-1, 3) - 0.5)
        mean = (users.weights[:, None] * slope).sum(0)
        return ((users.weights[:, None] * slope**2).sum(0) - mean**2).sum()

    assert variance(separate=False) < 0.9 * variance(separate=True)


@pytest.mark.parametrize(
    "mask",
    [
        Bernoulli(ITEMS, drop=0.3),
        Bernoulli(drop=0.3),
        LearnableBernoulli(ITEMS, drop=0.3),
        Concrete(ITEMS, drop=0.3),
        Concrete(drop=0.3),
        LearnableGaussian(ITEMS, drop=0.3),
    ],
    ids=repr,
)
def test_masks_on_entries_are_those_on_dense_rows(mask):
    if isinstance(mask, LearnableBernoulli | Concrete | LearnableGaussian) and mask.units > 1:
        with torch.no_grad():
            mask.logit.copy_(torch.tensor(LOGITS))
    rows = SparseRows(torch.tensor([0, 2, 1, 2, 3]), torch.tensor([0, 2, 2, 5]), ITEMS)
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(2, 3, ITEMS, generator=generator)
    pull = torch.randn(2, 3, ITEMS, generator=generator)
    sparse_noise = dense[:, rows.row, rows.items]
    ours = rates.multiplier(mask, rows, (sparse_noise,))
    whole = mask.multiplier(2, dense)
    torch.testing.assert_close(ours, whole[:, rows.row, rows.items])
    parameters = list(mask.parameters())
    if parameters:
        inside = torch.zeros(3, ITEMS).index_put((rows.row, rows.items), torch.ones(5))
        found = torch.autograd.grad((ours * pull[:, rows.row, rows.items]).sum(), parameters)
        expected = torch.autograd.grad((whole * pull * inside).sum(), parameters)
        torch.testing.assert_close(found, expected)
