"""Predictions over partitions of a data set are those of one call, however it is cut."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import dubio
from dubio.likelihoods import Gaussian

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, to Dask

ROWS = 100


def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "predict_parquet.py"
    spec = importlib.util.spec_from_file_location("predict_parquet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def predictor() -> dubio.Predictor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
    return dubio.Predictor(net, draws=20, likelihood=Gaussian(4.0), shared=True)


def written(folder: Path, partitions: int) -> Path:
    """A data set in so many files of different sizes, two of them without rows if there are 7."""
    source = folder / f"in {partitions}"
    source.mkdir()
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = pd.DataFrame(x.numpy(), columns=["age", "dose", "weight"]).assign(name=range(ROWS))
    ends = [0, 1, 30, 30, 31, 64, 90][: partitions - 1] if partitions > 3 else [33, 40]
    starts = [0, *ends[: partitions - 1]]
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], ROWS], strict=True)):
        rows[start:stop].to_parquet(source / f"{number}.parquet", index=False)
    return source


def expected(predictor: dubio.Predictor, source: Path) -> "pd.DataFrame":
    rows = pd.read_parquet(source).sort_values("name", ignore_index=True)
    p = predictor(torch.tensor(rows[["age", "dose", "weight"]].to_numpy("float32")), 0)
    return rows.assign(mean=p.mean[:, 0].numpy(), std=p.std[:, 0].numpy())


def compare(target: Path, source: Path, predictor: dubio.Predictor) -> None:
    found = pd.read_parquet(target).sort_values("name", ignore_index=True)
    found = found.astype(
        {"age": float, "dose": float, "weight": float, "name": int}
    )  # Ray's differ
    pd.testing.assert_frame_equal(found, expected(predictor, source), rtol=1e-5, atol=1e-6)
    assert found["std"].min() > 0.5  # of the noise


@pytest.mark.parametrize("partitions", [1, 3, 7])
@pytest.mark.parametrize("batch", [1024, 10])
def test_dask(
    predictor: dubio.Predictor,
    tmp_path: Path,
    partitions: int,
    batch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    source, module = written(tmp_path, partitions), example()
    monkeypatch.setattr(module, "BATCH", batch)
    before = torch.get_rng_state()
    with dask.config.set(scheduler="threads", num_workers=2):
        module.with_dask(source, tmp_path / "out", predictor)
    assert torch.equal(before, torch.get_rng_state())
    compare(tmp_path / "out", source, predictor)


def test_dask_in_other_processes(predictor: dubio.Predictor, tmp_path: Path) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    source = written(tmp_path, 3)
    with dask.config.set(scheduler="processes", num_workers=1):
        example().with_dask(source, tmp_path / "out", predictor)
    compare(tmp_path / "out", source, predictor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # Ray's own
def test_ray(predictor: dubio.Predictor, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        source = written(tmp_path, 3)
        example().with_ray(source, tmp_path / "out", predictor)
        compare(tmp_path / "out", source, predictor)
    finally:
        ray.shutdown()


def test_memory_is_that_of_a_batch(predictor: dubio.Predictor) -> None:
    """However many rows a partition has, draws of few are there at a time."""
    most: list[int] = []

    def noted(x: torch.Tensor, seed: int) -> dubio.Predictive:
        most.append(len(x))
        return predictor(x, seed)

    module = example()
    rows = pd.DataFrame(torch.randn(5000, 3).numpy(), columns=module.FEATURES)
    assert len(module.predicted(rows, noted)) == 5000
    assert max(most) <= module.BATCH
