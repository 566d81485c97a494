"""Rows of table 2 by data set, model and metric."""

from statistics import fmean
from typing import TypeAlias

from dubio_studies.boluki2020.comparison import Gain
from dubio_studies.boluki2020.comparison import gain as gain_of
from dubio_studies.framework.rows import Rows

Model: TypeAlias = tuple[str, str]
"""A row of the table and how it predicts: ``mean``, in one pass without noise, or ``draws``."""

OURS = "sivae-lbdrop"
SEMI_IMPLICIT = (OURS, "sivae-gdrop", "sivae-cdrop")
ABLATION = ("vae-drop", "vae-drop-mixture", "vae-lbdrop", OURS)


def in_table(method: str) -> Model:
    """A row of the table, predicting as its authors do."""
    return method, "draws" if method in SEMI_IMPLICIT else "mean"


def numbers(rows: Rows, dataset: str, model: Model, metric: str) -> Rows:
    """A metric of each restart."""
    method, prediction = model
    return rows.where(dataset=dataset, method=method, prediction=prediction, metric=metric)


def has(rows: Rows, dataset: str, model: Model) -> bool:
    """Whether the model was run."""
    return bool(numbers(rows, dataset, model, "groups"))


def value(rows: Rows, dataset: str, model: Model, metric: str) -> float:
    """A metric, averaged over restarts."""
    return fmean(numbers(rows, dataset, model, metric).values())


def gain(rows: Rows, dataset: str, model: Model, other: Model) -> Gain:
    """How much better a model is than another, by the metric that counts."""
    both = (numbers(rows, dataset, one, "groups") for one in (model, other))
    return gain_of(*both)


def main_metric(rows: Rows, dataset: str) -> str:
    """The metric that counts."""
    return str(rows.where(dataset=dataset, metric="groups")[0]["of"])
