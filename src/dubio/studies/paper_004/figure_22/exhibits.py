"""The tables and drawings of attacks: rows in, pictures out. Nothing here trains."""

from functools import partial
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubio.report.ink import GREEN, NARROW, house_style
from dubio.studies.paper_004.figure_22.claims import PAPERS, TRANSFERRED, WHITE_BOX
from dubio.studies.paper_004.legend import (
    GAUSSIAN,
    WAY_LINES,
    WAY_NAMES,
    Line,
    Way,
)
from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

CNN: Way = ("cnn", "pass")
NAMES: dict[Way, str] = {**WAY_NAMES, CNN: "the convolutional network itself"}
MIXTURES = ("mixture", "cold mixture")
LINES: dict[Way, Line] = {
    **{way: line for way, line in WAY_LINES.items() if way[0] not in MIXTURES},
    CNN: {"color": GREEN, "linestyle": (0, (2, 1.5)), "marker": "h"},
}
ATTACKS = {TRANSFERRED: "Transferred", WHITE_BOX: "White-box"}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "robustness",
            "Accuracy and entropy against the size of the change",
            "Accuracy, and below it entropy, against ε, transferred on the left and white-box on "
            "the right, a line for each method",
            partial(draw, rows),
            wide=(12.0, 8.2),
            narrow=(5.0, 16.5),
            note="Transferred: the images are the same for all and made with the convolutional "
            "network, whose own accuracy on them is drawn, too. White-box: every network has its "
            "own, and a network that is averaged over draws is attacked through draws. Bands are "
            "a standard error from the choice of images. Entropy is the mean, in nats; a network "
            "that notices the attack is in more doubt where it is less accurate. Mixtures are in "
            "the tables. Of the first restart.",
        ),
        *(accuracy_table(rows, attack) for attack in ATTACKS),
    ]


def accuracy_table(rows: Rows, attack: str) -> Table:
    """Accuracy in percent, a line for each method."""
    own = rows.where(metric="accuracy", attack=attack)
    sizes = own.distinct("epsilon")

    def cells(way: Way) -> list[str]:
        method, reading = way
        part = own.where(method=method, reading=reading)
        return [
            with_error([100 * v for v in part.where(epsilon=epsilon).values()], 1)
            for epsilon in sizes
        ]

    lines = [[name, *cells(w)] for w, name in NAMES.items() if own.where(method=w[0], reading=w[1])]
    if attack == TRANSFERRED:
        lines += [
            [f"paper: {NAMES[way]}, lost", *(paper_cell(way, epsilon) for epsilon in sizes)]
            for way in PAPERS
        ]
    return Table(
        f"{ATTACKS[attack]}: accuracy in percent",
        ("ε", *(f"{epsilon:g}" for epsilon in sizes)),
        lines,
        f"Of {own[0]['cases']:,} test images. ± is a standard error over restarts, if there are "
        "several. The paper gives points lost at 0.05, and one accuracy at 0.1."
        if attack == TRANSFERRED
        else "The paper has no such attack.",
    )


def paper_cell(way: Way, epsilon: float) -> str:
    """What the text of the paper says."""
    if epsilon == 0.05:
        return f"−{PAPERS[way]}"
    return "84 left" if epsilon == 0.1 and way == GAUSSIAN else "–"


@house_style()
def draw(rows: Rows, size: Size) -> Figure:
    """Accuracy above, entropy below; a column for each attack."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    grid = figure.subplots(*((4, 1) if narrow else (2, 2)), squeeze=False)
    panels = list(grid.flat)
    handles: dict[str, Any] = {}
    first = rows.where(restart=1)
    kinds = [(metric, attack) for metric in ("accuracy", "entropy") for attack in ATTACKS]
    for axes, (metric, attack) in zip(panels, kinds, strict=True):
        for way, style in LINES.items():
            shown = WHITE_BOX if way == CNN and attack == TRANSFERRED else attack
            if way == CNN and attack == WHITE_BOX:
                continue
            method, reading = way
            curve = first.where(metric=metric, attack=shown, method=method, reading=reading)
            x, y = curve.values("epsilon"), curve.values()
            (handles[NAMES[way]],) = axes.plot(x, y, linewidth=1.6, markersize=6, **style)
            if metric == "accuracy":
                noise = curve.values("error")
                axes.fill_between(
                    x,
                    [v - e for v, e in zip(y, noise, strict=True)],
                    [v + e for v, e in zip(y, noise, strict=True)],
                    color=style["color"],
                    alpha=0.12,
                    linewidth=0,
                )
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1 if metric == "accuracy" else None)
        axes.set_title(f"{ATTACKS[attack]}: {metric}")
        axes.set_xlabel("ε, of pixels from 0 to 1")
        axes.set_ylabel(metric if metric == "accuracy" else "entropy (nats)")
        if metric == "accuracy":
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=1 if narrow else 3,
        handlelength=3.2,
        frameon=False,
    )
    return figure
