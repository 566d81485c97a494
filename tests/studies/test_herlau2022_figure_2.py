"""Herlau et al. 2022, figure 2: error rates against the estimator, rules against made-up rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dubio import BayesianDropoutRegression
from dubio.data import dataset
from dubio.data.files import File
from dubio_studies.catalogue import find
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.running import PiecesFailed, run
from dubio_studies.herlau2022.figure_2.computation import (
    COMPUTATION,
    Config,
    error_rates,
    over_splits,
    read,
)
from dubio_studies.herlau2022.figure_2.page import CLAIMS, better_range
from verdicts import said


def test_error_rates_agree_with_the_estimator() -> None:
    """More features than documents, sparse counts: each rate and λ0 by itself, factorised."""
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.poisson(0.1, size=(120, 300)).astype(float))
    labels = np.sign(counts @ rng.normal(size=300) + rng.normal(size=120))
    train, test = np.arange(80), np.arange(80, 120)
    drops, precisions = [0.0, 0.5], [0.1, 1.0, 100.0]
    found = error_rates(counts[train], labels[train], counts[test], labels[test], drops, precisions)
    for i, drop in enumerate(drops):
        for j, precision in enumerate(precisions):
            model = BayesianDropoutRegression(
                drop, precision, fit_intercept=False, solver="cholesky"
            ).fit(counts[train], labels[train])
            wrong = np.sign(model.predict(counts[test])) != labels[test]
            assert found[i, j] == np.mean(wrong)
    assert len(np.unique(found)) > 1


def test_over_splits() -> None:
    row = over_splits("error", np.array([0.1, 0.2, 0.3, 0.4]))
    assert row["value"] == pytest.approx(0.25)
    assert row["deviation"] == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 10)
    assert row["error"] == pytest.approx(float(str(row["deviation"])) / 2)


def test_missing_data_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence that names the files, and no traceback."""
    monkeypatch.setenv("DUBIO_DATA", str(tmp_path))
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path / "cache"))

    def unreachable(file: File) -> Path:
        raise dataset.DataError(f"{file.path}: the download failed; try again")

    monkeypatch.setattr(dataset, "download", unreachable)
    read.cache_clear()
    with pytest.raises(PiecesFailed, match="amazon-sentiment") as caught:
        run(find("herlau2022/figure-2").load(), "smoke", COMPUTATION.scales["smoke"], root=tmp_path)
    assert "Traceback" not in str(caught.value)
    assert {f"amazon-{c}" for c in Config().categories} < set(find("herlau2022/figure-2").card.data)


def made_up(differences: dict[float, float], *, error: float = 0.001) -> Rows:
    """Ridge's error is 0.2 at every λ0; dropout's differs as given."""
    rows: list[dict[str, Any]] = []
    for precision, difference in differences.items():
        place = {"corpus": "full", "category": "dvd", "precision": precision}
        spread = {"error": error, "deviation": 0.01}
        for method, value in (("ridge", 0.2), ("dropout", 0.2 + difference)):
            rows.append({**place, **spread, "method": method, "metric": "error", "value": value})
        row = {**place, **spread, "method": "dropout", "metric": "difference"}
        rows.append({**row, "value": difference})
    return Rows(rows)


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        (made_up({1: -0.05, 10: -0.05, 100: -0.05, 1000: 0.05}), set()),
        (made_up({1: -0.05, 10: -0.05, 100: 0.0, 1000: 0.05}), {0}),
        (made_up({1: -0.05, 10: 0.01, 100: -0.05, 1000: 0.05}), {0}),  # with a gap
        (made_up({1: -0.05, 10: -0.05, 100: -0.05}, error=0.02), {0}),
        (made_up({1: 0.0, 10: 0.05, 100: 0.05}), {0, 1}),
    ],
)
def test_rules_can_fail(rows: Rows, failing: set[int]) -> None:
    verdicts = [said(claim.judge(rows)) for claim in CLAIMS]
    assert {i for i, verdict in enumerate(verdicts) if verdict == "fails"} == failing


def test_the_range_is_the_longest() -> None:
    rows = made_up({1: -0.05, 10: 0.05, 100: -0.05, 300: -0.05, 1000: 0.05})
    assert [row["precision"] for row in better_range(rows)] == [100, 300]


@pytest.mark.parametrize(
    "settings",
    [
        {"splits": 1},
        {"selected_splits": 1},
        {"train_share": 1.0},
        {"drop": 0.0},
        {"precisions": (0.0,)},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Config(**settings)
