"""What stands in a Sequential may be more than it seems: subclasses, hooks, other uses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio

REPLACE = dubio.rules.replace_dropout(dubio.masks.Concrete)
MASK = dubio.rules.mask_inputs(dubio.masks.Concrete)
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def fed(plan: dubio.Plan) -> dict[str, str]:
    return {c.place.name: ", ".join(c.fed_by) for c in plan.changes if c.replacement is not None}


def shifted(kind: type[Any]) -> type[Any]:
    """A subclass of a module of torch that adds one to what that does."""

    class Shifted(kind):  # type: ignore[misc]
        def forward(self, *args: Any) -> Any:
            return super().forward(*args) + 1

    return Shifted


def patched(module: nn.Module) -> nn.Module:
    plain = module.forward
    module.forward = lambda *args: plain(*args) + 1  # type: ignore[method-assign]
    return module


def hooked(module: nn.Module, *, before: bool = False) -> nn.Module:
    if before:
        module.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    else:
        module.register_forward_hook(lambda module, args, output: output + 1)
    return module


class Renamed(nn.ReLU):
    """A subclass that computes the same."""

    def __init__(self, note: str) -> None:
        super().__init__()
        self.note = note


BETWEEN: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: shifted(nn.ReLU)(),
    "leaky relu": lambda: shifted(nn.LeakyReLU)(),
    "prelu": lambda: shifted(nn.PReLU)(),
    "identity": lambda: shifted(nn.Identity)(),
    "flatten": lambda: shifted(nn.Flatten)(),
    "dropout of rate 0": lambda: shifted(nn.Dropout)(0.0),
    "sequential": lambda: shifted(nn.Sequential)(nn.ReLU()),
    "order of a sequential": lambda: type(
        "Other", (nn.Sequential,), {"__iter__": lambda self: iter([nn.Tanh()])}
    )(nn.ReLU()),
    "patched relu": lambda: patched(nn.ReLU()),
    "patched sequential": lambda: patched(nn.Sequential(nn.ReLU())),
    "hooked relu": lambda: hooked(nn.ReLU()),
    "hooked relu, before": lambda: hooked(nn.ReLU(), before=True),
    "hooked sequential": lambda: hooked(nn.Sequential(nn.ReLU())),
    "hooked sequential, before": lambda: hooked(nn.Sequential(nn.ReLU()), before=True),
    "hooked dropout of rate 0": lambda: hooked(nn.Dropout(0.0)),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_what_is_not_what_it_seems_lets_no_dropout_pass(case: str) -> None:
    network = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2), BETWEEN[case](), nn.Linear(6, 3))
    if case == "patched relu":  # which is as good as any module that lets nothing pass
        assert dict(dubio.plan(network, REPLACE).left)["1"] == "ReLU stands between it and 3"
    else:
        with pytest.raises(ValueError, match="fed by 1; pass example="):
            dubio.plan(network, REPLACE)
    plan = dubio.plan(network, REPLACE, example=X)
    assert fed(plan) == {}
    assert "3" in dict(plan.left)["1"]


@pytest.mark.parametrize(
    "pooling", [nn.AvgPool1d(1), nn.MaxPool1d(1), nn.AdaptiveAvgPool1d(1)], ids=repr
)
def test_pooling_of_another_kind(pooling: nn.Module) -> None:
    other = shifted(type(pooling))(1)
    network = nn.Sequential(
        nn.Unflatten(1, (6, 1)), nn.Dropout1d(0.2), other, nn.Flatten(), nn.Linear(6, 3)
    )
    with pytest.raises(ValueError, match="fed by 1; pass example="):
        dubio.plan(network, REPLACE)
    assert fed(dubio.plan(network, REPLACE, example=X)) == {}


def test_a_subclass_that_computes_the_same_passes() -> None:
    dropout = type("Named", (nn.Dropout,), {})(0.2)
    network = nn.Sequential(nn.Linear(6, 6), dropout, Renamed("!"), nn.Linear(6, 3))
    assert fed(dubio.plan(network, REPLACE)) == {"3": "1"}
    assert fed(dubio.plan(network, REPLACE, example=X)) == {"3": "1"}


DROPOUTS: dict[str, Callable[[], nn.Module]] = {
    "subclass": lambda: shifted(nn.Dropout)(0.2),
    "patched": lambda: patched(nn.Dropout(0.2)),
}


@pytest.mark.parametrize("example", [None, X], ids=["order", "example"])
@pytest.mark.parametrize("case", DROPOUTS)
def test_a_dropout_of_another_kind_stays(case: str, example: Tensor | None) -> None:
    network = nn.Sequential(nn.Linear(6, 6), DROPOUTS[case](), nn.Linear(6, 3)).eval()
    converted = dubio.convert(network, MASK, example=example)
    assert "does more than multiply" in str(dubio.plan(network, MASK, example=example))
    assert type(converted[1]) is type(network[1])
    assert torch.equal(converted(X), network(X))


def test_a_dropout_with_a_state_of_its_own_stays() -> None:
    network = nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 3))
    network[0].register_buffer("calls", torch.zeros(()))
    plan = dubio.plan(network, MASK)
    assert dict(plan.left)["0"].startswith("it holds parameters, buffers or modules")


class Cosine(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1), self.bias)


class Cast(nn.Conv1d):
    def _conv_forward(self, *args: Any) -> Tensor:
        return super()._conv_forward(*args) + 1


class Skip(nn.Linear):
    def __call__(self, x: Tensor) -> Any:
        return x + super().__call__(x)


LAYERS: dict[str, tuple[nn.Module, Tensor]] = {
    "cosine": (Cosine(6, 6), X),
    "convolution": (Cast(6, 6, 1), X.unsqueeze(-1)),
    "call": (Skip(6, 6), X),
    "rnn": (type("Last", (nn.GRU,), {"forward": lambda s, x: nn.GRU.forward(s, x)[0]})(6, 6), X),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_with_a_forward_of_its_own_is_not_masked(case: str) -> None:
    layer, x = LAYERS[case]
    network = nn.Sequential(nn.Dropout(0.2), layer, nn.Flatten(), nn.Linear(6, 3)).eval()
    with pytest.raises(ValueError, match="fed by 0; pass example="):
        dubio.plan(network, MASK)
    plan = dubio.plan(network, MASK, example=x)
    assert fed(plan) == {"3": ""}
    assert not plan.removed
    assert "has a forward of its own: no mask of inputs" in dict(plan.left)["1"]
    bayes = dubio.convert(network, dubio.rules.bayes(), example=x)  # weights are what they are
    assert isinstance(bayes[1], dubio.Bayesian)
    assert torch.equal(bayes(x), network(x))


def test_a_patched_layer_is_left() -> None:
    network = nn.Sequential(patched(nn.Linear(6, 6)), nn.ReLU(), nn.Linear(6, 3)).eval()
    for rule in (MASK, dubio.rules.bayes()):
        plan = dubio.plan(network, rule)
        assert fed(plan) == {"2": ""}
        assert dict(plan.left)["0"].startswith("its forward was replaced")


class Watcher:
    """Counts calls, as an object whose method is a hook."""

    def __init__(self) -> None:
        self.calls = 0

    def see(self, module: nn.Module, args: Any, output: Any) -> None:
        self.calls += 1


@pytest.mark.parametrize("copy", [True, False])
def test_hooks_of_a_dropout_outlive_it(copy: bool) -> None:
    network = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3)).eval()
    seen: list[str] = []
    drop = network[2]
    handles = [
        drop.register_forward_hook(lambda m, args, out: seen.append("after")),
        drop.register_forward_pre_hook(lambda m, args: seen.append("before")),
        drop.register_forward_hook(lambda m, a, kw, out: seen.append("named"), with_kwargs=True),
        drop.register_forward_hook(lambda m, args, out: out * 3),
    ]
    with pytest.raises(ValueError, match="fed by 2; pass example="):
        dubio.convert(network, REPLACE, copy=copy)
    expected = network(X)
    converted = dubio.convert(network, REPLACE, example=X, copy=copy)
    assert type(converted[2]) is nn.Identity
    seen.clear()
    assert torch.equal(converted(X), expected)
    assert seen == ["before", "after", "named"]
    if not copy:  # handles still remove them
        for handle in handles:
            handle.remove()
        converted(X)
        assert seen == ["before", "after", "named"]


def test_hooks_that_are_methods_and_hooks_of_gradients() -> None:
    network = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2), nn.Linear(6, 3)).eval()
    watcher, gradients = Watcher(), list[Any]()
    network[1].register_forward_hook(watcher.see)
    converted = dubio.convert(network, REPLACE, example=X, copy=False)
    calls = watcher.calls
    converted(X)
    assert watcher.calls == calls + 1
    network = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2), nn.Linear(6, 3))
    network[1].register_full_backward_hook(lambda m, gin, gout: gradients.append(gout))
    converted = dubio.convert(network, MASK)
    converted(X).sum().backward()
    assert len(gradients) == 1


@pytest.mark.parametrize("before", [True, False])
def test_a_hook_that_changes_what_a_dropout_does_stops_it(before: bool) -> None:
    network = nn.Sequential(
        nn.Linear(6, 6), hooked(nn.Dropout(0.2), before=before), nn.Linear(6, 3)
    )
    plan = dubio.plan(network, MASK, example=X)
    assert (fed(plan)["2"] == "1") is before  # a mask of what the hook has made of the input
    network.eval()
    assert torch.equal(plan.carry_out()(X), network(X))


class Calls(nn.Module):
    """A Sequential with a dropout, called by a function."""

    def __init__(self, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 6))
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.seq, x)


def in_turn(parts: Any, x: Tensor) -> Tensor:
    for part in parts:
        x = part(x)
    return x


OTHER_USES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "index": lambda seq, x: seq(x) + seq[3](x),
    "slice": lambda seq, x: seq(x) + seq[3:](x),
    "name": lambda seq, x: seq(x) + seq.get_submodule("3")(x),
    "list": lambda seq, x: seq(x) + in_turn(list(seq.children())[-1:], x),
    "output of the dropout": lambda seq, x: seq(x) + seq[:3](x),
    "addition between": lambda seq, x: seq[3](seq[:3](x) + x),
}


@pytest.mark.parametrize("case", OTHER_USES)
@pytest.mark.parametrize("deep", [False, True])
def test_other_uses_of_a_layer_keep_the_dropout(case: str, deep: bool) -> None:
    network: nn.Module = Calls(OTHER_USES[case])
    name = "seq.2"
    if deep:
        network, name = nn.Sequential(nn.Identity(), network), "1.seq.2"
    with pytest.raises(ValueError, match=f"fed by {name}; pass example="):
        dubio.plan(network, REPLACE)
    plan = dubio.plan(network, REPLACE, example=X)
    assert fed(plan) == {}
    assert name in dict(plan.left)


def test_one_use_by_a_forward_of_ones_own() -> None:
    network = Calls(lambda seq, x: seq(x))
    assert fed(dubio.plan(network, REPLACE, example=X)) == {"seq.3": "seq.2"}
    network = Calls(lambda seq, x: in_turn(reversed(list(seq)), x))
    assert fed(dubio.plan(network, REPLACE, example=X)) == {"seq.0": "seq.2"}


def test_a_layer_in_two_sequentials() -> None:
    layer = nn.Linear(6, 6)
    first = nn.Sequential(nn.Dropout(0.2), nn.ReLU(), layer)
    for second in (nn.Sequential(layer), nn.Sequential(nn.Sequential(nn.ReLU(), layer)), layer):
        network = nn.Sequential(first, nn.Tanh(), second)
        with pytest.raises(ValueError, match=r"fed by 0\.0; pass example="):
            dubio.plan(network, REPLACE)
        plan = dubio.plan(network, REPLACE, example=X)
        assert dict(plan.left)["0.0"].endswith("is also called on what it does not feed")


@pytest.mark.parametrize("hide", [lambda m: [m], lambda m: {"it": (m,)}, lambda m: m])
def test_a_layer_that_another_module_holds_in_secret(hide: Callable[[nn.Module], Any]) -> None:
    class Secretive(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            vars(self)["held"] = hide(layer)

        def forward(self, x: Tensor) -> Tensor:
            held = vars(self)["held"]
            found = next(m for m in torch.utils._pytree.tree_leaves(held))
            return x + found(x)

    layer = nn.Linear(6, 6)
    network = nn.Sequential(nn.Dropout(0.2), layer, Secretive(layer))
    with pytest.raises(ValueError, match="fed by 0; pass example="):
        dubio.plan(network, REPLACE)
    assert fed(dubio.plan(network, REPLACE, example=X)) == {}


def test_a_list_of_sequentials_needs_no_example() -> None:
    heads = nn.ModuleDict(
        {name: nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 3)) for name in ("a", "b")}
    )
    assert fed(dubio.plan(heads, REPLACE)) == {"a.1": "a.0", "b.1": "b.0"}
