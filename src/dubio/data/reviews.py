"""Amazon reviews in four domains, as counts of words and word pairs (Herlau et al. 2022)."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.data.archives import open_archive, read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import extra
from dubio.data.registry import published

Domain: TypeAlias = Literal["books", "dvd", "electronics", "kitchen"]


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Reviews(Loaded):
    """Documents as word counts, with a sentiment label each.

    Attributes:
        counts: ``scipy.sparse.csr_array`` (N, V) of int32.
        labels: (N,), 1 for positive and -1 for negative.
        vocabulary: The words of the columns; empty if they were not published.
    """

    counts: Any
    labels: Tensor
    vocabulary: tuple[str, ...]


_DOMAINS = ("books", "dvd", "electronics", "kitchen")
_SELECTED = 5000
_LICENCE = "research use: cite"
_CITE = "Blitzer, Dredze, Pereira 2007"
_PAGE = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment/"
_ARCHIVE = Form("original archive", (published("amazon-sentiment/processed_acl.tar.gz"),))


def _labeled(domain: str) -> Dataset:
    files = tuple(
        published(f"amazon-sentiment/processed_acl/{domain}/{opinion}.review.gz")
        for opinion in ("positive", "negative")
    )
    gzips = Form("gzips of two files of the original archive", files)
    title = f"Amazon reviews, {domain}"
    return Dataset(f"amazon-{domain}", title, _LICENCE, _CITE, _PAGE, (_ARCHIVE, gzips))


def _selected(domain: str) -> Dataset:
    stem = f"amazon-sentiment/dann_svmlight_5000/{domain}"
    plain = tuple(published(f"{stem}_{split}.svmlight") for split in ("train", "test"))
    gzips = tuple(published(f"{stem}_{split}.svmlight.gz") for split in ("train", "test"))
    return Dataset(
        name=f"amazon-selected-{domain}",
        title=f"Amazon reviews, {domain}, 5000 features",
        licence=_LICENCE,
        cite=f"{_CITE}; Ganin et al. 2016",
        page="https://github.com/GRAAL-Research/domain_adversarial_neural_network",
        forms=(
            Form("original svmlight files", plain),
            Form("gzips of the original svmlight files", gzips),
        ),
    )


_UNLABELED = Dataset(
    "amazon-unlabeled", "Amazon reviews, the larger part", _LICENCE, _CITE, _PAGE, (_ARCHIVE,)
)
DATASETS = (*map(_labeled, _DOMAINS), *map(_selected, _DOMAINS), _UNLABELED)


def amazon(domain: Domain) -> Reviews:
    """Load 2000 labelled reviews, the 1000 positive ones first."""
    _check(domain)
    copy = _labeled(domain).locate()
    if copy.form is _ARCHIVE:
        with open_archive(copy.paths[0]) as archive:
            texts = [
                archive.read(f"processed_acl/{domain}/{opinion}.review")
                for opinion in ("positive", "negative")
            ]
    else:
        texts = [read_bytes(path) for path in copy.paths]
    return _parse_acl(b"".join(texts).decode("utf-8"), copy.source)


def amazon_unlabeled(domain: Domain) -> Reviews:
    """Load the larger part, 3586 to 5945 reviews; its authors call it unlabeled, but it has labels.

    It has no published checksum: only the archive's own check protects it.
    """
    _check(domain)
    copy = _UNLABELED.locate()
    with open_archive(copy.paths[0]) as archive:
        text = archive.read(f"processed_acl/{domain}/unlabeled.review").decode("utf-8")
    return _parse_acl(text, copy.source)


def amazon_selected(domain: Domain, split: Literal["train", "test"]) -> Reviews:
    """Load the 5000 most frequent features: 2000 training reviews, or the larger test part.

    Features have numbers but no names.
    """
    _check(domain)
    if split not in ("train", "test"):
        raise ValueError(f"split: expected train or test, got {split!r}")
    copy = _selected(domain).locate()
    text = read_bytes(copy.paths[0 if split == "train" else 1]).decode("ascii")
    return _parse_svmlight(text, copy.source)


def _check(domain: str) -> None:
    if domain not in _DOMAINS:
        raise ValueError(f"domain: expected one of {', '.join(_DOMAINS)}, got {domain!r}")


def _parse_acl(text: str, source: str) -> Reviews:
    """Read lines of ``word:count`` that end with ``#label#:positive`` or ``:negative``."""
    signs = {"positive": 1, "negative": -1}
    found: dict[str, int] = {}  # words by the order in which they first occur
    labels, columns, counts, starts = [], [], [], [0]
    for line in text.split("\n")[:-1]:
        *words, opinion = line.split(" ")
        labels.append(signs[opinion.removeprefix("#label#:")])
        for word in words:
            name, _, count = word.rpartition(":")
            columns.append(found.setdefault(name, len(found)))
            counts.append(int(count))
        starts.append(len(columns))
    vocabulary = tuple(sorted(found))
    position = np.empty(len(found), dtype=np.int32)
    position[[found[name] for name in vocabulary]] = np.arange(len(found))
    return Reviews(
        source=source,
        counts=_sparse(counts, position[columns], starts, len(vocabulary)),
        labels=torch.tensor(labels),
        vocabulary=vocabulary,
    )


def _parse_svmlight(text: str, source: str) -> Reviews:
    """Read lines of a label, 1 or -1, and pairs ``column:count``."""
    pairs_per_line = np.array([line.count(":") for line in text.splitlines()])
    numbers = np.array([int(word) for word in text.replace(":", " ").split()], dtype=np.int32)
    starts = np.cumsum([0, *pairs_per_line])
    at_labels = 2 * starts[:-1] + np.arange(len(pairs_per_line))
    pairs = np.delete(numbers, at_labels).reshape(-1, 2)
    return Reviews(
        source=source,
        counts=_sparse(pairs[:, 1], pairs[:, 0], starts, _SELECTED),
        labels=torch.from_numpy(numbers[at_labels]).long(),
        vocabulary=(),
    )


def _sparse(counts: npt.ArrayLike, columns: npt.ArrayLike, starts: npt.ArrayLike, size: int) -> Any:
    """Row i has the counts and columns from start i to start i + 1."""
    values = np.asarray(counts, dtype=np.int32)
    shape = (len(np.asarray(starts)) - 1, size)
    matrix = extra("scipy.sparse").csr_array((values, columns, starts), shape=shape)
    matrix.sum_duplicates()  # sorts the columns too
    return matrix
