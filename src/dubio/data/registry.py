"""The table of published files, read from ``registry.txt``."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from dubio.data.files import File


def published(path: str) -> File:
    """Return the file that was published under this path."""
    return registry()[path]


@cache
def registry() -> Mapping[str, File]:
    """Return all published files by path."""
    text = files("dubio.data").joinpath("registry.txt").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?! )", text.strip())
    return {file.path: file for file in map(_parse, blocks) if file is not None}


def _parse(block: str) -> File | None:
    """Return a line with a file, and an indented line for each checked member; or a comment."""
    line, *members = block.splitlines()
    if line.startswith("#"):
        return None
    path, size, digest, url = line.split()
    pairs = (member.split() for member in members)
    return File(
        path,
        size=None if size == "-" else int(size),
        digest=None if digest == "-" else digest,
        contents=tuple((name, checksum) for name, checksum in pairs),
        url=None if url == "-" else url,
    )
