"""Whether a mask of one row acts on the loss of another, over many kinds of networks.

Where it does, the unbiased estimators must weigh each mask by the loss of the whole batch. An
estimator that is made for the purpose asks for a weighted sum over rows, whose shape tells.
"""

import copy
import itertools
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dubio.layers.masked import Masked
from dubio.likelihoods import Bernoulli, Categorical, Gaussian
from dubio.masks import LearnableBernoulli
from dubio.objectives import estimators
from dubio.objectives.elbo import ELBO
from dubio.objectives.passes import Passes
from estimator_cases import every_unbiased_estimator

WIDTH = 4
SIZES = (2, 3, 64, 1024, 8192)


class Asked:
    """What was found out in every step: whether rows meet."""

    def __init__(self) -> None:
        self.found: list[bool] = []

    def estimator(self, passes: Passes) -> Tensor:
        losses = passes.first(estimators._BITS)
        for mask, site in passes.sites.items():
            (noise,), (request,) = site.noises, site.requests
            total = passes.sum_over_rows(mask, torch.ones_like(losses), noise)
            self.found.append(total.shape[request.rows] == len(losses))
        return losses.mean()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setitem(estimators.ESTIMATORS, "asked", asked.estimator)
    return asked


class Network(nn.Module):
    """Masked inputs, and a function of what becomes of them."""

    def __init__(self, function: Callable[["Network", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.masked = Masked(nn.Linear(WIDTH, WIDTH), LearnableBernoulli(WIDTH, drop=0.3))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.closed = nn.BatchNorm1d(WIDTH)
        nn.init.zeros_(self.closed.weight)
        self.gate = nn.Parameter(torch.zeros(()))
        self.attention = nn.MultiheadAttention(WIDTH, 2)
        self.register_buffer("average", torch.zeros(WIDTH))
        self.between = nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.masked(x))


def objective(function: Callable[[Network, Tensor], Tensor], likelihood: Any = None) -> ELBO:
    elbo = ELBO(Network(function), likelihood or Gaussian(1.0), 10)
    elbo.estimator = "asked"  # type: ignore[assignment]
    return elbo


def step(elbo: ELBO, rows: int = 6, dtype: torch.dtype = torch.float32, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, WIDTH, dtype=dtype, generator=generator)
    elbo(x, torch.zeros(rows, WIDTH, dtype=dtype)).backward()


def _assigned(net: Network, h: Tensor) -> Tensor:
    out = torch.empty_like(h)
    out[0] = h[0]
    out[1:] = h[1:] - h[:1]
    return out


def _kept(net: Network, h: Tensor) -> Tensor:
    net.average.copy_(0.9 * net.average + 0.1 * h.detach().mean(0))
    return h - net.average


def _second_half(net: Network, h: Tensor) -> Tensor:
    first, second = h[: len(h) // 2], h[len(h) // 2 :]
    return torch.cat([first, second - second.detach().sum(0) - h[:1].detach()])


def _by_numpy(net: Network, h: Tensor) -> Tensor:
    return h * float(numpy.tanh(h.detach().numpy()).mean())


def _over_memory(net: Network, h: Tensor) -> Tensor:
    out = torch.zeros(len(h), 1)
    out.numpy()[:] = h.detach().numpy().sum(0).sum()
    return h + out


MEET: dict[str, Callable[[Network, Tensor], Tensor]] = {
    "batch normalisation": lambda net, h: net.norm(h),
    "batch normalisation of maps": lambda net, h: F.batch_norm(
        h.view(-1, 2, 2, 1), None, None, training=True
    ).flatten(1),
    "batch normalisation that is closed": lambda net, h: h + net.closed(h),
    "statistics of batch normalisation": lambda net, h: h - (net.norm(h), net.norm.running_mean)[1],
    "a moving average": _kept,
    "the mean": lambda net, h: h - h.mean(0),
    "a very small part of the mean": lambda net, h: h - 1e-9 * h.mean(0),
    "nothing of the mean": lambda net, h: h - 0.0 * h.mean(0),
    "a gate that is closed": lambda net, h: h + net.gate * h.mean(0),
    "without a gradient": lambda net, h: h - h.detach().mean(0),
    "through data": lambda net, h: h - h.data.mean(0),
    "softmax over rows": lambda net, h: h.softmax(0),
    "cumulative": lambda net, h: h.cumsum(0),
    "attention among rows": lambda net, h: net.attention(h, h, h, need_weights=False)[0],
    "products of rows": lambda net, h: (h @ h.T).softmax(1) @ h,
    "einsum": lambda net, h: torch.einsum("ij,kj->ik", h, h).sum(1, keepdim=True) + h,
    "distances": lambda net, h: h + torch.cdist(h, h).amin(1, keepdim=True),
    "rank": lambda net, h: h * h.argsort(0).argsort(0),
    "sorted": lambda net, h: h.sort(0).values,
    "argmax": lambda net, h: h + h[h[:, 0].argmax()].detach(),
    "counts": lambda net, h: h + (h > 0).long().unique(dim=0).shape[0],
    "positive ones": lambda net, h: h + len(h[h > 0]),
    "a comparison": lambda net, h: h + (h.roll(1, 0) > 0),
    "neighbours": lambda net, h: h + h.roll(1, 0),
    "turned around": lambda net, h: h.flip(0),
    "scattered": lambda net, h: h.scatter_add(0, (h > 0).long(), h.detach()),
    "in blocks": lambda net, h: torch.cat([part - part.mean(0) for part in h.split(4)]) + h[:1],
    "the second half": _second_half,
    "views": lambda net, h: h.view(-1)[: 2 * WIDTH].view(2, WIDTH).sum(0) + h,
    "views that overlap": lambda net, h: h.view(-1).unfold(0, WIDTH + 1, WIDTH - 1)[:1, :1] + h,
    "in place": lambda net, h: h.clone().sub_(h.mean(0)),
    "in place of a view": lambda net, h: (z := h.clone(), z[1:].add_(h[:-1]))[0],
    "assigned": _assigned,
    "an index": lambda net, h: h[torch.arange(len(h)).flip(0)],
    "Python sees a number": lambda net, h: h * float(h.detach().mean()),
    "Python branches": lambda net, h: h + 1 if h.mean() > 0 else h - 1,
    "Python sees a list": lambda net, h: h + max(h.detach()[:, 0].tolist()),
    "made of numbers": lambda net, h: h * torch.tensor([h.detach().mean()] * WIDTH),
    "numpy": _by_numpy,
    "numpy in place": _over_memory,
    "time first": lambda net, h: net.norm(h.view(-1, 2, 2).transpose(0, 1).flatten(1).view_as(h)),
    "one convolution over rows": lambda net, h: F.conv1d(
        h.T[None], h.new_ones(WIDTH, WIDTH, 3), padding=1
    )[0].T,
    "complex": lambda net, h: torch.view_as_real(torch.fft.fft(h, dim=0))[..., 0],
}  # fmt: skip

APART: dict[str, Callable[[Network, Tensor], Tensor]] = {
    "a function": lambda net, h: F.gelu(h.tanh() * 2 + net.gate),
    "layers": lambda net, h: net.between(F.leaky_relu(net.between(h))),
    "layer normalisation": lambda net, h: F.layer_norm(h, (WIDTH,)),
    "root mean square": lambda net, h: F.rms_norm(h, (WIDTH,)),
    "group normalisation": lambda net, h: F.group_norm(h, 2),
    "instance normalisation": lambda net, h: F.instance_norm(h.view(-1, 2, 2)).flatten(1),
    "unit length": lambda net, h: F.normalize(h),
    "softmax": lambda net, h: h.softmax(-1) * h.log_softmax(1),
    "centred by itself": lambda net, h: (h - h.mean(1, keepdim=True)) / (1 + h.std(1)[:, None]),
    "largest first": lambda net, h: h.sort(1).values + h.topk(1).values,
    "one hot": lambda net, h: h * torch.zeros_like(h).scatter_(1, h.argmax(1, keepdim=True), 1.0),
    "gathered": lambda net, h: h + h.gather(1, h.argsort(1)),
    "columns": lambda net, h: h[:, [1, 0, 3, 2]] + h.index_select(1, torch.tensor([3, 2, 1, 0])),
    "each its own": lambda net, h: h[torch.arange(len(h))] * 2,
    "mask by values": lambda net, h: (z := h.clone(), z.__setitem__(h < 0, 0.0))[0],
    "where": lambda net, h: torch.where(h > 0, h, h.exp()).masked_fill(h > 3, 3.0).clamp(-1, 1),
    "in place": lambda net, h: h.clone().mul_(2).add_(h).relu_(),
    "residual": lambda net, h: h + net.between(h),
    "parts": lambda net, h: torch.cat([part.tanh() for part in h.chunk(2, 1)], 1),
    "stacked": lambda net, h: torch.stack([h, h.tanh()], 1).amax(1),
    "there and back": lambda net, h: h.T.contiguous().T.flip(0).flip(0).roll(1, 0).roll(-1, 0),
    "filled": lambda net, h: (z := torch.empty_like(h), z.copy_(h))[0],
    "row by row": lambda net, h: torch.stack([net.between(row) for row in h[:4]] + [*h[4:]]),
    "padded": lambda net, h: F.pad(h, (1, 1))[:, 1:-1],
    "pixels": lambda net, h: F.max_pool2d(
        F.conv2d(h.view(-1, 1, 2, 2), h.new_ones(2, 1, 1, 1)), 2).flatten(1).repeat(1, 2),
    "a sequence of itself": lambda net, h: F.scaled_dot_product_attention(
        *[h.view(-1, 1, 2, 2)] * 3
    ).flatten(1),
    "products in itself": lambda net, h: torch.einsum("bi,bj->bij", h, h).mean(2),
    "known statistics": lambda net, h: F.batch_norm(h, net.average, net.average + 1),
    "a mean that no mask acts on": lambda net, h: h - net.between.weight.mean(0),
}  # fmt: skip


# squares of batches, and many blocks
LARGE = {"products of rows", "einsum", "attention among rows", "distances", "in blocks"}
PRECISE = {"numpy", "numpy in place", "complex", "distances", "made of numbers"}  # not in bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MEET)
def test_rows_that_meet(name: str, dtype: torch.dtype, asked: Asked) -> None:
    if dtype == torch.bfloat16 and name in PRECISE:
        pytest.skip("torch does not do that")
    for rows in SIZES if dtype == torch.float32 else (6,):
        if rows < 100 or name not in LARGE:
            step(objective(MEET[name]).to(dtype), rows, dtype)
            assert asked.found == [True], rows
            asked.found.clear()


@pytest.mark.parametrize("name", APART)
def test_rows_that_stay_apart(name: str, asked: Asked) -> None:
    for rows, dtype in itertools.product((2, 5, 1024), (torch.float32, torch.float64)):
        if name == "row by row" and rows > 5:
            continue
        elbo = objective(APART[name]).to(dtype)
        step(elbo, rows, dtype)
        assert asked.found == [False], rows
        asked.found.clear()


def test_modes_that_change(asked: Asked) -> None:
    elbo = objective(lambda net, h: net.norm(h))
    for rows in (2, 1024):
        for training, of_norm in itertools.product((False, True), repeat=2):
            elbo.train(training)
            elbo.model.norm.train(of_norm)
            step(elbo, rows)
            assert asked.found.pop() == of_norm
    elbo.model.norm.eval()
    elbo.model.norm.track_running_stats = False
    elbo.model.norm.running_mean = elbo.model.norm.running_var = None
    step(elbo)
    assert asked.found.pop()  # statistics of the batch, in eval mode as well


CALLS = {"number": 0}


def _from_the_fourth_call(net: Network, h: Tensor) -> Tensor:
    CALLS["number"] += 1
    return h - h.mean(0) if CALLS["number"] > 3 else h


CHANGES: dict[str, tuple[Callable[[Network, Tensor], Tensor], Callable[[Network], Any]]] = {
    "a gate that Python reads": (
        lambda net, h: h - h.mean(0) if net.gate > 0 else h, lambda net: net.gate.data.fill_(1.0),
    ),
    "an attribute": (
        lambda net, h: h - h.mean(0) if hasattr(net, "open") else h,
        lambda net: setattr(net, "open", True),
    ),
    "the function": (
        lambda net, h: h.tanh(), lambda net: setattr(net, "function", lambda net, h: h - h.mean(0)),
    ),
    "what is returned": (
        lambda net, h: (h.tanh(), h - h.mean(0))[int(net.gate)],
        lambda net: net.gate.data.fill_(1.0),
    ),
    "a hook": (
        lambda net, h: net.between(h),
        lambda net: net.between.register_forward_hook(lambda module, x, y: y - y.mean(0)),
    ),
    "a layer": (lambda net, h: net.between(h), lambda net: setattr(net, "between", net.norm)),
    "an index": (
        lambda net, h: h[net.average[: len(h)].long() + torch.arange(len(h))],
        lambda net: net.average.data.copy_(torch.tensor([1.0, -1.0, 0.0, 0.0])),
    ),
    "Python's dice": (
        lambda net, h: h - h.mean(0) if random.random() < 0.5 else h, lambda net: random.seed(1)
    ),
    "a global counter": (_from_the_fourth_call, lambda net: CALLS.update(number=3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_networks_that_change(name: str, asked: Asked) -> None:
    function, change = CHANGES[name]
    CALLS["number"] = 0
    random.seed(0)  # whose numbers begin with 0.84 and 0.76, those of seed 1 with 0.13
    elbo = objective(function)
    step(elbo, 4)
    step(elbo, 4)
    assert asked.found == [False, False]
    change(elbo.model)
    step(elbo, 4)
    assert asked.found[2:] == [True]


def test_a_hook_on_all_modules(asked: Asked) -> None:
    model = nn.Sequential(Masked(nn.Linear(WIDTH, WIDTH), LearnableBernoulli(WIDTH)), nn.Tanh())
    elbo = ELBO(model, Gaussian(1.0), 10)
    elbo.estimator = "asked"  # type: ignore[assignment]
    step(elbo)
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, x, y: y - y.mean(0) if isinstance(module, nn.Tanh) else None
    )
    try:
        step(elbo)
    finally:
        hook.remove()
    step(elbo)
    assert asked.found == [False, True, False]


class OfTheBatch(Gaussian):  # type: ignore[misc]
    """Targets are compared with outputs whose mean over the batch is zero."""

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        return super().log_prob(outputs - outputs.mean(1, keepdim=True), y)


class OfItself(Gaussian):  # type: ignore[misc]
    """A likelihood that is not dubio's."""


def test_losses_that_look_at_the_batch(asked: Asked) -> None:
    step(objective(lambda net, h: h, OfTheBatch(1.0)))
    step(objective(lambda net, h: h, OfItself(1.0)))
    assert asked.found == [True, False]


@pytest.mark.parametrize("estimator", ["trapezoid", "arm"])
def test_losses_that_look_at_the_batch_see_it_once(estimator: str) -> None:
    """Not all rows twice, although the network is plainly row by row."""
    seen = []

    class Seeing(OfTheBatch):  # type: ignore[misc]
        def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
            seen.append(outputs.shape[1])
            return super().log_prob(outputs, y)

    model = nn.Sequential(Masked(nn.Linear(WIDTH, WIDTH), LearnableBernoulli(WIDTH)))
    ELBO(model, Seeing(1.0), 10, estimator=estimator)(torch.randn(6, WIDTH), torch.zeros(6, WIDTH))  # type: ignore[arg-type]
    assert seen == [6, 6]


def test_checks_of_likelihoods_are_no_meetings(asked: Asked) -> None:
    elbo = objective(lambda net, h: h.sigmoid(), Bernoulli(outputs="probabilities"))
    step(elbo)
    classes = objective(lambda net, h: h.softmax(1), Categorical(outputs="probabilities"))
    classes(torch.randn(6, WIDTH), torch.zeros(6).long())
    assert asked.found == [False, False]


def test_masks_before_the_meeting_and_behind_it(asked: Asked) -> None:
    """What rows do before the first mask is no matter: no mask acts on it."""

    class Behind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(WIDTH)
            self.masked = Masked(nn.Linear(WIDTH, WIDTH), LearnableBernoulli(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return self.masked(self.norm(x) - x.mean(0))

    elbo = ELBO(Behind(), Gaussian(1.0), 10)
    elbo.estimator = "asked"  # type: ignore[assignment]
    step(elbo)
    step(elbo)
    assert asked.found == [False, False]


class Sequences(nn.Module):
    """A layer over sequences of rows."""

    def __init__(self, layer: nn.Module, rows: int) -> None:
        super().__init__()
        self.masked = Masked(layer, LearnableBernoulli(WIDTH, drop=0.3))
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None].expand(-1, 3, -1)
        x = x if self.rows == 0 else x.transpose(0, 1)
        out = (
            self.masked(x, x, x)[0]
            if isinstance(self.masked.layer, nn.MultiheadAttention)
            else (self.masked(x)[0])
        )
        return out.mean(1 - self.rows)


@pytest.mark.parametrize("first", [True, False], ids=["batch first", "time first"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, nn.MultiheadAttention])
def test_sequences_stay_apart(kind: Any, first: bool, asked: Asked) -> None:
    torch.manual_seed(0)
    other = 2 if kind is nn.MultiheadAttention else WIDTH
    for rows in (3, 5):  # also as many as there are time steps
        elbo = ELBO(
            Sequences(kind(WIDTH, other, batch_first=first), int(not first)), Gaussian(1.0), 9
        )
        elbo.estimator = "asked"  # type: ignore[assignment]
        step(elbo, rows)
    assert asked.found == [False, False]


def test_the_user_notices_nothing(asked: Asked) -> None:
    """Neither in the network nor in copies of the objective."""
    elbo = objective(lambda net, h: net.norm(h))
    calls: list[int] = []
    elbo.model.between.register_forward_hook(lambda *_: calls.append(1))
    elbo.model.function = lambda net, h: net.norm(net.between(h))
    step(elbo)
    assert len(calls) == 1
    assert int(elbo.model.norm.num_batches_tracked) == 1
    elbo.model.function = _kept  # which can be pickled
    elbo.model.between._forward_hooks.clear()
    for other in (copy.deepcopy(elbo), pickle.loads(pickle.dumps(elbo))):
        step(other)
    assert all(asked.found)


@every_unbiased_estimator
def test_a_small_part_of_the_mean_in_a_large_batch(estimator: str) -> None:
    """A row in 2,000 changes the mean by less than any tolerance, and all of them by much.

    The exact gradient is by the binomial distribution of how many rows keep the only unit. A
    t-test, false alarms below 1e-6. Masks judged by the losses of their own rows would be found:
    the gradient would lack what they do to the mean.
    """

    class Coupled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.masked = Masked(nn.Linear(1, 1, bias=False), LearnableBernoulli(1, drop=0.4))
            nn.init.ones_(self.masked.layer.weight)

        def forward(self, x: Tensor) -> Tensor:
            h = self.masked(x)
            return 1e-3 * h + (h.mean(0) - 1).expand_as(h) * 30

    rows, draws = 2000, 60
    net = Coupled().double()
    x, y = torch.ones(rows, 1).double(), torch.full((rows, 1), -2.0).double()
    logit = net.masked.mask.logit
    keep = logit.sigmoid()
    kept = torch.arange(rows + 1).double()
    log_choose = torch.lgamma(torch.tensor(rows + 1.0).double()) - (
        torch.lgamma(kept + 1) + torch.lgamma(rows - kept + 1)
    )
    p = (log_choose + kept * keep.log() + (rows - kept) * (1 - keep).log()).exp()
    mean = kept / rows / keep
    coupled = 30 * (mean - 1) + 2
    squares = coupled**2 + 2e-3 * coupled * mean + 1e-6 * mean / keep
    exact = torch.autograd.grad((p * 0.5 * squares).sum(), logit)[0]
    elbo = ELBO(
        net, Gaussian(1.0), 1, estimator=estimator, kl_weight=0.0,  # type: ignore[arg-type]
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    samples = torch.stack([torch.autograd.grad(elbo(x, y), logit)[0] for _ in range(draws)])
    error = (samples.mean(0) - exact) / (samples.std(0) / draws**0.5)
    assert float(error.abs()) < scipy.stats.t.isf(1e-6 / 16, draws - 1)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("estimator", ["trapezoid", "arm", "corrected"])
def test_a_batch_counts_once_in_every_buffer(estimator: str, replaced: bool) -> None:
    """All passes of a step begin with the same buffers; what the first leaves in them stays."""
    begun = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.masked = Masked(nn.Linear(WIDTH, WIDTH), LearnableBernoulli(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            begun.append(float(self.count))
            if replaced:
                self.count = self.count + 1
            else:
                self.count += 1
            return self.masked(x) / self.count

    net = Counting()
    elbo = ELBO(net, Gaussian(1.0), 10, estimator=estimator, draws=2)  # type: ignore[arg-type]
    for done in range(3):
        begun.clear()
        step(elbo)
        assert set(begun) == {float(done)}
        assert net.count == done + 1
