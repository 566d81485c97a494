"""The inverse in place, against numpy in float64."""

import numpy as np
import pytest
import torch

from dubio.recommend.inverse import negative_inverse_


def positive(size: int, seed: int = 0) -> torch.Tensor:
    rows = torch.randn(size + 5, size, generator=torch.Generator().manual_seed(seed))
    return rows.T @ rows + 3 * torch.eye(size)


@pytest.mark.parametrize("size", [1, 2, 7, 50])
@pytest.mark.parametrize("block", [1, 3, 7, 64])
def test_against_numpy(size: int, block: int) -> None:
    matrix = positive(size)
    expected = -np.linalg.inv(matrix.double().numpy())
    given = matrix.where(torch.ones(size, size).triu().bool(), torch.tensor(torch.nan))
    found = negative_inverse_(given, block)
    assert found is given
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_it_is_as_exact_as_lapack() -> None:
    """Condition 10⁴: at most three times the error of LAPACK's way by Cholesky's factor."""
    size = 300
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))[0]
    single = torch.from_numpy((basis * np.logspace(0, 4, size)) @ basis.T).float()
    expected = torch.linalg.inv(single.double())
    theirs = (torch.cholesky_inverse(torch.linalg.cholesky(single)) - expected).abs().max()
    ours = (-negative_inverse_(single.clone(), 64) - expected).abs().max()
    assert ours < 3 * theirs


@pytest.mark.parametrize("bad", [torch.zeros(3, 3), -torch.eye(3), torch.ones(3, 3) * torch.nan])
def test_not_positive_definite(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="expected a positive definite one"):
        negative_inverse_(bad.clone())
