"""How methods of section 4.2, and the ways to read them, are called and drawn."""

from collections.abc import Mapping
from typing import Any

from dubio.ink import BLUE, GREEN, INK, PURPLE, VERMILION

Way = tuple[str, str]
"""A method, and how its networks are read: averaged over draws, or by a pass without noise."""

PLAIN: Way = ("plain", "pass")
DROPOUT: Way = ("dropout", "pass")
MC_DROPOUT: Way = ("dropout", "draws")
GAUSSIAN: Way = ("gaussian", "draws")
MIXTURE: Way = ("mixture", "draws")

NAMES: Mapping[Way, str] = {
    PLAIN: "plain network",
    DROPOUT: "standard dropout",
    MC_DROPOUT: "MC dropout",
    GAUSSIAN: "Bayes, Gaussian prior",
    MIXTURE: "Bayes, mixture prior",
    ("gaussian", "pass"): "Gaussian, mean weights",
    ("mixture", "pass"): "mixture, mean weights",
}
LINES: Mapping[Way, Mapping[str, Any]] = {
    PLAIN: {"color": INK, "linestyle": "-"},
    DROPOUT: {"color": BLUE, "linestyle": (0, (1, 1))},
    MC_DROPOUT: {"color": BLUE, "linestyle": (0, (5, 2))},
    GAUSSIAN: {"color": PURPLE, "linestyle": "-"},
    MIXTURE: {"color": VERMILION, "linestyle": (0, (5, 2))},
    ("cnn", "pass"): {"color": GREEN, "linestyle": (0, (2, 1.5))},
}
