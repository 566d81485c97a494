"""The data of a run, as batches that can be replayed from the middle of an epoch."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from dubio.noise import inputs
from dubio.noise.inputs import moved
from dubio.training.places import Places

_ROWS_PER_STEP = 128
_DIGEST_ROWS = 256
UNSEEN = (
    "the data draw random numbers that fit cannot see; draw them from torch's, numpy's or Python's "
    "global generators, or from a generator that is an attribute of the data set or sampler"
)


class Batch(NamedTuple):
    """The batch of one step: inputs, targets, optional weights, and row indices.

    Attributes:
        arguments: What the objective is called with: ``(x, y)`` or ``(x, y, weight)``.
        size: How many rows.
        rows: Which of the data, if known.
    """

    arguments: tuple[Any, ...]
    size: int
    rows: Tensor | None


Seen: TypeAlias = Callable[[int, Batch], None]  # with the number of the batch, from 1


class Batches(ABC):
    """Data that give the batches of one epoch after the other.

    Attributes:
        num_data: How many rows there are to learn from, if known.
        steps: How many batches an epoch has, if known.
    """

    num_data: int | None
    steps: int | None

    @abstractmethod
    def start(self, skip: int = 0, see: Seen | None = None) -> Iterator[Batch]:
        """Begin an epoch, and leave some batches out, the first and last of which are shown."""

    @abstractmethod
    def place(self) -> Any:
        """Return the position in the data, apart from random state, as plain values."""

    @abstractmethod
    def go_to(self, place: Any) -> None:
        """Set the position in the data."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what identifies these data."""


@final
class TensorBatches(Batches):
    """Rows of tensors in a new random order for every epoch."""

    def __init__(
        self,
        data: tuple[Any, ...],
        batch_size: int,
        generator: torch.Generator | None,
        device: torch.device,
    ) -> None:
        x, *targets = data
        x = inputs.opened(x)
        leaves = tree_leaves((x, *targets))
        self._tensors = [t for t in leaves if isinstance(t, Tensor) and t.dim() > 0]
        self.num_data = inputs.count_rows(x)
        for tensor in self._tensors:
            if len(tensor) != self.num_data:
                raise ValueError(
                    f"data: expected tensors with the same number of rows, got {self.num_data} "
                    f"and {len(tensor)}; rows come first, and each row of x has one of y, and one "
                    f"of the weights if there are"
                )
        if len(targets) == 2 and not bool((targets[1] > 0).any()):
            raise ValueError(
                "data: expected weights of rows of which some are > 0, got none; there is nothing "
                "to learn from rows of weight 0"
            )
        self.steps = -(-self.num_data // batch_size)
        self._x, self._targets = x, targets
        self._batch_size = batch_size
        self._generator = generator
        self._device = device

    def start(self, skip: int = 0, see: Seen | None = None) -> Iterator[Batch]:
        """Draw the order of the rows and cut it into batches."""
        home = None if self._generator is None else self._generator.device
        order = torch.randperm(self.num_data or 0, generator=self._generator, device=home)
        return map(self._take, order.split(self._batch_size)[skip:])

    def _take(self, rows: Tensor) -> Batch:
        def take(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or leaf.dim() == 0:
                return leaf
            return moved(leaf.index_select(0, moved(rows, leaf.device)), self._device)

        x = take(self._x) if isinstance(self._x, Tensor) else tree_map(take, self._x)
        return Batch((x, *map(take, self._targets)), len(rows), rows)

    def identity(self) -> dict[str, Any]:
        """Return sizes, and a checksum of some hundred rows."""
        checksum = 0
        for tensor in self._tensors:
            if tensor.layout is torch.strided:
                some = tensor[:: max(1, len(tensor) // _DIGEST_ROWS)].detach().cpu().contiguous()
                checksum = zlib.crc32(some.view(-1).view(torch.uint8).numpy().data, checksum)
        return {
            "number of rows": self.num_data,
            "batch_size": self._batch_size,
            "checksum of the data": checksum,
        }

    def place(self) -> Any:
        """Return nothing: the order depends on random numbers alone."""
        return None

    def go_to(self, place: Any) -> None:
        """Nothing to do."""


@final
class LoaderBatches(Batches):
    """The batches of a loader, or of any other re-iterable."""

    def __init__(self, loader: Iterable[Any], device: torch.device, resumable: bool) -> None:
        self._loader = loader
        self._device = device
        self._places = Places(loader) if resumable else None
        self.num_data = _rows_of(loader)
        try:
            self.steps = len(loader)  # type: ignore[arg-type]
        except TypeError:
            self.steps = None

    def start(self, skip: int = 0, see: Seen | None = None) -> Iterator[Batch]:
        """Begin the loader, and have it make the batches to leave out, for their random numbers."""
        iterator = iter(self._loader)
        number = 0
        for number, batch in enumerate(islice(iterator, skip), start=1):
            if see is not None and number in (1, skip):
                see(number, self._take(batch))
        if number < skip:
            raise ValueError(
                f"data: expected more than {skip} batches, as when the checkpoint was saved; pass "
                f"the same data, or another checkpoint path"
            )
        return map(self._take, iterator)

    def place(self) -> Any:
        """Return the positions of samplers and the counters of the data set."""
        return None if self._places is None else self._places.get()

    def go_to(self, place: Any) -> None:
        """Restore these positions and counters."""
        if self._places is not None:
            self._places.set(place)

    def _take(self, batch: Any) -> Batch:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            what = f"a {type(batch).__name__}"
            if isinstance(batch, tuple | list):
                what += f" of {len(batch)}"
            raise TypeError(
                f"data: expected batches that are pairs (inputs, targets), got {what}; yield "
                f"((input, input, …), targets) for a network with several inputs, weights of rows "
                f"as a third part, and pass tensors as a tuple (x, y)"
            )
        arguments = tree_map(self._move, tuple(map(inputs.opened, batch)))
        return Batch(arguments, inputs.count_rows(arguments[0]), None)

    def _move(self, leaf: Any) -> Any:
        return moved(leaf, self._device) if isinstance(leaf, Tensor) else leaf

    def identity(self) -> dict[str, Any]:
        """Return sizes, as far as they are known."""
        return {"number of rows": self.num_data, "batches": self.steps}


def checksum_of(structure: Any) -> int:
    """Return a number that tells batches apart."""
    checksum = 0
    for leaf in tree_leaves(structure):
        if isinstance(leaf, Tensor) and leaf.layout is torch.strided and leaf.numel() > 0:
            plain = leaf.detach().cpu().contiguous().view(-1)
            checksum = zlib.crc32(plain.view(torch.uint8).numpy().data, checksum)
        else:
            checksum = zlib.crc32(repr(leaf).encode(), checksum)
    return checksum


def _rows_of(loader: Iterable[Any]) -> int | None:
    """Return the rows of the data set behind a loader, unless its sampler may omit some."""
    if (
        isinstance(loader, DataLoader)
        and isinstance(loader.sampler, RandomSampler | SequentialSampler)
        and isinstance(loader.dataset, Sized)
    ):
        return len(loader.dataset)
    return None


def as_batches(
    data: Any,
    batch_size: int | None,
    generator: torch.Generator | None,
    device: torch.device,
    *,
    resumable: bool,
) -> Batches:
    """Return tensors ``(x, y)`` or ``(x, y, weight)``, or an iterable of batches."""
    tensors = isinstance(data, tuple) and all(isinstance(part, Tensor) for part in data[1:])
    if tensors and len(data) in (2, 3):
        return TensorBatches(data, batch_size or _ROWS_PER_STEP, generator, device)
    if isinstance(data, Iterator):
        raise TypeError(
            f"data: expected a re-iterable of batches, got an iterator ({type(data).__name__}), "
            f"which is empty after the first epoch; pass a list or a DataLoader"
        )
    if not isinstance(data, Iterable) or isinstance(data, Tensor | str | dict | tuple):
        raise TypeError(
            f"data: expected tensors (x, y) or (x, y, weight), or a DataLoader or list of such "
            f"batches, got a {type(data).__name__}; make tensors with torch.as_tensor, and wrap a "
            f"data set in a DataLoader"
        )
    if batch_size is not None or generator is not None:
        raise ValueError(
            "batch_size, generator: expected with tensors only, got them with an iterable of "
            "batches, which has its own; give them to the DataLoader"
        )
    return LoaderBatches(data, device, resumable)
