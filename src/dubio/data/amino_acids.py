"""Amino acids (QSPR), the small regression of Herlau et al. 2022."""

import csv
from dataclasses import dataclass
from io import StringIO
from typing import final

import torch
from torch import Tensor

from dubio.data.archives import read_bytes
from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.registry import published


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AminoAcids(Loaded):
    """Properties of amino acids, and the free energy of unfolding of a protein with them."""

    features: Tensor  # (19, 7)
    target: Tensor  # (19,)
    feature_names: tuple[str, ...]
    target_name: str
    amino_acids: tuple[str, ...]


_ORIGINAL = Form("original gzip with semicolons", (published("qspr-aminoacids/aminoacids.csv.gz"),))
_COMMAS = Form(
    "the original decompressed, with commas", (published("qspr-aminoacids/aminoacids.csv"),)
)
_QSPR = Dataset(
    name="qspr",
    title="QSPR, amino acids",
    licence="CeCILL (the R package ropls)",
    cite="Wold, Sjöström, Eriksson 2001",
    page="https://bioconductor.org/packages/ropls",
    forms=(_ORIGINAL, _COMMAS),
)
DATASETS = (_QSPR,)


def qspr() -> AminoAcids:
    """Load 19 amino acids with seven covariates PIE, PIF, DGR, SAC, MR, Lam, Vol, and DDGTS."""
    copy = _QSPR.locate()
    text = read_bytes(copy.paths[0]).decode("ascii")
    delimiter = ";" if copy.form is _ORIGINAL else ","
    (_, *names), *rows = csv.reader(StringIO(text), delimiter=delimiter)
    values = torch.tensor([[float(cell) for cell in row[1:]] for row in rows], dtype=torch.float64)
    return AminoAcids(
        source=copy.source,
        features=values[:, :-1],
        target=values[:, -1],
        feature_names=tuple(names[:-1]),
        target_name=names[-1],
        amino_acids=tuple(row[0] for row in rows),
    )
