"""The last layer and its likelihood, in one: the scores of all items are the largest tensor.

For binary rows x the negative log-likelihood of logits g is A(g) − Σ_{i: x_i=1} g_i with the log
partition A, and its gradient is ∇A(g) − x. So the logits are turned into their own gradient where
they lie, and the entries of x are gathered: nothing else of the size users × items is made.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dubio.noise.derivative import Derivative
from dubio.recommend.memory import SpareMemory
from dubio.recommend.sparse import SparseRows

ItemLikelihood: TypeAlias = Literal["multinomial", "logistic"]
Precision: TypeAlias = Literal["float32", "bfloat16"]

_TOGETHER = 1 << 19  # logits that stay in the cache while they are worked on: 2 MB


def multinomial_(logits: Tensor, totals: Tensor) -> Tensor:
    """Return n·logsumexp(g), and write n·softmax(g) over the logits (Liang et al. 2018, eq. 2).

    Args:
        logits: (B, I).
        totals: n, how many items each row has.  # (B,)
    """
    top = logits.amax(1, keepdim=True)
    total = logits.sub_(top).exp_().sum(1, keepdim=True)
    logits.mul_(totals[:, None] / total)
    return totals * (top + total.log_()).squeeze(1)


def logistic_(logits: Tensor, totals: Tensor) -> Tensor:
    """Return a = Σ log(1 + e^g), and σ(g) in place of the logits: every item by itself."""
    found = F.softplus(logits).sum(1)
    logits.sigmoid_()
    return found


_PARTITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "multinomial": multinomial_,
    "logistic": logistic_,
}
_FACTORS: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@final
class Output(nn.Module):
    """Scores of all items, g = W h + b, and their likelihood.

    Args:
        features: H.
        num_items: I.
        likelihood: What the scores mean: logits of one multinomial, or of a coin for each item.

    Attributes:
        weight: (I, H).
        memory: For the gradient of the weight.
        precision: Of the factors in the products of a training step. Sums, the likelihood and the
            weights themselves are float32 either way.
    """

    precision: Precision = "float32"

    def __init__(
        self, features: int, num_items: int, likelihood: ItemLikelihood = "multinomial"
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_items, features))
        self.bias = nn.Parameter(torch.zeros(num_items))
        self.likelihood = likelihood
        self.memory = SpareMemory()
        self._logits = SpareMemory()

    def forward(self, h: Tensor) -> Tensor:  # (…, H) -> (…, I)
        """Return the logits."""
        return F.linear(h, self.weight, self.bias)

    @torch.no_grad()
    def probabilities(self, h: Tensor) -> Tensor:  # (B, H) -> (B, I)
        """Softmax or sigmoid of the logits, in place."""
        logits: Tensor = self(h)
        _in_blocks(_PARTITIONS[self.likelihood], logits, logits.new_ones(len(logits)))
        return logits

    def negative_log_likelihood(self, h: Tensor, rows: SparseRows) -> Tensor:
        """Return −log p(x | h) without the multinomial coefficient, for S different h of every row.

        Args:
            h: (S, B, H).
            rows: x.

        Returns:
            (S, B).
        """
        found: Tensor = _GatheredLikelihood.apply(
            h,
            self.weight,
            self.bias,
            rows,
            _PARTITIONS[self.likelihood],
            _FACTORS[self.precision],
            self.memory,
            self._logits,
        )
        return found


class _GatheredLikelihood(Derivative):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        rows: SparseRows,
        partition: Callable[[Tensor, Tensor], Tensor],
        factor: torch.dtype,
        memory: SpareMemory,
        spare: SpareMemory,
    ) -> Tensor:
        stack, users, _ = h.shape
        flat = h.reshape(stack * users, -1)
        logits = spare.take((len(flat), rows.num_items), weight)
        if factor is torch.float32:
            narrow = weight
            torch.addmm(bias, flat, weight.t(), out=logits)
        else:
            narrow = weight.to(factor)
            torch.add(flat.to(factor) @ narrow.t(), bias, out=logits)
        places = rows.row * rows.num_items + rows.items  # (N,)
        by_pass = logits.view(stack, -1)  # (S, B·I)
        chosen = h.new_zeros(stack, users)
        chosen.index_add_(1, rows.row, by_pass[:, places])
        totals = rows.lengths.to(h.dtype).repeat(stack)
        found = _in_blocks(partition, logits, totals).view(stack, users) - chosen
        if any(ctx.needs_input_grad):
            by_pass[:, places] -= 1
            ctx.logits, ctx.memory, ctx.spare = logits, memory, spare
            ctx.save_for_backward(flat, weight, narrow)
        else:
            spare.give(logits)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        flat, weight, narrow = ctx.saved_tensors
        gradient, ctx.logits = ctx.logits, None
        if gradient is None:
            raise RuntimeError(
                "backward: expected one call for each loss, got a second; compute the loss again"
            )
        by_row = gradients[0].reshape(-1, 1)  # (S·B, 1)
        factor = gradient.to(narrow.dtype)
        of_h = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_h = ((factor @ narrow) * by_row).view(*gradients[0].shape, -1)
        if ctx.needs_input_grad[1]:
            of_weight = ctx.memory.take(weight.shape, weight)
            if factor is gradient:
                torch.mm(gradient.t(), flat * by_row, out=of_weight)
            else:
                of_weight.copy_(factor.t() @ (flat * by_row).to(factor.dtype))
        if ctx.needs_input_grad[2]:
            of_bias = gradient.t() @ by_row.squeeze(1)
        ctx.spare.give(gradient)
        return of_h, of_weight, of_bias, None, None, None, None, None


def _in_blocks(
    partition: Callable[[Tensor, Tensor], Tensor], logits: Tensor, totals: Tensor
) -> Tensor:
    """Return the partition of all rows, some rows at a time."""
    size = max(1, _TOGETHER // logits.shape[1])
    parts = zip(logits.split(size), totals.split(size), strict=True)
    return torch.cat([partition(*part) for part in parts])
