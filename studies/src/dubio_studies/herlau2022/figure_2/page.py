"""What Herlau et al. 2022 says of its figure 2, and how our rows are shown."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.study import Page

WIDE = 100.0  # factor between the ends of a range of λ0 that is called wide
SURE = 4.0  # standard errors over splits
STYLES = {"ridge": (VERMILION, "--", "without dropout"), "dropout": (BLUE, "-", "dropout")}
CORPORA = {
    "full": "2000 documents with all features",
    "selected": "more documents with 5000 features",
}


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
    return Finding(f"lower error in {'; '.join(parts)}", wide)


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
    return Finding(f"lowest error over λ0 in {'; '.join(parts)}", better)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        *(corpus_plot(rows.where(corpus=corpus), corpus) for corpus in rows.distinct("corpus")),
        range_table(rows),
        *(
            difference_table(rows.where(corpus=corpus), corpus)
            for corpus in rows.distinct("corpus")
        ),
    ]


def corpus_plot(rows: Rows, corpus: str) -> Plot:
    """A panel for each category."""
    return Plot(
        f"errors-{corpus}",
        f"Figure 2 with {CORPORA[corpus]}",
        "Test error against λ0 in every category: dropout's is lower for small and middle values "
        "of λ0",
        partial(draw_errors, rows),
        wide=(12.0, 7.6),
        narrow=(5.0, 12.0),
        note=f"Mean over {spoken(rows.where(metric='splits').distinct('value'))} random splits; "
        "bands are one standard deviation over splits, as in the paper. All panels share one "
        "scale.",
    )


@house_style()
def draw_errors(rows: Rows, size: Size) -> Figure:
    """Error against λ0 with and without dropout."""
    shown = panels(rows)
    columns = 1 if size[0] < 8 or len(shown) == 1 else 2
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(-(-len(shown) // columns), columns, squeeze=False, sharey=True).flat
    for place, (panel, (_, category, cell)) in enumerate(zip(axes, shown, strict=False)):
        for method, (colour, line, name) in STYLES.items():
            errors = sorted(
                cell.where(method=method, metric="error"), key=lambda row: row["precision"]
            )
            x = [row["precision"] for row in errors]
            panel.fill_between(
                x,
                [100 * (row["value"] - row["deviation"]) for row in errors],
                [100 * (row["value"] + row["deviation"]) for row in errors],
                color=colour, alpha=0.16, linewidth=0,
            )  # fmt: skip
            panel.plot(
                x, [100 * row["value"] for row in errors], color=colour, linestyle=line,
                linewidth=1.9, marker="o", markersize=4, markeredgewidth=0, label=name,
            )  # fmt: skip
        panel.set_xscale("log")
        panel.set_title(category)
        panel.set_xlabel("λ0")
        panel.set_ylabel("test error, %")
        panel.tick_params(labelleft=True)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        if place == 0:
            panel.legend(frameon=False, loc="upper left")
    return figure


def range_table(rows: Rows) -> Table:
    """Lowest errors, and where dropout helps."""
    cells = []
    for corpus, category, panel in panels(rows):
        found = better_range(panel)
        ridge, dropout = lowest(panel, "ridge"), lowest(panel, "dropout")
        cells.append(
            [
                f"{category}, {corpus}",
                f"{panel.value(metric='documents'):,.0f}",
                f"{panel.value(metric='features'):,.0f}",
                f"{panel.value(metric='splits'):,.0f}",
                f"{100 * ridge['value']:.2f} ± {100 * ridge['deviation']:.2f}",
                f"{ridge['precision']:g}",
                f"**{100 * dropout['value']:.2f} ± {100 * dropout['deviation']:.2f}**"
                if dropout["value"] < ridge["value"]
                else f"{100 * dropout['value']:.2f} ± {100 * dropout['deviation']:.2f}",
                f"{dropout['precision']:g}",
                f"{found[0]['precision']:g} to {found[-1]['precision']:g}" if found else "nowhere",
            ]
        )
    return Table(
        "Lowest errors, and where dropout helps",
        (
            "category",
            "documents",
            "features",
            "splits",
            "without dropout, %",
            "at λ0",
            "dropout, %",
            "at λ0",
            "dropout is better for λ0",
        ),
        cells,
        "With standard deviations over splits. Dropout counts as better where its mean error "
        "is lower by four standard errors over splits, paired. Splits overlap, so these "
        "errors apply to these documents, not to new ones. The λ0 with the lowest test error "
        "is selected in hindsight, for both methods. The paper prints no numbers.",
    )


def difference_table(rows: Rows, corpus: str) -> Table:
    """What each rate changes at every λ0."""
    changes = rows.where(metric="difference")
    drops = sorted(changes.distinct("drop"))
    columns = [
        (category, drop, panel.where(drop=drop))
        for _, category, panel in panels(changes)
        for drop in drops
    ]
    return Table(
        f"Change of the error with dropout, in points: {CORPORA[corpus]}",
        ("λ0", *(f"{category} {drop:g}" for category, drop, _ in columns)),
        [
            [f"{p:g}", *(change(column.row(precision=p)) for _, _, column in columns)]
            for p in sorted(changes.distinct("precision"))
        ],
        "For each category and f: error with dropout minus error without, at the same λ0 and "
        "on the same splits, with standard errors over splits. Bold: dropout is better. "
        "Elsewhere it is not: a large λ0 already regularises too much.",
    )


def change(row: Row) -> str:
    """A difference in points with its standard error, bold where dropout is better."""
    text = f"{100 * row['value']:+.1f} ± {100 * row['error']:.1f}".replace("-", "−")
    return f"**{text}**" if row["value"] < 0 else text


def spoken(splits: Sequence[float]) -> str:
    """Numbers of splits in words."""
    return " and ".join(f"{count:.0f}" for count in splits)


CLAIMS = (
    Claim(
        "Dropout significantly improves generalization for a wide range of λ0.",
        "figure 2, four categories; no numbers",
        "In every category dropout's mean error is lower by more than four standard errors over "
        "splits, paired, at neighbouring values of λ0 whose ends are at least a factor 100 apart.",
        improves_widely,
    ),
    Claim(
        "Dropout is also better with the best λ0 of each method.",
        "figure 2, four categories; no numbers",
        "In every category dropout's lowest mean error over λ0 is below that of ridge regression.",
        better_at_best,
    ),
)

PAGE = Page(CLAIMS, exhibits)
