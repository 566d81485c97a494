"""Pretrained networks become Bayesian: outputs kept, divergence right, every method trains."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dubio
from mask_cases import Case, every_mask
from pretrained import NAMES, outputs, pretrained
from two_samples import critical_value, deviations, with_sums

RULES: dict[str, Callable[..., dubio.rules.Rule]] = {
    "replace": dubio.rules.replace_dropout,
    "mask": dubio.rules.mask_inputs,
}
MASKED = {  # layer -> rate, for replace_dropout
    "mlp": {"3": 0.2, "6": 0.5},
    "resnet": {"blocks.0.conv2": 0.3, "blocks.2.conv2": 0.3, "head": 0.2},
    "lstm": {"rnn": 0.25, "head": 0.25},
    "transformer": {"body.layers.0.linear2": 0.1, "body.layers.1.linear2": 0.1, "head": 0.2},
}


def masked(network: nn.Module) -> dict[str, dubio.Masked]:
    return {n: m for n, m in network.named_modules() if isinstance(m, dubio.Masked)}


def without_layer(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "layer")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own use of them
@pytest.mark.parametrize("grad", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_weights_are_kept_bit_for_bit(
    name: str, rule: str, grad: Callable[[], torch.no_grad]
) -> None:
    network, x = pretrained(name)
    converted = dubio.convert(network, RULES[rule](dubio.masks.Concrete), example=x)
    with grad():  # without gradients, torch's Transformer takes another way
        assert torch.equal(outputs(network, x), outputs(converted, x))
    state = {without_layer(key): value for key, value in converted.state_dict().items()}
    for key, value in network.state_dict().items():
        assert torch.equal(state.pop(key), value)
    assert all(".mask." in key for key in state)


@pytest.mark.parametrize("name", NAMES)
def test_masks_take_the_rates_of_the_dropouts_that_go(name: str) -> None:
    network, x = pretrained(name)
    rule = dubio.rules.replace_dropout(dubio.masks.LearnableBernoulli)
    plan = dubio.plan(network, rule, example=x)
    converted = plan.carry_out()
    found = {n: float(m.mask.drop) for n, m in masked(converted).items()}
    assert found == pytest.approx(MASKED[name])
    assert plan.removed
    for removed in plan.removed:
        assert isinstance(network.get_submodule(removed), nn.Dropout)
        assert isinstance(converted.get_submodule(removed), nn.Identity)


def units_and_weights(layer: nn.Module) -> tuple[int, list[Tensor]]:
    """Number of masked units, and the weights that they meet."""
    if isinstance(layer, nn.LSTM):
        return layer.input_size, [layer.weight_ih_l0]
    if isinstance(layer, nn.MultiheadAttention):
        return layer.embed_dim, [layer.in_proj_weight]
    if isinstance(layer, nn.Conv2d):
        return layer.in_channels, [layer.weight]
    assert isinstance(layer, nn.Linear)
    return layer.in_features, [layer.weight]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_divergence_by_hand(name: str, rule: str) -> None:
    """Σ over layers of ℓ²‖W‖²/(2·keep) − units·H(keep)."""
    network, x = pretrained(name)
    converted = dubio.convert(
        network, RULES[rule](dubio.masks.Concrete, length_scale=0.3), example=x
    )
    places = {n: m for n, m in network.named_modules() if n in masked(converted)}
    if rule == "mask":
        assert len(places) >= 2
    expected = 0.0
    for layer_name, layer in places.items():
        drop = MASKED[name][layer_name] if rule == "replace" else 0.1
        keep = 1 - drop
        units, weights = units_and_weights(layer)
        squares = sum(w**2 for weight in weights for w in weight.flatten().tolist())
        entropy = -keep * math.log(keep) - drop * math.log(drop)
        expected += 0.3**2 * squares / (2 * keep) - units * entropy
    assert dubio.kl(converted).item() == pytest.approx(expected, rel=1e-5)


@every_mask
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_one_training_step(name: str, rule: str, kind: Case) -> None:
    network, x = pretrained(name)
    converted = dubio.convert(network, RULES[rule](kind), example=x).train()
    elbo = dubio.ELBO(converted, dubio.likelihoods.Categorical(), num_data=100)
    before = copy.deepcopy(converted.state_dict())
    elbo(x, torch.tensor([0, 1, 2, 0, 1])).backward()
    for key, parameter in converted.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
    rates = [rate for m in masked(converted).values() for rate in m.mask.parameters()]
    assert bool(rates) == kind.learned
    assert all(bool(rate.grad.abs().sum() > 0) for rate in rates)
    torch.optim.SGD(converted.parameters(), lr=0.1).step()
    changed = [k for k, v in converted.state_dict().items() if not torch.equal(v, before[k])]
    assert len([key for key in changed if ".mask." in key]) == len(rates)


@every_mask
@pytest.mark.parametrize("name", NAMES)
def test_every_mask_is_a_site_of_predictions(name: str, kind: Case) -> None:
    network, x = pretrained(name)
    made = type(kind()).__name__
    converted = dubio.convert(network, dubio.rules.mask_inputs(kind, per_unit=True), example=x)
    found = [site for site in dubio.sites(converted, x) if site.kind == made]
    assert {site.name.rpartition(".")[0] for site in found} == set(masked(converted))
    draws = dubio.predict(converted, x, draws=8, where=lambda site: site.kind == made).draws
    assert len(torch.unique(draws, dim=0)) == 8


PAIRS: dict[str, Callable[[], list[nn.Module]]] = {
    "linear": lambda: [nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)],
    "through relu": lambda: [nn.Linear(6, 8), nn.Dropout(0.3), nn.LeakyReLU(0.2), nn.Linear(8, 3)],
    "channels": lambda: [nn.Unflatten(1, (3, 2)), nn.Dropout1d(0.4), nn.Conv1d(3, 4, 1)],
    "channels, pooled": lambda: [
        nn.Unflatten(1, (3, 2)),
        nn.Dropout1d(0.4),
        nn.MaxPool1d(2),
        nn.Conv1d(3, 4, 1),
    ],
}


@pytest.mark.parametrize("name", PAIRS)
def test_bernoulli_masks_do_what_the_dropout_did(name: str) -> None:
    """In train mode the outputs have the same distribution before and after."""
    torch.manual_seed(0)
    rows, repeats = 2, 20_000
    network, x = nn.Sequential(*PAIRS[name]()), torch.randn(rows, 6)
    converted = dubio.convert(network, dubio.rules.replace_dropout(dubio.masks.Bernoulli))
    repeated = x.expand(repeats, rows, 6).flatten(0, 1)
    with torch.no_grad():
        before, after = (
            with_sums(net.train()(repeated).unflatten(0, (repeats, rows)))
            for net in (network, converted)
        )
    apart = deviations(before, after)
    assert apart.max() < critical_value(apart.numel(), 1e-6)  # false alarms: 1e-6 a network
    assert after.std(0).min() > 0


def test_the_table_before_and_after() -> None:
    network, x = pretrained("lstm")
    plan = dubio.plan(network, dubio.rules.replace_dropout(dubio.masks.Concrete), example=x)
    assert str(plan) == "\n".join(
        [
            "layer  before                                                   fed by  after",
            "-----------------------------------------------------------------------------",
            "embed  Embedding(20, 6)                                         -       -",
            "rnn    LSTM(6, 8, num_layers=2, batch_first=True, dropout=0.4)  drop    "
            "Masked(Concrete(units=1, drop=0.25))",
            "head   Linear(8, 3)                                             drop    "
            "Masked(Concrete(units=1, drop=0.25))",
            "",
            "note",
            "rnn: one mask for all positions of a row",
            "",
            "left",
            "rnn: its dropout=0.4 acts inside, between its layers",
        ]
    )
    again = dubio.plan(
        plan.carry_out(), dubio.rules.replace_dropout(dubio.masks.Concrete), example=x
    )
    assert [change.place.name for change in again.changes] == ["embed"]
    assert not again.left
