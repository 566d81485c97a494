"""What paper 002 says of its table 1, and rules that decide whether our rows agree."""

import math
from statistics import fmean

from dubio.studies.paper_002.table_1.published import LOG_LIKELIHOOD, RMSE, Published
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding
from dubio.studies.uci.tables import PRINTED, Value

CAPPED = ("energy", "naval", "yacht")  # where the grid of the newer code bounds the precision
METRICS = {"rmse": (RMSE, -1.0), "log-likelihood": (LOG_LIKELIHOOD, 1.0)}  # sign of better


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
                known: Published = published[table]
                theirs: Value = getattr(known, method)
                gain = sign * (value.mean - theirs.mean)
                found[table, metric] = gain, value.margin(theirs)
    return found


def listed(cells: list[tuple[str, str]]) -> str:
    """Cells in words."""
    return ", ".join(f"{table} ({metric})" for table, metric in cells) or "none"


def reproduces_dropout(rows: Rows) -> Finding:
    """Our run of the paper's protocol against its own column."""
    found = compared(rows, "paper", "dropout")
    worse = [cell for cell, (gain, by_chance) in found.items() if gain < -by_chance]
    better = [cell for cell, (gain, by_chance) in found.items() if gain > by_chance]
    return Finding(
        f"of {len(found)} cells worse: {listed(worse)}; better: {listed(better)}",
        "worse" if worse else "better" if len(better) > len(found) / 2 else "reproduces",
    )


def beats_others(rows: Rows) -> Finding:
    """The paper's protocol against the published log-likelihoods of VI and PBP."""
    cells = {
        cell: (min(gain, found[cell][0]), max(by_chance, found[cell][1]))
        for found in (compared(rows, "paper", "vi"),)
        for cell, (gain, by_chance) in compared(rows, "paper", "pbp").items()
    }
    lost = [cell for cell, (gain, _) in cells.items() if gain < -PRINTED]
    return Finding(
        f"not ahead of the better of the two: {listed(lost)}",
        "worse" if set(lost) - {("yacht", "rmse")} else "reproduces",
    )


def is_capped(rows: Rows) -> Finding:
    """How often the grid's largest precision was chosen, and the bound that follows."""
    parts, all_capped = [], True
    for table in CAPPED:
        chosen = rows.where(table=table, protocol="grid", metric="precision").values()
        ceilings = rows.where(table=table, protocol="grid", metric="ceiling").values()
        value = ours(rows, table, "grid", "log-likelihood")
        if not chosen or value is None:
            continue
        share = fmean(math.isclose(c, max(chosen), rel_tol=1e-4) for c in chosen)
        numbers = f"{value.mean:.2f} ≤ {max(ceilings):.2f}".replace("-", "−")
        parts.append(f"{table} {share:.0%} of splits, log-likelihood {numbers}")
        all_capped = all_capped and share == 1.0
    return Finding(
        f"largest τ chosen in {'; '.join(parts)}",
        "reproduces" if all_capped else "worse",
    )


def clean_is_as_good(rows: Rows) -> Finding:
    """Our protocol against the paper's column, in every cell."""
    found = compared(rows, "clean", "dropout")
    worse = [cell for cell, (gain, by_chance) in found.items() if gain < -by_chance]
    better = [cell for cell, (gain, by_chance) in found.items() if gain > by_chance]
    clearly = all(
        found[table, "log-likelihood"] > (0.0, 0.0)
        and found[table, "log-likelihood"][0] > found[table, "log-likelihood"][1]
        for table in CAPPED
        if (table, "log-likelihood") in found
    )
    return Finding(
        f"of {len(found)} cells better beyond chance: {len(better)}; worse: {listed(worse)}",
        "worse" if worse or not clearly else "better",
    )


CLAIMS = (
    Claim(
        "MC dropout with the paper's protocol has the errors and log-likelihoods of its table.",
        "table 1, column Dropout",
        "In every cell the means differ by at most two standard errors, of both runs together, "
        "and half a digit of what is printed.",
        reproduces_dropout,
    ),
    Claim(
        "Dropout outperforms VI and PBP in error and log-likelihood on all data sets apart from "
        "Yacht, for which PBP obtains the lower error.",
        "table 1",
        "Our run of the paper's protocol is not behind the better of the published VI and PBP "
        "in any cell but Yacht's error.",
        beats_others,
    ),
    Claim(
        "The log-likelihoods of the authors' newer grid are bounded by its largest τ on energy, "
        "naval and yacht (not a claim of the paper).",
        "the authors' repository: every split chose the largest τ",
        "The largest τ of the grid is chosen in every split of the three.",
        is_capped,
    ),
    Claim(
        "A protocol without these faults is at least as good everywhere, and clearly better on "
        "energy, naval and yacht (not a claim of the paper).",
        "table 1, column Dropout",
        "In no cell worse by more than two standard errors, of both runs together, and half a "
        "digit; on the three data sets the log-likelihood is better by more than that.",
        clean_is_as_good,
    ),
)
