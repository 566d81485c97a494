"""How the networks of section 4.2 are named and drawn. Nothing here computes."""

from typing import Any

from dubio.ink import BLUE, GREEN, INK, PURPLE, VERMILION
from dubio.studies.rows import Rows

NAMES = {
    "gaussian": "Bayes, Gaussian prior",
    "mixture": "Bayes, mixture prior",
    "laplace": "Bayes, Laplace prior",
    "cold gaussian": "cold Bayes, Gaussian prior",
    "cold mixture": "cold Bayes, mixture prior",
    "dropout": "dropout",
    "plain": "plain",
}
LINES: dict[str, dict[str, Any]] = {
    "gaussian": {"color": PURPLE, "linestyle": "-"},
    "mixture": {"color": VERMILION, "linestyle": (0, (5, 2))},
    "laplace": {"color": GREEN, "linestyle": (0, (2, 1.5))},
    "dropout": {"color": BLUE, "linestyle": (0, (6, 2, 1, 2))},
    "plain": {"color": INK, "linestyle": (0, (1, 1))},
}
NARROW = 8.0  # inches: panels of figures that are less wide stand one upon the other


def widths(rows: Rows) -> list[int]:
    """Units of a hidden layer, the fewest first."""
    return sorted(rows.distinct("width"))
