"""What Gal et al. 2017 says of the Concrete distribution, and how it looks."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.figure_10.published import TEMPERATURE

END = 0.01  # of the interval from 0 to 1


def at_ends(rows: Rows) -> float:
    """The share of draws that are nearly binary."""
    return fmean(min(value, 1 - value) < END for value in rows.values())


def concentrates(rows: Rows) -> Finding:
    """The shares near the ends at the paper's temperature."""
    own = rows.where(temperature=TEMPERATURE)
    shares = {drop: at_ends(own.where(drop=drop)) for drop in own.distinct("drop")}
    text = ", ".join(f"{share:.0%} at p = {drop:g}" for drop, share in shares.items())
    return Finding(text, min(shares.values()) > 0.5)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "concrete",
            "Figure 10: relaxed masks",
            "The relaxed indicator of dropping against uniform noise, and its distribution "
            "function, a line for each temperature",
            partial(draw, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 8.4),
            note="Left: z̃ against u. Right: the share of draws below z̃, which is a step for "
            "a binary mask.",
        ),
        Table(
            "Shares of draws that are nearly binary",
            ("dropout rate", "temperature", f"within {END:g} of 0 or 1"),
            [
                [f"{drop:g}", f"{temperature:.3g}", f"{at_ends(own):.0%}"]
                for drop in rows.distinct("drop")
                for temperature in rows.distinct("temperature")
                if (own := rows.where(drop=drop, temperature=temperature))
            ],
        ),
    ]


@house_style()
def draw(rows: Rows, size: Size) -> Figure:
    """Functions of the noise, and distribution functions."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, 2) if size[0] > size[1] else figure.subplots(2, 1)
    for drop, line in zip(rows.distinct("drop"), ("-", "--"), strict=False):
        for temperature, colour in zip(
            rows.distinct("temperature"), (BLUE, VERMILION), strict=False
        ):
            own = rows.where(drop=drop, temperature=temperature)
            label = f"p = {drop:g}, t = {temperature:.2g}"
            panels[0].plot(own.values("u"), own.values(), color=colour, linestyle=line, label=label)
            ordered = sorted(own.values())
            shares = [(k + 1) / len(ordered) for k in range(len(ordered))]
            panels[1].step(ordered, shares, color=colour, linestyle=line)
    for panel, label in zip(panels, ("u", "z̃"), strict=True):
        panel.set_xlabel(label)
        panel.grid(color=RULE, linewidth=0.6)
    panels[0].set_ylabel("z̃")
    panels[1].set_ylabel("share of draws below")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9.5)
    return figure


CLAIMS = (
    Claim(
        "The distribution concentrates most mass on the boundaries of the interval 0 and 1.",
        "section 3 and figure 10, temperature 0.1",
        f"At temperature {TEMPERATURE:g} more than half of the draws are within {END:g} of 0 or "
        "1, at every rate.",
        concentrates,
    ),
)

PAGE = Page(CLAIMS, exhibits)
