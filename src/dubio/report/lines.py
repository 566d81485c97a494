"""Lines of a drawing that can be told apart, also without colour vision."""

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any, TypeVar

from matplotlib.axes import Axes

from dubio.report.ink import BLUE, GREEN, INK, PURPLE, QUIET, VERMILION

Curve = TypeVar("Curve")

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, INK)
DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)), "-")
MARKERS = ("o", "s", "^", "D", "v")


def styled(curves: Mapping[str, Curve]) -> Iterator[tuple[str, Curve, dict[str, Any]]]:
    """Yield names and curves with lines that differ in colour, dash and marker, again and again."""
    looks = cycle(zip(COLOURS, DASHES, MARKERS, strict=True))
    for (name, curve), (colour, dash, marker) in zip(curves.items(), looks, strict=False):
        yield name, curve, {"color": colour, "linestyle": dash, "marker": marker, "linewidth": 1.8}


def draw_key(axes: Axes) -> None:
    """Draw a key that names the lines."""
    axes.legend(frameon=False, fontsize=9, labelcolor=QUIET, handlelength=2.6)
