"""Networks that move the rows of a batch about, each with inputs that fit it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

K, T, D = 4, 5, 6


class Reads(nn.Module):
    """A function of modules, which every subclass writes in `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(D, 8), nn.Linear(8, 3), nn.Dropout(0.5)


class MergedLSTM(Reads):
    """(B·K, T, D) into an LSTM with dropout between its layers."""

    def __init__(self, cell: type[nn.RNNBase] = nn.LSTM, batch_first: bool = True) -> None:
        super().__init__()
        self.rnn = cell(D, 8, 2, dropout=0.5, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:  # (B, K, T, D)
        rows = x.flatten(0, 1)
        h, _ = self.rnn(rows if self.rnn.batch_first else rows.transpose(0, 1))
        last = h[:, -1] if self.rnn.batch_first else h[-1]
        return self.b(last.view(len(x), K, 8).mean(1))


class MergedTransformer(Reads):
    """(B·K, T, D) into an encoder, batch first or second."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.body = nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=batch_first)
        self.batch_first = batch_first

    def forward(self, x: Tensor) -> Tensor:  # (B, K, T, D)
        h = self.a(x).reshape(-1, T, 8)
        h = self.body(h if self.batch_first else h.transpose(0, 1))
        h = (h if self.batch_first else h.transpose(0, 1)).mean(1)
        return self.b(h).unflatten(0, (-1, K)).mean(1)


class Rearranged(Reads):
    """Dropout of rows that were rearranged, and back."""

    def __init__(self, there: Callable[[Tensor], Tensor], back: Callable[..., Tensor]) -> None:
        super().__init__()
        self.there, self.back = there, back

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D)
        h = self.drop(self.there(torch.tanh(self.a(x))))
        return self.b(self.back(h, len(x)).mean(1))


def _sorted_there(h: Tensor) -> Tensor:
    return h[torch.arange(len(h) - 1, -1, -1)].flatten(0, 1)


REARRANGED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[..., Tensor]]] = {
    "rows first": (lambda h: h.flatten(0, 1), lambda h, b: h.view(b, T, -1)),
    "time first": (
        lambda h: h.transpose(0, 1).reshape(-1, 8),
        lambda h, b: h.view(T, b, -1).transpose(0, 1),
    ),
    "time, batch": (lambda h: h.transpose(0, 1), lambda h, b: h.transpose(0, 1)),
    "batch last": (lambda h: h.permute(2, 1, 0), lambda h, b: h.permute(2, 1, 0)),
    "between": (  # (4, B, T·2) merged into one axis
        lambda h: h.unflatten(2, (4, 2)).permute(2, 0, 1, 3).reshape(-1, 2),
        lambda h, b: h.view(4, b, T, 2).permute(1, 2, 0, 3).flatten(2),
    ),
    "all in one": (lambda h: h.flatten(), lambda h, b: h.view(b, T, -1)),
    "features first": (
        lambda h: h.permute(2, 0, 1).flatten(),
        lambda h, b: h.view(8, b, T).permute(1, 2, 0),
    ),
    "upside down": (_sorted_there, lambda h, b: h.view(b, T, 8).flip(0)),
    "stacked": (lambda h: torch.stack(h.unbind(1)), lambda h, b: h.transpose(0, 1)),
    "concatenated": (
        lambda h: torch.cat(h.unbind(1)),
        lambda h, b: h.view(T, b, 8).transpose(0, 1),
    ),
    "unfolded": (
        lambda h: h.unfold(1, 3, 1).permute(0, 1, 3, 2).reshape(-1, 3, 8),
        lambda h, b: h.view(b, -1, 3, 8).mean(2),
    ),
    "repeated": (lambda h: h.repeat_interleave(3, 0), lambda h, b: h.view(b, 3, T, 8).mean(1)),
    "tiled": (lambda h: h.repeat(3, 1, 1), lambda h, b: h.view(3, b, T, 8).mean(0)),
    "both": (lambda h: torch.cat([h, h.flip(1)]), lambda h, b: h[:b] + h[b:]),
    "padded": (lambda h: F.pad(h, (0, 0, 1, 0)).flatten(0, 1), lambda h, b: h.view(b, T + 1, 8)),
    "written": (
        lambda h: h.new_zeros(T, len(h), 8).copy_(h.transpose(0, 1)).flatten(0, 1),
        lambda h, b: h.view(T, b, 8).transpose(0, 1),
    ),
    "einsum": (lambda h: torch.einsum("btd->dbt", h), lambda h, b: h.permute(1, 2, 0)),
    "conv": (
        lambda h: F.conv1d(h.mT, torch.ones(8, 8, 2) / 8).permute(2, 0, 1).flatten(0, 1),
        lambda h, b: h.view(-1, b, 8).transpose(0, 1),
    ),
    "heads": (
        lambda h: torch.bmm(*(g := h.view(-1, T, 2, 4).transpose(1, 2).flatten(0, 1), g.mT)),
        lambda h, b: h.view(b, 2, T, T).flatten(1, 2)[..., :1].expand(-1, -1, 8),
    ),
    "batch as channels": (
        lambda h: F.conv1d(
            h.reshape(1, -1, 8), torch.ones(len(h) * T, 1, 3), padding=1, groups=len(h) * T
        ),
        lambda h, b: h.view(b, T, 8),
    ),
}


class ClassToken(Reads):
    """A learned token in front of every row, then all tokens of all rows in one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.cat([self.token.expand(len(x), -1, -1), torch.relu(self.a(x))], 1)
        h = self.drop(h.flatten(0, 1)).view(len(x), -1, 8)
        return self.b(h.sum(1))


class Words(Reads):
    """Embedded integers, time first."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, D)

    def forward(self, words: Tensor) -> Tensor:  # (B, T)
        h = self.drop(self.table(words.T).flatten(0, 1))
        return self.b(torch.tanh(self.a(h)).view(T, -1, 8).mean(0))


class Experts(Reads):
    """Tokens go to experts by their first feature."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.tanh(self.a(x)).flatten(0, 1)
        out = torch.zeros_like(tokens)
        for positive in (True, False):
            mine = (x.flatten(0, 1)[:, 0] > 0) == positive
            out[mine] = self.drop(tokens[mine])
        return self.b(out.view(len(x), T, 8).mean(1))


class MadeMask(Reads):
    """A mask made of ones of the batch size, as for variational dropout."""

    def forward(self, x: Tensor) -> Tensor:
        mask = self.drop(x.new_ones(x.shape[0], 1, 8))
        return self.b((torch.tanh(self.a(x)) * mask).mean(1))


class LikeMask(Reads):
    """A mask made of ones like the data."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x)).transpose(0, 1)
        return self.b((h * self.drop(torch.ones_like(h))).mean(0))


class MadeForRows(Reads):
    """Adds a tensor that is made for every row of a learned one, or of a constant."""

    def __init__(self, make: Callable[["MadeForRows", int], Tensor], **parts: Any) -> None:
        super().__init__()
        self.make = make
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)).mean(1) + self.make(self, len(x)))  # (B, 8)


def _learned(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def _steps(net: Any, rows: int) -> Tensor:
    """Two steps of a cell, from a state of zeros, with one learned input."""
    state = net.drop(torch.ones(rows, 8))
    for _ in range(2):
        state = net.drop(net.cell(net.token.expand(rows, 8), state))
    return state


MADE: dict[str, Callable[[], nn.Module]] = {
    "expanded": lambda: MadeForRows(
        lambda net, rows: net.drop(net.token.expand(rows, 8)), token=_learned(8)
    ),
    "repeated token": lambda: MadeForRows(
        lambda net, rows: net.drop(net.token.repeat(1, rows, 1)).mean(0), token=_learned(5, 1, 8)
    ),
    "tokens of all rows in one axis": lambda: MadeForRows(
        lambda net, rows: net.drop(net.token.expand(4, rows, 8).reshape(-1, 8)).view(4, -1, 8)[0],
        token=_learned(4, 1, 8),
    ),
    "token, batch last": lambda: MadeForRows(
        lambda net, rows: net.drop(net.token.expand(8, rows)).T, token=_learned(8, 1)
    ),
    "ones of a weight": lambda: MadeForRows(
        lambda net, rows: net.drop(net.a.weight.new_ones(rows, 8))
    ),
    "looked up": lambda: MadeForRows(
        lambda net, rows: net.drop(net.table(torch.zeros(rows, dtype=torch.long))),
        table=nn.Embedding(8, 8),
    ),
    "positions": lambda: MadeForRows(
        lambda net, rows: net.drop(net.table(torch.arange(5).expand(rows, -1))).mean(1),
        table=nn.Embedding(8, 8),
    ),
    "stacked tokens": lambda: MadeForRows(
        lambda net, rows: net.drop(torch.stack([net.token] * rows)), token=_learned(8)
    ),
    "steps of a cell": lambda: MadeForRows(_steps, token=_learned(8), cell=nn.GRUCell(8, 8)),
    "lstm over tokens": lambda: MadeForRows(
        lambda net, rows: net.rnn(net.token.expand(5, rows, 8).contiguous())[0][-1],
        token=_learned(5, 1, 8),
        rnn=nn.LSTM(8, 8, 2, dropout=0.5),
    ),
    "encoder of tokens": lambda: MadeForRows(
        lambda net, rows: net.body(net.token.expand(rows, 4, 8)).mean(1),
        token=_learned(1, 4, 8),
        body=nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True),
    ),
}


class LearnedQueries(Reads):
    """Queries that all rows share look at the row, as in DETR or a Perceiver."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.queries = _learned(4, 8)
        self.body = nn.TransformerDecoderLayer(8, 2, 16, 0.3, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if self.body.self_attn.batch_first:
            return self.b(self.body(self.queries.expand(len(x), -1, -1), h).mean(1))
        queries = self.queries[:, None].repeat(1, len(x), 1)
        return self.b(self.body(queries, h.transpose(0, 1)).mean(0))


class LearnedStart(Reads):
    """A recurrent network that starts from a learned state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.start = nn.GRU(D, 8, batch_first=True), _learned(1, 1, 8)

    def forward(self, x: Tensor) -> Tensor:
        start = self.drop(self.start.expand(1, len(x), 8)).contiguous()
        return self.b(self.rnn(x, start)[0][:, -1])


class CutToLongest(Reads):
    """Sequences cut to the longest in the batch; rows end with zeros."""

    def __init__(self, there: Callable[[Tensor], Tensor], back: Callable[..., Tensor]) -> None:
        super().__init__()
        self.there, self.back = there, back

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x[..., 0] != 0).sum(1)
        x = x[:, : int(lengths.max())]
        there = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        h = self.drop(self.there(torch.tanh(self.a(x))))
        return self.b((self.back(h, len(x)) * there).sum(1))


class PackedLSTM(Reads):
    """Packed sequences, with dropout between layers and after."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(D, 8, 2, dropout=0.5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x[..., 0] != 0).sum(1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        there = (torch.arange(h.shape[1]) < lengths[:, None])[..., None]
        return self.b((self.drop(h) * there).sum(1))


class CutAttention(Reads):
    """Attention weights whose two last axes are cut to the longest row."""

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x[..., 0] != 0).sum(1)
        x = x[:, : lengths.max()]
        there = torch.arange(x.shape[1]) < lengths[:, None]
        h = self.a(x)
        scores = (h @ h.mT).masked_fill(~there[:, None], float("-inf"))
        h = self.drop(scores.softmax(-1)) @ h
        return self.b((h * there[..., None]).sum(1))


class Several(Reads):
    """Two inputs with rows, nested, and one without."""

    def forward(self, x: Tensor, extra: dict[str, Tensor], table: Tensor) -> Tensor:
        h = torch.tanh(self.a(x)) + extra["shift"][:, None]  # (B, T, 8)
        h = self.drop(h.transpose(0, 1)) @ table
        return self.b(h.mean(0))


def _swap(h: Tensor) -> Tensor:
    return h.transpose(0, 1)


@dataclass(frozen=True)
class Case:
    """A network, and a batch of inputs for it."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], Any]


def _normal(*shape: int) -> Callable[[int], Tensor]:
    return lambda rows: torch.randn(rows, *shape)


def _lengthy(rows: int) -> Tensor:
    """Sequences of several lengths, the longest not first, with zeros behind."""
    x = torch.rand(rows, T, D) + 0.1
    lengths = 1 + torch.arange(rows) % T
    return x * (torch.arange(T) < lengths[:, None])[..., None]


CASES: dict[str, Case] = {
    "merged lstm": Case(MergedLSTM, _normal(K, T, D)),
    "merged lstm, batch second": Case(lambda: MergedLSTM(batch_first=False), _normal(K, T, D)),
    "merged gru": Case(lambda: MergedLSTM(nn.GRU), _normal(K, T, D)),
    "merged rnn": Case(lambda: MergedLSTM(nn.RNN, batch_first=False), _normal(K, T, D)),
    "merged transformer": Case(lambda: MergedTransformer(True), _normal(K, T, D)),
    "merged transformer, second": Case(lambda: MergedTransformer(False), _normal(K, T, D)),
    "class token": Case(ClassToken, _normal(T, D)),
    "words": Case(Words, lambda rows: torch.randint(20, (rows, T))),
    "experts": Case(Experts, _normal(T, D)),
    "made mask": Case(MadeMask, _normal(T, D)),
    "mask like": Case(LikeMask, _normal(T, D)),
    "cut": Case(lambda: CutToLongest(lambda h: h, lambda h, b: h), _lengthy),
    "cut, time first": Case(lambda: CutToLongest(_swap, lambda h, b: _swap(h)), _lengthy),
    "cut, time last": Case(
        lambda: CutToLongest(lambda h: h.transpose(1, 2), lambda h, b: h.transpose(1, 2)), _lengthy
    ),
    "cut, merged": Case(
        lambda: CutToLongest(lambda h: h.flatten(0, 1), lambda h, b: h.view(b, -1, 8)), _lengthy
    ),
    "cut, time first, merged": Case(
        lambda: CutToLongest(
            lambda h: _swap(h).flatten(0, 1), lambda h, b: _swap(h.view(-1, b, 8))
        ),
        _lengthy,
    ),
    "cut attention": Case(CutAttention, _lengthy),
    "packed lstm": Case(PackedLSTM, _lengthy),
    "several": Case(
        Several,
        lambda rows: (torch.randn(rows, T, D), {"shift": torch.randn(rows, 8)}, torch.eye(8)),
    ),
    "learned queries": Case(lambda: LearnedQueries(True), _normal(T, D)),
    "learned queries, batch second": Case(lambda: LearnedQueries(False), _normal(T, D)),
    "learned start": Case(LearnedStart, _normal(T, D)),
}
CASES |= {name: Case(make, _normal(T, D)) for name, make in MADE.items()}
CASES |= {
    name: Case(lambda ways=ways: Rearranged(*ways), _normal(T, D))  # type: ignore[misc]
    for name, ways in REARRANGED.items()
}
