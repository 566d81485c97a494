"""Noise behind flags, whoever reads them and whenever they begin to matter.

Spreads are compared by the logarithm of the ratio of two variances, averaged over 15 outputs with
400 draws each: its standard deviation is below 0.1, and what could be missing makes it −2.
"""

import functools
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
import elsewhere
from plain_passes import DRAWS, Net, check_spread, inputs, loop
from references import seeded

# Noise behind a flag that is read where the look at the code does not go: left out silently.


class ByFunctionOfAModule(Net):
    def pre(self, h: Tensor) -> Tensor:
        return elsewhere.maybe_drop(self, h)


class Tricks:
    @staticmethod
    def drop(module: nn.Module, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if module.training else h


class ByStaticMethod(Net):
    def pre(self, h: Tensor) -> Tensor:
        return Tricks.drop(self, h)


class ByPartial(Net):
    def build(self) -> None:
        self.function = functools.partial(elsewhere.maybe_drop, self)

    def pre(self, h: Tensor) -> Tensor:
        return self.function(h)


class InADict(Net):
    def build(self) -> None:
        self.functions = {"drop": elsewhere.maybe_drop}

    def pre(self, h: Tensor) -> Tensor:
        return self.functions["drop"](self, h)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)


class AsksAGrandchild(Net):
    def build(self) -> None:
        self.encoder = Encoder()

    def pre(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if self.encoder.drop.training else h


class AsksLayersOfAList(Net):
    def build(self) -> None:
        self.layers = nn.ModuleList([nn.Linear(30, 30)])

    def pre(self, h: Tensor) -> Tensor:
        for layer in self.layers:
            h = layer(h)
            h = F.dropout(h, 0.5) if layer.training else h
        return h


class AsksItsOwner(nn.Module):
    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = [owner]

    def forward(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if self.owner[0].training else h


class Owner(Net):
    def build(self) -> None:
        self.part = AsksItsOwner(self)

    def pre(self, h: Tensor) -> Tensor:
        return self.part(h)


def hook_asks_the_network() -> Net:
    network = Net()
    network.a.register_forward_hook(
        lambda module, given, output: F.dropout(output, 0.5) if network.training else output
    )
    return network


flag_of = operator.attrgetter("training")


class ByAttrgetter(Net):
    def pre(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if flag_of(self) else h


class InAThread(Net):
    """Not a flag, but found by the same look at the code."""

    def build(self) -> None:
        self.other = nn.Dropout(0.5)

    def pre(self, h: Tensor) -> Tensor:
        return elsewhere.in_a_thread(self.other, h)


HIDDEN = (
    ByFunctionOfAModule, ByStaticMethod, ByPartial, InADict, AsksAGrandchild, AsksLayersOfAList,
    Owner, hook_asks_the_network, ByAttrgetter, InAThread,
)  # fmt: skip


@pytest.mark.parametrize("kind", HIDDEN)
def test_noise_behind_a_flag_that_is_read_elsewhere(kind: Callable[[], Net]) -> None:
    network, x = kind(), inputs()
    try:
        draws = dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws
    except (dubio.GateError, NotImplementedError):
        return
    check_spread(draws, loop(network, x))


def test_a_function_that_asks_a_part_of_its_network() -> None:
    whole = nn.Sequential(Net())

    def model(x: Tensor) -> Tensor:
        net: Any = whole[0]
        h = torch.relu(net.a(x))
        h = F.dropout(h, 0.5) if net.training else h
        y: Tensor = net.b(net.drop(h))
        return y

    x = inputs()
    draws = dubio.predict(model, x, draws=DRAWS, generator=seeded()).draws
    whole.train()
    check_spread(draws, torch.stack([model(x) for _ in range(DRAWS)]).detach())


class Gate(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if self.training else h


class GateInAPlainList(Net):
    def build(self) -> None:
        self.blocks = [Gate().eval()]

    def pre(self, h: Tensor) -> Tensor:
        return self.blocks[0](h)


def test_a_gate_in_a_plain_list() -> None:
    network, x = GateInAPlainList(), inputs()
    draws = dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws
    network.blocks[0].train()
    check_spread(draws, loop(network, x))


class OtherWayInTraining(Net):
    """With all flags up the gate is never reached; with its own alone it is."""

    def build(self) -> None:
        self.gate = Gate()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        return self.b(self.drop(h if self.training else self.gate(h)))


def test_a_gate_on_a_way_that_is_taken_in_eval_mode_only() -> None:
    network, x = OtherWayInTraining(), inputs()
    try:
        draws = dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws
    except dubio.GateError:
        return
    network.gate.train()
    network.drop.train()
    with torch.no_grad():
        expected = torch.stack([network(x) for _ in range(DRAWS)])
    check_spread(draws, expected)


class SwitchedByTrain(Net):
    """What `train` and `eval` switch is an attribute, as LoRA merges its weights."""

    active = False

    def train(self, mode: bool = True) -> "SwitchedByTrain":
        super().train(mode)
        self.active = mode
        return self

    def pre(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if self.active else h


def test_a_mode_that_is_more_than_a_flag_cannot_be_changed_in_passing() -> None:
    network = SwitchedByTrain()
    dubio.predict(network.eval(), inputs(), draws=3, generator=seeded())
    with pytest.raises(ValueError, match=r"call \.eval\(\) before"):
        dubio.predict(network.train(), inputs(), draws=3, generator=seeded())


# Gates are remembered by structure, not by numbers: a call that showed nothing vouches.


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.a = nn.Linear(6, 40, bias=False)
            self.b = nn.Linear(40, 3, bias=False)
            self.aux = nn.Linear(40, 3)
        self.alpha = nn.Parameter(torch.zeros(()))
        self.eval()

    def hidden(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        return F.dropout(h, 0.2) if self.training else h


class TripleInTraining(Bare):
    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.hidden(x))
        return 3 * y if self.training else y


class AuxiliaryInTraining(Bare):
    def forward(self, x: Tensor) -> Tensor:
        h = self.hidden(x)
        return self.b(h) + self.alpha * self.aux(h) if self.training else self.b(h)


class MixedInTraining(Bare):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        return self.b(F.dropout(0.7 * h + 0.3 * h.roll(1, 0), 0.2) if self.training else h)


class ClampedInTraining(Bare):
    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.hidden(x))
        return y.clamp(-2, 2) if self.training else y


BENIGN: dict[str, tuple[type[Bare], Callable[[Tensor], Tensor], float]] = {
    "zeros": (TripleInTraining, torch.zeros_like, 1.0),
    "a weight of zero": (AuxiliaryInTraining, lambda x: x, 1.0),
    "one row": (MixedInTraining, lambda x: x[:1], 1.0),
    "small values": (ClampedInTraining, lambda x: 0.1 * x, 30.0),
}


@pytest.mark.parametrize("case", BENIGN)
@pytest.mark.parametrize("way", ["predict", "predictor", "attack"])
def test_a_first_call_that_shows_nothing_does_not_open_a_gate(case: str, way: str) -> None:
    kind, first, scale = BENIGN[case]
    network, x = kind(), scale * inputs()
    predictor = dubio.Predictor(network, draws=20)

    def call(x: Tensor) -> None:
        if way == "attack":
            y, likelihood = torch.zeros(len(x), dtype=torch.long), dubio.likelihoods.Categorical()
            dubio.attack.fgsm(network, x, y, 0.1, likelihood=likelihood, draws=2, bounds=None)
        elif way == "predictor":
            predictor(x, seeded())
        else:
            dubio.predict(network, x, draws=20, generator=seeded())

    call(first(x))
    with torch.no_grad():
        network.alpha.fill_(5.0)
    with pytest.raises(dubio.GateError):
        call(x)


class RateInABuffer(Net):
    def build(self) -> None:
        self.register_buffer("rate", torch.zeros(()))

    def pre(self, h: Tensor) -> Tensor:
        return F.dropout(h, float(self.rate)) if self.training else h


class WarmUp(Net):
    def build(self) -> None:
        self.step = 0

    def pre(self, h: Tensor) -> Tensor:
        self.step += 1
        return F.dropout(h, 0.5) if self.training and self.step > 50 else h


@pytest.mark.parametrize("predictor", [False, True])
@pytest.mark.parametrize("kind", [RateInABuffer, WarmUp])
def test_a_gate_that_opens_later(kind: type[Net], predictor: bool) -> None:
    network, x = kind(), inputs()
    prepared = dubio.Predictor(network, draws=DRAWS)

    def draw() -> Tensor:
        if predictor:
            return prepared(x, seeded()).draws
        return dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws

    draw()
    if isinstance(network, RateInABuffer):
        network.rate.fill_(0.5)
    for _ in range(60):
        network(x)
    check_spread(draw(), loop(network, x))


class ColumnsOfOtherSizes(Bare):
    """A large mean, and a small log variance that the flag triples."""

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance, _ = self.b(self.hidden(x)).unbind(-1)
        log_variance = 3 * log_variance if self.training else log_variance
        return torch.stack([1e5 + mean, log_variance], -1)


def test_a_flag_that_changes_a_small_output_beside_a_large_one() -> None:
    with pytest.raises(dubio.GateError):
        dubio.predict(ColumnsOfOtherSizes(), inputs(), draws=20, generator=seeded())


class TwoHeadsInTraining(Net):
    def pre(self, h: Tensor) -> Tensor:
        return F.dropout(h, 0.5) if self.training else h

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        return (y, 2 * y) if self.training else y


def test_a_first_batch_on_which_the_noise_does_not_matter() -> None:
    network = TwoHeadsInTraining()
    with torch.no_grad():
        network.a.bias.fill_(-1.0)
    dubio.predict(network, torch.zeros(1, 6), draws=3, generator=seeded())
    with pytest.raises(dubio.GateError):  # as a network without a memory has it
        dubio.predict(network, 3 * inputs(), draws=3, generator=seeded())


# Random numbers of generators that nobody looks at: the tape keeps those of the first pass.


class LayerDrop(Net):
    """Leaves its layer out in a tenth of the passes, by a generator of its own."""

    def build(self) -> None:
        self.random = random.Random(0)

    def pre(self, h: Tensor) -> Tensor:
        return h * 0 if self.random.random() < 0.1 else h


def test_rare_noise_of_a_generator_of_its_own() -> None:
    network = LayerDrop()
    draws = dubio.predict(network, inputs(), draws=2000, generator=seeded()).draws
    share = float((draws == network.b.bias).all(-1).all(-1).double().mean())
    assert abs(share - 0.1) < 5 * (0.09 / 2000) ** 0.5  # false alarm: 6e-7


class SmallColumn(Net):
    def build(self) -> None:
        self.random = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.from_numpy(self.random.normal(size=len(x))).float()
        return torch.stack([1e4 * super().forward(x)[:, 0], noise], 1)


def test_noise_in_a_small_output_beside_a_large_one() -> None:
    draws = dubio.predict(SmallColumn(), inputs(), draws=100, generator=seeded()).draws
    assert bool((draws[..., 1].std(0) > 0.5).all())


class NoiseThatGrows(Net):
    def build(self) -> None:
        self.sigma, self.random = nn.Parameter(torch.zeros(())), np.random.default_rng(0)

    def mid(self, h: Tensor) -> Tensor:
        return h + self.sigma * torch.from_numpy(self.random.normal(size=tuple(h.shape))).float()


def test_a_tape_without_such_noise_does_not_vouch_for_one_with_it() -> None:
    network, x = NoiseThatGrows(), inputs()
    dubio.predict(network, x, draws=4, generator=seeded())
    with torch.no_grad():
        network.sigma.fill_(0.7)
    draws = dubio.predict(network, x, draws=DRAWS, generator=seeded()).draws
    check_spread(draws, loop(network, x))
