"""Histories of users: the one place where matrices of interactions are checked."""

import zlib
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse


def histories(user_items: Any, items: int | None = None, name: str = "user_items") -> csr_array:
    """Return users × items as a new binary CSR matrix: 1 where a user has interacted with an item.

    Any positive entry is one interaction, however large it is and however often it is stored:
    counts and ratings are not weights. Filter ratings first (`from_frame(…, at_least=4)`). Stored
    zeros are not interactions.

    Args:
        user_items: A scipy sparse matrix or array of numbers, users × items.
        items: Number of items that a model knows, if there is a model.
        name: Name of the matrix in error messages.

    Returns:
        float32 of the same shape, without duplicates and with sorted indices. A copy.
    """
    if not issparse(user_items):
        raise TypeError(
            f"{name}: expected a scipy sparse matrix, users × items, got "
            f"{type(user_items).__name__}; give {_remedy(user_items)}"
        )
    if user_items.ndim != 2:
        raise ValueError(
            f"{name}: expected two dimensions, users × items, got shape {user_items.shape}; give "
            "every user a row"
        )
    _check_items(user_items.shape, items, name)
    if user_items.dtype.kind not in "biuf":
        raise TypeError(
            f"{name}: expected real numbers, got {user_items.dtype}; convert it: x.astype('f4')"
        )
    _check_entries(user_items.tocoo(copy=False).data, name)  # before duplicates are added up
    found = csr_array(user_items.astype(bool), copy=True)  # a sum of bools cannot overflow to 0
    found.sum_duplicates()
    found.eliminate_zeros()
    found.sort_indices()
    ones = np.ones(found.nnz, np.float32)
    return csr_array((ones, found.indices, found.indptr), shape=found.shape)


def interactions(user_items: Any) -> csr_array:
    """Return histories to learn from; raise an error if there are none."""
    given = histories(user_items)
    if given.nnz == 0:
        raise ValueError(
            f"user_items: expected interactions, got shape {given.shape} without any; check how "
            "it was filtered"
        )
    return given


def content(matrix: csr_array) -> str:
    """Return the shape and a checksum of a matrix."""
    checksum = zlib.crc32(matrix.indices.tobytes(), zlib.crc32(matrix.indptr.tobytes()))
    return f"{matrix.shape} {checksum:08x}"


def _remedy(given: Any) -> str:
    if hasattr(given, "user_items"):
        return "its matrix: x.user_items"
    if type(given).__module__.startswith("pandas"):
        return "dubio.recommend.from_frame(frame).user_items"
    return "scipy.sparse.csr_array(x)"


def _check_items(shape: tuple[int, int], items: int | None, name: str) -> None:
    if items is None or shape[1] == items:
        return
    turned = shape[0] == items
    advice = f"transpose it: {name}.T" if turned else "build it with the items of the training"
    raise ValueError(
        f"{name}: expected users × items with {items} columns, one for each item of the model, "
        f"got shape {shape}; {advice}"
    )


def _check_entries(entries: np.ndarray[Any, Any], name: str) -> None:
    broken = ~np.isfinite(entries)
    if broken.any():
        raise ValueError(
            f"{name}: expected finite entries, got {int(broken.sum())} that are NaN or infinite; "
            "leave these interactions out"
        )
    negative = entries < 0
    if negative.any():
        raise ValueError(
            f"{name}: expected entries of 0 or more, got {int(negative.sum())} below, such as "
            f"{entries[negative][0]}; keep only what users liked"
        )
