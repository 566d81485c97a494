"""Edible and poisonous mushrooms: the bandit of Clark et al. 2022, figure 23."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.data.archives import read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import DataError
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Categories(Loaded):
    """A table of categorical features with a yes or no for each row."""

    codes: Tensor  # (N, D), the position in `categories`
    poisonous: Tensor  # (N,), bool
    feature_names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]

    def one_hot(self) -> Tensor:  # (N, 117), float32
        """Return one-hot features: a column for every category, features in order."""
        columns = [
            torch.nn.functional.one_hot(codes, len(names))
            for codes, names in zip(self.codes.unbind(1), self.categories, strict=True)
        ]
        return torch.cat(columns, dim=1).float()


_NAMES = (
    "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing",
    "gill-size", "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring",
    "stalk-surface-below-ring", "stalk-color-above-ring", "stalk-color-below-ring", "veil-type",
    "veil-color", "ring-number", "ring-type", "spore-print-color", "population", "habitat",
)  # fmt: skip
_MUSHROOM = Dataset(
    name="mushroom",
    title="Mushroom",
    licence="CC BY 4.0 (UCI)",
    cite="Mushroom, UCI Machine Learning Repository, doi:10.24432/C5959T",
    page="https://archive.ics.uci.edu/dataset/73/mushroom",
    forms=(
        Form("original text file", (published("mushroom/agaricus-lepiota.data"),)),
        Form("gzip of the original text file", (published("mushroom/agaricus-lepiota.data.gz"),)),
    ),
)
DATASETS = (_MUSHROOM,)


def mushroom() -> Categories:
    """Load 8124 mushrooms with 22 features; "?" under stalk-root is a category of its own."""
    copy = _MUSHROOM.locate()
    lines = read_bytes(copy.paths[0]).decode("ascii").split()
    rows = [line.split(",") for line in lines]
    if any(len(row) != 1 + len(_NAMES) for row in rows):
        raise DataError(f"{copy.paths[0]}: expected lines of {1 + len(_NAMES)} letters")
    edible, *columns = zip(*rows, strict=True)
    categories = tuple(tuple(sorted(set(column))) for column in columns)
    codes = [
        [names.index(value) for value in column]
        for names, column in zip(categories, columns, strict=True)
    ]
    return Categories(
        source=copy.source,
        codes=torch.tensor(codes).T.contiguous(),
        poisonous=torch.tensor([letter == "p" for letter in edible]),
        feature_names=_NAMES,
        categories=categories,
    )
