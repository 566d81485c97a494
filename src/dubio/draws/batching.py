"""One operation for many draws: how a function of one draw is applied to a stack of draws.

Three ways, the first that fits is taken:

1. a rule, for the operations that most of the time goes into: the draws become a leading axis, or
   rows of the batch, of one call;
2. `torch.func.vmap`, which knows most other operations;
3. one call per draw. Always right.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

aten = torch.ops.aten


class RuleDoesNotFitError(Exception):
    """A rule declines a call, and the next way is taken."""


class Operation:
    """A function call of one draw, some of whose arguments differ among draws.

    Attributes:
        function: What is called.
        stacked: Positions, among the flattened arguments, of those that differ among draws.
        shapes: Shapes of the results for one draw.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        spec: TreeSpec,
        stacked: Sequence[int],
        shapes: Sequence[torch.Size],
    ) -> None:
        self.function = function
        self.stacked = tuple(stacked)
        self.shapes = tuple(shapes)
        self._leaves = list(leaves)
        self._spec = spec
        self._way = self._choose()

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:  # each (S, …) -> each (S, …)
        """Apply it to stacks of values, in the order of ``stacked``."""
        try:
            return self._way(values)
        except (RuleDoesNotFitError, RuntimeError, ValueError, IndexError):
            if self._way == self._draw_by_draw:
                raise
            self._way = self._draw_by_draw if self._way == self._vmap else self._vmap
            return self(values)

    def with_values(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with the given values at the stacked positions."""
        leaves = self._leaves.copy()
        for position, value in zip(self.stacked, values, strict=True):
            leaves[position] = value
        args, kwargs = tree_unflatten(leaves, self._spec)
        return args, kwargs

    def tensors(self) -> list[int]:
        """Positions of all tensor arguments."""
        return [
            i for i, leaf in enumerate(self._leaves) if i in self.stacked or torch.is_tensor(leaf)
        ]

    def constant(self, position: int) -> Any:
        """The argument at a position that is not stacked."""
        return self._leaves[position]

    @property
    def signature(self) -> Hashable:
        """The function, its arguments that are no tensors, and the shapes of its results."""
        plain = tuple(repr(leaf) for leaf in self._leaves if not isinstance(leaf, Tensor))
        return self.function, self.stacked, plain, self.shapes

    def call(self, values: Sequence[Any]) -> list[Tensor]:
        """Call the function with values at the stacked positions."""
        args, kwargs = self.with_values(values)
        return _tensors(self.function(*args, **kwargs))

    def call_all(self, leading: Sequence[Tensor]) -> list[Tensor]:
        """Call the function with its leading tensor arguments replaced."""
        args, kwargs = tree_unflatten([*leading, *self._leaves[len(leading) :]], self._spec)
        return _tensors(self.function(*args, **kwargs))

    def _choose(self) -> Callable[[Sequence[Tensor]], list[Tensor]]:
        if self.function in _RULES:
            only_first, rule = _RULES[self.function]
            if not only_first or self.stacked == (0,):
                return lambda values: rule(self, values)
        tags = getattr(self.function, "tags", ())
        if torch.Tag.pointwise in tags and len(self.shapes) == 1:
            return lambda values: _pointwise(self, values)
        return self._vmap

    def _vmap(self, values: Sequence[Tensor]) -> list[Tensor]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            return list(torch.vmap(lambda *one: tuple(self.call(one)))(*values))

    def _draw_by_draw(self, values: Sequence[Tensor]) -> list[Tensor]:
        results = [self.call(one) for one in zip(*values, strict=True)]
        return [torch.stack(result) for result in zip(*results, strict=True)]


Rule = Callable[[Operation, Sequence[Tensor]], list[Tensor]]
_RULES: dict[Callable[..., Any], tuple[bool, Rule]] = {}


def _rule(*functions: Callable[..., Any], only_first: bool = True) -> Callable[[Rule], Rule]:
    """Enter a rule; most hold when only the first argument differs among draws."""

    def enter(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(functions, (only_first, rule)))
        return rule

    return enter


def _tensors(out: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(out)[0] if isinstance(leaf, Tensor)]


def _pointwise(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Elementwise operations broadcast from the last axis: pad stacks so that draws stay first."""
    dims = len(operation.shapes[0])
    if dims and len({value.dtype for value in values}) > 1 and min(v.dim() for v in values) == 1:
        raise RuleDoesNotFitError("numbers give way to the type of tensors: vmap knows how")
    aligned = [
        value
        if value.dim() == dims + 1
        else value.view(len(value), *[1] * (dims + 1 - value.dim()), *value.shape[1:])
        for value in values
    ]
    return operation.call(aligned)


@_rule(F.linear, only_first=False)
def _linear(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Weights that differ among draws: one product for all of them, or one for each draw."""
    if operation.stacked == (0,):
        return _leading(operation, values)
    (x, weight, *rest), named = operation.with_values(values)
    bias = rest[0] if rest else named.get("bias")
    own = dict.fromkeys(operation.stacked)
    if 1 not in own or len(operation.shapes[0]) < 2:
        raise RuleDoesNotFitError
    draws = len(values[0])
    if 0 in own:  # (S, B, …, D) · (S, K, D)
        product = torch.bmm(x.flatten(1, -2), weight.mT)
    else:  # (B, …, D) · (S·K, D): the same inputs for all draws
        product = torch.mm(x.flatten(0, -2), weight.flatten(0, 1).t())
        product = product.view(-1, draws, weight.shape[1]).transpose(0, 1)
    if bias is not None:
        product = product + (bias.unsqueeze(1) if bias.dim() == 2 else bias)
    return [product.reshape(draws, *operation.shapes[0])]


@_rule(aten.native_layer_norm.default)
def _leading(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Operations on the last axes take any number of leading ones."""
    return operation.call(values)[: len(operation.shapes)]


@_rule(
    aten.convolution.default,
    aten.max_pool2d_with_indices.default,
    aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.vec,
    aten.mm.default,
)
def _rows(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Operations that treat rows alike: draws become rows."""
    (x,) = values  # (S, B, …)
    return [result.unflatten(0, x.shape[:2]) for result in operation.call([x.flatten(0, 1)])]


@_rule(aten.native_batch_norm.default)
def _batch_norm(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    args, _ = operation.with_values(values)
    if args[5]:
        raise RuleDoesNotFitError("statistics of the batch are taken draw by draw")
    out, *unused = operation.call([values[0].flatten(0, 1)])
    draws = len(values[0])
    return [out.unflatten(0, values[0].shape[:2])] + [x.expand(draws, *x.shape) for x in unused]


@_rule(aten.view.default, aten._unsafe_view.default)
def _view(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    (x,) = values
    return [x.reshape(len(x), *operation.shapes[0])]  # strides may differ from one draw's


@_rule(aten.addmm.default, only_first=False)
def _affine(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    if operation.stacked != (1,) or operation.constant(0).dim() != 1:
        raise RuleDoesNotFitError
    (x,) = values
    return [operation.call([x.flatten(0, 1)])[0].unflatten(0, x.shape[:2])]


@_rule(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
def _recurrent(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Draws become rows; every draw starts from the same hidden state."""
    (x,) = values  # (S, B, T, D) if batch_first, else (S, T, B, D)
    args, _ = operation.with_values([None])
    _, hidden, *others, batch_first = args
    if not isinstance(batch_first, bool) or not isinstance(others[0], list):
        raise RuleDoesNotFitError("packed sequences go draw by draw")
    draws, axis = len(x), 0 if batch_first else 1
    rows = x.movedim(0, axis).flatten(axis, axis + 1)
    start = [state.repeat(1, draws, 1) for state in _tensors(hidden)]
    out, *ends = operation.function(
        rows, start[0] if isinstance(hidden, Tensor) else start, *others, batch_first
    )
    return [
        result.unflatten(at, (draws, -1)).movedim(at, 0)
        for result, at in zip((out, *ends), (axis, *[1] * len(ends)), strict=True)
    ]


@_rule(torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell, only_first=False)
def _recurrent_cell(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Draws become rows of the input and of the state."""
    states = len(operation.shapes)
    if operation.stacked[-1] > states:
        raise RuleDoesNotFitError("sampled weights go through vmap")
    draws = len(values[0])
    given = dict(zip(operation.stacked, values, strict=True))
    rows = [
        (given[i] if i in given else operation.constant(i).expand(draws, -1, -1)).flatten(0, 1)
        for i in range(1 + states)
    ]
    return [out.unflatten(0, (draws, -1)) for out in operation.call_all(rows)]


@_rule(F.scaled_dot_product_attention, only_first=False)
def _attention(operation: Operation, values: Sequence[Tensor]) -> list[Tensor]:
    """Draws become rows of queries, keys and values."""
    draws = len(values[0])
    if len(operation.shapes[0]) != 4 or operation.stacked[-1] > 2:
        raise RuleDoesNotFitError
    args, kwargs = operation.with_values(values)
    rows = [
        x.flatten(0, 1) if i in operation.stacked else x.expand(draws, *x.shape).flatten(0, 1)
        for i, x in enumerate(args[:3])
    ]
    mask = args[3] if len(args) > 3 else kwargs.pop("attn_mask", None)
    if mask is not None and mask.dim() == 4 and len(mask) > 1:
        mask = mask.repeat(draws, 1, 1, 1)
    out: Tensor = operation.function(*rows, mask, *args[4:], **kwargs)
    return [out.unflatten(0, (draws, -1))]
