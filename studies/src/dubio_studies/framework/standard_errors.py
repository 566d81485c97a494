"""Standard errors: over networks that differ in their start and noise, and over images."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def standard_error(values: Sequence[float]) -> float | None:
    """That of the mean; None of a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def share_error(share: float, cases: int) -> float:
    """√(a(1 − a)/n): the standard error of a share a of n images from their choice."""
    return math.sqrt(share * (1 - share) / cases)


def with_error(values: Sequence[float], digits: int = 2) -> str:
    """The mean, and its standard error if there are several values."""
    text, error = f"{fmean(values):.{digits}f}", standard_error(values)
    shown = text if error is None else f"{text} ± {error:.{digits}f}"
    return shown.replace("-", "−")
