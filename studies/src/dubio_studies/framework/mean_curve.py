"""A curve of means, with a band of two standard errors around it."""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes

from dubio_studies.framework.standard_errors import standard_error


def draw_mean_curve(
    axes: Axes,
    x: Sequence[float],
    values: Sequence[Sequence[float]],
    *,
    colour: str,
    line: str,
    label: str,
) -> None:
    """Draw the mean of the values at each x; a single value has no band.

    Args:
        axes: Where.
        x: Places.
        values: What there is at each place, such as a number for each agent.
        colour: Of line and band.
        line: Its style.
        label: In the legend.
    """
    means = [fmean(own) for own in values]
    bands = [2 * (standard_error(own) or 0.0) for own in values]
    axes.plot(x, means, color=colour, linestyle=line, label=label)
    low = [mean - band for mean, band in zip(means, bands, strict=True)]
    high = [mean + band for mean, band in zip(means, bands, strict=True)]
    axes.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0)
