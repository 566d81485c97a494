"""Pruning and freezing against their definitions."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import BayesLinear
from dubio.likelihoods import Categorical


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(BayesLinear(6, 8), nn.ReLU(), BayesLinear(8, 3, bias=False))
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.rho.add_(torch.randn(layer.rho.shape, generator=seeded()))
    return net


def ratios(net: nn.Sequential) -> Tensor:
    parts = []
    for layer in (net[0], net[2]):
        mean = torch.cat([p.detach().flatten() for p in layer.layer.parameters()])
        parts.append(mean.abs() / nn.functional.softplus(layer.rho.detach()))
    return torch.cat(parts)


def weights(net: nn.Sequential) -> Tensor:
    layers = (net[0].layer, net[2].layer)
    return torch.cat([p.detach().flatten() for layer in layers for p in layer.parameters()])


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.9, 1.0])
def test_the_lowest_ratios_go(fraction: float) -> None:
    net = build()
    before, ranked = weights(net), ratios(net).argsort()
    table = dubio.prune(net, fraction)
    count = round(fraction * len(before))
    after = weights(net)
    assert (after[ranked[:count]] == 0).all()
    assert torch.equal(after[ranked[count:]], before[ranked[count:]])
    assert table.share == pytest.approx(1 - count / len(before))
    assert [row.name for row in table] == ["0.weight", "0.bias", "2.weight"]


def test_per_layer() -> None:
    net = build()
    table = dubio.prune(net, 0.5, per_layer=True)
    left = [sum(row.kept for row in table if row.name[0] == name) for name in "02"]
    assert left == [28, 12]


def test_pruned_weights_are_zero_in_every_draw_and_stay_so() -> None:
    net = build()
    dubio.prune(net, 0.7)
    gone = torch.cat([~net[0].kept, ~net[2].kept])
    elbo = dubio.ELBO(net, Categorical(), 10)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    x, y = torch.randn(10, 6), torch.arange(10) % 3
    for _ in range(3):
        optimizer.zero_grad()
        elbo(x, y).backward()
        for layer in (net[0], net[2]):
            assert (layer.rho.grad[~layer.kept] == 0).all()
        optimizer.step()
    sampled = dubio.freeze(net, "sample", generator=seeded())
    flat = torch.cat([p.detach().flatten() for p in sampled.parameters()])
    assert torch.equal(flat == 0, gone)
    assert torch.equal(dubio.freeze(net)(x), net.eval()(x))
    assert net[0].means()["weight"].count_nonzero() == net[0].kept[:48].sum()


def test_momentum_from_before_does_not_move_them() -> None:
    net = build()
    elbo = dubio.ELBO(net, Categorical(), 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x, y = torch.randn(10, 6), torch.arange(10) % 3
    for step in range(4):
        if step == 2:
            dubio.prune(net, 0.5)
        optimizer.zero_grad()
        elbo(x, y).backward()
        optimizer.step()
    frozen = dubio.freeze(net)
    flat = torch.cat([p.detach().flatten() for p in frozen.parameters()])
    assert torch.equal(flat == 0, torch.cat([~net[0].kept, ~net[2].kept]))
    torch.testing.assert_close(frozen(x), net.eval()(x))


def test_who_reads_the_weights_does_not_see_them_either() -> None:
    """In eval mode a block of a Transformer hands the weights of its layers to one function."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = dubio.convert(block, dubio.rules.bayes())
    x, y = torch.randn(3, 5, 8), torch.zeros(3, 5, 8)
    elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1.0), 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        if step == 1:
            dubio.prune(net, 0.7)
        optimizer.zero_grad()
        elbo(x, y).backward()
        optimizer.step()
    moved = net.linear1.layer.weight.flatten()[~net.linear1.kept[:128]]
    assert moved.abs().max() > 0
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(x), dubio.freeze(net).eval()(x))
    assert torch.equal(net.linear1.weight, net.linear1.means()["weight"])
    assert net.linear1.weight is net.linear1.layer.weight


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "norm", [nn.utils.parametrizations.weight_norm, nn.utils.weight_norm], ids=["new", "old"]
)
def test_computed_weights_are_refused(norm: Any) -> None:
    net = nn.Sequential(dubio.Bayesian(norm(nn.Linear(4, 4))))
    with pytest.raises(ValueError, match="0: expected weights that can be zero one by one"):
        dubio.prune(net, 0.5)


def test_pruned_weights_have_no_part_in_the_divergence() -> None:
    net = build()
    dubio.prune(net, 0.4)
    expected = 0.0
    for layer in (net[0], net[2]):
        mean = torch.cat([p.detach().flatten() for p in layer.layer.parameters()])[layer.kept]
        q = torch.distributions.Normal(mean, nn.functional.softplus(layer.rho.detach())[layer.kept])
        p = torch.distributions.Normal(0.0, 1.0)
        expected += float(torch.distributions.kl_divergence(q, p).sum())
    assert float(dubio.kl(net).detach()) == pytest.approx(expected, rel=1e-5)
    dubio.prune(net, 1.0)
    assert float(dubio.kl(net).detach()) == 0


def test_again_goes_on_from_what_is_left() -> None:
    once, twice = build(), build()
    dubio.prune(once, 0.8)
    dubio.prune(twice, 0.3)
    assert str(dubio.prune(twice, 0.8)) == str(dubio.prune(once, 0.2))  # nothing comes back
    for k in (0, 2):
        assert torch.equal(once[k].kept, twice[k].kept)


def test_predictions_are_those_of_the_smaller_network() -> None:
    net = build()
    x = torch.randn(5, 6)
    dubio.prune(net, 0.5)
    found = dubio.predict(net, x, draws=4, generator=seeded()).draws
    noise = dubio.Noise(4, generator=seeded())
    for k in range(4):
        with torch.no_grad(), noise[k]:
            torch.testing.assert_close(net(x), found[k])


def test_table() -> None:
    net = build()
    lines = str(dubio.prune(net, 0.5)).splitlines()
    assert lines[0].split() == ["weights", "kept", "of", "share"]
    assert lines[-1].split() == ["all", "40", "80", "50.0%"]


def test_sparse_weights_fit_the_frozen_network() -> None:
    net = build()
    dubio.prune(net, 0.9)
    sparse = dubio.sparse_weights(net)
    assert sum(tensor._nnz() for tensor in sparse.values()) == 8
    with torch.no_grad():
        net[0].layer.weight.zero_()  # as a mean may be
    assert dubio.sparse_weights(net)["0.weight"]._nnz() == net[0].kept[:48].sum()
    net[0].layer.weight.data.copy_(sparse["0.weight"].to_dense())
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))
    plain.load_state_dict(sparse.dense())
    x = torch.randn(5, 6)
    assert torch.equal(plain(x), net.eval()(x))


def test_sparse_weights_take_less_memory_and_give_the_same() -> None:
    """With a fifth of the weights left: 2/5 of the bytes for values and columns, and the rows."""
    net = nn.Sequential(dubio.BayesConv2d(4, 50, 5), nn.Flatten(), BayesLinear(50 * 16, 100))
    dubio.prune(net, 0.8, per_layer=True)
    sparse = dubio.sparse_weights(net)
    frozen = dubio.freeze(net)
    dense = sum(weight.nbytes for weight in frozen.state_dict().values())
    rows = 50 + 1 + 100 + 1 + 2 + 2
    weights = sum(tensor._nnz() for tensor in sparse.values())
    assert sparse.nbytes == weights * (4 + 4) + rows * 4
    assert sparse.nbytes < 0.42 * dense
    for matrix in sparse.values():
        assert matrix.layout == torch.sparse_csr
        assert matrix.crow_indices().dtype == matrix.col_indices().dtype == torch.int32

    for name, weight in sparse.dense().items():
        assert torch.equal(weight, frozen.state_dict()[name])
    x = torch.randn(3, 4, 8, 8)
    h = frozen[:2](x)
    bias = sparse["2.bias"].to_dense()
    torch.testing.assert_close((sparse["2.weight"] @ h.T).T + bias, frozen(x), rtol=1e-4, atol=1e-5)


class TestFreeze:
    def test_mean(self) -> None:
        """Not a random draw: twice the same, and what eval mode gives."""
        net = build()
        before = copy.deepcopy(net.state_dict())
        x = torch.randn(5, 6)
        plain = dubio.freeze(net)
        assert [type(m) for m in plain] == [nn.Linear, nn.ReLU, nn.Linear]
        assert torch.equal(plain(x), net.eval()(x))
        assert torch.equal(plain(x), dubio.freeze(net, "mean")(x))
        for name, value in net.state_dict().items():
            assert torch.equal(value, before[name])

    def test_sample(self) -> None:
        """Means and spreads over 500 draws of 72 weights.

        |z| < 6.2 is passed but for chances below 1e-6. A spread has the relative error
        1/√(2·500) = 3.2 %; six of them are 19 %.
        """
        net = build()
        generator = seeded()
        draws = torch.stack(
            [weights_of(dubio.freeze(net, "sample", generator=generator)) for _ in range(500)]
        )
        sigma = nn.functional.softplus(torch.cat([net[0].rho, net[2].rho]).detach())
        z = (draws.mean(0) - weights(net)) / sigma * 500**0.5
        assert z.abs().max() < 6.2
        assert (draws.std(0) / sigma - 1).abs().max() < 0.2
        again = dubio.freeze(net, "sample", generator=seeded())
        assert torch.equal(weights_of(again), draws[0])

    def test_layers_in_other_layers_and_tied_ones(self) -> None:
        layer = BayesLinear(4, 4)
        net = nn.ModuleDict({"one": nn.Sequential(layer, nn.ReLU()), "two": layer})
        plain = dubio.freeze(net)
        assert plain["one"][0] is plain["two"]
        assert type(dubio.freeze(layer)) is nn.Linear


def weights_of(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"fraction: expected a share between 0 and 1, got 1.5"):
        dubio.prune(build(), 1.5)
    with pytest.raises(ValueError, match="fraction: expected a share between 0 and 1, got 'a'"):
        dubio.prune(build(), "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a network with Bayesian layers, got Linear"):
        dubio.prune(nn.Linear(3, 2), 0.5)
    with pytest.raises(ValueError, match="expected a network with Bayesian layers"):
        dubio.freeze(nn.Linear(3, 2))
    with pytest.raises(ValueError, match="mode: expected 'mean' or 'sample', got 'map'"):
        dubio.freeze(build(), "map")  # type: ignore[arg-type]


def test_most_weights_of_a_trained_network_can_go() -> None:
    """A small network on digits: nine tenths of the weights go for at most .3 points."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32) / 16
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=seeded())
    train, test = order[:1300], order[1300:]
    torch.manual_seed(0)
    prior = dubio.priors.Laplace(0.1)
    net = nn.Sequential(
        BayesLinear(64, 100, prior=prior, sampler="local"), nn.ReLU(),
        BayesLinear(100, 10, prior=prior, sampler="local"),
    )  # fmt: skip
    elbo = dubio.ELBO(net, Categorical(), len(train), generator=seeded())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, fused=True)
    for step in range(400):
        rows = train[torch.randint(len(train), (256,), generator=seeded(step))]
        optimizer.zero_grad()
        elbo(x[rows], y[rows]).backward()
        optimizer.step()

    def accuracy() -> float:
        with torch.no_grad():
            return float((net.eval()(x[test]).argmax(-1) == y[test]).double().mean())

    before = accuracy()
    dubio.prune(net, 0.9)
    assert before > 0.94
    assert accuracy() >= before - 0.003
