"""The tables and drawings of frozen and trained networks: rows in, pictures out."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.boluki2020.cifar10_features.claims import (
    CLAIMS,
    KEY,
    METHODS,
    NAMES,
    mean,
    values,
)
from dubio_studies.boluki2020.table_1_cifar10.reading import PUBLISHED, Variant
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

SCORES = {
    "accuracy": "accuracy",
    "ece": "ECE",
    "error auroc, image": "error AUROC",
    "pavgpu, image": "PAvgPU",
}
COLOURS = {"vgg16": BLUE, "efficientnet-lite0": VERMILION}
LEVELS = ("0", "0.025", "0.5", "0.975", "1")


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        scores_table(rows),
        Plot(
            "accuracy",
            "Accuracy by pixels, frozen and trained",
            "Accuracy of MC dropout against the pixels of an edge, for VGG16 and "
            "EfficientNet-Lite0, frozen and trained",
            partial(draw_accuracy, rows),
            wide=(8.0, 4.6),
            narrow=(5.0, 4.6),
            note="MC dropout. Dashed: frozen, only the head is trained. Solid: all layers are "
            "trained. Grey: published, VGG19 with all layers trained and 224 × 224 pixels.",
        ),
        orders_table(rows),
    ]


def scores_table(rows: Rows) -> Table:
    """All networks by draws."""

    def cells(trunk: str, pixels: int, trained: bool, method: str) -> list[str]:
        own = rows.where(trunk=trunk, pixels=pixels, trained=trained, method=method)
        minutes = [row["cpu_seconds"] / 60 for row in own if "cpu_seconds" in row]
        return [
            NAMES[trunk],
            f"{pixels}",
            "all layers" if trained else "the head",
            METHODS[method],
            *(
                with_error([100 * v for v in values(rows, trunk, pixels, trained, method, metric)])
                for metric in SCORES
            ),
            f"{fmean(minutes):.0f}" if minutes else "–",
        ]

    kinds = [
        (trunk, pixels, trained, method)
        for trunk in NAMES
        for trained in (False, True)
        for pixels in sorted(rows.where(trunk=trunk, trained=trained).distinct("pixels"))
        for method in METHODS
        if values(rows, trunk, pixels, trained, method, "accuracy")
    ]
    images = rows.where(metric="images")[0]["value"]
    cases = rows.where(metric="accuracy")[0]["cases"]
    return Table(
        "Frozen and trained networks on CIFAR-10",
        ("network", "pixels", "trained", "dropout", *SCORES.values(), "minutes"),
        [cells(*kind) for kind in kinds],
        f"Percent, by draws; PAvgPU by entropies of single photographs. {images:,} training "
        f"photographs, {cases:,} test photographs: their choice adds an error of 0.3 points to an "
        "accuracy. Minutes are of one core, without those that features took.",
    )


def orders_table(rows: Rows) -> Table:
    """PAvgPU by summed entropies in random orders."""

    def cells(method: str, prediction: str, name: str) -> list[str]:
        published = PUBLISHED[Variant(method, prediction)].pavgpu
        found = {
            level: values(rows, *KEY, True, method, "pavgpu by order", level=level,
                          prediction=prediction)
            for level in LEVELS
        }  # fmt: skip
        in_file = values(rows, *KEY, True, method, "pavgpu, batch", prediction=prediction)
        return [
            name,
            "–" if published is None else f"{100 * published:.2f}",
            with_error([100 * value for value in in_file]),
            *(with_error([100 * value for value in own], 1) for own in found.values()),
        ]

    kinds = [("dropout", "mean", "regular dropout")]
    kinds += [(method, "draws", name) for method, name in METHODS.items()]
    return Table(
        "PAvgPU of entropies summed over batches, in 1,000 random orders",
        ("dropout", "published", "test file's order", "lowest", "2.5 %", "median", "97.5 %",
         "highest"),
        [cells(*kind) for kind in kinds],
        "Percent; VGG16 with all layers trained, 64 × 64 pixels. As in the authors' code every "
        "photograph has the sum of the entropies of its batch of 100, and thresholds go from the "
        "smallest to the largest of 100 sums.",
    )  # fmt: skip


@house_style()
def draw_accuracy(rows: Rows, size: Size) -> Figure:
    """A line for each network, frozen and trained."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    for trunk, name in NAMES.items():
        for trained, line in ((False, "--"), (True, "-")):
            own = rows.where(trunk=trunk, trained=trained)
            found = {
                pixels: mean(rows, trunk, pixels, trained, "dropout")
                for pixels in sorted(own.distinct("pixels"))
            }
            shown = {pixels: share for pixels, share in found.items() if share is not None}
            panel.plot(
                list(shown), list(shown.values()), line, marker="o", color=COLOURS[trunk],
                label=f"{name}, {'all layers trained' if trained else 'frozen'}",
            )  # fmt: skip
    panel.axhline(PUBLISHED[Variant("dropout")].accuracy, color=QUIET, linewidth=1.0)
    panel.set_xscale("log", base=2)
    ticks = sorted(rows.distinct("pixels"))
    panel.set_xticks(ticks, [f"{tick}" for tick in ticks])
    panel.set_xlabel("pixels of an edge")
    panel.set_ylabel("accuracy")
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panel.grid(axis="y", color=RULE, linewidth=0.6)
    columns = 1 if size[0] < NARROW else 2
    figure.legend(loc="outside lower center", ncols=columns, frameon=False)
    return figure


PAGE = Page(CLAIMS, exhibits, examined="small-5ce203d5")
