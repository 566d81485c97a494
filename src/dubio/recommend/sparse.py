"""Batches of sparse rows, and a linear layer that reads them."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dubio.noise.derivative import Derivative
from dubio.recommend.memory import SpareMemory

with warnings.catch_warnings():  # torch calls CSR tensors a beta feature, once per process
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.long), [], (1, 1))


@final
@dataclass(frozen=True, eq=False)
class SparseRows:
    """Binary rows x of a batch, as the items that are 1. B rows have N entries.

    Attributes:
        items: The items of all rows, one row after another.  # (N,)
        offsets: Where the rows begin, and N.  # (B + 1,)
        num_items: I, the length of a row.
        users: Numbers of the rows among the users of the training, for models that know them; −1
            for others.  # (B,)
    """

    items: Tensor
    offsets: Tensor
    num_items: int
    users: Tensor | None = None

    @classmethod
    def of(cls, matrix: csr_array, users: Tensor | None = None) -> Self:
        """Return the rows of a matrix of zeros and ones."""
        items = torch.from_numpy(matrix.indices).long()
        offsets = torch.from_numpy(matrix.indptr).long()
        return cls(items, offsets, matrix.shape[1], users)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Tensor:
        """The number of items of each row, n = |x|."""  # (B,)
        return self.offsets.diff()

    @cached_property
    def row(self) -> Tensor:
        """The row of each entry."""  # (N,)
        return torch.repeat_interleave(torch.arange(len(self)), self.lengths)

    @cached_property
    def by_item(self) -> tuple[Tensor, Tensor]:
        """The entries in the order of their items, (N,), and where those of an item begin."""
        ends = torch.bincount(self.items, minlength=self.num_items).cumsum(0)
        return self.items.argsort(stable=True), F.pad(ends, (1, 0))  # (N,), (I + 1,)

    def unit_norm(self, dtype: torch.dtype) -> Tensor:
        """Return the entries of x/|x|₂: 1/√n."""  # (N,)
        return self.lengths.to(dtype).rsqrt()[self.row]


@final
class SparseLinear(nn.Module):
    """y_s = Wᵀ(x ⊙ a_s) + b for S different weightings a_s of the entries of x.

    Value and gradients are those of the dense layer; the cost is that of the entries.

    Args:
        num_items: I.
        features: H.

    Attributes:
        weight: (I, H), so that what an entry needs lies together.
        memory: For the gradient of the weight.
    """

    def __init__(self, num_items: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_items, features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.memory = SpareMemory()

    def forward(self, rows: SparseRows, entries: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            rows: Where the entries are.
            entries: The values x ⊙ a_s.  # (S, N)

        Returns:
            (S, B, H).
        """
        found: Tensor = _SparseProduct.apply(entries, self.weight, rows, self.memory)
        return found + self.bias


class _SparseProduct(Derivative):
    """A W for the sparse matrix A, (S·B, I), whose entries are given."""

    @staticmethod
    def forward(
        ctx: Any, entries: Tensor, weight: Tensor, rows: SparseRows, memory: SpareMemory
    ) -> Tensor:
        stack = len(entries)
        ctx.rows, ctx.memory = rows, memory
        ctx.save_for_backward(entries, weight)
        starts = torch.arange(stack)[:, None] * len(rows.items) + rows.offsets[:-1]  # (S, B)
        found = F.embedding_bag(
            rows.items.repeat(stack),
            weight,
            starts.view(-1),
            mode="sum",
            per_sample_weights=entries.reshape(-1),
        )
        return found.view(stack, len(rows), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        entries, weight = ctx.saved_tensors
        rows: SparseRows = ctx.rows
        gradient = gradients[0].reshape(-1, weight.shape[1])  # (S·B, H)
        of_entries = of_weight = None
        if ctx.needs_input_grad[0]:
            of_entries = _products_at(rows, gradient, weight, len(entries))
        if ctx.needs_input_grad[1]:
            order, starts = rows.by_item
            stack = len(entries)
            lines = rows.row[order, None] + torch.arange(stack) * len(rows)  # (N, S)
            transposed = _csr(
                starts * stack,
                lines.view(-1),
                entries.t()[order].reshape(-1),
                (rows.num_items, len(gradient)),
            )
            of_weight = ctx.memory.take(weight.shape, weight)
            torch.addmm(of_weight, transposed, gradient, beta=0, out=of_weight)
        return of_entries, of_weight, None, None


def _products_at(rows: SparseRows, gradient: Tensor, weight: Tensor, stack: int) -> Tensor:
    """Return the inner products of gradient and weight for each entry."""  # (S, N)
    count = len(rows.items)
    starts = (torch.arange(stack)[:, None] * count + rows.offsets[:-1]).view(-1)
    pattern = _csr(
        F.pad(starts, (0, 1), value=stack * count),
        rows.items.repeat(stack),
        gradient.new_zeros(stack * count),
        (len(gradient), rows.num_items),
    )
    found: Tensor = torch.sparse.sampled_addmm(pattern, gradient, weight.t(), beta=0)
    return found.values().view(stack, count)


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
