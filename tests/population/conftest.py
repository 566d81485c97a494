"""Populations are compared with lone networks to many digits."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Twice the digits: Adam divides by the gradient's size, and so magnifies rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
