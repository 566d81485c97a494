"""What a conversion keeps: the original, sharing, ties, modes, types; and what it cannot do."""

import copy
import io
import logging
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import dubio
from dubio.noise import inputs
from networks import CASES, build
from pretrained import NAMES, outputs, pretrained
from snapshots import snapshot

MASK = dubio.rules.mask_inputs(dubio.masks.Concrete)
REPLACE = dubio.rules.replace_dropout(dubio.masks.Concrete)


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.mark.parametrize("name", CASES)
def test_any_network_is_converted_or_says_why_not(name: str) -> None:
    """Outputs in eval mode stay what they are; the original, in train mode, is left alone."""
    network, x = build(name)
    network.train()
    before = snapshot(network)
    dubio.plan(network, MASK, example=x)
    converted = dubio.convert(network, MASK, example=x)
    try:
        dubio.convert(network, REPLACE, example=x)
    except ValueError as error:
        assert "replaces none of these:\nlayer" in str(error)  # noqa: PT017
    assert snapshot(network) == before
    assert {p.data_ptr() for p in network.parameters()}.isdisjoint(
        p.data_ptr() for p in converted.parameters()
    )
    answers = []
    for net in (network.eval(), converted.eval()):
        torch.manual_seed(0)
        with torch.no_grad():
            answers.append(inputs.tensors(net(x.clone())))
    assert all(map(torch.equal, *answers))


class Failing(nn.Module):
    """Fails behind its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.head = nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.head(self.drop(self.norm(x)))
        raise KeyError("the user's own mistake")


def test_nothing_is_changed_by_an_example_that_fails() -> None:
    network, x = Failing().train(), torch.randn(4, 6)
    before = snapshot(network)
    with pytest.raises(KeyError, match="the user's own mistake"):
        dubio.convert(network, MASK, example=x, copy=False)
    assert snapshot(network) == before


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", NAMES)
def test_grad_mode_does_not_matter(
    name: str, context: Callable[[], AbstractContextManager[None]]
) -> None:
    network, x = pretrained(name)
    expected = str(dubio.plan(network, REPLACE, example=x))
    with context():
        assert str(dubio.plan(network, REPLACE, example=x)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_in_place(name: str) -> None:
    network, x = pretrained(name)
    expected = outputs(network, x)
    parameters = list(network.parameters())
    assert dubio.convert(network, REPLACE, example=x, copy=False) is network
    assert torch.equal(outputs(network, x), expected)
    now = {id(parameter) for parameter in network.parameters()}
    assert all(id(parameter) in now for parameter in parameters)  # an optimizer goes on with them
    assert any(isinstance(module, dubio.Masked) for module in network.modules())


@pytest.mark.parametrize("copy", [True, False])
def test_a_network_that_is_one_layer(copy: bool) -> None:
    layer = nn.Linear(6, 3)
    converted = dubio.convert(layer, MASK, copy=copy)
    assert isinstance(converted, dubio.Masked)
    assert (converted.layer is layer) is not copy
    assert "(network)  Linear(6, 3)" in str(dubio.plan(layer, MASK))


class Shared(nn.Module):
    """One layer under two names, and two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.again = nn.ModuleDict({"it": self.first})
        self.embed, self.decode = nn.Embedding(5, 6), nn.Linear(6, 5, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.decode(self.again["it"](torch.relu(self.first(x))))
        return h


@pytest.mark.parametrize("copy", [True, False])
def test_what_is_shared_stays_shared(copy: bool) -> None:
    network = Shared()
    expected = network(torch.ones(2, 6))
    converted = dubio.convert(network, MASK, copy=copy).eval()
    assert isinstance(converted, Shared)
    assert isinstance(converted.first, dubio.Masked)
    assert converted.again["it"] is converted.first
    assert converted.decode.weight is converted.embed.weight
    assert torch.equal(converted(torch.ones(2, 6)), expected)
    divergences = [converted.first.kl(), converted.decode.kl()]
    torch.testing.assert_close(dubio.kl(converted), torch.stack(divergences).sum())


def test_a_mask_shared_by_a_rule_stays_shared() -> None:
    mask = dubio.masks.Concrete()

    def rule(place: dubio.rules.Place) -> nn.Module:
        return dubio.Masked(place.layer, mask.tied())

    converted = dubio.convert(two_layers(), rule)
    assert converted[0].mask.logit is converted[2].mask.logit
    assert converted[0].mask.logit is not mask.logit


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types_devices_and_frozen_weights(dtype: torch.dtype) -> None:
    network = two_layers().to(dtype)
    network[0].requires_grad_(False)
    converted = dubio.convert(network, MASK)
    assert {p.dtype for p in converted[0].layer.parameters()} == {dtype}
    assert converted[0].mask.logit.dtype == torch.promote_types(dtype, torch.float32)
    assert [p.requires_grad for p in converted[0].parameters()] == [False, False, True]
    assert converted(torch.ones(2, 6, dtype=dtype)).dtype == dtype
    abroad = dubio.convert(nn.Linear(6, 3, device="meta"), MASK)
    assert {p.device.type for p in abroad.parameters()} == {"meta"}


def test_modes_are_kept() -> None:
    network = nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 6), nn.Dropout(0.1), nn.Linear(6, 3))
    network[0].eval()
    network[3].eval()
    converted = dubio.convert(network, REPLACE)
    flags = [module.training for module in converted]
    assert flags == [False, True, True, False]
    assert [converted[i].mask.training for i in (1, 3)] == [True, False]
    x = torch.ones(2, 6)
    assert not torch.equal(converted(x), converted(x))


def test_hooks_stay_on_layers() -> None:
    network = two_layers()
    network[2].register_forward_hook(lambda module, inputs, output: output + 1)
    converted = dubio.convert(network.eval(), MASK)
    assert torch.equal(converted(torch.ones(2, 6)), network(torch.ones(2, 6)))


def test_what_is_stochastic_is_not_entered() -> None:
    network = two_layers()
    once = dubio.convert(network, dubio.rules.mask_inputs(dubio.masks.Concrete, where="2"))
    twice = dubio.convert(once, dubio.rules.mask_inputs(dubio.masks.Bernoulli))
    assert isinstance(twice[0].mask, dubio.masks.Bernoulli)
    assert isinstance(twice[2].mask, dubio.masks.Concrete)
    assert isinstance(twice[2].layer, nn.Linear)
    with pytest.raises(ValueError, match="without any that is not stochastic already"):
        dubio.convert(twice, MASK)


def test_a_layer_that_is_also_inside_a_stochastic_module() -> None:
    layer = nn.Linear(6, 6)
    network = nn.Sequential(dubio.Masked(layer, dubio.masks.Bernoulli()), nn.ReLU(), layer)
    converted = dubio.convert(network, MASK)
    assert isinstance(converted[0].layer, nn.Linear)
    assert converted[2].layer is converted[0].layer


@pytest.mark.parametrize(
    "through",
    [
        copy.deepcopy,
        lambda network: pickle.loads(pickle.dumps(network)),
        lambda network: dubio.convert(two_layers(), MASK),
    ],
    ids=["deepcopy", "pickle", "state dict"],
)
def test_a_converted_network_is_saved_and_loaded(
    through: Callable[[nn.Module], nn.Module],
) -> None:
    converted = dubio.convert(two_layers(), MASK).eval()
    file = io.BytesIO()
    torch.save(converted.state_dict(), file)
    other = through(converted).eval()
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    assert torch.equal(other(torch.ones(2, 6)), converted(torch.ones(2, 6)))
    assert list(converted.state_dict())[:3] == ["0.layer.weight", "0.layer.bias", "0.mask.logit"]


def test_attributes_of_a_layer_can_be_read_off_its_replacement() -> None:
    converted = dubio.convert(nn.LSTM(6, 4, batch_first=True), MASK)
    assert (converted.hidden_size, converted.batch_first) == (4, True)
    assert converted.weight_hh_l0 is converted.layer.weight_hh_l0
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = converted.colour


def test_a_plan_is_carried_out_as_often_as_one_likes() -> None:
    network = two_layers()
    plan = dubio.plan(network, MASK)
    one, two = plan.carry_out(), plan.carry_out()
    assert one[0].mask.logit is not two[0].mask.logit
    assert plan.carry_out(copy=False) is network
    with pytest.raises(RuntimeError, match="the network has changed since the plan was made"):
        plan.carry_out(copy=False)


def test_the_list_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="dubio"):
        dubio.convert(two_layers(), MASK)
    assert str(dubio.plan(two_layers(), MASK)) in caplog.text


def test_parametrised_weights() -> None:
    network = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 3))).eval()
    converted = dubio.convert(network, MASK)
    assert torch.equal(converted(torch.ones(2, 6)), network(torch.ones(2, 6)))
    dubio.kl(converted).backward()
    assert all(parameter.grad is not None for name, parameter in converted.named_parameters()
               if "bias" not in name)  # fmt: skip


def test_weights_computed_by_hooks_are_left() -> None:
    pruned = nn.Linear(6, 6)
    prune.random_unstructured(pruned, "weight", 0.5)
    network = nn.Sequential(nn.Dropout(0.2), pruned, nn.ReLU(), nn.Linear(6, 3))
    plan = dubio.plan(network, MASK)
    assert [change.place.name for change in plan.changes if change.replacement] == ["3"]
    left = dict(plan.left)
    assert left["1"].startswith("a hook computes its weight; use torch.nn.utils.parametrizations")
    assert left["0"] == "it feeds 1, which the rule leaves alone"
    with pytest.raises(RuntimeError) as caught:  # such a weight cannot be copied
        plan.carry_out()
    assert "copy=False converts it in place" in caught.value.__notes__[0]
    assert isinstance(plan.carry_out(copy=False)[3], dubio.Masked)


def test_noise_inside_layers_is_listed() -> None:
    network = nn.ModuleList(
        [nn.GRU(6, 4, 2, dropout=0.3), nn.MultiheadAttention(6, 2, dropout=0.1)]
    )
    assert dubio.plan(network, MASK).left == (
        ("0", "its dropout=0.3 acts inside, between its layers"),
        ("1", "its dropout=0.1 acts inside, on attention weights"),
    )


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(nn.functional.dropout(self.a(x), 0.2, self.training))
        return y


def test_functional_dropout_is_listed() -> None:
    plan = dubio.plan(Functional(), MASK, example=torch.ones(2, 6))
    assert plan.left == (("dropout", "it is called in forward and is no module"),)


def test_notes_on_what_changes() -> None:
    maps = nn.Sequential(nn.Dropout(0.2), nn.Conv1d(6, 6, 1), nn.Dropout1d(0.2), nn.Flatten(),
                         nn.Linear(18, 3))  # fmt: skip
    for example in (None, torch.ones(2, 6, 3)):
        notes = [change.note for change in dubio.plan(maps, REPLACE, example=example).changes]
        assert notes == [
            "masks channels where it dropped elements",
            "masks features where it dropped channels",
        ]
    rows = dubio.plan(nn.Sequential(nn.Flatten(0, 1), nn.Linear(6, 3)), MASK,
                      example=torch.ones(2, 4, 6))  # fmt: skip
    assert (
        rows.changes[0].note == "its input has 8 rows where the batch has 2, each with its own mask"
    )
    assert f"note\n1: {rows.changes[0].note}" in str(rows)
