"""Check before the first step whether an interrupted run can resume with this data."""

import warnings
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from dubio.training.batches import UNSEEN, Batches, checksum_of
from dubio.training.random_state import RandomState


def rehearse(data: Any, batches: Batches, random: RandomState) -> None:
    """Warn if a run that is interrupted could not go on to the same numbers.

    The first batch is made twice from the same random numbers. Of worker processes, which take time
    to start, only the rows are looked at.
    """
    if random.has_no_order:
        warnings.warn(
            "checkpoint: expected generators in lists, dicts or attributes, got several in a set, "
            "so an interrupted run cannot be resumed exactly: their order "
            "differs between processes",
            RuntimeWarning,
            stacklevel=3,
        )
    if isinstance(data, list | tuple):
        return
    if isinstance(data, DataLoader) and data.num_workers > 0:
        _check_workers(data)
        if isinstance(data.dataset, IterableDataset):
            return
        data = data.sampler if data.batch_sampler is None else data.batch_sampler
    place = batches.place()
    found = []
    for _ in range(2):
        with random.untouched():
            found.append(checksum_of(next(iter(data), None)))
        batches.go_to(place)
    if found[0] != found[1]:
        warnings.warn(
            f"checkpoint: expected data that give the same batches for the same random numbers, "
            f"got others the second time, so an interrupted run cannot be resumed "
            f"exactly: {UNSEEN}",
            RuntimeWarning,
            stacklevel=3,
        )


def _check_workers(loader: DataLoader[Any]) -> None:
    for name, wanted in (("persistent_workers", False), ("in_order", True)):
        if getattr(loader, name, wanted) is not wanted:
            warnings.warn(
                f"checkpoint: expected {name}={wanted}, got {not wanted}; if the data set draws "
                f"random numbers, an interrupted run cannot be resumed exactly, as "
                f"what such workers draw depends on their past",
                RuntimeWarning,
                stacklevel=4,
            )
