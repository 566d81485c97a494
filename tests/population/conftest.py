"""Populations are compared with lone networks to many digits."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dubio.population.recording import Steps


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Twice the digits: Adam divides by the gradient's size, and so magnifies rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to record a step came to something."""
    found: list[bool] = []
    record = Steps._record

    def spied(*args: Any) -> Any:
        result = record(*args)
        found.append(result is not None)
        return result

    monkeypatch.setattr(Steps, "_record", spied)
    return found
