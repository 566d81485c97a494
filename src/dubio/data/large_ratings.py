"""Netflix and the Million Song taste profile, from their original files, which are not public."""

import io
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.data.archives import open_archive, read_bytes
from dubio.data.dataset import Copy, Dataset, Form, Loaded
from dubio.data.errors import DataError
from dubio.data.ratings import Ratings
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plays(Loaded):
    """How often users have played songs.

    Attributes:
        user: Positions in ``users``, (N,).
        song: Positions in ``songs``, (N,).
        count: Number of plays, (N,).
        users: Ids, in order of appearance.
        songs: Ids, in order of appearance.
    """

    user: Tensor
    song: Tensor
    count: Tensor
    users: tuple[str, ...]
    songs: tuple[str, ...]


_NETFLIX = Dataset(
    name="netflix",
    title="Netflix Prize",
    licence="Netflix: research use, do NOT redistribute",
    cite="Bennett & Lanning 2007",
    page="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
    forms=(
        Form(
            "original archive",
            (published("netflix/training_set.tar"),),
            by_hand="put training_set.tar of nf_prize_dataset.tar.gz into netflix/",
        ),
        Form(
            "the original files of all films in four",
            tuple(published(f"netflix/combined_data_{part}.txt") for part in range(1, 5)),
            by_hand="put combined_data_1.txt to combined_data_4.txt into netflix/",
        ),
    ),
)
_SONGS = Dataset(
    name="million-song-taste",
    title="Million Song taste profile",
    licence="Echo Nest: research use",
    cite="Bertin-Mahieux et al. 2011; McFee et al. 2012",
    page="http://millionsongdataset.com/tasteprofile/",
    forms=(
        Form(
            "original archive",
            (published("million-song/train_triplets.txt.zip"),),
            by_hand="put train_triplets.txt.zip into million-song/",
        ),
    ),
)
DATASETS = (_NETFLIX, _SONGS)
_FILMS = 17_770
_COMMAS = bytes.maketrans(b"-\n", b",,")
_LINES = re.compile(rb"(?:\d+,\d+,\d+,\d+,\d+(?:,|$))+")


def netflix() -> Ratings:
    """Load 100,480,507 ratings of 480,189 users for 17,770 films; times are days.

    It takes about 10 GB of memory. The files have no published checksum.
    """
    copy = _NETFLIX.locate()
    parts = [_films(text, copy) for text in _netflix_texts(copy)]
    item, table = np.concatenate([i for i, _ in parts]), np.concatenate([t for _, t in parts])
    user, rating, year, month, day = table.T
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = months.astype("datetime64[D]") + (day - 1)
    stars = torch.from_numpy(rating.astype(np.float32))
    return Ratings(
        source=copy.source,
        user=torch.from_numpy(user.astype(np.int64)),
        item=torch.from_numpy(item),
        liked=(stars > 3.5).to(torch.int8),
        rating=stars,
        timestamp=torch.from_numpy(days.astype("datetime64[s]").astype(np.int64)),
    )


def million_song() -> Plays:
    """Load 48,373,586 play counts of 1,019,318 users and 384,546 songs.

    It takes about 5 GB of memory. The file has no published checksum.
    """
    copy = _SONGS.locate()
    with open_archive(copy.paths[0]) as archive:
        text = archive.read("train_triplets.txt")
    users: dict[bytes, int] = {}
    songs: dict[bytes, int] = {}
    columns = (array("i"), array("i"), array("i"))
    user, song, count = columns
    for line in io.BytesIO(text):
        try:
            who, what, times = line.split(b"\t")
            count.append(int(times))
        except ValueError as error:
            raise DataError(
                f"{copy.paths[0]}: expected user, song and count with tabs, got {line[:80]!r}; get "
                "it again"
            ) from error
        user.append(users.setdefault(who, len(users)))
        song.append(songs.setdefault(what, len(songs)))
    numbers = [torch.from_numpy(np.frombuffer(column, np.int32).copy()) for column in columns]
    return Plays(
        source=copy.source,
        user=numbers[0],
        song=numbers[1],
        count=numbers[2],
        users=tuple(name.decode("ascii") for name in users),
        songs=tuple(name.decode("ascii") for name in songs),
    )


def _netflix_texts(copy: Copy) -> Iterator[bytes]:
    if copy.form is _NETFLIX.forms[1]:
        yield from map(read_bytes, copy.paths)
        return
    with open_archive(copy.paths[0]) as archive:
        for film in range(1, _FILMS + 1):
            yield archive.read(f"training_set/mv_{film:07d}.txt")


def _films(text: bytes, copy: Copy) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Blocks of ``film:`` and lines ``user,rating,year-month-day``.

    Returns:
        The film of each rating, (N,), and its user, rating, year, month and day, (N, 5).
    """
    heads = list(re.finditer(rb"^(\d+):\s*$", text, re.MULTILINE))
    if not heads:
        raise DataError(f"{copy.paths[0]}: expected films such as '1:', got none; get it again")
    films, tables = [], []
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        lines = text[head.end() : end].translate(_COMMAS, b"\r").strip(b",")
        if not _LINES.fullmatch(lines):
            raise DataError(
                f"{copy.paths[0]}: expected lines of user, rating and date for film "
                f"{int(head[1])}, got others; get it again"
            )
        table = np.fromstring(lines.decode("ascii"), np.int32, sep=",").reshape(-1, 5)
        tables.append(table)
        films.append(np.full(len(table), int(head[1]), np.int64))
    return np.concatenate(films), np.concatenate(tables)
