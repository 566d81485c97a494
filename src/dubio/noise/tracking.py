"""Where the rows of the batch are in every tensor of a pass, followed from the inputs on.

Values do not matter, and rows may be equal: what counts is what operations do to places.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from dubio.noise.following import Operation, labels_of_results, tensors_in
from dubio.noise.labels import (
    MANY,
    NOBODY,
    along_one_axis,
    labels_of_nobody,
    labels_of_rows,
    laid_out,
    ranks,
)
from dubio.noise.layout import Placement
from dubio.noise.sites import outermost_call

aten = torch.ops.aten

# Operations whose results have a shape that depends on values, besides those that torch has marked.
_SHAPED_BY_VALUES = frozenset(
    {aten._pack_padded_sequence.default, aten._pad_packed_sequence.default}
)
_LOOKS = frozenset({"tolist", "numpy", "__array__", "__dlpack__", "data_ptr"})
# Operations that give a weight in another form, besides views and those entry by entry.
_REFORM = frozenset(
    {aten._to_copy.default, aten._unsafe_view.default, aten._weight_norm_interface.default}
)

Operated: TypeAlias = tuple[Any, Sequence[torch.Size]]  # an operation; the shapes of its results
_Sites: TypeAlias = dict[int, tuple[torch.Size, Placement]]
_remembered: WeakKeyDictionary[nn.Module, dict[Hashable, _Sites]] = WeakKeyDictionary()
_MOST_FORMS = 16  # of inputs that are remembered of a module
_UNKNOWN = Placement(found=False)


class RowTracker(TorchDispatchMode):
    """Follows the rows of the batch through all operations in this context.

    Args:
        batch: The inputs that have rows, which come first. None if they are what the outermost
            module in this context is called with, or else what noise acts on first.
        made: The axis of the rows in tensors that are made for them out of other things, by the
            numbers of the operation and of its result.

    Attributes:
        rows: How many rows there are; 0 before the inputs are met.
        grows: Whether shapes may depend on values of rows: whether any were looked at so far.
        operations: All operations so far, with the shapes of their results.
    """

    def __init__(
        self,
        batch: Iterable[Tensor] | None = None,
        made: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = 0
        self.grows = False
        self.operations: list[Operated] = []
        self._made = made or {}
        self._waiting = batch is None  # for the inputs
        self._call: tuple[nn.Module, Hashable] | None = None  # the outermost module, and its inputs
        self._asleep: _Sites | None = None  # what is remembered of such a call, which will do
        self._seen: _Sites = {}
        self._labels = WeakTensorKeyDictionary()
        for x in batch or ():
            self._begin(x)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to keep it out of here

    def at(self, site: int, x: Tensor) -> Placement:
        """Return where rows are in the tensor at a site."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            if self._waiting:
                self._await_inputs()
            if self._asleep is not None:
                shape, place = self._asleep.get(site, (None, _UNKNOWN))
                return place if shape == x.shape else _UNKNOWN
            place = self._place(x)
            self._seen[site] = (x.shape, place)
            return place

    def settle(self, site: int, place: Placement) -> None:
        """Note where rows are at a site that was reached, as others have found out."""
        if self._asleep is None:
            self._seen[site] = (self._seen[site][0], place)

    def remember(self) -> None:
        """Spare the next call of this kind, if shapes alone tell where rows are in it."""
        if self._call is None or self._asleep is not None:
            return
        module, form = self._call
        if all(_is_plain(shape, place, self.rows) for shape, place in self._seen.values()):
            remembered = _remembered.setdefault(module, {})
            remembered[form] = self._seen
            if len(remembered) > _MOST_FORMS:
                del remembered[next(iter(remembered))]

    def _place(self, x: Tensor) -> Placement:
        if self._waiting:  # noise outside of any module
            self._begin(x)
        labels = self._known(x)
        if labels is None or (self.rows == 1 and not bool((labels == MANY).any())):
            return Placement(grows=self.grows)
        found = along_one_axis(labels)
        if found is None:  # it may have been made for the rows, nevertheless
            return Placement(grows=self.grows, found=False)
        axis, along = found
        partly = not self.grows and len(along.unique()) < self.rows  # rows come one by one
        if partly or not bool((along > NOBODY).all()):
            return Placement(grows=self.grows, found=False)
        index = ranks(along).cpu()
        return Placement(axis, int(index.max()) + 1, index, self.grows)

    def stands_for(self, result: Tensor, x: Tensor) -> None:
        """Noise was applied to x, out of sight; or has been made for it."""
        if self._asleep is not None:
            return
        labels = self._known(x)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            if labels is None or result.shape != x.shape:
                self._labels[result] = labels_of_nobody(result)
            else:
                self._labels[result] = laid_out(labels, result)

    def see(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        """Note that a torch function is called by which Python may see values."""
        looks = self._asleep is None and getattr(function, "__name__", "") in _LOOKS
        if looks and args and isinstance(args[0], Tensor):
            self._look(args[0])

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry an operation out, and follow the rows through it."""
        kwargs = kwargs or {}
        if self._waiting:
            self._await_inputs()
        if self._asleep is not None:
            return func(*args, **kwargs)
        operands = tensors_in(args, kwargs)
        for x in operands:
            self._known(x)  # before they are written over
        out = func(*args, **kwargs)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._follow(func, args, kwargs, operands, tensors_in(out))
        return out

    def _follow(
        self, func: Any, args: Sequence[Any], kwargs: Any, operands: list[Tensor], out: list[Tensor]
    ) -> None:
        if _reads(func):
            looked_at = operands if func is not aten.index.Tensor else _masks(args[1])
            for x in looked_at:
                self._look(x)
        elif func in _SHAPED_BY_VALUES:
            self.grows = True
        number = len(self.operations)
        self.operations.append((func, [x.shape if _is_dense(x) else torch.Size() for x in out]))
        written = {id(x) for x in operands}
        for i, (result, own) in enumerate(
            zip(out, self._labels_of(func, args, kwargs, operands, out), strict=True)
        ):
            axis = self._made.get((number, i))
            if axis is not None and (own is None or not bool((own > NOBODY).any())):
                own = labels_of_rows(result, axis)
            before = self._known(result) if id(result) in written else None
            if own is None:
                self._labels.setdefault(result, None)
            elif before is not None and before.shape == own.shape:
                if before is not own:
                    before.copy_(own)
            else:
                self._labels[result] = own if func.is_view else laid_out(own, result)

    def _labels_of(
        self, func: Any, args: Sequence[Any], kwargs: Any, operands: list[Tensor], out: list[Tensor]
    ) -> list[Tensor | None]:
        """Return the labels of each result; None for weights and what is not dense."""
        dense = list(map(_is_dense, out))
        if not all(dense):
            return [
                labels_of_nobody(x).fill_(MANY) if d else None
                for x, d in zip(out, dense, strict=True)
            ]
        if any(self._known(x) is not None for x in operands):
            return [*labels_of_results(Operation(func, args, kwargs, out, self._known))]
        sizes = {x.numel() for x in operands} if _reforms(func) else set()
        return [None if x.numel() in sizes else labels_of_nobody(x) for x in out]

    def _look(self, x: Tensor) -> None:
        """Python sees values; then shapes may depend on them, if they are values of rows."""
        labels = self._known(x)
        if labels is not None and not self.grows:
            self.grows = bool((labels != NOBODY).any())

    def _known(self, x: Tensor) -> Tensor | None:
        """Return the labels of a tensor; None if it is a weight, or a weight in another form."""
        if x not in self._labels:
            self._meet(x)
        labels: Tensor | None = self._labels[x]
        return labels

    def _meet(self, x: Tensor) -> None:
        """Note that a tensor is used that was there before the pass."""
        weight = isinstance(x, nn.Parameter) or not _is_dense(x)
        self._labels[x] = None if weight else labels_of_nobody(x)

    def _await_inputs(self) -> None:
        """Label what the outermost module is called with, once there is one."""
        call = outermost_call()
        if call is None:
            return
        sized = [x for x in tensors_in(*call[1:]) if x.dim()]
        if not sized:
            return
        self._waiting = False
        form = (call[0].training, *[x.shape for x in sized])
        self._call = call[0], form
        self._asleep = _remembered.get(call[0], {}).get(form)
        if self._asleep is not None:
            self.rows = len(sized[0])
            return
        for x in sized:
            known = self._labels.get(x)
            if len(x) == len(sized[0]) and (known is None or not bool((known > NOBODY).any())):
                self._begin(x)

    def _begin(self, x: Tensor) -> None:
        self.rows = self.rows or len(x)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
            self._labels[x] = labels_of_rows(x)


def _is_dense(x: Tensor) -> bool:
    return x.layout == torch.strided and not x.is_nested


_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def _is_plain(shape: torch.Size, place: Placement, rows: int) -> bool:
    """Return whether rows can be nowhere else in a tensor of this shape."""
    if place.grows or not place.found:
        return False
    there = [axis for axis, size in enumerate(shape) if size == rows]
    return rows == 1 or there == ([] if place.axis is None else [place.axis])


@cache
def _reforms(function: Any) -> bool:
    """Return whether results that have as many entries as a weight have its entries."""
    if function is aten.slice.Tensor:  # up to the number of rows, maybe
        return False
    return function in _REFORM or function.is_view or torch.Tag.pointwise in function.tags


@cache
def _reads(function: Any) -> bool:
    return any(tag in function.tags for tag in _READS)


def _masks(indices: Iterable[Any]) -> list[Tensor]:
    """Return which indices choose by their values how many entries are taken."""
    return [i for i in indices if isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8)]
