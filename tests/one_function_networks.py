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
} | {
    name: Case(lambda ways=ways: Rearranged(*ways), _normal(T, D))  # type: ignore[misc]
    for name, ways in REARRANGED.items()
}
