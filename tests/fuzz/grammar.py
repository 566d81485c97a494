"""Random networks, as text: what users write, put together by chance.

`program(seed)` gives the source of a module. It keeps to a grammar of statements, each of which
fits the shape of what it is applied to: rows of features (B, D), of sequences (B, T, D) or of
images (B, C, H, W).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Shape: TypeAlias = tuple[int, ...]  # without rows
Statement: TypeAlias = Callable[["Writer"], None]

_HEADER = """class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = 0.5
"""


@dataclass(frozen=True)
class Program:
    """A network as text.

    Attributes:
        seed: What it was made from.
        source: The text.
        row: The shape of a row of its input.
        select: Which part of its output is meant.
    """

    seed: int
    source: str
    row: Shape
    select: Any

    def build(self, rates: float | None = None) -> nn.Module:
        """The network, with all dropout rates as written, or all the same."""

        def rate(written: float) -> float:
            return written if rates is None else rates

        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "Tensor": Tensor, "rate": rate}
        exec(self.source, names)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            network: nn.Module = names["Network"]()
            for name, buffer in network.named_buffers():
                if "running_var" in name:
                    buffer.uniform_(0.5, 2.0)
                elif "running_mean" in name:
                    buffer.normal_()
        return network.eval()


@dataclass
class Writer:
    """Writes a network, statement by statement.

    Attributes:
        random: Where choices come from.
        shape: The shape of ``h``, without rows.
    """

    random: random.Random
    shape: Shape
    parts: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    saved: list[tuple[str, Shape]] = field(default_factory=list)
    modules: list[tuple[str, Shape, Shape]] = field(default_factory=list)
    noisy: bool = False

    def line(self, *texts: str) -> None:
        """Lines of ``forward``."""
        self.lines.extend(texts)

    def part(self, text: str) -> str:
        """A submodule, or another attribute; its name."""
        name = f"self.m{len(self.parts)}"
        self.parts.append(f"{name} = {text}")
        return name

    def rate(self) -> str:
        """A dropout rate."""
        self.noisy = True
        return f"rate({self.random.choice([0.1, 0.25, 0.5, 0.8])})"

    def pick(self, *texts: str) -> str:
        """One of several texts."""
        return self.random.choice(texts)


STATEMENTS: dict[int, list[tuple[int, Statement]]] = {1: [], 2: [], 3: []}


def statement(*dims: int, weight: int = 2) -> Callable[[Statement], Statement]:
    """Enter a statement for tensors with so many axes beside the rows."""

    def enter(function: Statement) -> Statement:
        for dim in dims:
            STATEMENTS[dim].append((weight, function))
        return function

    return enter


# Any shape


@statement(1, 2, 3, weight=6)
def dropout_module(w: Writer) -> None:
    kinds = {
        1: ["Dropout", "AlphaDropout", "FeatureAlphaDropout"],
        2: ["Dropout", "Dropout1d", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout"],
        3: ["Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout"],
    }
    kind = w.pick(*kinds[len(w.shape)])
    inplace = ", inplace=True" if kind == "Dropout" and w.random.random() < 0.3 else ""
    w.line(f"h = {w.part(f'nn.{kind}({w.rate()}{inplace})')}(h)")


@statement(1, 2, 3, weight=4)
def dropout_function(w: Writer) -> None:
    training = w.pick("self.training", "True", "training=self.training")
    w.line(f"h = F.dropout(h, {w.rate()}, {training})")


@statement(1, 2, 3)
def dropout_behind_a_gate(w: Writer) -> None:
    w.line("if self.training:", f"    h = F.dropout(h, {w.rate()})")


@statement(1, 2, 3)
def dropout_in_place(w: Writer) -> None:
    w.line("h = h + 1", f"F.dropout(h, {w.rate()}, True, inplace=True)")


@statement(1, 2, 3)
def dropout_of_a_part(w: Writer) -> None:
    half = max(1, w.shape[0] // 2)
    w.line("h = h * 1", f"F.dropout(h[:, :{half}], {w.rate()}, inplace=True)")


@statement(1, 2, 3, weight=4)
def activation(w: Writer) -> None:
    name = w.pick("torch.tanh", "torch.relu", "F.gelu", "torch.sigmoid", "F.silu", "torch.sin")
    w.line(f"h = {name}(h)")


@statement(1, 2, 3, weight=4)
def activation_in_place(w: Writer) -> None:
    w.line("h = h * 0.9", w.pick("h.relu_()", "F.relu(h, inplace=True)", "h.tanh_()", "h += 0.1"))


@statement(1, 2, 3)
def save(w: Writer) -> None:
    name = f"s{len(w.saved)}"
    w.line(f"{name} = {w.pick('h', 'h', 'h.clone()', 'h * 2')}")
    w.saved.append((name, w.shape))


def _saved(w: Writer) -> str | None:
    fitting = [name for name, shape in w.saved if shape == w.shape]
    return w.random.choice(fitting) if fitting else None


@statement(1, 2, 3, weight=3)
def residual(w: Writer) -> None:
    other = _saved(w) or "torch.cos(h)"
    w.line(w.pick(f"h = h + {other}", f"h = {other} - h", f"h = h * 0.5\nh += {other}"))


@statement(1, 2, 3)
def write_into_a_saved_tensor(w: Writer) -> None:
    other = _saved(w)
    if other is not None:
        w.line(w.pick(f"{other}.mul_(1.1)", f"{other}[:, 0] = 0.3", f"{other} += h"))


@statement(1, 2, 3)
def write_into_a_slice(w: Writer) -> None:
    half = max(1, w.shape[0] // 2)
    w.line("h = h * 1.0")
    w.line(
        w.pick(
            f"h[:, :{half}] = h[:, -{half}:].clone()",
            f"h[:, {half}:].mul_(2)",
            "h[:, 0] = h[:, -1] * 2",
            f"h[:, :{half}].copy_(torch.tanh(h[:, :{half}]))",
            "h[h > 1] = 1.0",
            "h.masked_fill_(h < -1, -1.0)",
            "a, *_ = h.unbind(1)\na.neg_()",
            f"a, b = h.split([{half}, {w.shape[0] - half}], 1)\na.add_(1)\nb.sigmoid_()",
            "h = h.contiguous()\nh.view(-1)[::2].mul_(0.5)",
            "h.transpose(0, 1)[0].add_(1)",
            "h.data.mul_(1.5)",
            "torch.add(h, 1.0, out=h)",
            "h = h.contiguous()\nv = h.view(-1)\nh.sub_(0.5)\nh = v.view(h.shape) + h",
        )
    )


@statement(1, 2, 3)
def fill_a_new_tensor(w: Writer) -> None:
    zeros = w.pick("torch.zeros_like(h)", "torch.zeros(h.shape)", "h.new_zeros(h.shape)")
    w.line(f"out = {zeros}", f"for i in range(h.shape[1] - {w.random.randint(0, 1)}):")
    w.line(w.pick("    out[:, i] = h[:, i] * i", "    out[:, i] += h[:, -i] + out[:, i - 1]"))
    w.line("h = out")


@statement(1, 2, 3)
def control_flow_on_shapes(w: Writer) -> None:
    w.line(f"if h.shape[1] > {w.random.randint(1, 8)} and h.dim() > 1:")
    w.line(f"    h = h * {w.pick('2', '-1', 'self.level')}", "else:", "    h = torch.tanh(h)")


@statement(1, 2, 3)
def loop(w: Writer) -> None:
    w.line(f"for i in range({w.random.randint(2, 3)}):")
    w.line(
        w.pick("    h = h + torch.tanh(h) * i", f"    h += F.dropout(h.sin(), {w.rate()}, True)")
    )


@statement(1, 2, 3, weight=1)
def branch_on_values(w: Writer) -> None:
    w.line(
        w.pick(
            "h = h if h.sum() > 0 else -h",
            "h = h * h.abs().max().item()",
            "h = h + len(h.unique()) * 0.01",
            "h = torch.from_numpy(h.numpy() * 2)",
            "h = h * (2.0 if type(h) is torch.Tensor else 3.0)",
            "h = h + float(f'{h.flatten()[0]:.3f}')",
        )
    )


@statement(1, 2, 3)
def elementwise(w: Writer) -> None:
    other = _saved(w) or "h.flip(1)"
    w.line(
        w.pick(
            f"h = torch.where(h > 0, h, {other})",
            f"h = torch.maximum(h, {other})",
            "h = h.clamp(-1.0, 1.5)",
            "h = h.softmax(1)",
            "h = h.cumsum(1) * 0.3",
            "h = h.sort(1).values",
            "h = h.roll(1, 1)",
            "h = h / (1 + h.norm())",
            "h = h - h.mean(1, keepdim=True)",
            "h = h.double().float()",
            "h = torch.stack([h, h * 2]).sum(0)",
            "h = torch.cat([h[:, :1], h[:, 1:]], 1)",
            "h = h.unsqueeze(1).expand(-1, 2, *[-1] * (h.dim() - 1)).mean(1)",
        )
    )


# Features


@statement(1, weight=5)
def linear(w: Writer) -> None:
    size = w.random.choice([4, 6, 8, 12])
    w.line(f"h = {w.part(f'nn.Linear({w.shape[0]}, {size})')}(h)")
    w.shape = (size,)


@statement(1, weight=3)
def block_that_may_be_used_again(w: Writer) -> None:
    size = w.shape[0]
    name = w.part(f"nn.Sequential(nn.Linear({size}, {size}), nn.ReLU(), nn.Dropout({w.rate()}))")
    w.line(*[f"h = {name}(h)"] * w.random.randint(1, 2))


@statement(1)
def normalisation_of_features(w: Writer) -> None:
    size = w.shape[0]
    kind = w.pick("LayerNorm", "BatchNorm1d")
    w.line(f"h = {w.part(f'nn.{kind}({size})')}(h)")


@statement(1)
def gated_linear_unit(w: Writer) -> None:
    size = w.shape[0]
    w.line(f"a, b = {w.part(f'nn.Linear({size}, {2 * size})')}(h).chunk(2, -1)")
    w.line(w.pick("h = a * b.sigmoid()", "b.sigmoid_()\nh = a * b", "a *= b\nh = a"))


@statement(1)
def joined(w: Writer) -> None:
    name, shape = w.random.choice(w.saved) if w.saved else ("h", w.shape)
    if len(shape) == 1:
        w.line(f"h = torch.cat([h, {name}], 1)")
        w.shape = (w.shape[0] + shape[0],)


@statement(1)
def chosen_features(w: Writer) -> None:
    k = min(3, w.shape[0])
    w.line(
        w.pick(
            f"h = h.topk({k}).values",
            f"h = h[:, :{k}]",
            f"h = h.index_select(1, torch.arange({k}))",
        )
    )
    w.shape = (k,)


@statement(1)
def features_become_a_sequence(w: Writer) -> None:
    steps = w.random.choice([d for d in (1, 2, 3, 4) if w.shape[0] % d == 0])
    w.line(
        w.pick(
            f"h = h.reshape(-1, {steps}, {w.shape[0] // steps})",
            f"h = h.unflatten(1, ({steps}, -1))",
        )
    )
    w.shape = (steps, w.shape[0] // steps)


@statement(1)
def part_of_the_memory(w: Writer) -> None:
    k = max(1, w.shape[0] // 2)
    w.line("h = h.contiguous() * 1", f"v = h.as_strided((h.shape[0], {k}), ({w.shape[0]}, 1))")
    w.line(w.pick("v.mul_(2)", "h = h + v.sum(1, keepdim=True)", "v.copy_(torch.tanh(v))"))


@statement(1)
def gather(w: Writer) -> None:
    w.line("h = h + h.gather(1, h.argmax(1, keepdim=True))")


# Sequences


@statement(2, weight=3)
def recurrent(w: Writer) -> None:
    kind, size = w.pick("LSTM", "GRU", "RNN"), w.random.choice([4, 6])
    batch_first, both = w.random.random() < 0.6, w.random.random() < 0.3
    options = f"dropout={w.rate()}, batch_first={batch_first}, bidirectional={both}"
    name = w.part(f"nn.{kind}({w.shape[1]}, {size}, 2, {options})")
    w.line(f"h = {name}({'h' if batch_first else 'h.transpose(0, 1)'})[0]")
    if not batch_first:
        w.line("h = h.transpose(0, 1)")
    w.shape = (w.shape[0], 2 * size if both else size)


@statement(2)
def recurrent_cell(w: Writer) -> None:
    size = w.shape[1]
    name = w.part(f"nn.{w.pick('GRUCell', 'RNNCell')}({size}, {size})")
    w.line("state = torch.zeros(h.shape[0], h.shape[2])", "steps = []")
    w.line("for step in h.unbind(1):", f"    state = {name}(step, F.dropout(state, {w.rate()}))")
    w.line("    steps.append(state)", "h = torch.stack(steps, 1)")


@statement(2, weight=3)
def attention(w: Writer) -> None:
    if w.shape[1] % 2:
        return
    weights = w.pick("True", "False")
    name = w.part(f"nn.MultiheadAttention({w.shape[1]}, 2, dropout={w.rate()}, batch_first=True)")
    call = w.pick("h, h, h", "query=h, key=h, value=h", "h, h.flip(1), h")
    w.line(f"h = {name}({call}, need_weights={weights})[0]")


@statement(2)
def plain_attention(w: Writer) -> None:
    causal = w.pick("True", "False")
    call = w.pick("h, h, h", "h, key=h, value=h")
    w.line(f"h = F.scaled_dot_product_attention({call}, dropout_p={w.rate()}, is_causal={causal})")


@statement(2)
def transformer_layer(w: Writer) -> None:
    if w.shape[1] % 2:
        return
    first = w.pick("True", "False")
    options = f"dropout={w.rate()}, batch_first=True, norm_first={first}"
    w.line(f"h = {w.part(f'nn.TransformerEncoderLayer({w.shape[1]}, 2, 8, {options})')}(h)")


@statement(2)
def merged_rows(w: Writer) -> None:
    size, new = w.shape[1], w.random.choice([4, 6])
    name = w.part(f"nn.Linear({size}, {new})")
    w.line(f"h = {name}(h.reshape(-1, {size}))", f"h = F.dropout(h, {w.rate()})")
    w.line(f"h = h.view(-1, {w.shape[0]}, {new})")
    w.shape = (w.shape[0], new)


@statement(2)
def convolution_in_time(w: Writer) -> None:
    new = w.random.choice([4, 6])
    name = w.part(f"nn.Conv1d({w.shape[1]}, {new}, 3, padding=1)")
    w.line(f"h = {name}(h.transpose(1, 2)).transpose(1, 2)")
    w.shape = (w.shape[0], new)


@statement(2, weight=3)
def linear_of_steps(w: Writer) -> None:
    new = w.random.choice([4, 6, 8])
    w.line(f"h = {w.part(f'nn.Linear({w.shape[1]}, {new})')}(h)")
    w.shape = (w.shape[0], new)


@statement(2, weight=3)
def reduced(w: Writer) -> None:
    w.line(
        w.pick(
            "h = h.mean(1)", "h = h[:, -1]", "h = h.amax(1)", "h = h.sum(1)", "h = h.logsumexp(1)"
        )
    )
    w.shape = w.shape[1:]


@statement(2)
def positions(w: Writer) -> None:
    name = w.part(f"nn.Embedding({w.shape[0]}, {w.shape[1]})")
    w.line(f"h = h + {name}(torch.arange(h.shape[1]))")


@statement(2)
def norm_of_steps(w: Writer) -> None:
    w.line(f"h = {w.part(f'nn.LayerNorm({w.shape[1]})')}(h)")


@statement(2)
def products(w: Writer) -> None:
    w.line("h = torch.einsum('btd,bsd->bts', h, h).softmax(-1) @ h")


# Images


@statement(3, weight=4)
def convolution(w: Writer) -> None:
    new = w.random.choice([2, 4])
    name = w.part(f"nn.Conv2d({w.shape[0]}, {new}, 3, padding=1, bias={w.pick('True', 'False')})")
    w.line(f"h = {name}(h)")
    w.shape = (new, *w.shape[1:])


@statement(3)
def normalisation_of_channels(w: Writer) -> None:
    channels = w.shape[0]
    text = w.pick(
        f"nn.BatchNorm2d({channels})",
        f"nn.GroupNorm(1, {channels})",
        f"nn.InstanceNorm2d({channels})",
    )
    w.line(f"h = {w.part(text)}(h)")


@statement(3)
def pooling(w: Writer) -> None:
    if min(w.shape[1:]) < 2:
        return
    w.line(w.pick("h = F.max_pool2d(h, 2)", "h = F.avg_pool2d(h, 2)"))
    w.shape = (w.shape[0], w.shape[1] // 2, w.shape[2] // 2)


@statement(3)
def upsampling(w: Writer) -> None:
    if w.shape[1] > 4:
        return
    w.line(w.pick("h = F.interpolate(h, scale_factor=2)", "h = h.repeat(1, 1, 2, 2)"))
    w.shape = (w.shape[0], 2 * w.shape[1], 2 * w.shape[2])


@statement(3, weight=3)
def features_of_an_image(w: Writer) -> None:
    if w.random.random() < 0.5:
        w.line(w.pick("h = h.flatten(1)", "h = h.reshape(h.shape[0], -1)"))
        w.shape = (w.shape[0] * w.shape[1] * w.shape[2],)
    else:
        w.line(w.pick("h = h.mean((2, 3))", "h = h.amax((2, 3))"))
        w.shape = w.shape[:1]


@statement(3)
def patches(w: Writer) -> None:
    w.line(
        w.pick("h = h.flatten(2).transpose(1, 2)", "h = h.flatten(2).permute(0, 2, 1).contiguous()")
    )
    w.shape = (w.shape[1] * w.shape[2], w.shape[0])


# Outputs

_OUTPUTS: list[tuple[str, Any]] = [
    ("return h", None),
    ("return h", None),
    ("return (h, h * 2)", 0),
    ("return h.sum(1), [h * 2]", lambda out: out[1][0]),
    ("return {'out': h + 1, 'other': h.mean()}", "out"),
    ("out = {'out': h, 'late': h.exp()}\n        h.detach().mul_(2)\n        return out", "out"),
]


def program(seed: int) -> Program:
    """The network that belongs to a seed."""
    chance = random.Random(seed)
    row: Shape = chance.choice([(6,), (8,), (3, 6), (4, 4), (2, 4, 4)])
    writer = Writer(chance, row)
    for _ in range(chance.randint(3, 9)):
        weights, statements = zip(*STATEMENTS[len(writer.shape)], strict=True)
        chance.choices(statements, weights)[0](writer)
    if not writer.noisy:
        dropout_module(writer)
    if chance.random() < 0.7 and len(writer.shape) == 1:
        linear(writer)
    text, select = chance.choice(_OUTPUTS)
    lines = [part for line in writer.lines for part in line.split("\n")]
    parts = "".join(f"        {part}\n" for part in writer.parts)
    body = "".join(f"        {line}\n" for line in lines)
    forward = f"\n    def forward(self, x):\n        h = x\n{body}        {text}\n"
    return Program(seed, _HEADER + parts + forward, row, select)
