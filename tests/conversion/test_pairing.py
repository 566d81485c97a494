"""Which dropout feeds which layer: by an example, by the order of modules, and why not."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import dubio
from dubio.noise import inputs
from networks import CASES, build

REPLACE = dubio.rules.replace_dropout(dubio.masks.Concrete)
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
SEQUENCES = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
MAPS = torch.randn(4, 6, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Some parts, and a function that connects them."""

    def __init__(self, connect: Callable[["Any", Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.drop, self.other = nn.Dropout(0.3), nn.Dropout(0.3)
        self.rare, self.off, self.channels = nn.Dropout(0.1), nn.Dropout(0.0), nn.Dropout2d(0.3)
        self.conv, self.norm, self.flat = nn.Conv2d(6, 2, 3), nn.LayerNorm(6), nn.Linear(6 * 9, 2)
        self.rnn = nn.GRU(6, 6, batch_first=True)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.bilinear, self.cell = nn.Bilinear(6, 6, 2), nn.GRUCell(6, 6)
        self.slow = nn.Dropout(0.3, inplace=True)
        self.already = dubio.Masked(nn.Linear(6, 6), dubio.masks.Bernoulli())
        self.connect = connect

    def forward(self, x: Tensor) -> Any:
        return self.connect(self, x)


class Swish(torch.autograd.Function):
    """A function whose operations are hidden in a class."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


def add_one(x: Tensor) -> Tensor:
    return x + 1.0


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecated, and still around
    scripted = torch.jit.script(add_one)  # its operations are hidden from Python


def fed(plan: dubio.Plan) -> dict[str, str]:
    return {c.place.name: ", ".join(c.fed_by) for c in plan.changes if c.replacement is not None}


def packed(n: Net, x: Tensor) -> Tensor:
    sequences = pack_padded_sequence(x, torch.tensor([5, 4, 3, 2]), batch_first=True)
    h, _ = n.rnn(PackedSequence(n.drop(sequences.data), sequences.batch_sizes))
    return n.a(h.data)


def dropped_view(n: Net, x: Tensor) -> Tensor:
    h = n.a(x)
    n.slow(h.view(-1))
    return n.b(h)


PASS: dict[str, tuple[Callable[[Any, Tensor], Any], Tensor, dict[str, str]]] = {
    "directly": (lambda n, x: n.b(n.drop(n.a(x))), X, {"b": "drop"}),
    "relu": (lambda n, x: n.b(torch.relu(n.drop(n.a(x)))), X, {"b": "drop"}),
    "in-place relu": (lambda n, x: n.b(F.relu_(n.drop(n.a(x)))), X, {"b": "drop"}),
    "leaky relu": (lambda n, x: n.b(F.leaky_relu(n.drop(n.a(x)))), X, {"b": "drop"}),
    "reshape": (lambda n, x: n.b(n.drop(x).view(2, 2, 6).flatten(0, 1)), X, {"b": "drop"}),
    "attribute": (lambda n, x: n.b(n.drop(x).T.mT), X, {"b": "drop"}),
    "half": (lambda n, x: n.b(n.drop(x).bfloat16().float()), X, {"b": "drop"}),
    "index": (lambda n, x: n.b(n.drop(x)[:, -1]), SEQUENCES, {"b": "drop"}),
    "steps": (lambda n, x: sum(map(n.b, n.drop(x).unbind(1))), SEQUENCES, {"b": "drop"}),
    "rate zero": (lambda n, x: n.b(n.off(n.drop(x))), X, {"b": "drop"}),
    "shape asked": (lambda n, x: n.b(n.drop(x).reshape(n.drop(x).shape)), X, {"b": "drop"}),
    "constant factor": (lambda n, x: n.b(n.drop(x) * 2 / 3), X, {"b": "drop"}),
    "gate": (lambda n, x: n.b(torch.sigmoid(n.a(x)) * n.drop(x)), X, {"b": "drop"}),
    "chunks": (lambda n, x: [n.b(h) for h in n.drop(x).chunk(2)], X, {"b": "drop"}),
    "keyword": (lambda n, x: n.b(input=n.drop(x)), X, {"b": "drop"}),
    "in place": (lambda n, x: n.b(n.slow(n.a(x))), X, {"b": "slow"}),
    "in place, a view": (dropped_view, X, {"b": "slow"}),
    "three consumers": (
        lambda n, x: (lambda h: n.a(h) + n.b(h) + n.c(h))(n.drop(x)),
        X,
        {"a": "drop", "b": "drop", "c": "drop"},
    ),
    "one layer, two dropouts": (
        lambda n, x: n.b(n.drop(x)) + n.b(n.other(x)),
        X,
        {"b": "drop, other"},
    ),
    "recurrent": (lambda n, x: n.rnn(n.drop(x))[0], SEQUENCES, {"rnn": "drop"}),
    "attention": (
        lambda n, x: (lambda h: n.attention(h, h, h)[0])(n.drop(x)),
        SEQUENCES,
        {"attention": "drop"},
    ),
    "convolution": (lambda n, x: n.conv(n.drop(x)), MAPS, {"conv": "drop"}),
    "padding": (lambda n, x: n.conv(F.pad(n.drop(x), (1, 1, 1, 1))), MAPS, {"conv": "drop"}),
    "pooled": (lambda n, x: n.conv(F.max_pool2d(n.drop(x), 2)), MAPS, {"conv": "drop"}),
    "channels, pooled": (
        lambda n, x: n.b(F.adaptive_avg_pool2d(n.channels(x), 1).flatten(1)),
        MAPS,
        {"b": "channels"},
    ),
}

STOP: dict[str, tuple[Callable[[Any, Tensor], Any], Tensor, str]] = {
    "tanh": (lambda n, x: n.b(torch.tanh(n.drop(x))), X, "tanh stands between it and b"),
    "gelu": (lambda n, x: n.b(F.gelu(n.drop(x))), X, "gelu stands between it and b"),
    "softmax": (lambda n, x: n.b(n.drop(x).softmax(-1)), X, "softmax stands between it and b"),
    "norm": (lambda n, x: n.b(n.norm(n.drop(x))), X, "a normalisation stands between it and b"),
    "addition": (lambda n, x: n.b(x + n.drop(x)), X, "an addition stands between it and b"),
    "in-place addition": (
        lambda n, x: n.b(x.add_(n.drop(x))),
        X,
        "an addition stands between it and b",
    ),
    "concatenation": (
        lambda n, x: n.flat(torch.cat([n.drop(x)] * 9, 1)),
        X,
        "a concatenation stands between it and flat",
    ),
    "two factors": (lambda n, x: n.b(n.drop(x) * n.drop(x)), X, "mul stands between it and b"),
    "divisor": (lambda n, x: n.b(x / n.drop(x)), X, "div stands between it and b"),
    "pad by one": (
        lambda n, x: n.conv(F.pad(n.drop(x), (1, 1), value=1.0)),
        MAPS,
        "pad stands between it and conv",
    ),
    "elements, pooled": (
        lambda n, x: n.b(F.adaptive_avg_pool2d(n.drop(x), 1).flatten(1)),
        MAPS,
        "pooling stands between it and b",
    ),
    "pooled over channels": (
        lambda n, x: n.conv(F.max_pool2d(n.drop(x).permute(0, 2, 1, 3), (1, 2)).transpose(1, 2)),
        MAPS,
        "pooling stands between it and conv",
    ),
    "custom function": (
        lambda n, x: n.b(Swish.apply(n.drop(x))),
        X,
        "sigmoid stands between it and b",
    ),
    "scripted function": (
        lambda n, x: n.b(scripted(n.drop(x))),
        X,
        "an addition stands between it and b",
    ),
    "scripted function beside": (
        lambda n, x: (lambda h: n.b(h) * scripted(h))(n.drop(x)),
        X,
        "its output goes to b and to an addition",
    ),
    "residual": (
        lambda n, x: (lambda h: h + n.b(h))(n.drop(x)),
        X,
        "its output goes to b and to an addition",
    ),
    "returned": (lambda n, x: n.drop(n.b(x)), X, "its output goes to what the network returns"),
    "returned as well": (
        lambda n, x: (lambda h: {"y": n.b(h), "h": [h]})(n.drop(x)),
        X,
        "its output goes to b and to what the network returns",
    ),
    "branch": (
        lambda n, x: (lambda h: n.b(h) if bool(h[0, 0] > 9) else n.c(h))(n.drop(x)),
        X,
        "its output goes to c and to gt",
    ),
    "values read": (
        lambda n, x: (lambda h: n.b(h) * h[0, 0].item())(n.drop(x)),
        X,
        "its output goes to b and to item",
    ),
    "another dropout": (
        lambda n, x: n.b(F.dropout(n.drop(x), 0.1)),
        X,
        "another dropout stands between it and b",
    ),
    "functional layer": (
        lambda n, x: F.linear(n.drop(x), n.b.weight),
        X,
        "its output goes to linear",
    ),
    "second call without": (
        lambda n, x: n.b(n.drop(x)) + n.b(x),
        X,
        "b is also called on what it does not feed",
    ),
    "two rates": (
        lambda n, x: n.b(n.drop(x)) + n.b(n.rare(x)),
        X,
        "b is also fed by a dropout of another rate",
    ),
    "query alone": (
        lambda n, x: n.attention(n.drop(x), x, x)[0],
        SEQUENCES,
        "its output goes to only some of the inputs of attention",
    ),
    "state": (
        lambda n, x: n.rnn(x, n.drop(x[None, :, 0].contiguous()))[0],
        SEQUENCES,
        "its output goes to only some of the inputs of rnn",
    ),
    "stochastic already": (
        lambda n, x: n.already(n.drop(x)),
        X,
        "its output goes to already, which is stochastic already",
    ),
    "unused": (lambda n, x: (n.drop(x), n.b(x))[1], X, "its output is not used"),
    "not reached": (lambda n, x: n.b(x), X, "it is not reached on the example"),
    "bilinear": (
        lambda n, x: (lambda h: n.bilinear(h, h))(n.drop(x)),
        X,
        "it feeds bilinear, which the rule leaves alone",
    ),
    "cell": (lambda n, x: n.cell(n.drop(x)), X, "it feeds cell, which the rule leaves alone"),
    "packed": (packed, SEQUENCES, "it feeds rnn, which the rule leaves alone"),
    "some consumers": (
        lambda n, x: (lambda h: n.b(h) + n.cell(h))(n.drop(x)),
        X,
        "it feeds cell, which the rule leaves alone",
    ),
    "a dropout that stays beside it": (
        lambda n, x: n.b(n.drop(x)) + (lambda h: n.b(h) + h)(n.other(x)),
        X,
        "it feeds b, as does other, which stays",
    ),
}


@pytest.mark.parametrize("case", PASS)
def test_a_dropout_feeds_a_layer(case: str) -> None:
    connect, x, expected = PASS[case]
    assert fed(dubio.plan(Net(connect), REPLACE, example=x)) == expected


@pytest.mark.parametrize("case", STOP)
def test_a_dropout_stays(case: str) -> None:
    connect, x, reason = STOP[case]
    plan = dubio.plan(Net(connect), REPLACE, example=x)
    assert fed(plan) == {}
    assert dict(plan.left)["drop"] == reason


def test_a_dropout_behind_a_gate_is_found() -> None:
    """One dropout is called in train mode only, and the network is in eval mode."""
    network, x = build("gated module")
    assert fed(dubio.plan(network, REPLACE, example=x)) == {"a": "first", "b": "second"}


def scaled(network: nn.Module, plan: dubio.Plan, x: Tensor, by: float, back: float) -> list[Tensor]:
    """The output if dropouts that go scale theirs, and the layers that they feed scale back."""

    def scale_back(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        for name in list(bound.arguments)[: 3 if isinstance(module, nn.MultiheadAttention) else 1]:
            bound.arguments[name] = bound.arguments[name] / back
        return bound.args, bound.kwargs

    hooks = [
        network.get_submodule(name).register_forward_hook(lambda m, inputs, out: out * by)
        for name in plan.removed
    ]
    hooks += [
        change.place.layer.register_forward_pre_hook(scale_back, with_kwargs=True)
        for change in plan.changes
        if change.fed_by
    ]
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = inputs.tensors(network(x.clone()))
    for hook in hooks:
        hook.remove()
    return outputs


SCALABLE = [  # not what a hook cannot scale, or what does not happen in eval mode
    *(name for name in PASS if "in place" not in name),
    *(name for name in CASES if name != "gated module"),
]


@pytest.mark.parametrize("case", SCALABLE)
def test_all_that_a_dropout_does_is_to_scale_inputs(case: str) -> None:
    """Bit for bit, as the factor is a power of two: no other way leads from it to the output."""
    network: nn.Module
    if case in PASS:
        connect, x, _ = PASS[case]
        network = Net(connect).eval()
    else:
        network, x = build(case)
    plan = dubio.plan(network, REPLACE, example=x)
    plain = scaled(network, plan, x, 1.0, 1.0)
    assert all(map(torch.equal, plain, scaled(network, plan, x, 4.0, 4.0)))
    if plan.removed:
        assert not all(map(torch.equal, plain, scaled(network, plan, x, 4.0, 1.0)))
