"""What Gal & Ghahramani 2016 says of a point far from the data, and how it looks."""

from functools import partial

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Page

SEEN = 1.0
SURE = 0.99


def far(rows: Rows) -> Row:
    """The output at x*, the last point."""
    return max(rows.where(metric="output"), key=lambda row: float(row["x"]))


def is_sure(rows: Rows) -> Finding:
    """The probability at x* by one function."""
    found = float(far(rows)["value"])
    return Finding(f"{found:.4f}", found >= SURE)


def is_less_sure(rows: Rows) -> Finding:
    """The same averaged over functions, and its band."""
    row = far(rows)
    text = f"{row['mean']:.4f}; 5th to 95th percentile {row['low']:.4f} to {row['high']:.4f}"
    return Finding(text, float(row["mean"]) < float(row["value"]))


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "softmax",
            "Figure 1: softmax input and output",
            "Two panels against x: logits and probabilities, with a band over draws",
            partial(draw, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 8.4),
            note="Training data lie between the grey lines; x* is red. The line is one pass "
            "without noise, the band goes from the 5th to the 95th percentile of draws, dashes are "
            "their mean.",
        )
    ]


@house_style()
def draw(rows: Rows, size: Size) -> Figure:
    """Inputs and outputs of the softmax."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, 2) if size[0] > size[1] else figure.subplots(2, 1)
    star = float(far(rows)["x"])
    for panel, metric in zip(panels, ("input", "output"), strict=True):
        own = rows.where(metric=metric)
        x = own.values("x")
        panel.fill_between(
            x, own.values("low"), own.values("high"), color=BLUE, alpha=0.2, linewidth=0
        )
        panel.plot(x, own.values(), color=BLUE, label="one pass")
        panel.plot(x, own.values("mean"), color=BLUE, linestyle="--", label="mean of draws")
        for edge in (-SEEN, SEEN):
            panel.axvline(edge, color=QUIET, linestyle="--", linewidth=1.0)
        panel.axvline(star, color=VERMILION, linestyle="--", linewidth=1.2)
        panel.set_xlabel("x")
        panel.set_ylabel(f"softmax {metric}")
        panel.grid(color=RULE, linewidth=0.6)
    panels[0].legend(frameon=False)
    return figure


CLAIMS = (
    Claim(
        "Ignoring function uncertainty, x* is classified as class 1 with probability 1.",
        "figure 1",
        f"One pass without noise gives at least {SURE:g}.",
        is_sure,
    ),
    Claim(
        "Averaged over functions it is less sure.",
        "figure 1: the shaded area passed through the softmax",
        "The mean over draws is below one pass without noise.",
        is_less_sure,
        otherwise=Refuted(
            "Not with dropout in this network: with ReLUs, every function grows away from the "
            "data, and all draws grow in the same direction, so their 5th percentile is 1 as "
            "well."
        ),
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="paper-0980009d")
