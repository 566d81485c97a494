"""What Herlau et al. 2022 says of its figure 2."""

from statistics import fmean

from dubio.studies.rows import Row, Rows
from dubio.studies.study import Claim, Finding

WIDE = 100.0  # factor between the ends of a range of λ0 that is called wide
SURE = 4.0  # standard errors over splits


def panels(rows: Rows) -> list[tuple[str, str, Rows]]:
    """Corpus, category and rows of every panel."""
    return [
        (corpus, category, rows.where(corpus=corpus, category=category))
        for corpus in rows.distinct("corpus")
        for category in rows.where(corpus=corpus).distinct("category")
    ]


def better_range(panel: Rows) -> list[Row]:
    """The longest run of neighbouring λ0 at which dropout's error is lower beyond chance."""
    differences = panel.where(method="dropout", metric="difference")
    best: list[Row] = []
    current: list[Row] = []
    for row in sorted(differences, key=lambda row: row["precision"]):
        lower = row["value"] < 0 and row["value"] <= -SURE * row["error"]
        current = [*current, row] if lower else []
        best = max(best, current, key=len)
    return best


def lowest(panel: Rows, method: str) -> Row:
    """The lowest error over all λ0."""
    return min(panel.where(method=method, metric="error"), key=lambda row: row["value"])


def improves_widely(rows: Rows) -> Finding:
    """Ranges of λ0 with a lower error."""
    parts, wide = [], True
    for corpus, category, panel in panels(rows):
        found = better_range(panel)
        if found:
            low, high = found[0]["precision"], found[-1]["precision"]
            gain = fmean(row["value"] for row in found)
            text = f"λ0 = {low:g} to {high:g}, by {-100 * gain:.1f} points on average"
            wide = wide and high / low >= WIDE
        else:
            text, wide = "nowhere", False
        parts.append(f"{category} ({corpus}): {text}")
    return Finding(f"lower error in {'; '.join(parts)}", "reproduces" if wide else "worse")


def better_at_best(rows: Rows) -> Finding:
    """Lowest errors over λ0."""
    parts, better = [], True
    for corpus, category, panel in panels(rows):
        ridge, dropout = lowest(panel, "ridge"), lowest(panel, "dropout")
        parts.append(
            f"{category} ({corpus}): {100 * ridge['value']:.1f} % without, "
            f"{100 * dropout['value']:.1f} % with dropout"
        )
        better = better and dropout["value"] < ridge["value"]
    return Finding(
        f"lowest error over λ0 in {'; '.join(parts)}", "reproduces" if better else "worse"
    )


CLAIMS = (
    Claim(
        "Dropout significantly improves generalization for a wide range of λ0.",
        "figure 2, four categories; no numbers",
        "In every category dropout's mean error is lower by more than four standard errors over "
        "splits, paired, at neighbouring values of λ0 whose ends are at least a factor 100 apart.",
        improves_widely,
    ),
    Claim(
        "Dropout is better with the best λ0 of each, too.",
        "figure 2, four categories; no numbers",
        "In every category dropout's lowest mean error over λ0 is below that of ridge regression.",
        better_at_best,
    ),
)
