"""Files of plain data, replaced atomically: a crash leaves the old one or the new one."""

import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import torch


def replace(path: Path, content: BytesIO) -> None:
    """Give a file new content in one go."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # make the new name outlast a power cut; elsewhere there is no way
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load(path: Path) -> Any:
    """Read a file of `torch.save`, with its checksums, as plain data: no code in it is run.

    Bytes that are not such a file may raise any error.
    """
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()  # torch.load does not look at checksums
    if broken is not None:
        raise zipfile.BadZipFile(f"wrong checksum of {broken}")
    return torch.load(path, map_location="cpu", weights_only=True)
