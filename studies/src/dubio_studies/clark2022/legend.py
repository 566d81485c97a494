"""How the networks of section 4.2, and the ways to read them, are named and drawn.

A colour is a method or a prior, and a variant, slow or cold, has that of its prior, paler. Every
line of a figure has dashes of its own, and a marker where it has few points, so that they can be
told apart without colours.
"""

from collections.abc import Mapping
from typing import Any

from dubio.report.ink import BLUE, GREEN, INK, PURPLE, VERMILION
from dubio_studies.framework.rows import Rows

Line = Mapping[str, Any]
Way = tuple[str, str]
"""A method, and how its networks are read: averaged over draws, or by a pass without noise."""

PALE = 0.6  # opacity

NAMES: Mapping[str, str] = {
    "gaussian": "Bayes, Gaussian prior",
    "mixture": "Bayes, mixture prior",
    "laplace": "Bayes, Laplace prior",
    "slow gaussian": "slow Bayes, Gaussian prior",
    "cold gaussian": "cold Bayes, Gaussian prior",
    "cold mixture": "cold Bayes, mixture prior",
    "authors gaussian": "Bayes by the authors' protocol",
    "authors laplace": "authors' protocol, Laplace prior",
    "dropout": "dropout",
    "plain": "plain",
}
LINES: Mapping[str, Line] = {
    "gaussian": {"color": PURPLE, "linestyle": "-"},
    "mixture": {"color": VERMILION, "linestyle": (0, (5, 2))},
    "laplace": {"color": GREEN, "linestyle": (0, (2, 1.5))},
    "slow gaussian": {"color": PURPLE, "linestyle": (0, (3, 1, 1, 1)), "alpha": PALE},
    "cold gaussian": {"color": PURPLE, "linestyle": (0, (11, 3)), "alpha": PALE},
    "cold mixture": {"color": VERMILION, "linestyle": (0, (5, 2, 1, 2, 1, 2)), "alpha": PALE},
    "authors gaussian": {"color": GREEN, "linestyle": (0, (8, 2, 2, 2))},
    "authors laplace": {"color": BLUE, "linestyle": (0, (3, 2))},
    "dropout": {"color": BLUE, "linestyle": (0, (6, 2, 1, 2))},
    "plain": {"color": INK, "linestyle": (0, (1, 1))},
}

PLAIN: Way = ("plain", "pass")
DROPOUT: Way = ("dropout", "pass")
MC_DROPOUT: Way = ("dropout", "draws")
GAUSSIAN: Way = ("gaussian", "draws")
MIXTURE: Way = ("mixture", "draws")
SLOW_GAUSSIAN: Way = ("slow gaussian", "draws")
COLD_GAUSSIAN: Way = ("cold gaussian", "draws")
COLD_MIXTURE: Way = ("cold mixture", "draws")
AUTHORS: Way = ("authors gaussian", "draws")
BAYESIAN = (GAUSSIAN, MIXTURE, SLOW_GAUSSIAN, COLD_GAUSSIAN, COLD_MIXTURE, AUTHORS)

WAY_NAMES: Mapping[Way, str] = {
    PLAIN: "plain network",
    DROPOUT: "standard dropout",
    MC_DROPOUT: "MC dropout",
    **{way: NAMES[way[0]] for way in BAYESIAN},
    ("gaussian", "pass"): "Gaussian, mean weights",
    ("mixture", "pass"): "mixture, mean weights",
    ("slow gaussian", "pass"): "slow Gaussian, mean weights",
    ("cold gaussian", "pass"): "cold Gaussian, mean weights",
    ("cold mixture", "pass"): "cold mixture, mean weights",
    ("authors gaussian", "pass"): "authors' protocol, mean weights",
}
WAY_LINES: Mapping[Way, Line] = {
    PLAIN: {**LINES["plain"], "marker": "x"},
    DROPOUT: {**LINES["dropout"], "marker": "s"},
    MC_DROPOUT: {"color": BLUE, "linestyle": (0, (1, 3)), "marker": "D"},
    GAUSSIAN: {**LINES["gaussian"], "marker": "o"},
    MIXTURE: {**LINES["mixture"], "marker": "^"},
    SLOW_GAUSSIAN: {**LINES["slow gaussian"], "marker": "P"},
    COLD_GAUSSIAN: {**LINES["cold gaussian"], "marker": "v"},
    COLD_MIXTURE: {**LINES["cold mixture"], "marker": "*"},
    AUTHORS: {**LINES["authors gaussian"], "marker": "p"},
}


def widths(rows: Rows) -> list[int]:
    """Units of a hidden layer, the fewest first."""
    return sorted(rows.distinct("width"))
