"""Drawings that figure 2, figure 3 and the solar study share: a mean in shades of its spread."""

from matplotlib.axes import Axes

from dubio.report.ink import BLUE, VERMILION
from dubio_studies.framework.rows import Rows

SHADES = 4
END = 1.726  # of the CO2 data, standardised
X_STAR = 3.0
"""The point far from the CO2 data; the paper does not say where its own is."""


def draw_band(axes: Axes, curve: Rows, deviations: float) -> None:
    """The predictive mean, plus and minus so many standard deviations in four shades."""
    x, mean, std = curve.values("x"), curve.values(), curve.values("std")
    for shade in range(SHADES, 0, -1):
        width = deviations * shade / SHADES
        axes.fill_between(
            x,
            [m - width * s for m, s in zip(mean, std, strict=True)],
            [m + width * s for m, s in zip(mean, std, strict=True)],
            color=BLUE, alpha=0.17, linewidth=0,
        )  # fmt: skip
    axes.plot(x, mean, color=BLUE, linewidth=1.5)


def draw_observed(axes: Axes, observed: Rows) -> None:
    """What was observed, in red as in the paper."""
    axes.plot(observed.values("x"), observed.values(), color=VERMILION, linewidth=0.8)


def mark_extrapolation(axes: Axes) -> None:
    """The end of the data, dashed blue, and x*, dashed red."""
    axes.axvline(END, color=BLUE, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.axvline(X_STAR, color=VERMILION, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.annotate(
        "x*", (X_STAR, 1), xycoords=("data", "axes fraction"), xytext=(5, -12),
        textcoords="offset points", color=VERMILION,
    )  # fmt: skip
