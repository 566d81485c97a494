"""The tables and drawings of table 1: rows in, pictures out. Nothing here computes."""

from functools import partial
from statistics import median

from matplotlib.figure import Figure

from dubio.report.ink import BLUE, GREEN, QUIET, RULE, VERMILION, house_style
from dubio.studies.paper_002.table_1.claims import METRICS, ours
from dubio.studies.paper_002.table_1.published import Published
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table
from dubio.studies.uci.tables import TITLES, Value, as_printed

NAMES = {"paper": "the paper's protocol", "grid": "newer grid", "clean": "clean protocol"}
MARKS = {"paper": (VERMILION, "o"), "grid": (GREEN, "s"), "clean": (BLUE, "D")}
HEADS = {"rmse": "RMSE", "log-likelihood": "Log-likelihood"}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "gains",
            "Log-likelihood against the published Dropout column",
            "For every data set, our log-likelihood less the published one, by three protocols",
            partial(draw_gains, rows),
            wide=(12.0, 5.6),
            narrow=(5.0, 7.2),
            note="Right is better. Thin lines are two standard errors over splits, of both runs "
            "together.",
        ),
        *(result_table(rows, metric) for metric in METRICS),
        choice_table(rows),
    ]


@house_style()
def draw_gains(rows: Rows, size: Size) -> Figure:
    """A line for each data set, a mark for each protocol."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    names = as_printed(rows.distinct("table"))
    published, _ = METRICS["log-likelihood"]
    for offset, (protocol, (colour, mark)) in zip((-0.22, 0.0, 0.22), MARKS.items(), strict=True):
        for place, name in enumerate(names):
            value = ours(rows, name, protocol, "log-likelihood")
            if value is None:
                continue
            theirs = published[name].dropout
            panel.errorbar(
                value.mean - theirs.mean,
                place + offset,
                xerr=2 * (value.error**2 + theirs.error**2) ** 0.5,
                color=colour,
                marker=mark,
                markersize=6,
                linewidth=1.2,
                linestyle="none",
                label=NAMES[protocol] if place == 0 else None,
            )
    panel.axvline(0.0, color=QUIET, linewidth=1.0)
    panel.set_yticks(range(len(names)), [TITLES[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel("nats per row above the paper's Dropout")
    panel.grid(axis="x", color=RULE, linewidth=0.6)
    panel.legend(frameon=False, loc="best")
    return figure


def result_table(rows: Rows, metric: str) -> Table:
    """Published values and ours."""
    published, _ = METRICS[metric]
    cells = []
    for name in as_printed(rows.distinct("table")):
        known: Published = published[name]
        digits = 4 if name == "naval" and metric == "rmse" else 2
        splits = len(rows.where(table=name, metric=metric).distinct("split"))
        found = [ours(rows, name, protocol, metric) for protocol in NAMES]
        cells.append(
            [
                TITLES[name],
                *(shown(value, digits) for value in (known.vi, known.pbp, known.dropout)),
                shown(found[0], digits),
                shown(known.grid, digits),
                shown(found[1], digits),
                shown(found[2], digits),
                str(splits),
            ]
        )
    return Table(
        HEADS[metric],
        (
            "data",
            "VI*",
            "PBP*",
            "Dropout*",
            "ours",
            "grid*",
            "grid",
            "clean",
            "splits",
        ),
        cells,
        "Means over splits with standard errors; * published. Ours: the paper's protocol. Grid: "
        "the authors' newer one. The paper prints standard deviations for Dropout "
        "under the head of standard errors; here they are divided by √20, and by √5 for protein. "
        "PBP and VI are Hernández-Lobato and Adams's and were not run.",
    )


def shown(value: Value | None, digits: int) -> str:
    """A mean with its error."""
    return "not run" if value is None else value.shown(digits)


def choice_table(rows: Rows) -> Table:
    """What was chosen, and what a precision allows."""
    cells = []
    for name in as_printed(rows.distinct("table")):
        for protocol in NAMES:
            part = rows.where(table=name, protocol=protocol)
            if not len(part):
                continue
            columns = {m: part.where(metric=m).values() for m in part.distinct("metric")}
            cells.append(
                [
                    f"{name}, {protocol}",
                    spread(columns["drop"]),
                    spread(columns["length scale"]),
                    spread(columns["precision"]),
                    f"{median(columns['ceiling']):.2f}".replace("-", "−"),
                ]
            )
    return Table(
        "What was chosen",
        ("data, protocol", "drop", "length scale", "τ", "½ log τ/2π"),
        cells,
        "The median over splits, with the smallest and largest value where they differ. τ is in "
        "units of the raw target; length scales are for standardised data. The last column bounds "
        "the log-likelihood whatever the network predicts.",
    )


def spread(values: list[float]) -> str:
    """The median, and the range."""
    low, high = min(values), max(values)
    middle = f"{median(values):.3g}"
    return middle if f"{low:.3g}" == f"{high:.3g}" else f"{middle} ({low:.3g} to {high:.3g})"
