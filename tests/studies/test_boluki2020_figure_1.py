"""Boluki et al. 2020, figure 1: truth against other ways to it, rules against made-up rows."""

import pytest
import torch
from torch.nn import functional as F

from dubio_studies.boluki2020.figure_1.claims import lower_mse, no_bias
from dubio_studies.boluki2020.gradients import METHODS, bare_toy, gradients, masks, toy, toy_layers
from dubio_studies.framework.rows import Rows
from verdicts import said


@pytest.mark.parametrize("keep", [(0.5, 0.5), (0.1, 0.8)])
def test_enumeration_agrees_with_the_moments_of_a_quadratic(keep: tuple[float, float]) -> None:
    """E[(y − Σ z_k a_k)²] = (y − Σ keep_k a_k)² + Σ keep_k·drop_k·a_k²."""
    problem = bare_toy(keep, seed=5)
    first, second, x, y = toy_layers(2, seed=5)
    parts = (F.relu(first(x)) * second.weight).double()
    logit = torch.tensor(keep, dtype=torch.float64).logit().requires_grad_()
    rate = torch.sigmoid(logit)
    mean = (y.squeeze(1).double() - parts @ rate).square()
    spread = (rate * (1 - rate) * parts.square()).sum(1)
    (expected,) = torch.autograd.grad((mean + spread).mean(), logit)
    torch.testing.assert_close(problem.truth, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "concrete"])
def test_estimates_agree_with_the_truth(method: str) -> None:
    """The mean of 100 is within 6 standard errors: a false alarm in 10⁷ for all of 2 × 2 units."""
    for problem in (bare_toy((0.3, 0.6), seed=0), toy(2, seed=1)):
        drawn = gradients(problem, method, 100).double()
        error = drawn.std(0) / 10 + 1e-7
        assert ((drawn.mean(0) - problem.truth).abs() < 6 * error).all()


def test_concrete_masks_have_the_same_rates() -> None:
    problem = bare_toy((0.3, 0.6), seed=0)
    keep = masks(problem.network)[0].keep.detach()
    torch.testing.assert_close(keep, torch.tensor([0.3, 0.6]))
    assert gradients(problem, "concrete", 3).shape == (3, 2)


def grid_rows(bias: dict[str, float]) -> Rows:
    rows: list[dict[str, object]] = []
    for cell in range(50):
        for unit in (1, 2):
            place = {"part": "grid", "unit": unit, "keep1": cell}
            rows.append({**place, "method": "truth", "metric": "gradient", "value": 1.0})
            for method, size in bias.items():
                sign = 1 if cell % 2 else -1
                row = {**place, "method": method}
                rows.append({**row, "metric": "bias", "value": sign * size, "error": 1.0})
                rows.append({**row, "metric": "mse", "value": size**2 + 1})
    for number in range(4):
        for method, size in bias.items():
            row = {"part": "networks", "network": number, "method": method, "unit": 1}
            rows.append({**row, "metric": "mse", "value": size**2 + 1})
    return Rows(rows)


@pytest.mark.parametrize(
    ("bias", "verdicts"),
    [
        ({"arm": 1.0, "concrete": 3.0}, ("agrees", "agrees")),
        ({"arm": 3.0, "concrete": 1.0}, ("fails", "fails")),
        ({"arm": 0.9, "concrete": 1.0}, ("fails", "agrees")),
    ],
)
def test_rules_can_fail(bias: dict[str, float], verdicts: tuple[str, str]) -> None:
    rows = grid_rows(bias)
    assert (said(no_bias(rows)), said(lower_mse(rows))) == verdicts
