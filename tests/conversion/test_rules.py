"""The rules: what they choose, what they put there, and what they complain about."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.conversion.rules import Place, mask_inputs, replace_dropout

Concrete = dubio.masks.Concrete


class Net(nn.Module):
    """A body and two heads; a dropout feeds both of them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8))
        self.drop = nn.Dropout(0.3)
        self.heads = nn.ModuleDict({"mean": nn.Linear(8, 1), "scale": nn.Linear(8, 1)})

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(torch.relu(self.body(x)))
        return torch.cat([head(h) for head in self.heads.values()], -1)


NET, X = Net(), torch.randn(4, 6)


def chosen(rule: dubio.rules.Rule, network: nn.Module = NET) -> list[str]:
    plan = dubio.plan(network, rule, example=X)
    return [c.place.name for c in plan.changes if c.replacement is not None]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, ["body.0", "body.2", "heads.mean", "heads.scale"]),
        ("heads.*", ["heads.mean", "heads.scale"]),
        ("*.[02]", ["body.0", "body.2"]),
        (["body.0", "*.scale"], ["body.0", "heads.scale"]),
        (nn.Linear, ["body.0", "body.2", "heads.mean", "heads.scale"]),
        (NET.body, ["body.0", "body.2"]),
        (NET.body[2], ["body.2"]),
        ([NET.body[0], "heads.mean"], ["body.0", "heads.mean"]),
        (lambda place: place.layer.out_features == 8, ["body.0", "body.2"]),
        (lambda place: place.drop is not None, ["heads.mean", "heads.scale"]),
        (["body.2", lambda place: place.name == "body.0"], ["body.0", "body.2"]),
    ],
)
def test_where(where: Any, expected: list[str]) -> None:
    assert chosen(mask_inputs(Concrete, where=where)) == expected


def test_layers_that_a_dropout_feeds() -> None:
    assert chosen(replace_dropout(Concrete)) == ["heads.mean", "heads.scale"]
    assert chosen(replace_dropout(Concrete, where="heads.*")) == ["heads.mean", "heads.scale"]


def test_a_dropout_of_which_only_one_layer_is_chosen() -> None:
    """It stays. Who wants to replace dropouts keeps the layer, who wants masks gets both."""
    assert chosen(replace_dropout(Concrete, where="heads.mean")) == []
    plan = dubio.plan(NET, mask_inputs(Concrete, where="heads.mean"), example=X)
    assert [c.place.name for c in plan.changes if c.replacement is not None] == ["heads.mean"]
    assert not plan.removed
    assert plan.left == (
        (
            "drop",
            "it feeds heads.scale, which the rule leaves alone; noise acts twice on heads.mean",
        ),
    )


def test_rates() -> None:
    given = dubio.convert(NET, mask_inputs(Concrete, drop=0.05), example=X)
    assert given.heads["mean"].mask.drop.item() == pytest.approx(0.05)  # not the dropout's 0.3
    assert isinstance(given.drop, nn.Identity)
    taken = dubio.convert(NET, replace_dropout(Concrete, per_unit=True), example=X)
    assert taken.heads["mean"].mask.drop.tolist() == pytest.approx([0.3] * 8)


def test_units_of_every_kind_of_layer() -> None:
    network = nn.ModuleList(
        [
            nn.Linear(5, 2),
            nn.Conv2d(6, 4, 3, groups=2),
            nn.ConvTranspose1d(7, 2, 3),
            nn.GRU(8, 3, bidirectional=True),
            nn.MultiheadAttention(10, 2),
        ]
    )
    converted = dubio.convert(network, mask_inputs(Concrete, per_unit=True, length_scale=0.5))
    assert [layer.mask.units for layer in converted] == [5, 6, 7, 8, 10]
    assert {layer.length_scale for layer in converted} == {0.5}


def test_layers_whose_inputs_cannot_be_masked_are_left_to_other_rules() -> None:
    network = nn.ModuleList(
        [
            nn.Embedding(5, 6),
            nn.EmbeddingBag(5, 6),
            nn.Bilinear(6, 6, 2),
            nn.LSTMCell(6, 6),
            nn.MultiheadAttention(6, 2, kdim=4),
            nn.Linear(6, 2),
        ]
    )
    seen: list[Place] = []
    rule = mask_inputs(Concrete)

    def look(place: Place) -> nn.Module | None:
        seen.append(place)
        return rule(place)

    plan = dubio.plan(network, look)
    assert [place.features for place in seen] == [None, None, None, None, None, 6]
    assert [c.place.name for c in plan.changes if c.replacement is not None] == ["5"]


def test_a_rule_is_any_function() -> None:
    def drop_connect(place: Place) -> nn.Module | None:
        return nn.Sequential(nn.Flatten(), place.layer) if place.name == "body.0" else None

    converted = dubio.convert(NET, drop_connect, example=X)
    assert isinstance(converted.body[0], nn.Sequential)
    assert isinstance(converted.drop, nn.Dropout)
    first, second = replace_dropout(Concrete), mask_inputs(dubio.masks.Gaussian, where="body.0")
    assert chosen(lambda place: first(place) or second(place)) == [
        "body.0",
        "heads.mean",
        "heads.scale",
    ]
    assert chosen(lambda place: place.layer) == []  # a layer in its own place is no change


@pytest.mark.parametrize(
    "mask",
    [
        Concrete,
        partial(Concrete, temperature=0.5),
        lambda units, drop: Concrete(units, drop=drop / 2),
    ],
)
def test_what_makes_masks(mask: dubio.rules.MaskMaker) -> None:
    converted = dubio.convert(NET, mask_inputs(mask), example=X)
    masks = [m.mask for m in converted.modules() if isinstance(m, dubio.Masked)]
    assert len(set(masks)) == 4


def test_a_rule_may_put_anything_stochastic() -> None:
    """The Transformer reads weights off its layers, whatever stands in their place."""
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True).eval()
    x = torch.randn(4, 5, 6)

    def drop_connect(place: Place) -> nn.Module | None:
        if not isinstance(place.layer, nn.Linear):
            return None
        return dubio.DropConnect(place.layer, dubio.masks.Bernoulli(drop=0.2))

    converted = dubio.convert(layer, drop_connect, example=x)
    assert isinstance(converted.linear2, dubio.DropConnect)
    assert isinstance(converted.dropout, nn.Identity)
    with torch.no_grad():
        assert torch.equal(converted(x), layer(x))


def script(network: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(network)  # type: ignore[no-any-return]


def complain(place: Place) -> None:
    raise KeyError("the user's own mistake")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dubio.convert("net", mask_inputs(Concrete)), TypeError, "an nn.Module, got str"),
        (lambda: dubio.convert(NET, "mask"), TypeError, "rule: expected a function of a place"),
        (lambda: dubio.convert(NET, Concrete), TypeError, r"such as dubio\.rules\.mask_inputs"),
        (lambda: dubio.convert(NET, Concrete()), TypeError, "rule: expected a function"),
        (lambda: dubio.convert(nn.ReLU(), mask_inputs(Concrete)), ValueError, "weight layers"),
        (
            lambda: dubio.convert(NET.body, lambda place: 3),
            TypeError,
            "rule: expected a function that returns a module or None, got int for '0'",
        ),
        (
            lambda: dubio.convert(NET, mask_inputs(Concrete, where="head.*"), example=X),
            ValueError,
            r"mask_inputs\(Concrete, where='head.\*'\) replaces none of these:\nlayer +before",
        ),
        (
            lambda: dubio.convert(NET.body, replace_dropout(Concrete, where=[nn.GRU, NET.body])),
            ValueError,
            r"replace_dropout\(Concrete, where=GRU, <Sequential>\) replaces none",
        ),
        (
            lambda: dubio.convert(NET.body, lambda place: None),
            ValueError,
            r"lambda> replaces none of these:\nlayer",
        ),
        (
            lambda: dubio.convert(NET, mask_inputs(Concrete)),
            ValueError,
            "does not show which layers are fed by drop; pass example=",
        ),
        (
            lambda: dubio.convert(nn.Sequential(nn.LazyLinear(3)), mask_inputs(Concrete)),
            ValueError,
            "0: expected a layer with weights, got an uninitialised LazyLinear; call the network",
        ),
        (
            lambda: dubio.convert(nn.Sequential(script(nn.Linear(6, 3))), mask_inputs(Concrete)),
            TypeError,
            "0 is compiled by TorchScript; convert the module it was scripted from",
        ),
        (lambda: mask_inputs(Concrete()), TypeError, "every layer gets a mask of its own"),
        (lambda: mask_inputs(3), TypeError, "mask: expected a class from dubio.masks"),
        (lambda: mask_inputs(Concrete, where=3), TypeError, "where: expected a glob pattern"),
        (lambda: mask_inputs(Concrete, where=int), TypeError, "where: expected a module class"),
        (
            lambda: dubio.convert(NET.body, mask_inputs(lambda units, drop: nn.Dropout(drop))),
            TypeError,
            "mask: expected a function that returns a mask from dubio.masks, got Dropout",
        ),
        (
            lambda: dubio.convert(NET.body, mask_inputs(Concrete, drop=1.5)),
            ValueError,
            "drop: expected a rate between 0 and 1, got 1.5",
        ),
    ],
)
def test_errors(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_errors_say_where() -> None:
    with pytest.raises(KeyError) as caught:
        dubio.convert(NET.body, complain)
    assert caught.value.__notes__ == ["The rule was asked about '0'."]
    for example in (np.ones((4, 6)), "text", X.fill_(float("nan"))):
        with pytest.raises((TypeError, ValueError)) as complaint:
            dubio.plan(NET, mask_inputs(Concrete), example=example)
        assert complaint.value.__notes__ == ["Here x is the example= to run the network on."]
    X.fill_(1.0)


def test_a_compiled_network_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="convert the original network, then compile the result"):
        dubio.convert(torch.compile(NET, backend="eager"), mask_inputs(Concrete))  # type: ignore[arg-type]


def test_rule_without_dropouts_names_the_other_rule() -> None:
    network = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=r"dubio\.rules\.mask_inputs gives layers masks"):
        dubio.convert(network, dubio.rules.replace_dropout(dubio.masks.Concrete))
