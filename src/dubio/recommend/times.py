"""Times of interactions: numbers or dates without gaps."""

from typing import Any

import numpy as np
import numpy.typing as npt


def check_times(times: npt.NDArray[Any], name: str) -> None:
    """Raise an error for NaN, NaT, infinite times and other values that are not times."""
    kind = times.dtype.kind
    whole = kind in "iuM" or (kind == "f" and np.isfinite(times).all())
    if not whole or (kind == "M" and np.isnat(times).any()):
        gaps = int(np.sum(~np.isfinite(times))) if kind in "fM" else 0
        raise ValueError(
            f"{name}: expected numbers or dates without gaps, got {times.dtype}"
            f"{f' with {gaps} gaps' if gaps else ''}; convert them by pandas.to_datetime, and drop "
            "interactions without a time"
        )
