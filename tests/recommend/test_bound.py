"""The semi-implicit bound: enumeration, closed forms and torch.distributions."""

import itertools

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from dubio.recommend import variational
from dubio.recommend.bound import (
    Normals,
    bound,
    divergence,
    log_mixture,
    log_standard_normal,
)
from dubio.recommend.latent import AutoregressiveFlow, VampPrior
from semi_implicit_toy import estimate, exact, gradients, network, stacks

BETA = 0.6


def check_value_and_weights(mixture, decodings=1, nodes=16):
    net = network(mixture, decodings)
    ours, theirs = estimate(net, BETA, nodes), exact(net, BETA, nodes)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    found, expected = gradients(net, ours), gradients(net, theirs)
    for name in found:
        if name != "input.mask.logit":  # see test_rates
            torch.testing.assert_close(found[name], expected[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("mixture", "decodings"), [(1, 1), (2, 1), (2, 2)])
def test_value_and_gradients_are_those_of_the_enumeration(mixture, decodings):
    check_value_and_weights(mixture, decodings, nodes=40 if mixture == 1 else 10)


def without_own(eta, components):
    """The mixture of the other components only."""
    others = Normals(components.mean[..., 1:, :, :], components.log_variance[..., 1:, :, :])
    return log_mixture(eta, others)


def beta_on_everything(nll, excess, beta):
    return beta * bound(nll, excess, 1.0)


@pytest.mark.parametrize(
    ("name", "variant"), [("log_mixture", without_own), ("bound", beta_on_everything)]
)
def test_a_broken_bound_is_caught(name, variant, monkeypatch):
    monkeypatch.setattr(variational, name, variant)
    with pytest.raises(AssertionError):
        check_value_and_weights(2, nodes=10)


def limit(net, nodes):
    """E f with the mixture of all eight masks in place of h."""
    z, p = stacks(net.input.mask.keep, 1)
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    keep = net.input.mask.keep[:3]
    a = (z[:, 0] / 3**0.5 / keep) @ net.input.weight[:3] + net.input.linear.bias
    mean, log_variance = net.encoder(torch.tanh(a)).unbind(-1)  # (8,)
    h = MixtureSameFamily(Categorical(p), Normal(mean, torch.exp(log_variance / 2)))
    total = 0.0
    for one, weight in zip(x, w / w.sum(), strict=True):
        eta = mean + torch.exp(log_variance / 2) * one
        g = net.output(torch.tanh(net.decoder(eta[:, None])))
        nll = -torch.log_softmax(g, -1)[:, :3].sum(1)
        f = nll + h.log_prob(eta) - Normal(0.0, 1.0).log_prob(eta)
        total += weight * float((p * f).sum())
    return total


def test_more_masks_lower_the_bound_to_that_of_the_whole_mixture():
    with torch.no_grad():
        values = [float(exact(network(mixture), 1.0, 40)) for mixture in (1, 2, 3, 4)]
        end = limit(network(1), 40)
    gaps = np.array(values) - end
    assert (gaps > 0).all()
    assert (np.diff(values) < 0).all()
    # log of a mean of V + 1 has a bias of order 1/(V + 1)
    assert gaps[3] < 0.45 * gaps[0]
    assert gaps[3] / gaps[2] == pytest.approx(3 / 4, rel=0.1)


@pytest.mark.parametrize("mixture", [1, 2, 3])
def test_without_dropping_the_divergence_is_the_closed_form(mixture):
    net = network(mixture)
    with torch.no_grad():
        net.input.mask.logit.fill_(60.0)  # keep is 1
        ours, no_beta = (float(estimate(net, beta, 40)) for beta in (0.7, 0.0))
        unit = torch.tensor([[3**-0.5] * 3 + [0.0]], dtype=torch.float64)
        posterior = net._encode(net.input.dense(unit))
        assert ours - no_beta == pytest.approx(0.7 * float(divergence(posterior)), rel=1e-8)


def test_the_divergence_is_that_of_torch():
    mean, log_variance = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    found = divergence(Normals(mean, log_variance))
    q = Independent(Normal(mean, torch.exp(log_variance / 2)), 1)
    p = Independent(Normal(torch.zeros(3), torch.ones(3)), 1)
    torch.testing.assert_close(found, torch.distributions.kl_divergence(q, p))


def test_the_number_of_decodings_does_not_change_the_expectation():
    one, two = network(2, 1), network(2, 2)
    torch.testing.assert_close(exact(one, BETA, 12), exact(two, BETA, 12), rtol=1e-4, atol=0)
    torch.testing.assert_close(estimate(one, BETA, 12), estimate(two, BETA, 12), rtol=1e-4, atol=0)


def normals(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Normals(*torch.randn(2, *shape, generator=generator, dtype=torch.float64))


def test_the_mixture_is_that_of_torch():
    components = normals(3, 4, 5)  # (V + 1, B, D)
    eta = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scale = torch.exp(components.log_variance / 2)
    mixture = MixtureSameFamily(
        Categorical(torch.ones(4, 3)),
        Independent(Normal(components.mean.transpose(0, 1), scale.transpose(0, 1)), 1),
    )
    torch.testing.assert_close(log_mixture(eta, components), mixture.log_prob(eta))
    standard = Independent(Normal(torch.zeros(5), torch.ones(5)), 1)
    torch.testing.assert_close(log_standard_normal(eta), standard.log_prob(eta).double())


def test_the_learned_prior_is_a_mixture_of_posteriors():
    components = normals(6, 5)  # (K, D)
    eta = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mixture = MixtureSameFamily(
        Categorical(torch.ones(6)),
        Independent(Normal(components.mean, torch.exp(components.log_variance / 2)), 1),
    )
    torch.testing.assert_close(VampPrior.log_density(eta, components), mixture.log_prob(eta))


def test_the_flow_has_the_density_of_its_jacobian():
    flow = AutoregressiveFlow(4, steps=2, hidden=7).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.normal_(generator=generator)
    eta = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    bent, log_scale = flow(eta)
    for row in range(3):
        jacobian = torch.autograd.functional.jacobian(lambda one: flow(one)[0], eta[row])
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, log_scale[row])
    one_step = AutoregressiveFlow(4, steps=1, hidden=7).double()
    one_step.load_state_dict({k: v for k, v in flow.state_dict().items() if ".1." not in k})
    jacobian = torch.autograd.functional.jacobian(lambda one: one_step(one)[0].flip(-1), eta[0])
    assert torch.equal(jacobian.triu(1), torch.zeros(4, 4, dtype=torch.float64))
    assert (jacobian.tril(-1).abs() > 1e-4).sum() == 6  # and uses all that it may
    assert bent.shape == (3, 4)


def test_the_bound_of_a_linear_model_is_its_evidence():
    """Probabilistic PCA: x ~ N(wη, s²I), η ~ N(0, 1). At the true posterior the bound is tight."""
    w = torch.tensor([0.5, -1.2, 2.0], dtype=torch.float64)
    x = torch.tensor([1.0, 0.3, -0.4], dtype=torch.float64)
    noise = 0.7
    precision = 1 + w @ w / noise**2
    posterior = Normals(
        (w @ x / noise**2 / precision).view(1, 1, 1), -precision.log().view(1, 1, 1)
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(10)
    total = 0.0
    for one, weight in zip(nodes, weights / weights.sum(), strict=True):
        eta = posterior.at(torch.full((1, 1, 1), one, dtype=torch.float64))
        nll = -Normal(eta[0, 0, 0] * w, noise).log_prob(x).sum().view(1, 1)
        excess = log_mixture(eta, posterior) - log_standard_normal(eta)
        total += weight * float(bound(nll, excess, 1.0))
    covariance = torch.outer(w, w) + noise**2 * torch.eye(3, dtype=torch.float64)
    evidence = torch.distributions.MultivariateNormal(torch.zeros(3).double(), covariance)
    assert total == pytest.approx(-float(evidence.log_prob(x)), rel=1e-10)


def test_the_flow_and_the_learned_prior_enter_the_bound():
    """With masks fixed: log q of the bent η falls by Σ log s, and the prior is the mixture."""
    for prior, posterior in itertools.product(("normal", "vamp"), ("gaussian", "iaf")):
        if (prior, posterior) == ("vamp", "iaf"):
            continue
        net = variational.VariationalNetwork(
            4, 3, 2, None, prior=prior, posterior=posterior, pseudo_inputs=5
        ).double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_(generator=generator)
        x = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0]]).double()
        rows = variational.SparseRows(torch.tensor([0, 2, 0, 1, 2]), torch.tensor([0, 2, 2, 5]), 4)
        epsilon = torch.randn(1, 3, 2, generator=generator, dtype=torch.float64)
        found = net(rows, variational.StepNoise((), epsilon, torch.zeros(3)), BETA)
        unit = x / x.norm(dim=1, keepdim=True).clamp(min=1e-9)
        mean, log_variance = net.encoder(torch.tanh(net.input.dense(unit))).chunk(2, -1)
        q = Independent(Normal(mean, torch.exp(log_variance / 2)), 1)
        eta = mean + torch.exp(log_variance / 2) * epsilon[0]
        log_q = q.log_prob(eta)
        if net.flow is not None:
            eta, log_scale = net.flow(eta)
            log_q = log_q - log_scale
        if net.prior is not None:
            a, b = net.encoder(torch.tanh(net.input.dense(net.prior.inputs))).chunk(2, -1)
            parts = Independent(Normal(a, torch.exp(b / 2)), 1)
            log_p = MixtureSameFamily(Categorical(torch.ones(5)), parts).log_prob(eta)
        else:
            log_p = Normal(0.0, 1.0).log_prob(eta).sum(-1)
        g = net.output(torch.tanh(net.decoder(eta)))
        nll = -(torch.log_softmax(g, -1) * x).sum(1)
        excess = log_q - log_p
        if net.flow is None and net.prior is None:  # the closed form
            excess = torch.distributions.kl_divergence(
                q, Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
            )
        torch.testing.assert_close(found, nll + BETA * excess)
