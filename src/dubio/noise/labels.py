"""Labels: which row of the batch every entry of a tensor belongs to.

A tensor of labels is as large as the tensor it tells about. Rows have the labels 1, 2, …; an entry
that belongs to no row, like one of a weight, has `NOBODY`, and one in which rows meet has `MANY`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

NOBODY, MANY = 0.0, -1.0


def labels_of_rows(tensor: Tensor, axis: int = 0) -> Tensor:
    """Return the labels of a tensor with rows along an axis."""
    rows = torch.arange(1.0, tensor.shape[axis] + 1.0, device=tensor.device)
    return laid_out(rows.view(-1, *[1] * (tensor.dim() - 1 - axis)).expand(tensor.shape), tensor)


def labels_of_nobody(tensor: Tensor) -> Tensor:
    """Return the labels of a tensor without rows."""
    return laid_out(torch.zeros((), device=tensor.device).expand(tensor.shape), tensor)


def laid_out(labels: Tensor, like: Tensor) -> Tensor:
    """Labels in memory of their own, with the strides of a tensor: views of one are views of both.

    Without strides, as a sparse tensor is, they are contiguous.
    """
    if like.layout != torch.strided or 0 in like.stride():
        return labels.clone(memory_format=torch.contiguous_format)
    own = torch.empty_strided(like.shape, like.stride(), device=like.device)
    return own.copy_(labels)


def combined(one: Tensor, other: Tensor) -> Tensor:
    """Return labels of an elementwise operation; entries of two rows become `MANY`.

    What belongs to a row still does after something of the whole batch has entered.
    """
    label = torch.maximum(one, other)
    clash = (torch.minimum(one, other) > NOBODY) & (one != other)
    return label.masked_fill_(clash, MANY)


def reduced(labels: Tensor, dims: Iterable[int], *, keepdim: bool) -> Tensor:
    """Return labels of a reduction over some axes."""
    axes = list(dims)
    if not axes:
        return labels
    if labels.numel() == 0:
        return labels.sum(axes, keepdim=keepdim)
    last = labels.amax(axes, keepdim=keepdim)
    first = labels.masked_fill(labels <= NOBODY, torch.inf).amin(axes, keepdim=keepdim)
    return last.masked_fill((last > NOBODY) & (first != last), MANY)


def filled(labels: Tensor, dims: Iterable[int]) -> Tensor:
    """Let entries of nobody, such as padding, belong to the row around them along some axes.

    If there is one row only, nobody can tell whether others might lie along these axes.
    """
    if labels.numel() == 0 or not bool(((labels > NOBODY) & (labels != labels.max())).any()):
        return labels
    around = reduced(labels, dims, keepdim=True)
    return torch.where(labels == NOBODY, around.clamp(min=NOBODY), labels)


def along_one_axis(labels: Tensor) -> tuple[int, Tensor] | None:
    """Return the axis that alone decides the owner of entries, and the labels along it.

    None if there is no such axis. Entries of nobody or of many do not count.
    """
    for axis in range(labels.dim()):
        others = [other for other in range(labels.dim()) if other != axis]
        along = reduced(labels, others, keepdim=False)
        if not (along == MANY).any() and (along > NOBODY).any():
            return axis, _guessed_from_neighbours(along)
    return None


def _guessed_from_neighbours(along: Tensor) -> Tensor:
    """Fill gaps where rows lie in a regular order: each a number of times, over and over."""
    if bool((along > NOBODY).all()):
        return along
    rows = along[along > NOBODY].unique()
    size, count = len(along), len(rows)
    for each in range(1, size // count + 1):
        if size % (count * each) == 0:
            regular: Tensor = rows.repeat_interleave(each).repeat(size // (count * each))
            if bool(((along == regular) | (along <= NOBODY)).all()):
                return regular
    return along


def ranks(along: Tensor) -> Tensor:
    """Return which of the entries of its row each entry is: 0 for the first of a row."""
    order = along.argsort(stable=True)
    grouped = along[order]
    position = torch.arange(len(along), device=along.device)
    starts = torch.searchsorted(grouped, grouped)
    return torch.empty_like(position).index_copy_(0, order, position - starts)
