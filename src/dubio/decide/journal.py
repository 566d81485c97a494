"""A journal of the calls since the last snapshot.

A record is its length and CRC-32, eight bytes, and then a line of JSON and the bytes of its arrays.
It is handed to the operating system in one write, so that it outlives the process. One that is not
whole is the last: its call had not returned.
"""

import errno
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from dubio.training.errors import DamagedCheckpointError

Event: TypeAlias = dict[str, Any]  # tensors, arrays, numbers, strings and None by name
_HEAD = struct.Struct("<II")
_BEGIN = b'{"call": '  # of every body


@final
class Journal:
    """A file to append events to.

    Args:
        path: The file; what is in it is lost.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)

    def append(self, event: Event) -> None:
        """Write an event; it survives the process once this returns."""
        body = encode(event)
        record = _HEAD.pack(len(body), zlib.crc32(body)) + body
        if os.write(self._file, record) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @property
    def is_deleted(self) -> bool:
        """Whether the file has no name any more: what is written to it would be lost."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a journal, up to the last if that is not whole."""
    content = path.read_bytes()
    place = 0
    while (body := _record(content, place)) is not None:
        yield decode(body)
        place += _HEAD.size + len(body)
    start = content.find(_BEGIN, place + _HEAD.size + 1)
    while start >= 0:
        if _record(content, start - _HEAD.size) is not None:
            raise DamagedCheckpointError(
                f"folder: expected a whole journal, got {path} with a damaged record at byte "
                f"{place} and whole ones after it; restore a copy"
            )
        start = content.find(_BEGIN, start + 1)


def _record(content: bytes, place: int) -> bytes | None:
    """Return the body of the record at a place; None if there is no whole one."""
    if place + _HEAD.size > len(content):
        return None
    length, checksum = _HEAD.unpack_from(content, place)
    body = content[place + _HEAD.size : place + _HEAD.size + length]
    return body if len(body) == length and zlib.crc32(body) == checksum else None


def encode(event: Event) -> bytes:
    """Return an event as bytes: a line of JSON, and arrays one after the other."""
    values: dict[str, Any] = {}
    arrays: list[bytes] = []
    for name, value in event.items():
        if isinstance(value, Tensor):
            # numpy has no bfloat16
            value = (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()
        if isinstance(value, np.ndarray):
            values[name] = {"dtype": value.dtype.str, "shape": value.shape}
            arrays.append(value.tobytes())
        else:
            values[name] = value
    return b"".join([json.dumps(values).encode(), b"\n", *arrays])


def decode(body: bytes) -> Event:
    """Return the event of these bytes; arrays are arrays of numpy."""
    line = body.index(b"\n")
    event: Event = json.loads(body[:line])
    place = line + 1
    for name, value in event.items():
        if isinstance(value, dict):
            kind, shape = np.dtype(value["dtype"]), tuple(value["shape"])
            count = int(np.prod(shape, dtype=np.int64))
            event[name] = np.frombuffer(body, kind, count, place).reshape(shape)
            place += count * kind.itemsize
    return event
