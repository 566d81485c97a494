"""What several passes of the objective share, and what they leave as it was."""

import copy
from collections import Counter
from collections.abc import Callable

import numpy
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


class Careless(nn.Module):
    """Masks are in front of weights that are zero, so that the loss is that of one plain pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.last = Masked(nn.Linear(6, 3), LearnableBernoulli(6, drop=0.5))
        self.register_buffer("mean", torch.zeros(6))
        self.plain = torch.zeros(6)
        self.calls = 0
        self.history: list[Tensor] = []
        self.table = {"calls": 0}
        self.note = Note()
        self.array = numpy.zeros(1)
        nn.init.zeros_(self.last.layer.weight)

    def out(self, h: Tensor, x: Tensor) -> Tensor:
        return self.last(h) + h[:, :3] + x[:, 3:]


class Note:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


def writes_input(self: Careless, x: Tensor) -> Tensor:
    x.sub_(1.0)
    return self.out(torch.tanh(self.first(x)), x)


def writes_column(self: Careless, x: Tensor) -> Tensor:
    x[:, 0] += 5.0
    return self.out(torch.tanh(self.first(x)), x)


def writes_view(self: Careless, x: Tensor) -> Tensor:
    x.view(-1).narrow(0, 3, 2).mul_(3.0)
    return self.out(torch.tanh(self.first(x)), x)


def writes_where_masked(self: Careless, x: Tensor) -> Tensor:
    x.masked_fill_(x > 0, 2.0)
    return self.out(torch.tanh(self.first(x)), x)


def writes_output(self: Careless, x: Tensor) -> Tensor:
    torch.add(x, 1.0, out=x)
    return self.out(torch.tanh(self.first(x)), x)


def rectifies_in_place(self: Careless, x: Tensor) -> Tensor:
    return self.out(torch.tanh(self.first(F.relu(x, inplace=True))), x)


def writes_data_of_input(self: Careless, x: Tensor) -> Tensor:
    x.data.sub_(1.0)
    return self.out(torch.tanh(self.first(x)), x)


def writes_by_numpy(self: Careless, x: Tensor) -> Tensor:
    x.numpy()[:] -= 1.0
    return self.out(torch.tanh(self.first(x)), x)


def writes_data_behind_the_mask(self: Careless, x: Tensor) -> Tensor:
    h = torch.tanh(self.first(x))
    masked = self.last(h)
    h.detach().data.mul_(2.0)
    return masked + h[:, :3].detach()


def writes_buffer(self: Careless, x: Tensor) -> Tensor:
    self.mean.copy_(x.mean(0))  # as reversible normalisation does
    return self.out(torch.tanh(self.first(x - self.mean)), x + self.mean)


def writes_data_of_buffer(self: Careless, x: Tensor) -> Tensor:
    self.mean.data.add_(x.mean(0))
    return self.out(torch.tanh(self.first(x)), x + self.mean)


def replaces_buffer(self: Careless, x: Tensor) -> Tensor:
    self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
    return self.out(torch.tanh(self.first(x)), x + self.mean)


def writes_attribute(self: Careless, x: Tensor) -> Tensor:
    self.plain.lerp_(x.mean(0), 0.5)
    return self.out(torch.tanh(self.first(x)) * self.plain.exp(), x)


def replaces_attribute(self: Careless, x: Tensor) -> Tensor:
    self.plain = 0.5 * self.plain + 0.5 * x.mean(0)
    return self.out(torch.tanh(self.first(x)), x + self.plain)


def counts(self: Careless, x: Tensor) -> Tensor:
    self.calls += 1
    return self.out(torch.tanh(self.first(x)), self.calls * x)


def makes_attribute(self: Careless, x: Tensor) -> Tensor:
    self.made = getattr(self, "made", 0) + 1
    return self.out(torch.tanh(self.first(x)), self.made * x)


def fills_list(self: Careless, x: Tensor) -> Tensor:
    self.history.append(x.mean(0))
    return self.out(torch.tanh(self.first(x)), x + torch.stack(self.history).sum(0))


def counts_in_a_dict(self: Careless, x: Tensor) -> Tensor:
    self.table["calls"] += 1
    return self.out(torch.tanh(self.first(x)), self.table["calls"] * x)


def counts_in_a_slot(self: Careless, x: Tensor) -> Tensor:
    self.note.calls += 1
    return self.out(torch.tanh(self.first(x)), self.note.calls * x)


def counts_in_an_array(self: Careless, x: Tensor) -> Tensor:
    self.array += 1
    return self.out(torch.tanh(self.first(x)), float(self.array[0]) * x)


def writes_weights(self: Careless, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.first.weight.mul_(0.9)
    return self.out(torch.tanh(self.first(x)), x)


def writes_data_of_weights(self: Careless, x: Tensor) -> Tensor:
    self.first.weight.data.mul_(0.9)
    return self.out(torch.tanh(self.first(x)), x)


def starts_late(self: Careless, x: Tensor) -> Tensor:
    self.calls += 1
    if self.calls == 3:
        self.mean.add_(torch.arange(6))
        self.plain.add_(torch.arange(6))
    return self.out(torch.tanh(self.first(x)), x + self.mean + self.plain)


CARELESS = [
    writes_input, writes_column, writes_view, writes_where_masked, writes_output,
    rectifies_in_place, writes_data_of_input, writes_by_numpy, writes_data_behind_the_mask,
    writes_buffer, writes_data_of_buffer, replaces_buffer, writes_attribute, replaces_attribute,
    counts, makes_attribute, fills_list, counts_in_a_dict, counts_in_a_slot, counts_in_an_array,
    writes_weights, writes_data_of_weights, starts_late,
]  # fmt: skip


def state(net: Careless) -> list[Tensor]:
    numbers = [net.calls, getattr(net, "made", 0), net.table["calls"], net.note.calls]
    found = [*net.state_dict().values(), net.plain, *net.history, torch.from_numpy(net.array)]
    return [*found, torch.tensor(numbers)]


@every_estimator
@pytest.mark.parametrize("forward", CARELESS)
def test_all_passes_of_a_step_start_from_one_state(
    forward: Callable[[Careless, Tensor], Tensor], estimator: Estimator
) -> None:
    """Losses, gradients and what is kept are those of one plain pass in every step."""
    torch.manual_seed(0)
    net = type("Net", (Careless,), {"forward": forward})()
    plain, (x, y) = copy.deepcopy(net), data()
    elbo = ELBO(net, Categorical(), 9, kl_weight=0.0, estimator=estimator)
    for step in range(5):
        given = x + step
        expected = F.cross_entropy(plain(given.clone()), y)
        loss = elbo(given, y)
        assert torch.equal(given, x + step)
        torch.testing.assert_close(loss, expected)
        for model, value in ((net, loss), (plain, expected)):
            model.zero_grad()
            value.backward()
        torch.testing.assert_close(net.first.weight.grad, plain.first.weight.grad)
        rates = net.last.mask.logit.grad
        assert rates is None or float(rates.abs().max()) < 1e-6
        for one, other in zip(state(net), state(plain), strict=True):
            torch.testing.assert_close(one, other)


@every_estimator
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("draws", [1, 2])
def test_what_depends_on_masks_is_kept_of_the_first_pass(
    estimator: Estimator, in_place: bool, draws: int
) -> None:
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Masked(nn.Linear(6, 3), LearnableBernoulli(6, drop=0.5))
            self.average = torch.zeros(3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.layer(x)
            mean = h.detach().mean(0)
            self.average = self.average.lerp_(mean, 0.5) if in_place else (self.average + mean) / 2
            return h * self.average.exp()

    torch.manual_seed(0)
    net = Averaging()
    once = copy.deepcopy(net)
    for _ in range(3):
        for model, kind in ((net, estimator), (once, "trapezoid_once")):
            elbo = ELBO(model, Categorical(), 9, draws=draws, estimator=kind, generator=seeded(3))
            elbo(*data()).backward()
        torch.testing.assert_close(net.average, once.average)


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
    mask = Gaussian(3)
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
