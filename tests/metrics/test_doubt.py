"""`draw_doubt` against the prediction that it draws."""

import numpy as np
import pytest
import torch

import dubio
from dubio.likelihoods import Categorical, Gaussian
from dubio.metrics import plots


def heights(figure: object) -> np.ndarray:
    """The line of the whole doubt."""
    (axes,) = figure.axes  # type: ignore[attr-defined]
    return np.asarray(axes.lines[0].get_ydata())


def test_labels_are_sorted_by_entropy_and_errors_marked() -> None:
    draws = torch.randn(20, 50, 3, generator=torch.Generator().manual_seed(0))
    p = dubio.Predictive.from_draws(Categorical(), draws)
    y = torch.arange(50) % 3
    figure = plots.draw_doubt(p, y)
    np.testing.assert_allclose(heights(figure), p.entropy.sort().values, rtol=1e-5)
    wrong = (p.mean.argmax(1) != y)[p.entropy.argsort()]
    marks = (np.asarray(figure.axes[0].lines[1].get_xdata()) * 50 - 0.5).round().astype(int)
    assert marks.tolist() == wrong.nonzero().flatten().tolist()


def test_numbers_are_sorted_by_deviation_and_errors_dotted() -> None:
    scale = torch.linspace(2, 0.1, 40)[:, None]
    draws = scale * torch.randn(30, 40, 1, generator=torch.Generator().manual_seed(0))
    p = dubio.Predictive.from_draws(Gaussian(4.0), draws)
    y = torch.ones(40, 1)
    figure = plots.draw_doubt(p, y)
    np.testing.assert_allclose(heights(figure), p.std.flatten().sort().values, rtol=1e-5)
    errors = (y - p.mean).abs().flatten()[p.std.flatten().argsort()]
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), errors, rtol=1e-5)


@pytest.mark.parametrize("likelihood", [Categorical(), Gaussian(1.0)])
def test_targets_can_be_left_out(likelihood: dubio.likelihoods.Likelihood) -> None:
    p = dubio.Predictive.from_draws(likelihood, torch.randn(5, 8, 3))
    assert len(plots.draw_doubt(p).axes[0].lines) == 1


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(8), r"expected shape \(8, 1\).*got \(8,\)"),
        (torch.zeros(4, 1), "one target for each of 8 rows"),
        (np.zeros((8, 1)), "expected a tensor, got ndarray"),
    ],
)
def test_targets_of_another_form_are_refused(y: object, message: str) -> None:
    p = dubio.Predictive.from_draws(Gaussian(1.0), torch.randn(5, 8, 1))
    with pytest.raises((TypeError, ValueError), match=message):
        plots.draw_doubt(p, y)  # type: ignore[arg-type]
