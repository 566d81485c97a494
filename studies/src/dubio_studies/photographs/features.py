"""Features of photographs by a frozen trunk, each photograph once and kept on disk."""

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dubio.data.download import cache_directory
from dubio.report.progress import Progress
from dubio_studies.framework.recipe import digest
from dubio_studies.photographs.trunks import Trunk

REVISION = 1  # raise it when features change: those in the cache then count no more
_CHUNK = 1000  # photographs of a file
_BATCH = 100  # photographs of a pass


def cached_features(trunk: Trunk, images: Tensor) -> Tensor:  # (N, 3, H, W) uint8 -> (N, D) fp16
    """What a trunk sees, kept in float16.

    The folder ``features`` of the cache has a file for every thousand photographs, under a hash of
    weights, size and pixels. So work that was stopped goes on, and whoever asks for the same
    photographs later gets them at once. A file that cannot be read is made anew.
    """
    folder = cache_directory() / "features"
    folder.mkdir(parents=True, exist_ok=True)
    seen_by = [REVISION, _checksum(*trunk.weights.tensors.values()), trunk.size]
    chunks = images.split(_CHUNK)
    found = []
    with Progress("features of photographs", len(chunks)) as progress:
        for chunk in chunks:
            file = folder / f"{digest([*seen_by, _checksum(chunk)])[:16]}.npy"
            features = _read(file, len(chunk))
            if features is None:
                features = features_of(trunk, chunk)
                _write(file, features)
            found.append(features)
            progress.advance()
    return torch.cat(found)


@torch.inference_mode()
def features_of(trunk: Trunk, images: Tensor) -> Tensor:  # (N, 3, H, W) uint8 -> (N, D) fp16
    """What a trunk sees, computed now, in bfloat16.

    Rounding changes features of VGG16 by 1 % and those of EfficientNet-Lite0 by 7 %.
    """
    with torch.autocast(images.device.type, torch.bfloat16):
        found = [trunk(batch).half() for batch in images.split(_BATCH)]
    return torch.cat(found)


def _checksum(*tensors: Tensor) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(repr((tuple(tensor.shape), tensor.dtype)).encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def _read(file: Path, rows: int) -> Tensor | None:
    try:
        values = np.load(file)
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(values) if values.ndim == 2 and len(values) == rows else None


def _write(file: Path, features: Tensor) -> None:
    """Whole or not at all: other processes may read and write the same file."""
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
        np.save(part, features.numpy())
    os.replace(part.name, file)
