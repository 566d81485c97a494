"""Functions as models, however they hold networks; and generators, which stay where they are."""

import random
import types
import weakref
from argparse import Namespace
from collections import UserDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial, wraps
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from gated_networks import CLEAN, OutOfSight, PythonsRandom
from networks import build
from references import seeded
from snapshots import snapshot


@dataclass
class Service:
    """Holds a network, or another that does."""

    network: Any
    inner: "Service | None" = None

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.network(x) if self.inner is None else self.inner(x)
        return y

    def answer(self, x: Tensor) -> Tensor:
        return self(x)


class Slots:
    """Has no dict."""

    __slots__ = ("network",)

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.network(x)
        return y


HELD: dict[str, Any] = {}
registry = types.ModuleType("registry")


class OfItsModule:
    """Calls a network that is a global of its module."""

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = HELD["network"](x)
        return y


def nested(network: nn.Module, depth: int) -> Callable[[Tensor], Tensor]:
    if depth == 0:
        return lambda x: network(x)
    inner = nested(network, depth - 1)
    return lambda x: inner(x)


def deep(network: nn.Module, depth: int) -> Callable[[Tensor], Tensor]:
    held: Any = network
    for _ in range(depth):
        held = [held]

    def call(x: Tensor) -> Tensor:
        part = held
        while isinstance(part, list):
            part = part[0]
        return part(x)  # type: ignore[no-any-return]

    return call


def decorated(network: nn.Module) -> Callable[..., Tensor]:
    def plain(x: Tensor) -> Tensor:
        y: Tensor = network(x)
        return y

    @wraps(plain)
    def wrapper(*args: Any) -> Tensor:
        return plain(*args)

    return wrapper


def by_default(network: nn.Module) -> Callable[..., Tensor]:
    def call(x: Tensor, *, part: nn.Module = network) -> Tensor:
        y: Tensor = part(x)
        return y

    return call


def of_globals(network: nn.Module) -> Callable[..., Tensor]:
    HELD["network"] = network
    return lambda x: torch.stack([HELD["network"](part) for part in [x]])[0]


def of_a_module(network: nn.Module) -> Callable[..., Tensor]:
    registry.network = network  # type: ignore[attr-defined]
    return lambda x: registry.network(x)  # type: ignore[attr-defined,no-any-return]


def of_its_module(network: nn.Module) -> Callable[..., Tensor]:
    HELD["network"] = network
    return OfItsModule()


def remembered(network: nn.Module) -> Callable[..., Tensor]:
    @cache
    def load() -> nn.Module:
        return network

    return lambda x: load()(x)  # type: ignore[no-any-return]


def with_it(held: Any, call: Callable[[Any, Tensor], Any]) -> Callable[..., Tensor]:
    return lambda x: call(held, x)


WAYS: dict[str, Callable[[nn.Module], Callable[..., Tensor]]] = {
    "closures": lambda net: nested(net, 9),
    "lists": lambda net: deep(net, 9),
    "partials": lambda net: partial(partial(lambda a, b, x: a["n"][0](x), {"n": [net]}), 1),
    "method": lambda net: Service(net).answer,
    "objects": lambda net: Service(None, Service(None, Service(None, Service(net)))).answer,
    "dict of lists": lambda net: with_it({"a": [{"b": net}]}, lambda d, x: d["a"][0]["b"](x)),
    "user dict": lambda net: with_it(UserDict(a=net), lambda d, x: d["a"](x)),
    "proxy": lambda net: with_it(MappingProxyType({"a": net}), lambda d, x: d["a"](x)),
    "deque": lambda net: with_it(deque([net]), lambda d, x: d[0](x)),
    "namespace": lambda net: with_it(SimpleNamespace(a=Namespace(b=net)), lambda d, x: d.a.b(x)),
    "slots": Slots,
    "weak reference": lambda net: with_it(weakref.ref(net), lambda d, x: d()(x)),
    "decorator": decorated,
    "default": by_default,
    "globals": of_globals,
    "module": of_a_module,
    "class": of_its_module,
    "cache": remembered,
    "lru cache": lambda net: with_it(lru_cache(1)(lambda: net), lambda d, x: d()(x)),
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_networks_are_found_wherever_a_function_holds_them(way: str, gated: bool) -> None:
    network, x = build("batch norm")
    if gated:
        network = nn.Sequential(network, nn.Linear(3, 6), CLEAN["gate"]()).eval()
    expected = dubio.predict(network, x, draws=3, generator=seeded()).draws
    network.train()
    function = WAYS[way](network)
    before = snapshot(network)
    found = dubio.predict(function, x, draws=3, generator=seeded()).draws
    assert snapshot(network) == before
    torch.testing.assert_close(found, expected)


class OwnGenerators(nn.Module):
    """Draws from generators of its own behind its flag."""

    def __init__(self) -> None:
        super().__init__()
        self.torchs = torch.Generator().manual_seed(0)
        self.pythons = random.Random(0)
        self.numpys = np.random.default_rng(0)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 0 * torch.rand(x.shape, generator=self.torchs)
            x = x + 0 * self.pythons.random() + 0 * float(self.numpys.random())
        y: Tensor = self.drop(x)
        return y

    def states(self) -> list[Any]:
        torchs, numpys = self.torchs.get_state().tolist(), self.numpys.bit_generator.state
        return [torchs, self.pythons.getstate(), numpys]


class Unfed(nn.Module):
    """Draws from torch's generator in eval mode, out of sight."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten.native_dropout(F.dropout(x), 0.5, True)[0]
        return y


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Dropout(0.5),
    "unfed": Unfed,
    "out of sight": lambda: nn.Sequential(OutOfSight(), nn.Dropout(0.5)),
    "python": lambda: nn.Sequential(PythonsRandom(), nn.Dropout(0.5)),
    "own generators": OwnGenerators,
    **{name: CLEAN[name] for name in ("gate", "floor path", "jitter path", "layer path")},
}


@pytest.mark.filterwarnings("ignore:expected noise:UserWarning")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_generators_stay_where_they_are(name: str, training: bool, shared: bool) -> None:
    torch.manual_seed(0)
    network, x = NETWORKS[name]().train(training), torch.randn(5, 6)

    def state() -> Any:
        return snapshot(network)

    own = network.states() if isinstance(network, OwnGenerators) else []
    before = state()
    dubio.sites(network, x)
    assert state() == before
    if isinstance(network, OwnGenerators):  # which go on with draws, as in eval mode
        assert network.states() == own
    for _ in range(2):
        with suppress(dubio.GateError, ValueError):  # which tells that noise cannot be shared
            dubio.predict(network, x, draws=3, shared=shared, generator=seeded())
        assert state() == before
        predictor = dubio.Predictor(network, draws=3, shared=shared)
        with suppress(dubio.GateError, ValueError):
            predictor(x, seeded())
        assert state() == before
    dubio.ELBO(network, dubio.likelihoods.Gaussian(1.0), num_data=5)
    assert state() == before
