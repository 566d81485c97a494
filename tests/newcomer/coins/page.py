"""What is shown of the coins, and what the paper says of them: rows in, pictures out."""

from functools import partial

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, RULE, house_style
from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

NEAR = 0.01


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    cells = [[str(row["size"]), f"{row['value']:.3f}", "0.5"] for row in rows]
    return [
        Table("Shares of heads", ("throws", "ours", "published"), cells),
        Plot("shares", "Figure 99", "Shares of heads against throws", partial(draw_shares, rows)),
    ]


@house_style()
def draw_shares(rows: Rows, size: Size) -> Figure:
    """Shares against throws."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.axhline(0.5, color=RULE)
    axes.plot(rows.values("size"), rows.values(), color=BLUE, marker="o")
    axes.set_xscale("log")
    axes.set_xlabel("throws")
    axes.set_ylabel("share of heads")
    return figure


def is_fair(rows: Rows) -> Finding:
    """Whether most throws come close to one half."""
    share = max(rows, key=lambda row: row["size"])["value"]
    return Finding(f"{share:.3f}", agrees=abs(share - 0.5) < NEAR)


CLAIMS = (
    Claim(
        "Coins are fair.",
        "0.5, figure 99",
        f"The share of the largest number of throws is within {NEAR:g} of one half.",
        is_fair,
        otherwise=Undecided("A hundred throws have a standard error of 0.05.", cpu_hours=0.1),
    ),
)

PAGE = Page(CLAIMS, exhibits)  # examined="small-…", once somebody has looked into its failures
