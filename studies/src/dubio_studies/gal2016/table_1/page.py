"""What Gal & Ghahramani 2016 says of its table 1, and how our rows are shown."""

import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean, median

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.table_1.ledger import printed_numbers
from dubio_studies.gal2016.table_1.published import LOG_LIKELIHOOD, PRECISIONS, RMSE, PublishedTable
from dubio_studies.uci.tables import TABLES, TITLES, as_printed
from dubio_studies.uci.values import Value

CAPPED = ("energy", "naval", "yacht")  # where the grid of the newer code bounds the precision
METRICS = {"rmse": (RMSE, -1.0), "log-likelihood": (LOG_LIKELIHOOD, 1.0)}  # sign of better
NAMES = {
    "paper": "the paper's protocol",
    "grid": "newer grid",
    "long grid": "newer grid, ten times the epochs",
    "long training": "ten times the epochs for the most chosen rate and τ",
    "clean": "clean protocol",
}
MARKS = {  # and where on the line of a table; none has both long ones
    "paper": (-0.27, VERMILION, "o"),
    "grid": (-0.09, GREEN, "s"),
    "long grid": (0.09, PURPLE, "^"),
    "long training": (0.09, PURPLE, "v"),
    "clean": (0.27, BLUE, "D"),
}
HEADS = {"rmse": "RMSE", "log-likelihood": "Log-likelihood"}


def ours(rows: Rows, table: str, protocol: str, metric: str) -> Value | None:
    """Mean and standard error over splits; None if it was not run."""
    return Value.of(rows.where(table=table, protocol=protocol, metric=metric).values())


def compared(rows: Rows, protocol: str, method: str) -> dict[tuple[str, str], tuple[float, float]]:
    """By table and metric: by how much we are better than published, and the margin."""
    found = {}
    for metric, (published, sign) in METRICS.items():
        for table in rows.distinct("table"):
            value = ours(rows, table, protocol, metric)
            if value is not None:
                known: PublishedTable = published[table]
                theirs: Value = getattr(known, method)
                gain = sign * (value.mean - theirs.mean)
                found[table, metric] = gain, value.margin(theirs)
    return found


def longest_grid(rows: Rows, table: str) -> str:
    """The newer grid with the most epochs that a table was searched with."""
    return "long grid" if len(rows.where(table=table, protocol="long grid")) else "grid"


def listed(cells: list[tuple[str, str]]) -> str:
    """Cells in words."""
    return ", ".join(f"{table} ({metric})" for table, metric in cells) or "none"


def judged(rows: Rows, protocol: str, tables: Sequence[str], finding: Finding) -> Finding:
    """The finding; a rule about tables that were not run is not met, whatever the others show."""
    run = rows.where(protocol=protocol).distinct("table")
    if missing := [table for table in tables if table not in run]:
        ours = f"{finding.ours}; not all was run: {', '.join(missing)} missing"
        return Finding(ours, agrees=False)
    return finding


def reproduces_dropout(rows: Rows) -> Finding:
    """Our run of the paper's protocol against its own column."""
    found = compared(rows, "paper", "dropout")
    worse = [cell for cell, (gain, by_chance) in found.items() if gain < -by_chance]
    better = [cell for cell, (gain, by_chance) in found.items() if gain > by_chance]
    return judged(
        rows,
        "paper",
        TABLES,
        Finding(
            f"of {len(found)} cells worse: {listed(worse)}; better: {listed(better)}",
            not worse,
            further=len(better) > len(found) / 2,
        ),
    )


def beats_others(rows: Rows) -> Finding:
    """The paper's protocol against the published values of VI and of PBP."""
    others = [compared(rows, "paper", method) for method in ("vi", "pbp")]
    lost = [cell for cell in others[0] if any(o[cell][0] < -o[cell][1] for o in others)]
    ahead = [cell for cell in others[0] if all(o[cell][0] > o[cell][1] for o in others)]
    return judged(
        rows,
        "paper",
        TABLES,
        Finding(
            f"of {len(others[0])} cells ahead of both beyond chance: {len(ahead)}; behind one of "
            f"them: {listed(lost)}",
            not (set(lost) - {("yacht", "rmse")}),
        ),
    )


def is_capped(rows: Rows) -> Finding:
    """How often the grid's largest precision was chosen, and the bound that follows."""
    parts, all_capped = [], True
    for table in CAPPED:
        protocol = longest_grid(rows, table)
        chosen = rows.where(table=table, protocol=protocol, metric="precision").values()
        ceilings = rows.where(table=table, protocol=protocol, metric="ceiling").values()
        value = ours(rows, table, protocol, "log-likelihood")
        if value is None:
            continue
        largest = max(PRECISIONS[table])
        share = fmean(math.isclose(c, largest, rel_tol=1e-4) for c in chosen)
        numbers = f"{value.mean:.2f} ≤ {max(ceilings):.2f}".replace("-", "−")
        parts.append(f"{table} {share:.0%} of splits, log-likelihood {numbers}")
        all_capped = all_capped and share == 1.0
    found = Finding(f"largest τ chosen in {'; '.join(parts) or 'none'}", all_capped)
    return judged(rows, "grid", CAPPED, found)


def clean_is_as_good(rows: Rows) -> Finding:
    """Our protocol against the paper's column, in every cell."""
    found = compared(rows, "clean", "dropout")
    worse = [cell for cell, (gain, by_chance) in found.items() if gain < -by_chance]
    better = [cell for cell, (gain, by_chance) in found.items() if gain > by_chance]
    clearly = {(table, "log-likelihood") for table in CAPPED} <= set(better)
    return judged(
        rows,
        "clean",
        TABLES,
        Finding(
            f"of {len(found)} cells better beyond chance: {len(better)}; worse: {listed(worse)}",
            not worse and clearly,
            further=True,
        ),
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "gains",
            "Log-likelihood compared with the published Dropout column",
            "For every data set, our log-likelihood minus the published one, for each protocol",
            partial(draw_gains, rows),
            wide=(12.0, 5.6),
            narrow=(5.0, 7.2),
            note="Right is better. Thin lines are two standard errors over splits, of both runs "
            "combined.",
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
    for protocol, (offset, colour, mark) in MARKS.items():
        labelled = False
        for place, name in enumerate(names):
            value = ours(rows, name, protocol, "log-likelihood")
            if value is None:
                continue
            theirs = published[name].dropout
            panel.errorbar(
                value.mean - theirs.mean,
                place + offset,
                xerr=2 * math.hypot(value.error or 0.0, theirs.error or 0.0),
                color=colour,
                marker=mark,
                markersize=6,
                linewidth=1.2,
                linestyle="none",
                label=None if labelled else NAMES[protocol],
            )
            labelled = True
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
        known: PublishedTable = published[name]
        digits = 4 if name == "naval" and metric == "rmse" else 2
        splits = len(rows.where(table=name, metric=metric).distinct("split"))
        found = {protocol: ours(rows, name, protocol, metric) for protocol in NAMES}
        trained = found["long training"]
        longer = found["long grid"] if trained is None else trained
        cells.append(
            [
                TITLES[name],
                *(shown(value, digits) for value in (known.vi, known.pbp, known.dropout)),
                shown(found["paper"], digits),
                shown(known.grid, digits),
                shown(longer, digits) + ("†" if trained is not None else ""),
                shown(found["grid"], digits),
                shown(found["clean"], digits),
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
            "longer",
            "grid",
            "clean",
            "splits",
        ),
        cells,
        "Means over splits with standard errors; * published. Ours: the paper's protocol. "
        "Grid: the authors' newer one; longer: with ten times the epochs; †: only for networks of "
        "the rate and τ that splits choose most often in the shorter grid. The paper prints "
        "standard deviations for Dropout but calls them standard errors; here they are divided by "
        "√20, and by √5 for protein. PBP and VI are from Hernández-Lobato and Adams and were not "
        "run.",
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
        "Median over splits, with the smallest and largest value where they differ. τ is in "
        "units of the raw target; length scales are for standardised data. The last column "
        "is the largest log-likelihood that any network could reach with this τ.",
    )


def spread(values: list[float]) -> str:
    """The median, and the range."""
    low, high = min(values), max(values)
    middle = f"{median(values):.3g}"
    return middle if f"{low:.3g}" == f"{high:.3g}" else f"{middle} ({low:.3g} to {high:.3g})"


CLAIMS = (
    Claim(
        "MC dropout with the paper's protocol reproduces the errors and log-likelihoods of "
        "its table.",
        "table 1, column Dropout",
        "In every cell of nine data sets the means differ by at most two standard errors, of "
        "both runs combined, plus half a printed digit; further, if they differ by more in "
        "our favour in most cells and never against us.",
        reproduces_dropout,
    ),
    Claim(
        "Dropout outperforms VI and PBP in error and log-likelihood on all data sets apart from "
        "Yacht, for which PBP obtains the lower error.",
        "table 1",
        "Our run of the paper's protocol is not behind the published VI or PBP by more than "
        "two standard errors, of both runs combined, plus half a printed digit, in any cell "
        "of nine data sets except Yacht's error. Ties count in favour, since the table "
        "itself has some.",
        beats_others,
    ),
    Claim(
        "The log-likelihoods of the authors' newer grid are bounded by its largest τ on energy, "
        "naval and yacht.",
        "the authors' repository: every split chose the largest τ",
        "Every split of the three selects the largest τ of the grid, in the search of the table "
        "with the most epochs.",
        is_capped,
        ours=True,
    ),
    Claim(
        "With all choices made on validation rows, and no grid that bounds τ, dropout is at "
        "least as good as published everywhere, and clearly better on energy, naval and "
        "yacht.",
        "table 1, column Dropout",
        "It is not worse in any cell of nine data sets by more than two standard errors, of "
        "both runs combined, plus half a printed digit; on the three data sets the "
        "log-likelihood is better by more than that.",
        clean_is_as_good,
        ours=True,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="paper-feba0bdb", ledger=printed_numbers)
