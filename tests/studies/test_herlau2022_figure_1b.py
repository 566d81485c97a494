"""Herlau et al. 2022, figure 1b: batches against single estimators, rules against made-up rows."""

from typing import Any

import numpy as np
import pytest
import torch

from dubio import BayesianDropoutRegression
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Seed
from dubio_studies.herlau2022.figure_1b.computation import COMPUTATION, Config, draw, predict, run
from dubio_studies.herlau2022.figure_1b.page import CLAIMS
from verdicts import said

CONDITIONS = ("default", "junk", "shift")


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("features", [10, 20, 40])
@pytest.mark.parametrize(("drop", "precision"), [(0.0, 1.0), (0.05, 1e-3), (0.6, 1e-3)])
def test_batches_agree_with_the_estimator(
    condition: str, features: int, drop: float, precision: float
) -> None:
    problems = draw(3, features, condition, torch.Generator().manual_seed(1))
    together = predict(problems, drop, precision)
    for i in range(3):
        rows, test = (part[i] @ problems.mixing[i] for part in (problems.train, problems.test))
        model = BayesianDropoutRegression(drop, precision, fit_intercept=False)
        model.fit(rows.numpy(), problems.targets[i, :, 0].numpy())
        np.testing.assert_allclose(together[i, :, 0], model.predict(test.numpy()), rtol=1e-8)


def test_conditions_share_their_random_numbers() -> None:
    default, junk, shift = (
        draw(5, 20, condition, torch.Generator().manual_seed(2)) for condition in CONDITIONS
    )
    assert torch.equal(default.train, junk.train)
    assert torch.equal(default.targets, shift.targets)  # made before the features are rescaled
    assert not torch.equal(default.targets, junk.targets)
    scales = shift.mixing / default.mixing  # (B, K, D)
    torch.testing.assert_close(scales, scales[:, :1].expand_as(scales))
    torch.testing.assert_close(default.mixing.norm(dim=1), torch.ones(5, 20, dtype=torch.float64))
    ten = [draw(5, 10, c, torch.Generator().manual_seed(3)) for c in CONDITIONS[:2]]
    assert torch.equal(ten[0].targets, ten[1].targets)  # no feature is junk


def test_data_have_the_moments_of_the_protocol() -> None:
    """E y² = E|rᵀL|² + 1 = p + 1 if weights and noise have variance one; false alarms: 2 in 10⁹."""
    problems = draw(20_000, 10, "default", torch.Generator().manual_seed(4))
    for targets in (problems.targets, problems.test_targets):
        squares = targets.square().mean((1, 2))
        z = (squares.mean() - 11.0) / (squares.std() / 20_000**0.5)
        assert abs(float(z)) < 6


def test_dropout_without_a_prior_does_not_see_the_shift() -> None:
    default, shift = (
        draw(50, 20, c, torch.Generator().manual_seed(5)) for c in ("default", "shift")
    )
    expected = predict(default, 0.1, 1e-12)
    torch.testing.assert_close(predict(shift, 0.1, 1e-12), expected, rtol=1e-4, atol=1e-4)


def test_batching_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means come from all data sets, also where the last batch is smaller."""
    config = Config(data_sets=7, other_drops=())
    piece = {"condition": "shift", "features": 10}
    module = "dubio_studies.herlau2022.figure_1b.computation.BATCH"
    monkeypatch.setattr(module, 3)
    batched = list(run(config, piece, Seed(own=0, common=6, given=0)))
    generator = torch.Generator().manual_seed(6)
    errors: list[float] = []
    for count in (3, 3, 1):
        problems = draw(count, 10, "shift", generator)
        residuals = problems.test_targets - predict(problems, 0.0, 1.0)
        errors += residuals.square().mean((1, 2)).tolist()
    assert batched[0]["method"] == "ridge"
    assert batched[0]["value"] == pytest.approx(np.mean(errors))
    assert batched[0]["error"] == pytest.approx(np.std(errors, ddof=1) / 7**0.5)
    ridge, dropout, difference = (row["value"] for row in batched)
    assert difference == pytest.approx(dropout - ridge)


def made_up(default: float, junk: float, shift: float, *, error: float = 0.01) -> Rows:
    """Ridge's errors are 2, 2 and 3; dropout's are given."""
    rows: list[dict[str, Any]] = []
    ridge = {"default": 2.0, "junk": 2.0, "shift": 3.0}
    dropout = {"default": default, "junk": junk, "shift": shift}
    for features in (10, 40):
        for condition in CONDITIONS:
            cell = {"condition": condition, "features": features, "error": error}
            pairs = (("ridge", ridge[condition]), ("dropout", dropout[condition]))
            for method, value in pairs:
                rows.append({**cell, "method": method, "metric": "squared error", "value": value})
            value = dropout[condition] - ridge[condition]
            rows.append({**cell, "method": "dropout", "metric": "difference", "value": value})
    return Rows(rows)


@pytest.mark.parametrize(
    ("rows", "failing"),
    [
        (made_up(2.05, 1.9, 2.1), set()),
        (made_up(2.2, 2.0, 2.3), {0}),
        (made_up(2.0, 2.2, 2.1), {1}),
        (made_up(2.0, 2.0, 2.4, error=0.2), {2}),
        (made_up(2.0, 2.0, 2.9), {3}),
        (made_up(2.2, 2.2, 3.5), {0, 1, 2, 3}),
    ],
)
def test_rules_can_fail(rows: Rows, failing: set[int]) -> None:
    verdicts = [said(claim.judge(rows)) for claim in CLAIMS]
    assert {i for i, verdict in enumerate(verdicts) if verdict == "fails"} == failing


@pytest.mark.parametrize(
    "settings",
    [{"data_sets": 1}, {"features": (5,)}, {"drop": 1.0}, {"precision": 0.0}],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Config(**settings)


def test_the_paper_scale_is_the_papers() -> None:
    assert COMPUTATION.scales["paper"].data_sets == 100_000
