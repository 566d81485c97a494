"""One operation for many draws: how a function of one draw is applied to a stack of draws.

Three ways, the first that fits is taken:

1. a rule, for the operations that most of the time goes into: the draws become a leading axis, or
   rows of the batch, of one call;
2. `torch.func.vmap`, which knows most other operations;
3. one call per draw. Always right.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.draws.arguments import Arguments, Values
from dubio.draws.functional import rearranged

aten = torch.ops.aten

Way = Callable[[Values], Any]  # values by slot -> one result for all draws, or several


class RuleDoesNotFitError(Exception):
    """A rule declines a call, and the next way is taken."""


@final
class BatchedCall:
    """A function call of one draw, some of whose arguments differ among draws.

    Attributes:
        function: What is called.
        arguments: What it is called with.
        shapes: Shapes of the results for one draw.
        stacked: Numbers of the slots that differ among draws.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Arguments, shapes: Sequence[torch.Size]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.shapes = shapes
        self.stacked = list(dict.fromkeys(s.number for s in arguments.slots if not s.fixed))
        self._ways = [*self._rules(), self._vmap, self._draw_by_draw]

    def __call__(self, values: Values) -> Any:
        """Return its results, each (S, …), for values that are (S, …) each, or fixed."""
        try:
            return self._ways[0](values)
        except Exception:  # whatever it is, the last way is to call the function as it was called
            if len(self._ways) == 1:
                raise
        self._ways = self._ways[1:]
        return self(values)

    @property
    def direct(self) -> bool:
        """Whether it is carried out by calling the function with stacks as they are."""
        return self._ways[0] == self._call

    @property
    def signature(self) -> Hashable:
        """The function, its arguments that are no tensors, and the shapes of its results."""
        return self.function, self.arguments.signature, *self.shapes

    def _rules(self) -> list[Way]:
        """Return the rule for it, if there is one."""
        if self.function in _LEADING and _only_first(self.arguments):
            return [self._call]
        if self.function in _RULES:
            rule, condition = _RULES[self.function]
            if condition(self.arguments):
                return [lambda values: rule(self, values)]
        tags = getattr(self.function, "tags", ())
        if torch.Tag.pointwise in tags and len(self.shapes) == 1 and not self.arguments.deep:
            dims = len(self.shapes[0])
            slots = [self.arguments.args[i] for i in self.arguments.stacked]
            if all(len(slot.shape) == dims for slot in slots):
                return [self._call]
            if not dims or len({slot.dtype for slot in slots}) == 1 or all(s.shape for s in slots):
                return [lambda values: _pointwise(self, values)]
        return []  # numbers among tensors of other types give way to them: vmap knows how

    def _call(self, values: Values) -> Any:
        args, kwargs = self.arguments.filled(values)
        return self.function(*args, **kwargs)

    def _vmap(self, values: Values) -> list[Tensor]:
        stacked, fixed = self.stacked, self._fixed(values)

        def one_draw(*one: Tensor) -> tuple[Tensor, ...]:
            return tuple(_tensors(self._call(fixed | dict(zip(stacked, one, strict=True)))))

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            return list(torch.vmap(one_draw)(*(values[number] for number in stacked)))

    def _draw_by_draw(self, values: Values) -> list[Tensor]:
        stacked, fixed = self.stacked, self._fixed(values)
        results = [
            _tensors(self._call(fixed | dict(zip(stacked, one, strict=True))))
            for one in zip(*(values[number] for number in stacked), strict=True)
        ]
        return [torch.stack(result) for result in zip(*results, strict=True)]

    def _fixed(self, values: Values) -> dict[int, Any]:
        return {slot.number: values[slot.number] for slot in self.arguments.slots if slot.fixed}


BatchingRule = Callable[[BatchedCall, Values], Any]
Condition = Callable[[Arguments], bool]


def _only_first(arguments: Arguments) -> bool:
    return arguments.stacked == [0] and not arguments.deep


# Operations on the last axes take any number of leading ones.
_LEADING = frozenset({F.linear, aten.native_layer_norm.default})
_RULES: dict[Callable[..., Any], tuple[BatchingRule, Condition]] = {}


def _rule(
    *functions: Callable[..., Any], condition: Condition = _only_first
) -> Callable[[BatchingRule], BatchingRule]:
    """Enter a rule; most hold when only the first argument differs among draws."""

    def enter(rule: BatchingRule) -> BatchingRule:
        _RULES.update(dict.fromkeys(functions, (rule, condition)))
        return rule

    return enter


def as_rows(x: Tensor) -> Tensor:  # (S, B, …) -> (S B, …)
    """Draw as rows; with their layout in memory, such as channels last, which one row can lose."""
    return x[0] if len(x) == 1 else x.flatten(0, 1)


def as_draws(x: Tensor, draws: int) -> Tensor:  # (S B, …) -> (S, B, …)
    """Return rows as draws again."""
    return x[None] if draws == 1 else x.unflatten(0, (draws, len(x) // draws))


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    return [leaf for leaf in out if isinstance(leaf, Tensor)]


def _pointwise(operation: BatchedCall, values: Values) -> Any:
    """Elementwise operations broadcast from the last axis: pad stacks so that draws stay first."""
    dims = len(operation.shapes[0])
    args, kwargs = operation.arguments.filled(values)
    for i in operation.arguments.stacked:
        x = args[i]
        if x.dim() != dims + 1:
            args[i] = x.view(len(x), *[1] * (dims + 1 - x.dim()), *x.shape[1:])
    return operation.function(*args, **kwargs)


_FEW_UNITS = 32  # below, products of all draws are done at once


@_rule(F.linear, condition=lambda arguments: not arguments.deep)
def _linear(operation: BatchedCall, values: Values) -> Any:
    """Apply weights that differ among draws: one product for all, or one for each draw."""
    (x, weight, *rest), named = operation.arguments.filled(values)
    stacked = operation.arguments.stacked
    bias = rest[0] if rest else named.get("bias")
    shape = operation.shapes[0]
    if 1 not in stacked or len(shape) < 2:
        raise RuleDoesNotFitError
    draws, units, _ = weight.shape
    if 0 not in stacked and units < _FEW_UNITS:  # (B, …, D) · (S·K, D)
        product = torch.mm(x.flatten(0, -2), weight.flatten(0, 1).t())
        product = product.view(-1, draws, units).transpose(0, 1)
        if bias is not None:
            product = product + (bias.unsqueeze(1) if bias.dim() == 2 else bias)
        return product.reshape(draws, *shape)
    rows = x.flatten(1, -2) if 0 in stacked else x.flatten(0, -2).expand(draws, -1, -1)
    if bias is None:  # (S, B, …, D) · (S, K, D)
        product = torch.bmm(rows, weight.mT)
    else:
        product = torch.baddbmm(bias.view(-1, 1, units), rows, weight.mT)
    return product.view(draws, *shape)


@_rule(rearranged)
def _rearranged(operation: BatchedCall, values: Values) -> Tensor:
    (x, index), _ = operation.arguments.filled(values)
    result: Tensor = x.flatten(1)[:, index]
    return result


@_rule(
    aten.convolution.default,
    aten.max_pool2d_with_indices.default,
    aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default,
    aten.upsample_nearest2d.default,
    aten.upsample_bilinear2d.default,
    aten.mm.default,
)
def _rows(operation: BatchedCall, values: Values) -> list[Tensor]:
    """Operations that treat rows alike: draws become rows."""
    (x, *others), kwargs = operation.arguments.filled(values)  # (S, B, …)
    results = _tensors(operation.function(as_rows(x), *others, **kwargs))
    return [as_draws(result, len(x)) for result in results]


@_rule(aten.bmm.default)
def _products(operation: BatchedCall, values: Values) -> Tensor:
    """Apply matrices that all draws share: draws become rows of the others."""
    (x, shared), _ = operation.arguments.filled(values)  # (S, N, B, D), (N, D, K)
    products = operation.function(x.transpose(0, 1).flatten(1, 2), shared)
    result: Tensor = products.unflatten(1, (len(x), -1)).transpose(0, 1)  # (S, N, B, K)
    return result


@_rule(aten.native_batch_norm.default)
def _batch_norm(operation: BatchedCall, values: Values) -> list[Tensor]:
    (x, *others), kwargs = operation.arguments.filled(values)
    if others[4]:
        raise RuleDoesNotFitError("statistics of the batch are taken draw by draw")
    out, *unused = operation.function(as_rows(x), *others, **kwargs)
    return [as_draws(out, len(x))] + [y.expand(len(x), *y.shape) for y in unused]


@_rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _view(operation: BatchedCall, values: Values) -> Tensor:
    args, _ = operation.arguments.filled(values)
    x: Tensor = args[0]
    return x.reshape(len(x), *operation.shapes[0])  # strides may differ from one draw's


@_rule(
    aten.addmm.default,
    condition=lambda arguments: arguments.stacked == [1] and not arguments.deep,
)
def _affine(operation: BatchedCall, values: Values) -> Any:
    (bias, x, *others), kwargs = operation.arguments.filled(values)
    if bias.dim() != 1:
        raise RuleDoesNotFitError
    out = operation.function(bias, x.flatten(0, 1), *others, **kwargs)
    return out.unflatten(0, x.shape[:2])


@_rule(
    torch.lstm,
    torch.gru,
    torch.rnn_tanh,
    torch.rnn_relu,
    condition=lambda arguments: _only_first(arguments) and not arguments.kwargs,
)
def _recurrent(operation: BatchedCall, values: Values) -> list[Tensor]:
    """Draw become rows; every draw starts from the same hidden state."""
    (x, hidden, *others, batch_first), _ = operation.arguments.filled(values)
    # (S, B, T, D) if batch_first, else (S, T, B, D)
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


@_rule(
    torch.lstm_cell,
    torch.gru_cell,
    torch.rnn_tanh_cell,
    torch.rnn_relu_cell,
    condition=lambda arguments: max(arguments.stacked, default=0) <= 1 and not arguments.kwargs,
)
def _recurrent_cell(operation: BatchedCall, values: Values) -> list[Tensor]:
    """Draw become rows of the input and of the state."""
    (x, state, *weights), _ = operation.arguments.filled(values)
    stacks = {id(values[number]) for number in operation.stacked}
    draws = len(values[operation.stacked[0]])

    def rows(y: Tensor) -> Tensor:
        return _as_rows(y, id(y) in stacks, draws)

    states = rows(state) if isinstance(state, Tensor) else list(map(rows, state))
    results = _tensors(operation.function(rows(x), states, *weights))
    return [result.unflatten(0, (draws, -1)) for result in results]


@_rule(
    F.scaled_dot_product_attention,
    condition=lambda arguments: not arguments.deep and arguments.stacked[-1] <= 2,
)
def _attention(operation: BatchedCall, values: Values) -> Any:
    """Draw become rows of queries, keys and values."""
    if len(operation.shapes[0]) != 4:
        raise RuleDoesNotFitError
    args, kwargs = operation.arguments.filled(values)
    named = dict(zip(_ATTENTION_ARGUMENTS, args, strict=False)) | kwargs
    stacked = operation.arguments.stacked
    draws = len(args[stacked[0]])
    for i, name in enumerate(_ATTENTION_ARGUMENTS[:3]):
        named[name] = _as_rows(named[name], i in stacked, draws)
    mask = named.get("attn_mask")
    if mask is not None and mask.dim() == 4 and len(mask) > 1:
        named["attn_mask"] = mask.repeat(draws, 1, 1, 1)
    return operation.function(**named).unflatten(0, (draws, -1))


_ATTENTION_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def _as_rows(x: Tensor, stacked: bool, draws: int) -> Tensor:  # (S, B, …) or (B, …) -> (S B, …)
    return (x if stacked else x.expand(draws, *x.shape)).flatten(0, 1)
