"""Which dropout feeds which layer, without an example: by the order inside nn.Sequential."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dubio

REPLACE = dubio.rules.replace_dropout(dubio.masks.Concrete)


def fed(plan: dubio.Plan) -> dict[str, str]:
    return {c.place.name: ", ".join(c.fed_by) for c in plan.changes if c.replacement is not None}


def sequential(*parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), *parts)


ACTIVATION = nn.ReLU()
UNFLATTEN = nn.Unflatten(1, (6, 1))

PASS: dict[str, tuple[nn.Sequential, dict[str, str]]] = {
    "directly": (sequential(nn.Dropout(0.2), nn.Linear(6, 3)), {"2": "1"}),
    "relu": (sequential(nn.Dropout(0.2), nn.ReLU(), nn.Linear(6, 3)), {"3": "1"}),
    "nested": (
        sequential(nn.Sequential(nn.ReLU(), nn.Dropout(0.2)), nn.Sequential(nn.Linear(6, 3))),
        {"2.0": "1.1"},
    ),
    "empty inside": (sequential(nn.Dropout(0.2), nn.Sequential(), nn.Linear(6, 3)), {"3": "1"}),
    "rate zero between": (
        sequential(nn.Dropout(0.2), nn.Dropout(0.0), nn.Linear(6, 3)),
        {"3": "1"},
    ),
    "shared activation": (
        nn.Sequential(ACTIVATION, nn.Linear(6, 6), nn.Dropout(0.2), ACTIVATION, nn.Linear(6, 3)),
        {"4": "2"},
    ),
    "convolution": (sequential(nn.Dropout(0.2), UNFLATTEN, nn.Conv1d(6, 6, 1)), {"3": "1"}),
    "channels, pooled": (
        sequential(UNFLATTEN, nn.Dropout1d(0.2), nn.AvgPool1d(1), nn.Flatten(), nn.Linear(6, 3)),
        {"5": "2"},
    ),
}

STOP: dict[str, tuple[nn.Sequential, str, str]] = {
    "gelu": (
        sequential(nn.Dropout(0.2), nn.GELU(), nn.Linear(6, 3)),
        "1",
        "GELU stands between it and 3",
    ),
    "norm": (
        sequential(nn.Dropout(0.2), nn.BatchNorm1d(6), nn.Linear(6, 3)),
        "1",
        "BatchNorm1d stands between it and 3",
    ),
    "two obstacles": (
        sequential(nn.Dropout(0.2), nn.Tanh(), nn.BatchNorm1d(6), nn.Linear(6, 3)),
        "1",
        "Tanh stands between it and 4",
    ),
    "another dropout": (
        sequential(nn.Dropout(0.2), nn.Dropout(0.1), nn.Linear(6, 3)),
        "1",
        "Dropout stands between it and 3",
    ),
    "elements, pooled": (
        sequential(UNFLATTEN, nn.Dropout(0.2), nn.AvgPool1d(1), nn.Flatten(), nn.Linear(6, 3)),
        "2",
        "pooling stands between it and 5",
    ),
    "the end": (sequential(nn.Dropout(0.2)), "1", "its output goes to what the network returns"),
    "the end, behind an obstacle": (
        sequential(nn.Dropout(0.2), nn.Softmax(-1)),
        "1",
        "its output goes to Softmax",
    ),
    "alpha": (
        sequential(nn.AlphaDropout(0.2), nn.Linear(6, 3)),
        "1",
        "AlphaDropout does more than multiply by a mask",
    ),
    "stochastic already": (
        sequential(nn.Dropout(0.2), dubio.Masked(nn.Linear(6, 3), dubio.masks.Bernoulli())),
        "1",
        "it feeds a layer that is stochastic already",
    ),
}


@pytest.mark.parametrize("case", PASS)
def test_a_dropout_feeds_a_layer(case: str) -> None:
    network, expected = PASS[case]
    plan = dubio.plan(network, REPLACE)
    assert fed(plan) == expected
    assert not plan.left


@pytest.mark.parametrize("case", STOP)
def test_a_dropout_stays(case: str) -> None:
    network, name, reason = STOP[case]
    assert dict(dubio.plan(network, REPLACE).left)[name] == reason


@pytest.mark.parametrize("case", [*PASS, *STOP])
def test_an_example_tells_the_same(case: str) -> None:
    network = (PASS.get(case) or STOP[case])[0]
    by_order = dubio.plan(network, REPLACE)
    by_example = dubio.plan(network, REPLACE, example=torch.randn(4, 6))
    assert fed(by_order) == fed(by_example)
    assert by_order.removed == by_example.removed
    assert [left.name for left in by_order.left] == [left.name for left in by_example.left]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.inner = nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 6))
        self.tail = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.tail(self.inner(self.drop(x)))


class Reversed(nn.Sequential):
    def forward(self, x: Any) -> Any:
        for part in reversed(self):
            x = part(x)
        return x


def twice(part: nn.Module) -> nn.Sequential:
    return nn.Sequential(part, nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), part, nn.Linear(6, 3))


@pytest.mark.parametrize(
    ("network", "unsettled"),
    [
        (Residual(), "drop, inner.0, tail.1"),
        (nn.Sequential(Residual(), nn.Linear(6, 3)), "0.drop, 0.inner.0, 0.tail.1"),
        (nn.Sequential(nn.Dropout(0.2), Residual()), "0, 1.drop, 1.inner.0, 1.tail.1"),
        (Reversed(nn.Linear(6, 3), nn.Dropout(0.2)), "1"),
        (twice(nn.Dropout(0.2)), "0"),
        (twice(nn.Sequential(nn.Dropout(0.2))), "0.0"),
        (nn.Sequential(nn.Dropout(0.2), twice(nn.Linear(6, 6))), "0"),
        (nn.ModuleList([nn.Dropout(0.2), nn.Linear(6, 3)]), "0"),
    ],
    ids=["ends", "inside", "before", "subclass", "shared", "shared chain", "shared layer", "list"],
)
def test_what_the_order_does_not_tell_needs_an_example(network: nn.Module, unsettled: str) -> None:
    with pytest.raises(ValueError, match=f"fed by {unsettled}; pass example="):
        dubio.plan(network, REPLACE)


def test_an_example_settles_it() -> None:
    network = Residual()
    plan = dubio.plan(network, REPLACE, example=torch.randn(4, 6))
    assert fed(plan) == {"inner.1": "inner.0"}
    assert dict(plan.left)["drop"] == "another dropout stands between it and inner.1"


def test_no_dropout_needs_no_example() -> None:
    network = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.0), Reversed(nn.Linear(6, 3)))
    plan = dubio.plan(network, dubio.rules.mask_inputs(dubio.masks.Concrete))
    assert fed(plan) == {"0": "", "2.0": ""}
    assert not plan.removed
    assert not plan.left
