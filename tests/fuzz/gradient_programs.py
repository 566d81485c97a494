"""Random small networks with few masked units, so that all of their masks can be enumerated."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dubio.layers.drop_connect import DropConnect
from dubio.layers.masked import Masked
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    LearnedGaussian,
    Likelihood,
)
from dubio.masks import LearnableBernoulli

Function = Callable[[Tensor], Tensor]


class OfTheBatch(Gaussian):  # type: ignore[misc]
    """A likelihood that looks at the whole batch."""

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        return super().log_prob(outputs - outputs.mean(1, keepdim=True), y)


@dataclass
class Case:
    """A network at work on a batch.

    Attributes:
        net: The network.
        likelihood: What its outputs mean.
        x: Its inputs.
        y: Its targets.
        select: Which part of the output is meant.
        fair: Whether all rates are one half.
        text: What the network does.
    """

    net: nn.Module
    likelihood: Likelihood
    x: Any
    y: Tensor
    select: Any
    fair: bool
    text: str


class Program(nn.Module):
    """A line of functions; masks are added as long as there are units left for them."""

    def __init__(self, dice: random.Random, rows: int, width: int, units: int) -> None:
        super().__init__()
        self.dice, self.rows, self.width, self.left = dice, rows, width, units
        self.parts = nn.ModuleList()
        self.masks: list[LearnableBernoulli] = []
        self.masked_layers: list[Masked] = []
        self.functions: list[Function] = []
        self.names: list[str] = []
        self.form = "tensor"
        self.replaces = dice.random() < 0.5  # or writes into buffers

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        for function in self.functions:
            x = function(x)
        for other in others:
            x = x + other
        return {"tensor": x, "dict": {"scores": x, "rows": x.sum(1)}, "tuple": (x.sum(0), x)}[
            self.form
        ]

    def add(self, name: str, function: Function, width: int | None = None) -> None:
        self.names.append(name)
        self.functions.append(function)
        self.width = self.width if width is None else width

    def part(self, module: nn.Module) -> Any:
        self.parts.append(module)
        return module

    def linear(self, width: int) -> nn.Linear:
        layer: nn.Linear = self.part(nn.Linear(self.width, width))
        return layer

    def mask(self, units: int, rows: int) -> LearnableBernoulli | None:
        """A mask, new or tied to an old one, if there are units left."""
        if units * rows > self.left:
            return None
        self.left -= units * rows
        old = [mask for mask in self.masks if mask.units in (1, units)]
        if old and self.dice.random() < 0.3:
            return self.dice.choice(old).tied()
        mask = LearnableBernoulli(self.dice.choice([1, units]))
        self.masks.append(mask)
        return mask


def _masked(p: Program) -> None:
    mask = p.mask(p.width, p.rows)
    if mask is not None:
        width = p.dice.randint(1, 2)
        layer = p.part(Masked(nn.Linear(p.width, width), mask))
        p.masked_layers.append(layer)
        p.add("masked linear", layer, width)


def _masked_again(p: Program) -> None:
    known = [layer for layer in p.masked_layers if layer.layer.in_features == p.width]
    if known:
        layer = p.dice.choice(known)
        p.add("the same masked linear", layer, layer.layer.out_features)


def _masked_convolution(p: Program) -> None:
    mask = p.mask(p.width, p.rows)
    if mask is not None:
        layer = p.part(Masked(nn.Conv1d(p.width, 2, 2), mask))
        p.add(
            "masked convolution",
            lambda h: layer(torch.stack([h, h.tanh(), -h], 2)).mean(2),
            2,
        )


def _masked_sequence(p: Program) -> None:
    mask = p.mask(p.width, p.rows)
    if mask is not None:
        kind = p.dice.choice([nn.LSTM, nn.GRU, nn.RNN])
        first = p.dice.random() < 0.5
        layer = p.part(Masked(kind(p.width, 2, batch_first=first), mask))

        def over_time(h: Tensor) -> Tensor:
            out: Tensor = layer(torch.stack([h, -h], 1 if first else 0))[0]
            return out[:, -1] if first else out[-1]

        p.add(f"masked {kind.__name__}{' batch first' if first else ''}", over_time, 2)


def _masked_columns(p: Program) -> None:
    """A mask whose rows are those of the transposed: as many as columns."""
    mask = p.mask(1, p.width)
    if mask is not None:
        layer = p.part(Masked(nn.Linear(1, 1), mask))
        p.add("masked columns", lambda h: layer(h.T[..., None])[..., 0].T)


def _drop_connect(p: Program) -> None:
    mask = p.mask(p.width, 1)
    if mask is not None:
        p.add("drop connect", p.part(DropConnect(nn.Linear(p.width, 1), mask)), 1)


def _norm(p: Program) -> None:
    layer = p.part(nn.BatchNorm1d(p.width))
    layer.train(p.dice.random() < 0.5)
    if p.dice.random() < 0.3:
        nn.init.zeros_(layer.weight)
        p.add(f"h + closed batch norm, training={layer.training}", lambda h: h + layer(h))
    else:
        p.add(f"batch norm, training={layer.training}", layer)


def _linear(p: Program) -> None:
    width = p.dice.randint(1, 3)
    p.add("linear", p.linear(width), width)


def _shared(p: Program) -> None:
    layer = p.linear(p.width)
    p.add("shared linear", lambda h: layer(layer(h).tanh()))


def _convolution(p: Program) -> None:
    layer = p.part(nn.Conv2d(1, 2, (1, 2), padding=(0, 1)))
    width = 2 * (p.width + 1)
    p.add("convolution", lambda h: layer(h[:, None, None]).flatten(1)[:, :3], min(width, 3))


def _residual(p: Program) -> None:
    layer = p.linear(p.width)
    p.add("residual", lambda h: h + layer(h).relu())


def _concatenated(p: Program) -> None:
    if p.width <= 2:
        layer = p.linear(1)
        p.add("concatenated", lambda h: torch.cat([h, layer(h)], 1), p.width + 1)


def _branch(p: Program) -> None:
    p.add("branch of Python", lambda h: h.tanh() if h.mean() > 0 else h - 1)


def _gate(p: Program) -> None:
    gate = nn.Parameter(torch.tensor(p.dice.choice([0.0, 0.7])))
    p.register_parameter(f"gate{len(p.names)}", gate)
    p.add("gated mean", lambda h: h + gate * h.mean(0))


def _average(p: Program) -> None:
    name = f"average{len(p.names)}"
    p.register_buffer(name, torch.zeros(p.width))

    def centre(h: Tensor) -> Tensor:
        if p.replaces:
            setattr(p, name, 0.5 * getattr(p, name) + 0.5 * h.detach().mean(0))
        else:
            getattr(p, name).mul_(0.5).add_(0.5 * h.detach().mean(0))
        return h - getattr(p, name)

    p.add("moving average", centre)


def _assign(p: Program) -> None:
    def assign(h: Tensor) -> Tensor:
        out = torch.empty_like(h)
        out[0], out[1:] = h[0], h[1:] * h[:-1].tanh()
        return out

    p.add("assigned", assign)


def _filled(p: Program) -> None:
    def fill(h: Tensor) -> Tensor:
        out = torch.zeros_like(h)
        for i in range(len(h)):
            out[i] = h[i].sin()
        return out

    p.add("row by row", fill)


SIMPLE: dict[str, Function] = {
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "square": lambda h: h.square().clamp(max=4),
    "softmax": lambda h: h.softmax(1),
    "softmax over rows": lambda h: h.softmax(0),
    "layer norm": lambda h: F.layer_norm(h, h.shape[1:], eps=0.1),
    "group norm": lambda h: F.group_norm(h, 1, eps=0.1),
    "instance norm": lambda h: F.instance_norm(torch.stack([h, h.cos()], 2), eps=0.1).sum(2),
    "centred": lambda h: h - h.mean(0),
    "centred without a gradient": lambda h: h - h.detach().mean(0),
    "centred rows": lambda h: h - 0.5 * h.mean(1, keepdim=True),
    "scaled": lambda h: h / (1 + h.std(0)),
    "neighbours": lambda h: h + h.roll(1, 0).sin(),
    "columns": lambda h: h.roll(1, 1),
    "reversed": lambda h: h.flip(0),
    "twice reversed": lambda h: h.flip(0).cos().flip(0),
    "cumulative": lambda h: h.cumsum(0),
    "cumulative rows": lambda h: h.cumsum(1),
    "sorted": lambda h: h.sort(0).values,
    "sorted rows": lambda h: h.sort(1, descending=True).values,
    "rank": lambda h: h * (1 + h.argsort(0).argsort(0)),
    "largest row": lambda h: h + h[h[:, 0].argmax()].detach(),
    "step": lambda h: h + 0.3 * (h.roll(1, 0) > 0),
    "largest": lambda h: h + h.amax(1, keepdim=True),
    "largest of all": lambda h: h + h.amax(0),
    "attention": lambda h: (h @ h.T).softmax(1) @ h,
    "products": lambda h: torch.einsum("bi,bj->bi", h, h.sin()),
    "view": lambda h: h.reshape(-1).view(h.shape).t().contiguous().t(),
    "mixed view": lambda h: h.t().reshape(h.shape),
    "in place": lambda h: h.clone().mul_(1.5).add_(h.sin()),
    "in place of a view": lambda h: (z := h.clone(), z[1:].add_(h[:1]))[0],
    "set by mask": lambda h: (z := h.clone(), z.__setitem__(h < 0, 0.1))[0],
    "where": lambda h: torch.where(h > 0, h, 0.2 * h.exp()),
    "own rows": lambda h: h[torch.arange(len(h))] * 1.1,
    "turned rows": lambda h: h[torch.arange(len(h)).flip(0)],
    "stacked": lambda h: torch.stack([h, h.cos()]).prod(0),
    "number": lambda h: h * (1 + float(h.detach().sin().mean())),
    "padded": lambda h: F.pad(h, (1, 1))[:, 1:-1],
    "small part": lambda h: h - 1e-5 * h.mean(0) + h.tanh(),
}  # fmt: skip

MASKED = [_masked, _masked, _masked, _masked_convolution, _masked_sequence, _masked_columns]
MASKED += [_drop_connect]
OTHERS = [_masked_again, _norm, _norm, _linear, _shared, _convolution, _residual, _concatenated]
OTHERS += [_branch, _gate, _average, _assign, _filled]


def make(seed: int) -> Case:
    """The case of a seed."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    rows, fair = dice.randint(2, 6), dice.random() < 0.6
    units = dice.randint(rows, 6 if fair else 4) if rows <= (6 if fair else 4) else rows
    width = dice.randint(1, 2)
    program = Program(dice, rows, width, units)
    for _ in range(dice.randint(0, 2)):  # the trunk
        _simple(program) if dice.random() < 0.5 else dice.choice(OTHERS)(program)
    while not program.masks:
        program.width > 2 and program.add("two columns", lambda h: h[:, :2], 2)
        dice.choice(MASKED[:3] if program.width * rows <= units else MASKED)(program)
        if not program.masks:
            program.add("a column", lambda h: h[:, :1], 1)
    for _ in range(dice.randint(1, 4)):
        chance = dice.random()
        if chance < 0.25:
            dice.choice(MASKED)(program)
        elif chance < 0.55:
            dice.choice(OTHERS)(program)
        else:
            _simple(program)
    likelihood, outputs, y = _likelihood(dice, rows)
    program.add("linear", program.linear(outputs), outputs)
    program.form = dice.choice(["tensor", "tensor", "dict", "tuple"])
    net = program.double()
    for name, parameter in net.named_parameters():
        if parameter.requires_grad and parameter.any() and "gate" not in name:
            with torch.no_grad():
                parameter.copy_(torch.randn_like(parameter))
    with torch.no_grad():
        for mask in program.masks:
            mask.logit.copy_(torch.zeros_like(mask.logit) if fair else torch.randn_like(mask.logit))
    x: Any = torch.randn(rows, width).double()
    if dice.random() < 0.2:
        x = (x, torch.randn(rows, 1).double())
    text = f"seed {seed}, {rows} rows, {likelihood}: {', '.join(program.names)}"
    select = {"tensor": None, "dict": "scores", "tuple": 1}[program.form]
    return Case(net, likelihood, x, y, select, fair, text)


def _simple(p: Program) -> None:
    name = p.dice.choice(list(SIMPLE))
    p.add(name, SIMPLE[name])


def _likelihood(dice: random.Random, rows: int) -> tuple[Likelihood, int, Tensor]:
    """A likelihood, how many outputs it needs, and targets."""
    outputs = dice.randint(1, 2)
    real = torch.randn(rows, outputs).double()
    match dice.randrange(6):
        case 0:
            return Gaussian(2.0), outputs, real
        case 1:
            return LearnedGaussian(outputs).double(), outputs, real
        case 2:
            return HeteroscedasticGaussian(), 2 * outputs, real
        case 3:
            return Bernoulli(), outputs, (real > 0).double()
        case 4:
            return OfTheBatch(1.5), outputs, real
        case _:
            return Categorical(), outputs + 1, torch.randint(outputs + 1, (rows,))
