"""Predictions for a Parquet data set, one partition at a time, with Dask or Ray Data.

A network is mapped over the partitions of a folder of Parquet files. With shared masks and an int
seed, all workers have the same functions, so the results do not depend on the partitions.
``python examples/predict_parquet.py ray`` uses Ray Data instead of Dask.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from torch import nn

import dubio
from dubio.likelihoods import Gaussian

FEATURES = ["age", "dose", "weight"]
SEED, BATCH = 0, 1024


def predicted(rows: pd.DataFrame, predictor: dubio.Predictor) -> pd.DataFrame:
    """Rows of one partition with their predictive mean and standard deviation."""
    x = torch.tensor(rows[FEATURES].to_numpy("float32"))
    mean, std = np.empty((2, len(x)), dtype="float32")
    for start in range(0, len(x), BATCH):
        few = slice(start, start + BATCH)
        p = predictor(x[few], SEED)
        mean[few], std[few] = p.mean[:, 0], p.std[:, 0]
    return rows.assign(mean=mean, std=std)


def with_dask(source: Path, target: Path, predictor: dubio.Predictor) -> None:
    """Partition by partition, with any Dask scheduler."""
    import dask
    import dask.dataframe as dd

    rows = dd.read_parquet(source)
    kinds = {**rows.dtypes.to_dict(), "mean": "float32", "std": "float32"}
    found = rows.map_partitions(predicted, dask.delayed(predictor), meta=kinds)
    found.to_parquet(target, write_index=False)


def with_ray(source: Path, target: Path, predictor: dubio.Predictor) -> None:
    """Block by block."""
    import ray

    rows = ray.data.read_parquet(str(source))
    found = rows.map_batches(
        predicted, fn_kwargs={"predictor": predictor}, batch_format="pandas", batch_size=8 * BATCH
    )
    found.write_parquet(str(target))


def main(way: str = "dask") -> None:
    """Write a data set in three files, and another with predictions."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))  # trained
    predictor = dubio.Predictor(net, draws=50, likelihood=Gaussian(4.0), shared=True)
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.mkdir()
        for part in range(3):
            rows = pd.DataFrame(rng.normal(size=(2000, 3)), columns=FEATURES)
            rows.to_parquet(source / f"{part}.parquet", index=False)
        {"dask": with_dask, "ray": with_ray}[way](source, target, predictor)
        print(pd.read_parquet(target).head())


if __name__ == "__main__":
    main(*sys.argv[1:])
