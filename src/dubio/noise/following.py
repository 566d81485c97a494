"""Labels of an operation's results, given those of its operands.

Operations that only move entries are carried out on the labels as well. Of those that compute,
the usual ones have a rule. All others are tried: which results become NaN if those entries of the
operands do that belong to some rows?
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil, log2
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dubio.noise.labels import MANY, NOBODY, combined, filled, labels_of_nobody, reduced

aten = torch.ops.aten


class Operation(NamedTuple):
    """An operation that was carried out.

    Attributes:
        function: What was called.
        args: What it was called with.
        kwargs: And by name.
        results: The tensors that came out.
        known: The labels of an operand; None if it is a weight, or a weight in another form.
    """

    function: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    results: list[Tensor]
    known: Callable[[Tensor], Tensor | None]

    def labels(self, x: Tensor) -> Tensor:
        """Return the labels of an operand."""
        labels = self.known(x)
        return labels_of_nobody(x) if labels is None else labels

    def argument(self, name: str) -> Any:
        """Return an argument by its name in the schema."""
        for i, argument in enumerate(self.function._schema.arguments):
            if argument.name == name:
                given = self.args[i] if i < len(self.args) else self.kwargs.get(name)
                return argument.default_value if given is None else given
        return None


LabelRule = Callable[[Operation], list[Tensor]]
_RULES: dict[str, LabelRule] = {}


def _rule(*names: str) -> Callable[[LabelRule], LabelRule]:
    """Enter a rule for some operations of torch, in place or not."""

    def enter(rule: LabelRule) -> LabelRule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def labels_of_results(operation: Operation) -> list[Tensor]:
    """Return the labels of each result; those of a view are a view of the labels."""
    rule = _rule_for(operation.function)
    with suppress(Exception):  # a rule does not fit this call
        found = rule(operation)
        shapes = [result.shape for result in operation.results]
        if [labels.shape for labels in found] == shapes:
            return found
    return try_out(operation)


@cache
def _rule_for(function: Any) -> LabelRule:
    name = function.overloadpacket.__name__.removesuffix("_")
    if function.is_view or torch.Tag.inplace_view in function.tags or name.endswith("_copy"):
        return _move if name != "_to_copy" else _alike
    if name in _RULES:
        return _RULES[name]
    if torch.Tag.pointwise in function.tags:
        return _entry_by_entry
    arguments = {argument.name for argument in function._schema.arguments}
    return _reduce if "keepdim" in arguments else try_out


@_rule(
    "_unsafe_view", "flip", "roll", "repeat", "im2col", "pixel_shuffle", "pixel_unshuffle",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "channel_shuffle", "masked_select", "take",
    "_pack_padded_sequence",
)  # fmt: skip
def _move(operation: Operation) -> list[Tensor]:
    """Follow entries of the first operand that move elsewhere."""
    x, *others = operation.args
    moved = operation.function(operation.labels(x), *others, **operation.kwargs)
    if operation.function is aten._pack_padded_sequence.default:
        return [moved[0], labels_of_nobody(operation.results[1])]
    return [moved] if isinstance(moved, Tensor) else list(moved)


@_rule("constant_pad_nd")
def _pad(operation: Operation) -> list[Tensor]:
    """Give padding to the row that it is put around."""
    x, padding = operation.args[:2]
    padded = [x.dim() - 1 - i for i in range(len(padding) // 2) if any(padding[2 * i : 2 * i + 2])]
    return [filled(aten.constant_pad_nd(operation.labels(x), padding, NOBODY), padded)]


@_rule("_pad_packed_sequence")
def _unpack(operation: Operation) -> list[Tensor]:
    data, sizes, batch_first, _, length = operation.args
    padded, _ = operation.function(operation.labels(data), sizes, batch_first, NOBODY, length)
    time = 1 if batch_first else 0
    return [filled(padded, [time]), labels_of_nobody(operation.results[1])]


@_rule("cat", "stack")
def _join(operation: Operation) -> list[Tensor]:
    """Return what is joined to rows, such as a token for the class, belongs to them."""
    dim = operation.argument("dim") or 0
    parts = [operation.labels(part) for part in operation.args[0]]
    return [filled(operation.function(parts, dim), [dim])]


@_rule("index_select", "gather", "index", "embedding")
def _look_up(operation: Operation) -> list[Tensor]:
    """Return what is looked up among rows belongs to them; in a table of weights, to who asks."""
    function, (x, *where) = operation.function, operation.args
    if function is not aten.embedding.default:
        found = function(operation.labels(x), *where, **operation.kwargs)
        if bool((found > NOBODY).any()):
            return [found]
    (result,) = operation.results
    if function is aten.embedding.default:
        return [operation.labels(where[0])[..., None].expand(result.shape)]
    if function is aten.gather.default:
        return [operation.labels(where[1])]
    if function is aten.index_select.default:
        behind = x.dim() - 1 - where[0] % x.dim()
        return [operation.labels(where[1]).view(-1, *[1] * behind).expand(result.shape)]
    indices = [index for index in where[0] if index is not None]
    asking = [operation.labels(index) for index in indices]
    places = [i for i, index in enumerate(where[0]) if index is not None]
    together = places == list(range(places[0], places[-1] + 1))
    labels = asking[0]
    for other in asking[1:]:
        labels = combined(*torch.broadcast_tensors(labels, other))
    behind = result.dim() - labels.dim() - (places[0] if together else 0)
    return [labels.view(*labels.shape, *[1] * behind).expand(result.shape)]


def _entry_by_entry(operation: Operation) -> list[Tensor]:
    """Follow entries of several tensors that broadcast against one another."""
    (result,) = operation.results
    labels: Tensor | None = None
    for x in tensors_in(operation.args, operation.kwargs):
        known = operation.known(x)
        if known is not None:
            known = known.expand(result.shape)
            labels = known if labels is None else combined(labels, known)
    return [labels_of_nobody(result) if labels is None else labels]


_RULES["rsub"] = _RULES["where"] = _RULES["prelu"] = _RULES["polar"] = _entry_by_entry


@_rule(
    "_softmax", "_log_softmax", "native_batch_norm", "native_layer_norm", "native_group_norm",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "cudnn_batch_norm",
    "_fused_rms_norm", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
    "_to_copy", "fill", "zero", "tril", "triu", "zeros_like", "ones_like", "empty_like",
    "full_like", "rand_like", "randn_like", "bernoulli", "uniform", "normal", "renorm",
)  # fmt: skip
def _alike(operation: Operation) -> list[Tensor]:
    """Every entry of the result is in place of one entry of the operand."""
    labels = operation.labels(operation.args[0])
    return [
        labels if result.shape == labels.shape else labels_of_nobody(result)
        for result in operation.results
    ]


@_rule("copy")
def _overwrite(operation: Operation) -> list[Tensor]:
    """Give what is written to the row it comes from, or else to the one written into."""
    target, source = operation.args[:2]
    labels = operation.labels(source).expand(target.shape)
    return [torch.where(labels == NOBODY, operation.labels(target), labels)]


@_rule("index_put", "slice_scatter", "select_scatter", "scatter", "index_copy", "masked_scatter")
def _put(operation: Operation) -> list[Tensor]:
    """Follow entries that are written to some places."""
    x, *others = operation.args
    if operation.argument("accumulate") or operation.argument("reduce"):
        return try_out(operation)
    given = ("values", "src", "source")
    names = [argument.name for argument in operation.function._schema.arguments][1:]
    substituted = [
        operation.labels(arg) if name in given and isinstance(arg, Tensor) else arg
        for name, arg in zip(names, others, strict=False)
    ]
    if "value" in names:  # a number
        return [operation.labels(x)]
    return [operation.function(operation.labels(x).clone(), *substituted, **operation.kwargs)]


def _reduce(operation: Operation) -> list[Tensor]:
    """Follow sums, means, maxima and the like along some axes."""
    x, dims = operation.args[0], operation.argument("dim")
    labels = operation.labels(x)
    axes = range(x.dim()) if dims is None or dims == [] else dims
    axes = [axes] if isinstance(axes, int) else list(axes)
    found = reduced(labels, axes, keepdim=bool(operation.argument("keepdim")))
    return [found for _ in operation.results]


@_rule("mm", "bmm", "addmm", "baddbmm", "linear")
def _multiply(operation: Operation) -> list[Tensor]:
    """Follow products of matrices: rows of the left one, columns of the right one."""
    (result,) = operation.results
    added = operation.function in (aten.addmm.default, aten.baddbmm.default)
    left, right = operation.args[1:3] if added else operation.args[:2]
    of_right = operation.known(right)
    labels = reduced(operation.labels(left), [-1], keepdim=True).expand(result.shape)
    if of_right is not None:
        columns = -1 if operation.function is aten.linear.default else -2
        by_column = reduced(of_right, [columns], keepdim=False).unsqueeze(-2)
        labels = combined(labels, by_column.expand(result.shape))
    if added and (of_bias := operation.known(operation.args[0])) is not None:
        labels = combined(labels, of_bias.expand(result.shape))
    return [labels]


@_rule(
    "convolution", "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d",
    "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "upsample_nearest2d",
    "upsample_nearest1d", "upsample_linear1d", "upsample_bilinear2d", "adaptive_max_pool2d",
    "upsample_bicubic2d", "mkldnn_convolution",
)  # fmt: skip
def _first_axis(operation: Operation) -> list[Tensor]:
    """Operations on (row, channel, …) that treat rows alike, if that is where rows are."""
    x, *others = operation.args
    labels = operation.labels(x)
    rows = reduced(labels, range(1, x.dim()), keepdim=True)
    if bool((rows == MANY).any()) or any(
        (of_other := operation.known(w)) is not None and bool((of_other != NOBODY).any())
        for w in tensors_in(others)
    ):
        return try_out(operation)
    return [rows.expand(result.shape) for result in operation.results]


@_rule("mkldnn_rnn_layer")
def _recurrent(operation: Operation) -> list[Tensor]:
    """Return one direction of one layer over (time, row, feature)."""
    rows = reduced(operation.labels(operation.args[0]), [0, 2], keepdim=False)
    for state in operation.args[5:7]:  # (row, feature), or (1, row, feature)
        of_state = reduced(operation.labels(state), [-1], keepdim=False)
        rows = combined(rows, of_state.view(rows.shape))
    *states, workspace = operation.results
    return [*(rows[:, None].expand(y.shape) for y in states), labels_of_nobody(workspace)]


def try_out(operation: Operation) -> list[Tensor]:
    """Make the entries of some rows NaN, and see where NaN comes out.

    Rows are numbered in binary: each digit takes two attempts, one for each of its values. An entry
    that belongs to one row is hit by exactly one attempt for every digit.
    """
    operands = {
        id(x): (x, labels)
        for x in tensors_in(operation.args, operation.kwargs)
        if (labels := operation.known(x)) is not None and bool((labels > NOBODY).any())
    }
    if not operands:
        return [labels_of_nobody(result) for result in operation.results]
    rows = torch.cat([labels[labels > NOBODY].unique() for _, labels in operands.values()]).unique()
    digits = max(1, ceil(log2(len(rows))))
    hits: list[list[list[Tensor | None]]] = []  # digit, its value, result
    for digit in range(digits):
        hits.append([])
        for value in (0, 1):
            poisoned = {
                number: _poisoned(
                    x, (torch.searchsorted(rows, labels.contiguous()) >> digit & 1 == value), labels
                )
                for number, (x, labels) in operands.items()
            }
            hits[-1].append(_attempt(operation, poisoned))
    found: list[Tensor] = []
    for i, result in enumerate(operation.results):
        labels = labels_of_nobody(result)
        number = torch.zeros(result.shape, dtype=torch.long, device=result.device)
        for digit, (zeros, ones) in enumerate((a[i], b[i]) for a, b in hits):
            if zeros is None or ones is None:
                labels = labels.fill_(MANY)
                break
            labels = labels.masked_fill(zeros & ones, MANY)
            labels = labels.masked_fill((zeros ^ ones) & (labels != MANY), 1.0)
            number += ones.long() << digit
        owner = rows[number.clamp(max=len(rows) - 1)]
        found.append(torch.where(labels > NOBODY, owner, labels))
    return _from_siblings(operation, found)


def _poisoned(x: Tensor, chosen: Tensor, labels: Tensor) -> Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        return x
    clean = x.detach().nan_to_num() if x.is_floating_point() else x.detach()
    return clean.masked_fill(chosen & (labels > NOBODY), torch.nan)


def _attempt(operation: Operation, operands: dict[int, Tensor]) -> list[Tensor | None]:
    """Return which entries of each result are NaN; None for results that hold no such number."""
    args, kwargs = tree_map(
        lambda x: operands.get(id(x), x.clone()) if isinstance(x, Tensor) else x,
        (list(operation.args), operation.kwargs),
    )
    try:
        out = operation.function(*args, **kwargs)
    except Exception:
        return [None for _ in operation.results]
    tensors = tensors_in(out)
    if [x.shape for x in tensors] != [x.shape for x in operation.results]:
        return [None for _ in operation.results]
    return [x.isnan() if x.is_floating_point() or x.is_complex() else None for x in tensors]


def _from_siblings(operation: Operation, found: list[Tensor]) -> list[Tensor]:
    """Integers, such as the places of maxima, belong to whom the numbers of that shape do."""
    for i, result in enumerate(operation.results):
        if not (result.is_floating_point() or result.is_complex()):
            for other, labels in zip(operation.results, found, strict=True):
                if other.is_floating_point() and other.shape == result.shape:
                    found[i] = labels
    return found


def tensors_in(*structures: Any) -> list[Tensor]:
    """Return all tensors among arguments, also in lists."""
    found: list[Tensor] = []
    for structure in structures:
        if isinstance(structure, Tensor):
            found.append(structure)
        elif isinstance(structure, dict):
            found += tensors_in(*structure.values())
        elif isinstance(structure, list | tuple):
            found += tensors_in(*structure)
    return found
