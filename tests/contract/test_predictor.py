"""A prepared predictor gives what `predict` gives, whatever has happened to the network."""

import copy
import gc
import pickle
import threading
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from dubio.draws.prepared import MOST_TAPES
from dubio.likelihoods import Categorical
from networks import CASES, build
from references import seeded

SHAREABLE = [name for name, case in CASES.items() if case.shareable]
WAYS = [(name, False) for name in CASES] + [(name, True) for name in SHAREABLE]
X = torch.randn(4, 6, generator=seeded(1))
SCALE = 1.0
SETTINGS = {"scale": 1.0}


class Config:
    """Settings as attributes of a class."""

    scale = 1.0


class Options:
    """Settings as attributes of an object."""

    def __init__(self) -> None:
        self.scale = 1.0


CONFIG, NAMESPACE = Options(), SimpleNamespace(scale=1.0)
FACTOR = torch.tensor(1.0)


def scaled(x: Tensor) -> Tensor:
    return x * SCALE


class Changeable(nn.Module):
    """Reads what may change from many places."""

    bias = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 20), nn.Linear(20, 3), nn.Dropout(0.3)
        self.factor = 1.0
        self.factors = [1.0, [1.0]]
        self.options = {"factor": 1.0}
        self.fixed = torch.ones(3)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("shift", torch.zeros(3))
        self.activation = torch.relu
        self.rate = {"scale": 1.0}.get

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.activation(self.a(x) * self.factor) * self.factors[0])
        h = scaled(self.b(h)) * self.factors[1][0] * self.options["factor"] * SETTINGS["scale"]
        h = h * self.rate("scale") * Config.scale * CONFIG.scale * NAMESPACE.scale * FACTOR
        return h * self.fixed * float(self.scale) + self.shift + self.bias


def check(
    predictor: dubio.Predictor, network: Callable[..., Any], x: Any, seed: int = 0, **options: Any
) -> Tensor:
    """Compare one call with `predict`."""
    draws = predictor(x, seeded(seed)).draws
    torch.testing.assert_close(
        draws, dubio.predict(network, x, draws=5, generator=seeded(seed), **options).draws
    )
    return draws


@pytest.mark.parametrize(("name", "shared"), WAYS)
def test_a_predictor_gives_what_predict_gives(name: str, shared: bool) -> None:
    network, x = build(name, 7)
    options: dict[str, Any] = {"shared": shared, "select": CASES[name].select}
    predictor = dubio.Predictor(network, draws=5, **options)
    first = check(predictor, network, x.clone(), **options)
    for seed, batch in enumerate((x * 0.5, x[:3], -x)):
        check(predictor, network, batch, seed, **options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.1)
    changed = check(predictor, network, x.clone(), **options)
    assert not torch.equal(changed, first)
    assert torch.equal(predictor(x.clone(), seeded()).draws, changed)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.taped])
def test_a_taped_network_runs_once(name: str) -> None:
    network, x = build(name, 7)
    predictor = dubio.Predictor(network, draws=5, select=CASES[name].select)
    expected = predictor(x.clone(), seeded()).draws
    predictor(x.clone(), seeded())  # where flags are read, this is tried out twice

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a module is called")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "_call_impl", refuse)
        assert torch.equal(predictor(x.clone(), seeded()).draws, expected)


def _replace(network: Changeable) -> None:
    network.b = nn.Linear(20, 3)


def _load(network: Changeable) -> None:
    torch.manual_seed(5)
    network.load_state_dict({name: torch.randn_like(t) for name, t in network.state_dict().items()})


def _assign(network: Changeable) -> None:
    torch.manual_seed(5)
    state = {name: torch.randn_like(t) for name, t in network.state_dict().items()}
    network.load_state_dict(state, assign=True)


def _set(name: str, value: Any) -> Callable[[Changeable], None]:
    return lambda network: setattr(network, name, value)


CHANGES: dict[str, Callable[[Changeable], object]] = {
    "weight": lambda network: network.a.weight.data.mul_(2),
    "bias, by an optimizer": lambda network: torch.optim.SGD(
        [_with_gradient(network.b.bias)], lr=1.0
    ).step(),
    "other storage": lambda network: setattr(network.b.weight, "data", torch.randn(3, 20)),
    "buffer": lambda network: network.shift.add_(1.0),  # type: ignore[operator]
    "new buffer": _set("shift", torch.ones(3)),
    "state dict": _load,
    "state dict, assigned": _assign,
    "submodule": _replace,
    "rate": lambda network: setattr(network.drop, "p", 0.9),
    "other dropout": _set("drop", nn.Dropout1d(0.3)),
    "attribute": _set("factor", 3.0),
    "tensor attribute": _set("fixed", torch.full((3,), 2.0)),
    "tensor attribute, in place": lambda network: network.fixed.add_(1.0),
    "list": lambda network: network.factors.__setitem__(0, 3.0),
    "list in a list": lambda network: network.factors[1].__setitem__(0, 3.0),  # type: ignore[index]
    "dict": lambda network: network.options.update(factor=3.0),
    "number read from a parameter": lambda network: network.scale.data.add_(1.0),
    "function": _set("activation", torch.tanh),
    "dict behind a method": lambda network: network.rate.__self__.update(scale=3.0),
    "forward": _set("forward", lambda x: F.dropout(x[:, :3], 0.5)),
    "forward hook": lambda network: network.b.register_forward_hook(lambda m, i, o: o + 1),
    "forward pre-hook": lambda network: network.a.register_forward_pre_hook(
        lambda m, i: (i[0] + 1,)
    ),
    "removed bias": lambda network: setattr(network.a, "bias", None),
    "precision": lambda network: network.double().float().half().float(),
}


def _with_gradient(parameter: nn.Parameter) -> nn.Parameter:
    parameter.grad = torch.ones_like(parameter)
    return parameter


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_network_are_seen(change: str) -> None:
    torch.manual_seed(0)
    network, x = Changeable(), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    before = check(predictor, network, x)
    with torch.no_grad():
        CHANGES[change](network)
    after = check(predictor, network, x)
    assert not torch.equal(before, after)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (None, "SCALE", 3.0),
        (None, "FACTOR", torch.tensor(3.0)),
        (SETTINGS, "scale", 3.0),
        (Changeable, "bias", 3.0),
        (Config, "scale", 3.0),
        (CONFIG, "scale", 3.0),
        (NAMESPACE, "scale", 3.0),
    ],
)
def test_changes_around_the_network_are_seen(
    where: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network, x = Changeable(), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    before = check(predictor, network, x)
    if where is None or isinstance(where, dict):
        monkeypatch.setitem(globals() if where is None else where, name, value)
    else:
        monkeypatch.setattr(where, name, value)
    assert not torch.equal(check(predictor, network, x), before)


def test_an_equal_tensor_is_another_tensor() -> None:
    network, x = Changeable(), torch.randn(7, 6)
    network.fixed = torch.ones(1)
    predictor = dubio.Predictor(network, draws=5)
    assert check(predictor, network, x).dtype == torch.float32
    network.fixed = torch.ones(1, dtype=torch.float64)
    assert check(predictor, network, x).dtype == torch.float64


def test_an_equal_number_of_another_type_is_another_number() -> None:
    class Typed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor: float = 2

        def forward(self, x: Tensor) -> Tensor:
            return F.dropout((torch.ones(3, dtype=torch.int64) * self.factor / 4 * x).to(x.dtype))

    network, x = Typed(), torch.randn(7, 3)
    predictor = dubio.Predictor(network, draws=5)
    check(predictor, network, x)
    network.factor = 2.0
    assert not predictor._prepared._structure.same()  # type: ignore[union-attr]
    check(predictor, network, x)


def test_modes_and_gradients_are_no_change() -> None:
    torch.manual_seed(0)
    network, x = nn.Sequential(nn.Linear(6, 9), nn.Dropout(0.5), nn.Linear(9, 3)), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    expected = check(predictor, network, x)
    for change in (network.eval, network.train, lambda: network.requires_grad_(False)):
        change()
        assert torch.equal(check(predictor, network, x.clone().requires_grad_()), expected)
    with torch.inference_mode():
        assert torch.equal(predictor(x, seeded()).draws, expected)
    assert all(module.training for module in network.modules())


class Remembering(nn.Module):
    """Counts calls in an attribute, and answers by the count."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.calls = nn.Linear(6, 3), nn.Dropout(0.5), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.drop(self.a(x)) * self.calls


def test_a_network_that_changes_itself_runs_at_every_call() -> None:
    network, x = Remembering(), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    ones = [predictor(x, seeded()).draws / (k + 1) for k in range(5)]
    assert network.calls == 5
    for draws in ones[1:]:
        torch.testing.assert_close(draws, ones[0])


class Reading(nn.Module):
    """Branches on a value of the inputs."""

    def __init__(self, read: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 3), nn.Linear(6, 3), nn.Dropout(0.5)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.a(x) if self.read(x) else self.b(x))


READS: dict[str, Callable[[Tensor], bool]] = {
    "bool": lambda x: bool(x.sum() > 0),
    "item": lambda x: x[0, 0].item() > 0,
    "list": lambda x: x.tolist()[0][0] > 0,
    "numpy": lambda x: x.numpy()[0, 0] > 0,
    "array": lambda x: numpy.asarray(x)[0, 0] > 0,
    "shape": lambda x: len(x[:, 0][x[:, 0] > 0]) > 3,
    "equality": lambda x: torch.equal(x, x.abs()),
}


@pytest.mark.parametrize("read", READS)
def test_values_of_the_inputs_that_python_reads(read: str) -> None:
    torch.manual_seed(0)
    network, x = Reading(READS[read]), torch.rand(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    for batch in (x, -x, x):
        check(predictor, network, batch)


class Cached(nn.Module):
    """Keeps something in an array, which cannot be looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.factor = nn.Linear(6, 3), nn.Dropout(0.5), numpy.ones(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.a(x)) * float(self.factor[0])


def test_what_cannot_be_looked_into_is_asked_every_time() -> None:
    network, x = Cached(), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    before = check(predictor, network, x)
    network.factor[0] = 2.0
    torch.testing.assert_close(check(predictor, network, x), 2 * before)


class Hidden(nn.Module):
    """Uses a tensor that it keeps where nobody looks: in a module of the standard library."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.a(x)) * threading.hidden_factor  # type: ignore[attr-defined]


def test_tensors_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = Hidden(), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    for factor in (1.0, 2.0, 3.0):
        monkeypatch.setattr(threading, "hidden_factor", torch.tensor(factor), raising=False)
        check(predictor, network, x)


class Written(nn.Module):
    """Writes over its inputs, over a tensor made in forward, and over a buffer."""

    def __init__(self, buffer: bool) -> None:
        super().__init__()
        self.a, self.drop, self.buffer = nn.Linear(6, 3), nn.Dropout(0.5), buffer
        self.register_buffer("sum", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2.0)
        made = torch.tensor([1.0, 2.0, 3.0])
        made += x.mean()
        if self.buffer:
            self.sum[:3] += 1.0
        return self.drop(self.a(x + self.sum)) * made


@pytest.mark.parametrize("buffer", [False, True])
def test_tensors_that_are_written_over(buffer: bool) -> None:
    network, x = Written(buffer), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    twin, kept = Written(buffer), x.clone()
    twin.load_state_dict(network.state_dict())
    for seed in range(4):
        draws = predictor(x, seeded(seed)).draws
        expected = dubio.predict(twin, x, draws=5, generator=seeded(seed)).draws
        torch.testing.assert_close(draws, expected)
    assert torch.equal(x, kept)
    assert torch.equal(network.sum, twin.sum)  # type: ignore[arg-type]


class TwoInputs(nn.Module):
    """Two inputs and an option."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        return self.drop(self.a(x) + scale * self.a(y.flatten(1)))


def test_inputs_of_any_form() -> None:
    network = TwoInputs()
    predictor = dubio.Predictor(network, draws=5)
    x, y = torch.randn(7, 6), torch.randn(7, 6)
    batches: list[Any] = [
        (x, x), (x, y), (y, x), (x, y, 2.0), (x, y, 3.0), {"x": x, "y": y}, {"y": x, "x": y},
        (x, y.view(7, 2, 3)), (x, y.t().contiguous().t()), (x, y.view(7, 2, 3).mT.contiguous().mT),
    ]  # fmt: skip
    for batch in batches * 2:
        check(predictor, network, batch)


def test_a_function_of_networks() -> None:
    network, other = nn.Linear(6, 3), nn.Linear(6, 3)
    weights = {"first": 1.0}

    def model(x: Tensor) -> Tensor:
        return F.dropout(network(x) * weights["first"], 0.5)

    x = torch.randn(7, 6)
    predictor = dubio.Predictor(model, draws=5)
    first = check(predictor, model, x)
    weights["first"] = 2.0
    torch.testing.assert_close(check(predictor, model, x), 2 * first)
    network = other
    check(predictor, model, x)


OWN: dict[str, Callable[[], nn.Module]] = {
    "masked": lambda: dubio.Masked(nn.Linear(6, 3), dubio.masks.LearnableBernoulli(6)),
    "concrete": lambda: dubio.Masked(nn.Linear(6, 3), dubio.masks.Concrete(6)),
    "gaussian": lambda: dubio.Masked(nn.Linear(6, 3), dubio.masks.Gaussian(6)),
    "bayesian": lambda: dubio.BayesLinear(6, 3),
    "drop connect": lambda: dubio.DropConnect(nn.Linear(6, 3), dubio.masks.Bernoulli(1, drop=0.3)),
    "exact linear": lambda: dubio.decide.ExactLinear(6, 3),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_layers_of_dubio(name: str, shared: bool) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), OWN[name](), nn.Tanh())
    x = torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5, shared=shared)
    for seed in range(3):
        draws = check(predictor, network, x * (seed + 1), seed, shared=shared)
    noise = predictor.noise(x * 3, seeded(2))
    assert torch.equal(predictor(x * 3, noise=noise).draws, draws)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.data.add_(0.1)  # no version of the parameter tells
    check(predictor, network, x, shared=shared)


@pytest.mark.parametrize(("name", "shared"), WAYS)
def test_the_noise_of_a_call_is_a_value(name: str, shared: bool) -> None:
    network, x = build(name, 7)
    predictor = dubio.Predictor(network, draws=5, shared=shared, select=CASES[name].select)
    if name in ("own noise", "gaussian noise") or (name == "packed lstm" and shared):
        with pytest.raises(ValueError, match=r"noise: expected .* got .*; use a generator"):
            predictor.noise(x.clone(), seeded(3))
        return
    noise = predictor.noise(x.clone(), seeded(3))
    assert all(len(numbers) == 5 for numbers in noise.values())
    assert set(noise) == {site.name for site in dubio.sites(network, x.clone())}
    draws = predictor(x.clone(), seeded(3)).draws
    assert torch.equal(predictor(x.clone(), noise=noise).draws, draws)
    other = {site: numbers.flip(0) for site, numbers in noise.items()}
    torch.testing.assert_close(predictor(x.clone(), noise=other).draws, draws.flip(0))


def test_masks_are_zeros_and_ones() -> None:
    network = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Dropout(0.25))
    x = torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    noise = predictor.noise(x)
    assert {name: mask.shape for name, mask in noise.items()} == {"1": (5, 7, 4), "2": (5, 7, 4)}
    assert all(set(mask.unique().tolist()) == {0.0, 1.0} for mask in noise.values())
    expected = network[0](x) * noise["1"] * 2 * noise["2"] / 0.75
    torch.testing.assert_close(predictor(x, noise=noise).draws, expected.detach())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda noise: {}, r"noise: expected tensors for '1', got none; take"),
        (lambda noise: {"2": noise["1"]}, r"noise: expected tensors for '1', got '2'; take"),
        (lambda noise: {"1": 3.0}, r"noise\['1'\]: expected a tensor, got float; take"),
        (lambda noise: {"1": noise["1"][:4]}, r"expected shape \(5, 7, 4\), .* got \(4, 7, 4\)"),
        (lambda noise: {"1": noise["1"].double()}, r"expected .*float32, .* got .*float64"),
    ],
)
def test_noise_that_does_not_fit(change: Callable[[Any], Any], message: str) -> None:
    network, x = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5)), torch.randn(7, 6)
    predictor = dubio.Predictor(network, draws=5)
    with pytest.raises((ValueError, TypeError), match=message):
        predictor(x, noise=change(predictor.noise(x)))


def test_inputs_that_make_no_sense_are_refused_at_every_call() -> None:
    network, x = build("mlp", 7)
    predictor = dubio.Predictor(network, draws=5)
    check(predictor, network, x)
    with pytest.raises(ValueError, match="got NaN in 1 of 42 entries, first in row 2"):
        predictor(torch.where(torch.arange(42).view(7, 6) == 13, torch.nan, x))
    with pytest.raises(ValueError, match="expected a batch with at least one row"):
        predictor(x[:0])
    with pytest.raises(dubio.NoSitesError):
        dubio.Predictor(nn.Linear(6, 3))(x)
    infinite = torch.full_like(x, torch.inf)
    with pytest.warns(RuntimeWarning, match="in 7 of 7 rows, first in row 0"):
        assert predictor(infinite, seeded()).draws.shape == (5, 7, 3)


def test_a_likelihood_and_a_loader() -> None:
    network, x = build("mlp", 7)
    predictor = dubio.Predictor(network, draws=5, likelihood=Categorical())
    expected = dubio.predict(network, x, draws=5, likelihood=Categorical(), generator=seeded())
    torch.testing.assert_close(predictor(x, seeded()).mean, expected.mean)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=3)
    loaded = dubio.predict(network, batches, draws=5, likelihood=Categorical(), generator=seeded())
    torch.testing.assert_close(predictor(batches, seeded()).mean, loaded.mean)


def test_mixed_precision_is_another_form() -> None:
    network, x = build("mlp", 7)
    predictor = dubio.Predictor(network, draws=5)
    full = check(predictor, network, x)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            assert check(predictor, network, x).dtype == torch.bfloat16
        assert torch.equal(check(predictor, network, x), full)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_chunks_do_not_matter(chunk: int) -> None:
    network, x = build("residual", 7)
    whole, parts = (dubio.Predictor(network, draws=5, chunk=c) for c in (None, chunk))
    for _ in range(3):
        torch.testing.assert_close(parts(x, seeded(1)).draws, whole(x, seeded(1)).draws)


@pytest.mark.parametrize("shared", [False, True])
def test_hundreds_of_requests_take_no_more_memory_than_a_few(shared: bool) -> None:
    network, x = build("mlp", 50)
    predictor = dubio.Predictor(network, draws=5, shared=shared)

    def ask(times: int) -> None:
        for k in range(times):
            predictor(x[: 1 + k * k % 23], seeded(k))

    ask(120)
    assert len(predictor._prepared._recordings) == MOST_TAPES
    gc.collect()
    before = len(gc.get_objects())
    tracemalloc.start()
    try:
        ask(50)
        gc.collect()
        start, _ = tracemalloc.get_traced_memory()
        ask(300)
        gc.collect()
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert end - start < 120_000
    assert len(gc.get_objects()) - before < 300


@pytest.mark.parametrize("name", ["mlp", "guarded", "gated module", "data dependent"])
def test_threads_share_a_predictor(name: str) -> None:
    network, x = build(name, 7)
    network.train()
    predictor = dubio.Predictor(network, draws=5)
    expected = {
        (rows, seed): dubio.predict(network, x[:rows], draws=5, generator=seeded(seed)).draws
        for rows in (2, 5, 7)
        for seed in range(3)
    }
    problems: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                for (rows, seed), draws in expected.items():
                    found = predictor(x[:rows], seeded(seed)).draws
                    torch.testing.assert_close(found, draws)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    assert all(module.training for module in network.modules())


@pytest.mark.parametrize("where", [None, "2", nn.Dropout, ["0", "2"], "the module"])
@pytest.mark.parametrize("pickled", [False, True])
def test_copies_of_a_predictor(where: Any, pickled: bool) -> None:
    """They have a network of their own, and nothing recorded."""
    network, x = nn.Sequential(*(nn.Dropout(0.5), nn.Linear(6, 9), nn.Dropout(0.5))), X
    chosen = network[2] if where == "the module" else where
    predictor = dubio.Predictor(network, draws=5, where=chosen, likelihood=Categorical())
    expected = predictor(x, seeded()).draws
    copied = pickle.loads(pickle.dumps(predictor)) if pickled else copy.deepcopy(predictor)
    assert torch.equal(copied(x, seeded()).draws, expected)
    with torch.no_grad():
        network[1].weight.zero_()  # type: ignore[union-attr, operator]
    assert torch.equal(copied(x, seeded()).draws, expected)
    assert not torch.equal(predictor(x, seeded()).draws, expected)
