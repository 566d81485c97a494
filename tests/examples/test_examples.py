"""Every example runs on its own and stays short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dubio
from dubio.data.inventory import DATASETS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
DATA = {
    "active_mnist": "mnist",
    "defer_fashion": "fashion-mnist",
    "recommend_movies": "movielens-1m",
}
EXTRAS = {
    "bayesian_lora": "peft",
    "bayesian_optimisation": "botorch",
    "predict_parquet": "pyarrow",
    "thompson_cartpole": "gymnasium",
}
WARNINGS = {  # of other libraries
    "bayesian_optimisation": ["ignore:`torch.jit.script` is deprecated"],
    "predict_parquet": ["ignore:The inplace keyword"],
}
SHORTER = {
    "thompson_cartpole": ["400"],  # with all its steps it takes a minute
    "active_learning": ["1", "1"],
    "active_mnist": ["1", "1"],
    "bayesian_optimisation": ["1", "1"],
    "defer_fashion": ["1", "6000"],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    if not os.environ.get("DUBIO_LONG_TESTS"):
        pytest.skip("examples take a while: run `make bridges`")
    if path.stem in DATA and DATASETS[DATA[path.stem]].here() is None:
        pytest.skip(f"{DATA[path.stem]}: not here, neither in DUBIO_DATA nor in the cache")
    if path.stem in EXTRAS:
        pytest.importorskip(EXTRAS[path.stem])
    source = str(Path(dubio.__file__).parents[1])
    options = [part for rule in ("error", *WARNINGS.get(path.stem, [])) for part in ("-W", rule)]
    finished = subprocess.run(
        [sys.executable, *options, str(path), *SHORTER.get(path.stem, [])],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,  # some write files
        env={**os.environ, "PYTHONPATH": source},
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


def test_there_are_examples() -> None:
    assert EXAMPLES
