"""What does not fit into a population is refused, with a word on what to do."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dubio
from alone import MEMBERS, N, data, objectives


def elbo(model: nn.Module, num_data: int = N, **options: Any) -> dubio.ELBO:
    return dubio.ELBO(model, dubio.likelihoods.Gaussian(1.0), num_data, **options)


def learnable(estimator: Any) -> dubio.ELBO:
    mask = dubio.masks.LearnableBernoulli(drop=0.2)
    return elbo(dubio.Masked(nn.Linear(4, 1), mask), estimator=estimator)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cells = kind(4, 3, batch_first=True)
        self.last = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.cells(x[:, None])[0][:, -1])


same = elbo(nn.Linear(4, 1))
layer = nn.Linear(4, 1)
noise = dubio.likelihoods.LearnedGaussian(1.0)
MEMBERS_THAT_DO_NOT_FIT: dict[str, tuple[Callable[[], list[Any]], str]] = {
    "none": (list, "expected at least one"),
    "functions": (lambda: [torch.sin], "expected at least one nn.Module"),
    "one twice": (lambda: [same, same], "expected each once"),
    "shapes": (
        lambda: [elbo(nn.Linear(4, 1)), elbo(nn.Linear(5, 1))],
        r"model\.weight as .* member 1",
    ),
    "modules": (
        lambda: [elbo(nn.Sequential(nn.Linear(4, 1), a())) for a in (nn.ReLU, nn.Tanh)],
        r"model\.1 \(module\)",
    ),
    "settings": (
        lambda: [elbo(nn.Linear(4, 1), shared=s) for s in (False, True)],
        "_shared as False in member 0 and True in member 1",
    ),
    "batch norm": (
        lambda: [elbo(nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1)))],
        "use LayerNorm or GroupNorm",
    ),
    "no parameters": (lambda: [elbo(nn.ReLU())], "expected parameters that require a gradient"),
    "one layer twice": (
        lambda: [elbo(nn.Sequential(layer)) for _ in range(2)],
        r"model\.0\.weight of member 1 in member 0 too; make a copy .* copy\.deepcopy",
    ),
    "one likelihood twice": (
        lambda: [dubio.ELBO(nn.Linear(4, 1), noise, N) for _ in range(2)],
        r"likelihood\.\S* of member 1 in member 0 too",
    ),
    "lstm": (lambda: [elbo(Recurrent(nn.LSTM)) for _ in range(2)], r"model\.cells \(LSTM\)"),
    "gru": (lambda: [elbo(Recurrent(nn.GRU))], r"recurrent layers one by one with dubio\.fit"),
    "estimator": (lambda: [learnable("arm")], "expected the estimator 'trapezoid'"),
}


def hooked(add: Callable[[nn.Sequential], object]) -> dubio.ELBO:
    network = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    add(network)
    return elbo(network)


def scale_output(factor: float, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * factor


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * self.factor


def count_arguments(module: nn.Module, *others: Any) -> Any:
    return others[-1] * len(others)


def refer_to_a_part(network: nn.Sequential) -> None:
    network[1].register_forward_hook(lambda m, args, out: out * network[0].weight.sum())


def wrap_forward(network: nn.Sequential) -> None:
    forward = network.forward
    network.forward = lambda x: 2 * forward(x)  # type: ignore[method-assign]


class Option(nn.Module):
    """A network with a further attribute, that its pass may look for."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.__dict__.update(options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * getattr(self, "scale", 1.0)


ORDERS: list[dict[str, nn.Module]] = [
    {"a": nn.Linear(4, 4), "b": nn.Tanh()},
    {"b": nn.Tanh(), "a": nn.Linear(4, 4)},
]
# (what is done to members 0 and 1, what is said)
MEMBERS_THAT_RUN_OTHERWISE: dict[str, tuple[Callable[[int], nn.Module], str]] = {
    "forward hooks": (
        lambda k: hooked(lambda net: net.register_forward_hook(lambda m, i, o: o * (1 + k))),
        r"model\.forward_hooks as .* put them into populations of their own",
    ),
    "pre-hooks": (
        lambda k: hooked(
            lambda net: net.register_forward_pre_hook(lambda m, args: (args[0] * (1 + k),))
        ),
        r"model\.forward_pre_hooks as",
    ),
    "defaults of hooks": (
        lambda k: hooked(lambda net: net.register_forward_hook(lambda m, i, o, f=1 + k: o * f)),
        r"model\.forward_hooks as",
    ),
    "objects as hooks": (
        lambda k: hooked(lambda net: net.register_forward_hook(Scale(1.0 + k))),
        r"model\.forward_hooks as",
    ),
    "partial functions as hooks": (
        lambda k: hooked(lambda net: net.register_forward_hook(partial(scale_output, 1 + k))),
        r"model\.forward_hooks as",
    ),
    "arguments of hooks": (
        lambda k: hooked(
            lambda net: net.register_forward_hook(count_arguments, with_kwargs=bool(k))
        ),
        r"model\.forward_hooks as",
    ),
    "a hook in the first": (
        lambda k: hooked(lambda net: k == 0 and net[0].register_forward_hook(count_arguments)),
        r"model\.0\.forward_hooks as .* in member 0 and nothing in member 1",
    ),
    "a hook in the second": (
        lambda k: hooked(lambda net: k == 1 and net[0].register_forward_hook(count_arguments)),
        r"model\.0\.forward_hooks as nothing in member 0 and .* in member 1",
    ),
    "hooks that refer to parts": (
        lambda k: hooked(refer_to_a_part),
        r"model\.1\.forward_hooks in member 0, which refers to model, even.*make it a method",
    ),
    "other forwards": (lambda k: hooked(wrap_forward), r"model\.forward in member 0, which refers"),
    "defaults of functions": (
        lambda k: elbo(nn.Linear(4, 1), select=lambda out, factor=1 + k: out * factor),
        "select as",
    ),
    "an attribute in the second": (
        lambda k: elbo(Option(scale=3.0) if k else Option()),
        r"model\.scale as nothing in member 0 and 3\.0 in member 1",
    ),
    "arrays": (lambda k: elbo(Option(scale=np.ones(2) + k)), r"model\.scale as array"),
    "networks out of sight": (
        lambda k: elbo(Option(teacher=nn.Linear(1, 1))),
        r"model\.teacher as Linear",
    ),
    "orders": (
        lambda k: elbo(nn.Sequential(nn.Sequential(OrderedDict(ORDERS[k])), nn.Linear(4, 1))),
        r"expected modules in one order, got model\.0\.a .* in member 0 where model\.0\.b",
    ),
}


@pytest.mark.parametrize("case", MEMBERS_THAT_RUN_OTHERWISE)
def test_members_that_run_otherwise(case: str) -> None:
    build, message = MEMBERS_THAT_RUN_OTHERWISE[case]
    with pytest.raises(ValueError, match=message):
        dubio.Population([build(0), build(1)])


@pytest.mark.parametrize("case", MEMBERS_THAT_DO_NOT_FIT)
def test_members(case: str) -> None:
    build, message = MEMBERS_THAT_DO_NOT_FIT[case]
    with pytest.raises((TypeError, ValueError), match=message):
        dubio.Population(build())


def test_members_may_share_what_does_not_learn() -> None:
    x, y = data()
    frozen, known = nn.Linear(4, 4).requires_grad_(False), dubio.likelihoods.Gaussian(3.0)
    before = frozen.weight.clone()
    networks = [nn.Sequential(frozen, nn.Linear(4, 1)) for _ in range(2)]
    dubio.Population([dubio.ELBO(net, known, N) for net in networks]).fit(x, y, steps=2)
    assert torch.equal(frozen.weight, before)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_seeds(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"seeds\[1\]: expected an int of at least 0, got"):
        dubio.Population(objectives("plain"), [0, seed, 2])


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({"steps": None}, "steps, epochs: expected one of them"),
    "both": ({"epochs": 2}, "steps, epochs: expected one of them"),
    "steps": ({"steps": 0}, "steps: expected an int of at least 1, got 0"),
    "part of a step": ({"steps": 1.5}, "steps: expected an int"),
    "batch size": ({"batch_size": True}, "batch_size: expected an int"),
    "rates": ({"learning_rate": [1e-3] * 2}, "one for each of 3 members"),
    "negative rate": ({"learning_rate": -1.0}, "learning_rate: expected a positive number"),
    "rows": ({"rows": torch.arange(N).expand(2, N)}, "rows for each of 3 members"),
    "rows beyond": ({"rows": torch.full((3, N), N)}, "whole numbers from 0 to 59"),
    "num_data": ({"rows": torch.arange(30).expand(3, 30)}, r"members\[0\]\.num_data: expected 30"),
    "patience": ({"patience": 3}, "expected together with validation_rows"),
    "nan": ({"y": torch.full((N, 1), torch.nan)}, "y: expected numbers, got NaN"),
    "lengths": ({"y": torch.ones(3, 1)}, "y: expected 60 rows"),
    "dtype": (
        {"x": torch.ones(N, 4).float()},
        r"x: expected torch\.float64, as members",
    ),
    "list": ({"x": [[1.0] * 4] * N}, "x: expected a tensor"),
    "shape of targets": ({"y": torch.ones(N)}, "y: expected shape"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_of_fit(case: str) -> None:
    changed, message = ARGUMENTS[case]
    x, y = data()
    with pytest.raises((TypeError, ValueError), match=message):
        dubio.Population(objectives("plain")).fit(**{"x": x, "y": y, "steps": 2, **changed})


def test_counts_of_numpy() -> None:
    x, y = data()
    population = dubio.Population(objectives("plain"), np.arange(MEMBERS))
    outcome = population.fit(x, y, steps=np.int64(3), batch_size=np.int32(8))
    assert outcome.steps.tolist() == [3] * MEMBERS


ROWS: dict[str, tuple[Any, str]] = {
    "too few": (torch.arange(N).expand(2, N), "rows for each of 3 members, got 2"),
    "beyond": (torch.full((3, 2), N), "whole numbers from 0 to 59"),
    "of different lengths": ([torch.arange(n) for n in (1, 2, 3)], "as many for each member"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_of_predict(case: str) -> None:
    rows, message = ROWS[case]
    with pytest.raises(ValueError, match=message):
        dubio.Population(objectives("plain")).predict(data()[0], rows=rows)


def test_inputs_of_predict() -> None:
    population = dubio.Population(objectives("plain"))
    with pytest.raises(TypeError, match="x: expected a tensor with rows first, got list"):
        population.predict([[1.0] * 4])
    with pytest.raises(TypeError, match=r"x: expected torch\.float64, as members have"):
        population.ensemble(data()[0].float())


def _by_sign(output: torch.Tensor) -> torch.Tensor:
    return output if output.sum() > 0 else -output


ONE_BY_ONE: dict[str, tuple[Callable[[int], nn.Module], str]] = {
    "draws": (lambda m: elbo(nn.Linear(4, 1), draws=1 + m), "(ELBO).*differ in _draws"),
    "alpha dropout": (
        lambda m: elbo(nn.Sequential(nn.AlphaDropout(0.1 + 0.1 * m), nn.Linear(4, 1))),
        r"model\.0 \(AlphaDropout\).*differ in model\.0\.p\.",
    ),
    "rrelu": (
        lambda m: elbo(nn.Sequential(nn.RReLU(), nn.Linear(4, 1))),
        r"model\.0 \(RReLU\) failed .*differ in no number.*one by one with dubio\.fit",
    ),
    "values": (lambda m: elbo(nn.Linear(4, 1), select=_by_sign), "branch on tensor values"),
}


@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_what_works_only_alone_is_named(case: str) -> None:
    build, message = ONE_BY_ONE[case]
    x, y = data()
    with pytest.raises(NotImplementedError, match=message) as caught:
        dubio.Population([build(m) for m in range(MEMBERS)]).fit(x, y, steps=2)
    assert caught.value.__cause__ is not None


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.in_place = in_place
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.calls = self.calls.add_(1) if self.in_place else self.calls + 1
        return self.layer(x)


@pytest.mark.parametrize("in_place", [False, True])
def test_buffers_that_change_are_refused(in_place: bool) -> None:
    x, y = data()
    population = dubio.Population([elbo(Counting(in_place=in_place)) for _ in range(2)])
    assert len(population.predict(x)) == 2  # which changes none
    with pytest.raises(ValueError, match=r"got model\.calls, which a pass has changed"):
        population.fit(x, y, steps=2)


class Keeping(nn.Module):
    """Computes with what it has kept of the pass before."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.kind = kind
        self.average, self.table = torch.zeros(()), {"calls": 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "average":
            self.average = 0.5 * self.average + x.mean()
        else:
            self.table["calls"] += 1
        return self.layer(x) + self.average + self.table["calls"]


@pytest.mark.parametrize(
    ("kind", "what"), [("average", r"model\.average"), ("table", "something inside")]
)
def test_state_that_members_would_lose_is_refused(kind: str, what: str) -> None:
    x, y = data()
    population = dubio.Population([elbo(Keeping(kind)) for _ in range(2)])
    with pytest.raises(ValueError, match=f"in a second pass, which has changed {what}"):
        population.fit(x, y, steps=2)


HOOKS: dict[str, Callable[[nn.Linear], object]] = {
    "gradient": lambda layer: layer.weight.register_hook(torch.zeros_like),
    "accumulation": lambda layer: layer.weight.register_post_accumulate_grad_hook(print),
    "module": lambda layer: layer.register_full_backward_hook(print),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_on_gradients_are_refused(kind: str) -> None:
    x, y = data()
    members = [elbo(nn.Linear(4, 1)) for _ in range(2)]
    HOOKS[kind](members[1].model)
    with pytest.raises(ValueError, match=r"members\[1\]: expected no hooks .* one on model"):
        dubio.Population(members).fit(x, y, steps=2)


def test_losses_of_rows_are_refused() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (self.net(x) - y).square()

    x, y = data()
    with pytest.raises(TypeError, match=r"expected a loss of shape \(\), got shape \(60, 1\)"):
        dubio.Population([Rows()]).fit(x, y, steps=1, batch_size=N)


def test_random_numbers_of_the_networks_own_are_refused() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x + torch.randn_like(x))

    x, y = data()
    with pytest.raises(NotImplementedError, match="draws other random numbers"):
        dubio.Population([elbo(Own())]).fit(x, y, steps=1)
