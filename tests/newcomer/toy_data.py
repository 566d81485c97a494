"""Throws of a coin: a data set to start from."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio.data.archives import read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import DataError
from dubio.data.files import File


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Throws(Loaded):
    """Throws of a coin."""

    heads: Tensor  # (N,), bool


THROWS = File(  # in the library: published("coins/throws.txt"), from registry.txt
    "coins/throws.txt",
    size=8,
    digest="sha256:6d9d7a24607827dc7b36f785841576c438153a40eb9dfda534337f3bce875f43",
)
COINS = Dataset(
    name="coins",
    title="Coins",
    licence="CC0",
    cite="Nobody",
    page="none",
    forms=(Form("original text file", (THROWS,), by_hand="write HTHHTTH into coins/throws.txt"),),
)
DATASETS = (COINS,)


def coins() -> Throws:
    """Seven throws."""
    copy = COINS.locate()
    letters = read_bytes(copy.paths[0]).decode("ascii").strip()
    if set(letters) - {"H", "T"}:
        raise DataError(f"{copy.paths[0]}: expected H and T alone")
    return Throws(source=copy.source, heads=torch.tensor([letter == "H" for letter in letters]))
