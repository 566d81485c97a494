"""A zoo of ordinary networks, written as users write them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Functional(nn.Module):
    """F.dropout in the middle of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.dropout(torch.tanh(self.a(x)), 0.3, self.training))


class Guarded(nn.Module):
    """Dropout behind ``if self.training``."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        if self.training:
            h = F.dropout(h, 0.4)
        return self.b(h)


class MadeInForward(nn.Module):
    """A dropout module that lives for one pass."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(nn.Dropout(0.25)(F.gelu(self.a(x))))


class Recurrent(nn.Module):
    """Dropout between the layers of an LSTM, GRU or RNN."""

    def __init__(self, cell: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.rnn = cell(6, 8, num_layers=3, dropout=0.4, **options)
        self.head = nn.Linear(16 if options.get("bidirectional") else 8, 3)
        self.batch_first = options.get("batch_first", False)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, 6)
        h, _ = self.rnn(x if self.batch_first else x.transpose(0, 1))
        return self.head(h[:, -1] if self.batch_first else h[-1])


class Packed(nn.Module):
    """An LSTM over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 8, 2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        lengths = (10 * x[:, 0, 0].abs()).long() % x.shape[1] + 1
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(h.sum(1))


class Attention(nn.Module):
    """nn.MultiheadAttention with dropout on its weights and nowhere else."""

    def __init__(self, need_weights: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=batch_first)
        self.head = nn.Linear(8, 3)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        h = h if self.attention.batch_first else h.transpose(0, 1)
        h, _ = self.attention(h, h, h, need_weights=self.need_weights)
        h = h if self.attention.batch_first else h.transpose(0, 1)
        return self.head(h.mean(1))


class Transformer(nn.Module):
    """nn.TransformerEncoder and a decoder."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 8)
        self.body = nn.Transformer(8, 2, 1, 1, 16, dropout=0.2, batch_first=batch_first)
        self.head = nn.Linear(8, 3)
        self.batch_first = batch_first

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        h = h if self.batch_first else h.transpose(0, 1)
        h = self.body(h, h)
        return self.head(h[:, -1] if self.batch_first else h[-1])


class CausalAttention(nn.Module):
    """scaled_dot_product_attention whose dropout is gated by self.training, as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(6, 24), nn.Linear(8, 3)
        self.dropout = 0.3

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        return self.head(h.transpose(1, 2).flatten(2).sum(1))


class Residual(nn.Module):
    """A skip connection that starts before the first dropout, with BatchNorm and in-place ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.block = nn.Sequential(
            nn.ReLU(),
            nn.Dropout2d(0.3),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        return self.head(h + self.block(h))


class InPlaceAdd(nn.Module):
    """``h += dropout(…)`` on a tensor that was deterministic until then."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 20), nn.Linear(20, 20), nn.Linear(20, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h += self.drop(self.b(torch.relu(h)))
        return self.c(h)


class InPlaceDropout(nn.Module):
    """Dropout written over its input, which is read again."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        F.dropout(h, 0.3, self.training, inplace=True)
        return self.b(h)


class WrittenInto(nn.Module):
    """Sampled values assigned into a buffer made in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 10), nn.Linear(20, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 20)
        h[:, :10] = self.drop(torch.relu(self.a(x[:, :3])))
        h[:, 10:] = self.drop(torch.relu(self.a(x[:, 3:])))
        return self.b(h)


class DropoutBeforeLSTM(nn.Module):
    """Dropout in front of an LSTM that has none of its own, and cells in a loop behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.LSTM(6, 8, batch_first=True)
        self.cell = nn.LSTMCell(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, (last, _) = self.rnn(self.drop(x))
        y, c = self.cell(last[0])
        for step in h.unbind(1):
            y, c = self.cell(self.drop(step), (y, c))
        return y


class PaddedEncoder(nn.Module):
    """nn.TransformerEncoder with a padding mask, for which torch has a fast path in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        lengths = (10 * x[:, 0, 0].abs()).long() % x.shape[1] + 1
        padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        return self.head(self.body(self.inner(x), src_key_padding_mask=padding)[:, 0])


class LeftPadded(nn.Module):
    """Causal attention over sequences padded on the left: some queries see no key at all."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(6, 24), nn.Linear(8, 3)
        self.dropout = 0.3

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        seen = torch.ones(5, 5, dtype=torch.bool, device=x.device).tril()
        seen[:, :2] = False
        h = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=self.dropout if self.training else 0.0
        )
        return self.head(h[:, 0].sum(1))


class AddedInto(nn.Module):
    """A residual added by a statement, ``h.add_(…)``, and returned."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 3), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h.add_(self.drop(self.b(x)))
        return h


class DroppedTwice(nn.Module):
    """Dropout written over a sampled tensor, which is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.a(x))
        F.dropout(h, 0.2, self.training, inplace=True)
        return h


class GatedModule(nn.Module):
    """A dropout module behind ``if self.training``, next to one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)
        self.first, self.second = nn.Dropout(0.1), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(self.first(x)))
        if self.training:
            h = self.second(h)
        return self.b(h)


class GaussianNoise(nn.Module):
    """Random numbers of its own and no dropout, like a variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = self.a(x).chunk(2, dim=-1)
        return self.b(mean + F.softplus(spread) * torch.randn_like(spread))


class DropConnect(nn.Module):
    """Dropout of a weight, which all rows share whether they want to or not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = F.dropout(self.a.weight * 2, 0.3, self.training)
        return self.b(torch.relu(F.linear(x, weight, self.a.bias)))


class Merged(nn.Module):
    """Rows and time steps merged into one axis, as wide as a batch may be long."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, 6)
        h = self.drop(torch.relu(self.a(x.flatten(0, 1))))  # (B T, 8)
        return self.b(h).unflatten(0, x.shape[:2]).sum(1)


class CrossAttention(nn.Module):
    """Queries and keys of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        return self.head(self.attention(h[:, :2], h, h)[0].sum(1))


class Dense(nn.Module):
    """Blocks that concatenate what they add."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv1d(6 + 4 * i, 4, 3, padding=1), nn.ReLU(), nn.Dropout1d(0.3))
            for i in range(3)
        )
        self.head = nn.Linear(18, 3)

    def forward(self, x: Tensor) -> Tensor:  # (B, 6, L)
        for block in self.blocks:
            x = torch.cat([x, block(x)], dim=1)
        return self.head(x.mean(dim=2))


class CalledTwice(nn.Module):
    """One dropout module used at two places of different widths."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 20), nn.Linear(20, 12), nn.Linear(12, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.drop(torch.relu(self.b(self.drop(torch.relu(self.a(x)))))))


class DictOutput(Functional):
    """Returns a dict."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        y = super().forward(x)
        return {"scores": y, "halves": y / 2}


class DataDependent(nn.Module):
    """Branches on a sampled value."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 20), nn.Linear(20, 3), nn.Linear(20, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.a(x))
        return self.b(h) if h.sum() > 0 else self.c(h)


class OwnNoise(nn.Module):
    """Adds Gaussian noise in eval mode too, next to a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x + 0.1 * torch.randn_like(x)))
        return self.b(self.drop(h))


class Swish(torch.autograd.Function):
    """A custom function, invisible to hooks on torch functions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class CustomFunction(nn.Module):
    """A custom autograd function and a scripted one behind the dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(Swish.apply(self.drop(self.a(x))))


def mlp(*, batch_norm: bool = False, inplace: bool = False) -> nn.Sequential:
    """Dropout before every weight layer."""
    layers: list[nn.Module] = []
    for width, out in ((6, 20), (20, 20)):
        layers += [nn.Dropout(0.2, inplace=inplace), nn.Linear(width, out)]
        layers += [nn.BatchNorm1d(out)] if batch_norm else []
        layers += [nn.ReLU(inplace=inplace)]
    return nn.Sequential(*layers, nn.Dropout(0.5, inplace=inplace), nn.Linear(20, 3))


def batch_statistics() -> nn.Sequential:
    """BatchNorm that keeps no statistics and so uses those of the batch, in eval mode too."""
    norm = nn.BatchNorm1d(20, track_running_stats=False)
    return nn.Sequential(nn.Linear(6, 20), nn.Dropout(0.3), norm, nn.ReLU(), nn.Linear(20, 3))


def conv(dropout: nn.Module, spatial: int) -> nn.Sequential:
    """A convolution with feature-wise dropout behind it."""
    kernel = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[spatial - 1]
    return nn.Sequential(kernel(3, 6, 3), nn.SELU(), dropout, nn.Flatten(), nn.LazyLinear(3))


@dataclass(frozen=True)
class Case:
    """A network with the shape of one row of its input.

    Attributes:
        make: Makes it, untrained.
        row: The shape of one row of its input.
        select: Which of its outputs is meant.
        shareable: Whether a draw can be one function of a row.
        rowwise: Whether rows of a batch neither meet nor share noise.
        taped: Whether one pass serves all draws. Not so if a network branches on sampled values,
            draws random numbers itself, or writes sampled values over tensors that it reads.
    """

    make: Callable[[], nn.Module]
    row: tuple[int, ...]
    select: str | None = None
    shareable: bool = True
    rowwise: bool = True
    taped: bool = True


CASES: dict[str, Case] = {
    "mlp": Case(mlp, (6,)),
    "batch norm": Case(lambda: mlp(batch_norm=True), (6,)),
    "in-place": Case(lambda: mlp(inplace=True), (6,)),
    "functional": Case(Functional, (6,)),
    "guarded": Case(Guarded, (6,)),
    "made in forward": Case(MadeInForward, (6,)),
    "dropout1d": Case(lambda: conv(nn.Dropout1d(0.4), 1), (3, 7)),
    "dropout2d": Case(lambda: conv(nn.Dropout2d(0.4), 2), (3, 5, 5)),
    "dropout3d": Case(lambda: conv(nn.Dropout3d(0.4), 3), (3, 4, 4, 4)),
    "alpha dropout": Case(lambda: conv(nn.AlphaDropout(0.2), 2), (3, 5, 5)),
    "feature alpha dropout": Case(lambda: conv(nn.FeatureAlphaDropout(0.2), 2), (3, 5, 5)),
    "lstm": Case(lambda: Recurrent(nn.LSTM), (5, 6)),
    "lstm batch first": Case(lambda: Recurrent(nn.LSTM, batch_first=True, proj_size=0), (5, 6)),
    "bidirectional gru": Case(lambda: Recurrent(nn.GRU, bidirectional=True), (5, 6)),
    "rnn": Case(lambda: Recurrent(nn.RNN, batch_first=True, bias=False), (5, 6)),
    "packed lstm": Case(Packed, (5, 6), taped=False),
    "attention": Case(lambda: Attention(need_weights=False), (5, 6)),
    "attention weights": Case(lambda: Attention(need_weights=True), (5, 6)),
    "attention batch second": Case(lambda: Attention(True, batch_first=False), (5, 6)),
    "transformer": Case(Transformer, (5, 6)),
    "transformer batch second": Case(lambda: Transformer(batch_first=False), (5, 6)),
    "causal attention": Case(CausalAttention, (5, 6)),
    "residual": Case(Residual, (3, 6, 6)),
    "in-place add": Case(InPlaceAdd, (6,)),
    "in-place dropout": Case(InPlaceDropout, (6,), taped=False),
    "written into": Case(WrittenInto, (6,), taped=False),
    "dense blocks": Case(Dense, (6, 7)),
    "called twice": Case(CalledTwice, (6,)),
    "dict output": Case(DictOutput, (6,), select="scores"),
    "lstm after dropout": Case(DropoutBeforeLSTM, (5, 6)),
    "padded encoder": Case(PaddedEncoder, (5, 6)),
    "left padded": Case(LeftPadded, (5, 6)),
    "added into": Case(AddedInto, (6,), taped=False),
    "dropped twice": Case(DroppedTwice, (6,), taped=False),
    "gated module": Case(GatedModule, (6,)),
    "drop connect": Case(DropConnect, (6,), rowwise=False),
    "merged": Case(Merged, (5, 6)),
    "cross attention": Case(CrossAttention, (5, 6)),
    "batch statistics": Case(batch_statistics, (6,), shareable=False, rowwise=False),
    "data dependent": Case(DataDependent, (6,), shareable=False, rowwise=False, taped=False),
    "own noise": Case(OwnNoise, (6,), shareable=False, taped=False),
    "gaussian noise": Case(GaussianNoise, (6,), shareable=False, taped=False),
    "custom function": Case(CustomFunction, (6,)),
}


def build(name: str, rows: int = 4, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """A network of the zoo in eval mode, with trained-looking statistics, and a batch for it."""
    torch.manual_seed(seed)
    case = CASES[name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch complains about modules that it makes itself
        network = case.make()
        x = torch.randn(rows, *case.row)
        network.eval()(x.clone())  # lazy layers get their shapes
        for buffer_name, buffer in network.named_buffers():
            if buffer_name.endswith("running_mean"):
                buffer.normal_(0, 0.3)
            elif buffer_name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
    return network, x
