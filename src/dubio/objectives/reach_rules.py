"""How far operations reach: a rule for each kind, and for all others the reach of everything."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from dubio.objectives.reach import Reach, Reaches, nothing
from dubio.objectives.record import Index, RecordedOperation

ArgumentsByName = dict[str, Any]
# (the operation, its arguments, shapes of results) -> their reaches; None for that of everything
ReachRule = Callable[[Any, ArgumentsByName, Sequence[torch.Size]], "list[Tensor] | None"]


def follow(step: RecordedOperation, reaches: Reaches) -> None:
    """Find how far the results of a step reach."""
    arguments = reaches.arguments(step)
    targets = [*step.results, *step.written]
    shapes = [target.shape for target in targets]
    try:
        found = rule_of(step.function)(step.function, arguments, shapes)
    except (RuntimeError, IndexError, TypeError, ValueError):  # a rule that does not fit
        found = None
    if found is None or len(found) != len(targets):
        given = _reaches(arguments.values())
        found = [_join(reach.whole(len(shape)) for reach in given) for shape in shapes]
    for target, of in zip(targets, found, strict=True):
        if 0 not in target.shape:
            reaches.write(target, of)


def _reaches(values: Iterable[Any]) -> list[Reach]:
    found: list[Reach] = []
    for value in values:
        if isinstance(value, Reach):
            found.append(value)
        elif isinstance(value, list):
            found += _reaches(value)
    return found


def _join(parts: Iterable[Tensor]) -> Tensor:
    """Return the furthest of some reaches, whose last axes belong together."""
    parts = list(parts)
    rank = max(part.dim() for part in parts)
    joined = _padded(parts[0], rank)
    for part in parts[1:]:
        joined = torch.maximum(joined, _padded(part, rank))
    return joined


def _padded(of: Tensor, rank: int) -> Tensor:
    return of.view(2, *[1] * (rank - of.dim()), *of.shape[1:])


def _nothing(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor]:
    """Results depend on the shapes of arguments alone."""
    return [nothing(len(shape)) for shape in shapes]


def _entry_by_entry(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Return each entry of a result depends on the same entry of the arguments."""
    given = _reaches(arguments.values())
    if any(shape != torch.broadcast_shapes(*(reach.shape for reach in given)) for shape in shapes):
        return None
    return [_join(reach.of for reach in given)] * len(shapes)


def _written_over(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Return the same of what is written over a tensor, which is forgotten."""
    given = _reaches(value for name, value in arguments.items() if name != "self")
    (shape,) = shapes
    return [_join([nothing(len(shape)), *(reach.of for reach in given)])]


def _over_axes(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow entries along some axes, or all, that become one."""
    (given,) = _reaches(arguments.values())
    rank = len(given.shape)
    axes = _axes(arguments.get("dim"), rank)
    of = given.of.amax(axes, keepdim=True) if axes else given.of
    dropped = of.view(2, *(n for i, n in enumerate(of.shape) if i and i not in axes))
    return [of if len(shape) == rank else dropped for shape in shapes]


def _along(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow entries that are mixed along an axis."""
    shape = shapes[0]
    (axis,) = _axes(arguments["dim"], len(shape))
    parts = []
    for given in _reaches(arguments.values()):
        if len(given.shape) != len(shape):
            parts.append(given.whole(len(shape)))
            continue
        of = given.of.amax(axis, keepdim=True)
        for other in range(1, of.dim()):  # entries behind those of the result are not looked at
            size = shape[other - 1]
            of = of.narrow(other, 0, size) if other != axis and of.shape[other] > size else of
        parts.append(of)
    return [_join(parts)] * len(shapes)


def _axes(dims: Any, rank: int) -> list[int]:
    """Return axes of a reach, of which the first is for its two numbers."""
    if dims is None or dims == []:
        return list(range(1, rank + 1))
    return [dim % rank + 1 for dim in ([dims] if isinstance(dims, int) else dims)]


def _product(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow rows of one matrix that meet columns of another."""
    *added, left, right = _reaches(arguments.values())
    if len(left.shape) < 2 or len(right.shape) < 2:
        return None
    crossed = torch.maximum(left.of.amax(-1, keepdim=True), right.of.amax(-2, keepdim=True))
    return [_join([crossed, *(each.of for each in added)])]


def _moved(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow entries that are put elsewhere; reaches go with them."""
    if "value" in arguments:  # of padding
        arguments = {**arguments, "value": -1.0}
    if arguments.get("accumulate"):
        return None
    planes = [_results(function, arguments, plane) for plane in range(2)]
    return [torch.stack(both) for both in zip(*planes, strict=True)]


def _results(function: Any, arguments: ArgumentsByName, plane: int) -> list[Tensor]:
    def numbers(value: Any) -> Any:
        if isinstance(value, Reach):
            return value.full()[plane]
        if isinstance(value, Index):
            return torch.tensor(value.values, dtype=value.dtype).view(value.shape)
        return list(map(numbers, value)) if isinstance(value, list) else value

    out = function(**{name: numbers(value) for name, value in arguments.items()})
    return [out] if isinstance(out, Tensor) else list(out)


def _indexed(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow entries that are read or written at indices."""
    if not _reaches(arguments["indices"]):
        return _moved(_OUT_OF_PLACE.get(function, function), arguments, shapes)
    (mask,) = arguments["indices"]
    target = arguments["self"]
    fits = mask.dtype == torch.bool and mask.shape == target.shape[: len(mask.shape)]
    if "values" not in arguments or not fits:
        return None
    behind = len(target.shape) - len(mask.shape)
    of_mask = mask.of.view(*mask.of.shape, *[1] * behind)
    return [_join([target.of, of_mask, arguments["values"].whole(len(target.shape))])]


_OUT_OF_PLACE = {torch.ops.aten.index_put_.default: torch.ops.aten.index_put.default}


def _by_example(examples: int) -> ReachRule:
    """Return a rule for what treats each example on the first axis of some arguments by itself."""

    def rule(
        function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
    ) -> list[Tensor] | None:
        given = _reaches(arguments.values())
        rows = given[0].shape[0]
        parts = []
        for i, reach in enumerate(given):
            apart = i < examples and reach.shape[:1] == (rows,)
            parts.append(reach.by_row() if apart else reach.whole(1))
        joined = _join(parts)
        return [
            joined.view(2, -1, *[1] * (len(shape) - 1))
            if shape[:1] == (rows,)
            else joined.amax(1).view(2, *[1] * len(shape))
            for shape in shapes
        ]

    return rule


def _layer_norm(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    given, *others = _reaches(arguments.values())
    axes = list(range(-len(arguments["normalized_shape"]), 0))
    of = given.of.amax(axes, keepdim=True)
    return [_join([of, *(each.whole(len(given.shape)) for each in others)])] * len(shapes)


def _batch_norm(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Channels stay apart; in train mode nothing else does."""
    given, *others = _reaches(arguments.values())
    rank = len(given.shape)
    axes = [axis for axis in range(1, rank + 1) if axis != 2]
    of = given.of.amax(axes, keepdim=True) if arguments["training"] else given.of
    by_channel = [each.of.view(2, -1, *[1] * (rank - 2)) for each in others]
    of = _join([of, *by_channel])
    channels = of.amax(axes)
    return [of if len(shape) == rank else channels for shape in shapes]


def _recurrent(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    """Follow a layer over time, with rows second in sequences and first in states."""
    sequence, *weights, hidden, cell = _reaches(arguments.values())
    rows = _join(
        [
            sequence.of.amax((1, 3)),
            *(state.of.amax(-1).flatten(1) for state in (hidden, cell)),
            *(weight.whole(1) for weight in weights),
        ]
    )  # (2, B | 1)
    everything = rows.amax(1)
    return [
        rows.view(2, 1, -1, 1),
        *(rows.view(2, -1, 1) for _ in shapes[1:3]),
        *(everything.view(2, *[1] * len(shape)) for shape in shapes[3:]),
    ]


def _embedding(
    function: Any, arguments: ArgumentsByName, shapes: Sequence[torch.Size]
) -> list[Tensor] | None:
    weights, indices = arguments["weight"], arguments["indices"]
    return [_join([indices.of[..., None], weights.whole(len(shapes[0]))])]


_NAMES: dict[ReachRule, str] = {
    _nothing: "zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones "
    "new_full",
    _written_over: "copy_ fill_ zero_ uniform_ normal_ bernoulli_ random_ exponential_ log_normal_ "
    "geometric_ cauchy_",
    _entry_by_entry: "_to_copy copy bernoulli native_dropout tril triu mse_loss smooth_l1_loss "
    "huber_loss binary_cross_entropy binary_cross_entropy_with_logits _prelu_kernel "
    "log_sigmoid_forward masked_fill_ lerp_ softplus softshrink hardswish hardswish_",
    _over_axes: "sum nansum mean amax amin max min aminmax argmax argmin any all var std var_mean "
    "std_mean prod median nanmedian mode kthvalue logsumexp norm linalg_vector_norm count_nonzero",
    _along: "_softmax _log_softmax _safe_softmax cumsum cumprod cummax cummin logcumsumexp sort "
    "topk gather scatter scatter_ scatter_add scatter_add_ index_select glu",
    _product: "mm bmm addmm baddbmm",
    _moved: "cat stack roll flip repeat constant_pad_nd "
    "select_scatter slice_scatter diag_embed pixel_shuffle pixel_unshuffle",
    _indexed: "index index_put index_put_",
    _by_example(1): "convolution max_pool2d_with_indices max_pool3d_with_indices avg_pool2d "
    "avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d native_group_norm im2col col2im "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
    "replication_pad3d",
    _by_example(2): "grid_sampler_2d grid_sampler_3d nll_loss_forward nll_loss2d_forward",
    _by_example(3): "_scaled_dot_product_flash_attention_for_cpu _thnn_fused_lstm_cell "
    "_scaled_dot_product_flash_attention _thnn_fused_gru_cell",
    _layer_norm: "native_layer_norm _fused_rms_norm",
    _batch_norm: "native_batch_norm cudnn_batch_norm",
    _recurrent: "mkldnn_rnn_layer",
    _embedding: "embedding",
}
_RULES = {
    getattr(torch.ops.aten, name): rule for rule, names in _NAMES.items() for name in names.split()
}


@cache
def rule_of(function: Any) -> ReachRule:
    """Return the rule of an operation."""
    if torch.Tag.pointwise in function.tags:
        return _entry_by_entry
    return _RULES.get(function.overloadpacket, lambda *_: None)
