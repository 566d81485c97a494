"""Models in files: one safetensors file with settings, tensors and catalogue.

One file, so that it can be replaced in one go: a crash leaves the former file or the new one.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dubio.recommend.catalogue import Catalogue, Ids

_FORMAT = "dubio.recommend 1"
_CATALOGUE = "catalogue"


@final
@dataclass(frozen=True, eq=False)
class Saved:
    """The contents of a file.

    Attributes:
        kind: The class of the model.
        settings: Its arguments, as JSON can hold them.
        items: How many items it knows.
        tensors: What it has learnt.
        catalogue: External ids, if there are any: numbers, strings, bytes and tuples.
        notes: What else is to be kept, as JSON can hold it.
    """

    kind: str
    settings: dict[str, Any]
    items: int
    tensors: dict[str, Tensor]
    catalogue: Catalogue | None
    notes: dict[str, Any] = field(default_factory=dict)


def write(path: Path, saved: Saved) -> None:
    """Give a file new content in one go."""
    about = {
        "kind": saved.kind,
        "settings": saved.settings,
        "items": saved.items,
        "notes": saved.notes,
    }
    tensors = {name: tensor.detach().contiguous() for name, tensor in saved.tensors.items()}
    if saved.catalogue is not None:
        tensors[_CATALOGUE] = _as_bytes(saved.catalogue)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        save_file(tensors, temporary, metadata={"format": _FORMAT, "about": json.dumps(about)})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> Saved:
    """Read a file that `write` has written."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: expected a file of a saved model, got none; check the path"
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError(
                    f"{path}: expected a file of {_FORMAT}, got "
                    f"{metadata.get('format', 'tensors of something else')}; save the model with "
                    "this version of dubio"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a whole safetensors file, got one that cannot be read ({error}); "
            "restore a copy, or save the model again"
        ) from error
    try:
        about = json.loads(metadata["about"])
        stored = tensors.pop(_CATALOGUE, None)
        catalogue = None if stored is None else _from_bytes(stored)
        notes = about.get("notes", {})
        return Saved(about["kind"], about["settings"], about["items"], tensors, catalogue, notes)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected the description of a model, got a damaged one "
            f"({type(error).__name__}: {error}); restore a copy, or save the model again"
        ) from error


def take(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of this name, which must have this shape."""
    found = tensors.get(name)
    if found is None or tuple(found.shape) != shape:
        got = "none" if found is None else f"shape {tuple(found.shape)}"
        raise ValueError(
            f"{name}: expected a tensor of shape {shape} in the file, got {got}; save the model "
            "again"
        )
    return found


def _as_bytes(catalogue: Catalogue) -> Tensor:
    axes = {
        axis: [_encoded(one, axis) for one in ids]
        for axis, ids in (("users", catalogue.users), ("items", catalogue.items))
    }
    return torch.from_numpy(np.frombuffer(json.dumps(axes).encode(), np.uint8).copy())


def _from_bytes(stored: Tensor) -> Catalogue:
    axes = json.loads(stored.numpy().tobytes())
    users, items = ([_decoded(one) for one in axes[axis]] for axis in ("users", "items"))
    return Catalogue(Ids(users, "user"), Ids(items, "item"))


def _encoded(one: Any, axis: str) -> Any:
    """Return an id as JSON can hold it."""
    if type(one) in (int, str, float, bool):
        return one
    if type(one) is bytes:
        return {"bytes": one.hex()}
    if type(one) is tuple:
        return {"tuple": [_encoded(part, axis) for part in one]}
    raise TypeError(
        f"catalogue: expected {axis} that are numbers, strings, bytes or tuples of these, got "
        f"{type(one).__name__}; name them by strings, or set model.catalogue = None and keep it "
        "elsewhere"
    )


def _decoded(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    if "bytes" in one:
        return bytes.fromhex(one["bytes"])
    return tuple(_decoded(part) for part in one["tuple"])
