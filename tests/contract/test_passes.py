"""What several passes of the objective share, and what they leave as it was."""

import copy
from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dubio
from dubio import ELBO, Masked
from dubio.likelihoods import Categorical
from dubio.masks import Concrete, Gaussian, LearnableBernoulli
from dubio.objectives.estimators import Estimator
from estimator_cases import CASES, every_estimator


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(rows: int = 8) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 6, generator=seeded(1)), torch.randint(3, (rows,), generator=seeded(2))


@every_estimator
def test_the_trunk_is_computed_once(estimator: Estimator) -> None:
    """Matrix products are counted where they are carried out, below the interceptor."""
    calls: Counter[tuple[int, ...]] = Counter()

    class Noting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.ops.aten.addmm.default:
                calls[tuple(args[2].shape)] += 1
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(
        nn.Linear(6, 7), nn.ReLU(), nn.Dropout(0.3), nn.Linear(7, 5), nn.ReLU(inplace=True),
        Masked(nn.Linear(5, 3), LearnableBernoulli(5)),
    )  # fmt: skip
    elbo = ELBO(net, Categorical(), 100, estimator=estimator)
    elbo(*data())  # once, a batch of this shape is looked at for its rows
    with Noting():
        elbo(*data())
    assert calls == {(6, 7): 1, (7, 5): 1, (5, 3): CASES[estimator].passes}


@every_estimator
def test_a_trunk_that_is_written_over_is_computed_again(estimator: Estimator) -> None:
    """The tensor before the mask is changed in place behind it."""

    class Overwriting(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.second = Masked(nn.Linear(6, 3), LearnableBernoulli(6, drop=0.4))
            self.inplace = inplace

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            out = self.second(h.relu())
            h = h.add_(1.0) if self.inplace else h + 1.0
            return out * h.sum(1, keepdim=True).sigmoid()

    torch.manual_seed(0)
    net = Overwriting(inplace=True)
    plain = Overwriting(inplace=False)
    plain.load_state_dict(net.state_dict())
    found = []
    for model in (net, plain):
        ELBO(model, Categorical(), 9, estimator=estimator, generator=seeded())(*data()).backward()
        found.append([p.grad for p in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@every_estimator
def test_gradients_do_not_depend_on_the_reuse(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        Masked(nn.Linear(6, 7), Concrete(6)), nn.Tanh(), nn.Dropout(0.3),
        Masked(nn.Linear(7, 5), LearnableBernoulli(7, drop=0.4)), nn.Dropout(0.2),
        Masked(nn.Linear(5, 3), LearnableBernoulli(1, drop=0.4)),
    )  # fmt: skip

    def gradients() -> list[Tensor]:
        generator = torch.Generator()
        elbo = ELBO(net, Categorical(), 50, estimator=estimator, generator=generator)
        elbo(*data())  # from now on it is known that there is a trunk
        generator.manual_seed(3)
        return list(torch.autograd.grad(elbo(*data()), list(net.parameters())))

    reused = gradients()
    monkeypatch.setattr("dubio.objectives.passes.TrunkMemory.intact", False)
    for one, other in zip(reused, gradients(), strict=True):
        torch.testing.assert_close(one, other)


@every_estimator
def test_batch_normalisation_counts_a_batch_once(estimator: Estimator) -> None:
    torch.manual_seed(0)
    norms = [nn.BatchNorm1d(6), nn.BatchNorm1d(5)]
    net = nn.Sequential(
        norms[0], Masked(nn.Linear(6, 5), LearnableBernoulli(6)), norms[1], nn.Linear(5, 3)
    )
    once = copy.deepcopy(net)
    ELBO(net, Categorical(), 9, estimator=estimator, generator=seeded())(*data()).backward()
    ELBO(once, Categorical(), 9, estimator="trapezoid_once", generator=seeded())(*data())
    for one, other in zip(net.buffers(), once.buffers(), strict=True):
        torch.testing.assert_close(one, other)
    assert norms[1].num_batches_tracked == 1


@every_estimator
def test_a_mask_that_is_used_twice(estimator: Estimator) -> None:
    """A tied layer: the same mask in both calls."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Masked(nn.Linear(6, 6), LearnableBernoulli(6, drop=0.5))
            self.last = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.layer(F.relu(self.layer(x))))

    elbo = ELBO(Twice(), Categorical(), 9, estimator=estimator)
    elbo(*data()).backward()
    for name, parameter in elbo.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@every_estimator
def test_recurrent_and_time_first_networks(estimator: Estimator) -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = Masked(nn.LSTM(6, 5), LearnableBernoulli(6, drop=0.4))
            self.last = Masked(nn.Linear(5, 3), LearnableBernoulli(5, drop=0.4))

        def forward(self, x: Tensor) -> Tensor:
            _, (h, _) = self.rnn(x.transpose(0, 1))
            return self.last(h[-1])

    x = torch.randn(8, 4, 6, generator=seeded(1))
    elbo = ELBO(Classifier(), Categorical(), 9, estimator=estimator)
    elbo(x, data()[1]).backward()
    for name, parameter in elbo.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_frozen_rates_need_one_pass() -> None:
    net = nn.Sequential(Masked(nn.Linear(6, 3), LearnableBernoulli(6)))
    net[0].mask.requires_grad_(False)
    seen = []
    net.register_forward_hook(lambda *_: seen.append(1))
    ELBO(net, Categorical(), 9)(*data())
    assert len(seen) == 1


def test_half_precision_does_not_round_the_rates() -> None:
    """In bfloat16 a uniform number has 8 bits: a rate of 0.001 would never drop, or too often."""
    mask = LearnableBernoulli(1, drop=0.001).to(torch.bfloat16)
    mask.logit = nn.Parameter(mask.logit.float())
    out = mask(torch.ones(200_000, 10, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16
    share = float((out == 0).float().mean())
    assert share == pytest.approx(0.001, abs=5.1 * (0.001 / 2e6) ** 0.5)  # false alarms: 4e-7


def test_a_fixed_gaussian_rate_stays_fixed() -> None:
    mask = Gaussian(3, learn=False)
    assert not list(mask.requires_grad_(True).parameters())
    assert "logit" in mask.state_dict()


@pytest.mark.parametrize("estimator", ["trapezoid", "arm", "disarm", "reinforce_loo"])
def test_a_pair_in_one_pass_is_the_pair_in_two(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows twice, where rows never meet: the same losses, and the same gradients."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(6, 7), nn.LayerNorm(7), Masked(nn.Linear(7, 6), LearnableBernoulli(7, drop=0.4)),
        nn.Tanh(), Masked(nn.Linear(6, 6), Concrete(6)), dubio.BayesLinear(6, 5, sampler="local"),
        Masked(nn.Linear(5, 3), LearnableBernoulli(1, drop=0.4)),
    ).double()  # fmt: skip
    x, y = data()

    def loss_and_gradients() -> list[Tensor]:
        elbo = ELBO(net, Categorical(), 50, estimator=estimator, generator=seeded(3))
        loss = elbo(x.double(), y)
        return [loss, *torch.autograd.grad(loss, list(net.parameters()))]

    rows: list[int] = []
    net[0].register_forward_hook(lambda module, args, output: rows.append(len(output)))
    hooked = loss_and_gradients()  # of hooks nothing is known
    net[0]._forward_hooks.clear()
    assert max(rows) == len(x)
    together = loss_and_gradients()
    monkeypatch.setattr("dubio.objectives.elbo.rows_stay_apart", lambda modules: False)
    apart = loss_and_gradients()
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(hooked, apart, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(6), nn.LayerNorm((8, 6)), nn.Softmax(0), nn.Dropout(0.5)]
)
def test_rows_that_may_meet_are_not_doubled(layer: nn.Module) -> None:
    seen: list[int] = []

    class Noting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return x

    for net in (
        nn.Sequential(Masked(nn.Linear(6, 6), LearnableBernoulli(6)), layer, nn.Linear(6, 3)),
        nn.Sequential(Masked(nn.Linear(6, 3), LearnableBernoulli(6)), Noting()),
    ):
        hook = net.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
        ELBO(net, Categorical(), 9)(*data())
        hook.remove()
        net_without_hook = ELBO(net, Categorical(), 9)
        net_without_hook(*data())
        assert not net_without_hook._parts.apart
    assert set(seen) == {len(data()[0])}
