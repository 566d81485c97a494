"""The tables and drawings of table 1 and figure 2: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import (
    BLUE,
    GREEN,
    INK,
    NARROW,
    PURPLE,
    QUIET,
    RULE,
    VERMILION,
    house_style,
)
from dubio_studies.boluki2020.table_1_cifar10.claims import CLAIMS
from dubio_studies.boluki2020.table_1_cifar10.ledger import printed_numbers
from dubio_studies.boluki2020.table_1_cifar10.reading import (
    AUTHORS,
    CONCRETE,
    GAUSSIAN,
    LBD_LAYER,
    LBD_SHARED,
    LBD_UNIT,
    MC,
    NAMES,
    PUBLISHED,
    REGULAR,
    TRUNKS,
    Variant,
    shown,
    values,
)
from dubio_studies.framework.mean_curve import draw_mean_curve
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

LINES = {
    LBD_UNIT: (VERMILION, "-"),
    LBD_LAYER: (PURPLE, "-"),
    LBD_SHARED: (PURPLE, ":"),
    CONCRETE: (BLUE, "-"),
    GAUSSIAN: (GREEN, "-"),
    MC: (INK, "-"),
    REGULAR: (QUIET, "--"),
}
DETAILS = {
    "pavgpu, image": "PAvgPU",
    "pavgpu, validation": "validation bounds",
    "pavgpu, ranks": "on ranks",
    "accurate if certain": "P(accurate | certain)",
    "uncertain if inaccurate": "P(uncertain | inaccurate)",
    "error auroc, image": "error AUROC",
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    trunks = rows.distinct("trunk")
    return [
        *(result_table(rows, trunk) for trunk in trunks),
        Plot(
            "pavgpu",
            "Figure 2: PAvgPU against the threshold",
            "PAvgPU against the entropy threshold, one line per kind of dropout and one "
            "panel per trunk; and the same with entropies summed over batches",
            partial(draw_curves, rows),
            wide=(12.0, 4.6 * len(trunks)),
            narrow=(5.0, 9.0 * len(trunks)),
            note="t runs from the smallest to the largest entropy of the test photographs; bands "
            "are two standard errors over networks. At t = 0 all predictions are uncertain, "
            "and PAvgPU is the share of errors; at t = 1 all are certain, and it is the "
            "accuracy. So the mean over t is high when most entropies are near the smallest: "
            "it rewards overconfidence. Right: each photograph gets the sum of the entropies "
            "of its batch of 100, as in the authors' code; this says nothing about the "
            "photograph.",
        ),
        *(detail_table(rows, trunk) for trunk in trunks),
        *(authors_table(rows, trunk) for trunk in trunks),
        rate_table(rows),
        Plot(
            "training",
            "Validation error during training",
            "Validation error of one pass without noise against the epoch, one line per kind "
            "of dropout and one panel per trunk",
            partial(draw_training, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 8.0),
            note="One pass without noise. Bands are two standard errors over networks.",
        ),
    ]


def result_table(rows: Rows, trunk: str) -> Table:
    """Table 1, CIFAR-10."""
    own = shown(rows, NAMES)

    def cells(variant: Variant) -> list[str]:
        published = PUBLISHED.get(variant)
        theirs = ["–", "–"]
        if published is not None:
            pavgpu = published.pavgpu
            theirs = [
                f"{100 * published.accuracy:.2f}",
                "–" if pavgpu is None else f"{100 * pavgpu:.2f}",
            ]
        return [
            NAMES[variant],
            percent(rows, trunk, variant, "accuracy"),
            theirs[0],
            percent(rows, trunk, variant, "pavgpu, image"),
            theirs[1],
            with_error(values(rows, trunk, variant, "nll"), 4),
            percent(rows, trunk, variant, "ece"),
        ]

    cases = rows.where(metric="accuracy")[0]["cases"]
    images = rows.where(metric="images")[0]["value"]
    return Table(
        f"Table 1, CIFAR-10: heads on {TRUNKS[trunk]}",
        ("method", "accuracy", "published", "mean PAvgPU", "published", "NLL", "ECE"),
        [cells(variant) for variant in own],
        f"Percent; the NLL is in nats. {images:,} training photographs, {cases:,} test "
        f"photographs. Means over {len(values(rows, trunk, next(iter(own)), 'accuracy'))} "
        "networks; ± is a standard error over them. All are tested on the same photographs. "
        "Their choice adds an error of about 0.3 points to an accuracy, but little to "
        "differences. Published numbers are for VGG19 with all layers trained and 224 × 224 "
        "pixels; the paper does not say which kind of rates its LBD has there.",
    )


def detail_table(rows: Rows, trunk: str) -> Table:
    """Uncertainty by several measures."""
    own = shown(rows, NAMES)
    return Table(
        f"Error detection: heads on {TRUNKS[trunk]}",
        ("method", *DETAILS.values()),
        [
            [name, *(percent(rows, trunk, variant, metric) for metric in DETAILS)]
            for variant, name in own.items()
        ],
        "Percent. PAvgPU is a mean over thresholds between the smallest and the largest "
        "entropy of the test or the validation photographs. On ranks, the shape of the "
        "histogram of entropies does not matter. The two shares use the mean entropy as "
        "threshold. AUROC is the probability that an error has a higher entropy than a right "
        "answer; 50 % is guessing.",
    )


def authors_table(rows: Rows, trunk: str) -> Table:
    """What the defects of the authors' code do to the numbers."""
    variants = shown(rows, {**NAMES, **AUTHORS})
    metrics = ("accuracy", "pavgpu, image", "pavgpu, batch", "error auroc, batch", "ece")
    return Table(
        f"With the authors' scoring: heads on {TRUNKS[trunk]}",
        (
            "method", "accuracy", "PAvgPU by photograph", "PAvgPU summed over batches",
            "error AUROC of these sums", "ECE",
        ),
        [
            [name, *(percent(rows, trunk, variant, metric) for metric in metrics)]
            for variant, name in variants.items()
        ],
        "Percent. Sums are over batches of 100 test photographs. Rows with a double softmax "
            "were trained and tested with it, as in the authors' code: then no probability "
            "exceeds 23.2 %, and no entropy is below 2.2 of at most 2.3 nats.",
    )  # fmt: skip


def rate_table(rows: Rows) -> Table:
    """Learned rates by layer."""

    def cells(trunk: str, variant: Variant) -> list[str]:
        own = rows.where(trunk=trunk, method=variant.method, loss=variant.loss)
        drops = own.where(metric="drop")
        units = own.where(metric="drop quantile")

        def spread(layer: int) -> str:
            low, high = (
                [fmean(units.where(layer=layer, level=level).values()) for level in (0.1, 0.9)]
                if units
                else (0.0, 0.0)
            )
            return f" ({low:.2f} to {high:.2f})" if units else ""

        layers = [
            f"{with_error(drops.where(layer=layer).values(), 3)}{spread(layer)}" for layer in (1, 2)
        ]
        return [TRUNKS[trunk], {**NAMES, **AUTHORS}[variant], *layers]

    learned = shown(rows, {LBD_UNIT: "", LBD_LAYER: "", LBD_SHARED: "", CONCRETE: "", GAUSSIAN: ""})
    return Table(
        "Learned rates",
        ("trunk", "method", "after hidden layer 1", "after hidden layer 2"),
        [cells(trunk, v) for trunk in rows.distinct("trunk") for v in learned],
        "Dropout rates; ± is a standard error over networks. Brackets: the 10th and 90th "
        "percentiles over units. The rate of Gaussian noise with variance α is α/(1 + α).",
    )


def percent(rows: Rows, trunk: str, variant: Variant, metric: str) -> str:
    """A cell in percent."""
    return with_error([100 * value for value in values(rows, trunk, variant, metric)])


@house_style()
def draw_curves(rows: Rows, size: Size) -> Figure:
    """PAvgPU over t by photographs and by batches, a row of panels for each trunk."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    cells = [(trunk, over) for trunk in rows.distinct("trunk") for over in ("image", "batch")]
    shape = (len(cells), 1) if narrow else (len(cells) // 2, 2)
    panels = figure.subplots(*shape, sharey=True, squeeze=False).flat
    texts = {
        "image": "entropy of each photograph",
        "batch": "summed over batches, as in the authors' code",
    }
    for panel, (trunk, over) in zip(panels, cells, strict=True):
        for variant, name in shown(rows, NAMES).items():
            colour, line = LINES[variant]
            own = rows.where(trunk=trunk, metric="curve", over=over, **variant._asdict())
            places = own.distinct("t")
            draw_mean_curve(
                panel, places, [own.where(t=t).values() for t in places],
                colour=colour, line=line, label=name,
            )  # fmt: skip
        panel.set_title(f"{TRUNKS[trunk]}: {texts[over]}")
        panel.set_xlabel("threshold t")
        panel.set_ylabel("PAvgPU")
        finish(panel)
    legend(figure, panels[0], size)
    return figure


@house_style()
def draw_training(rows: Rows, size: Size) -> Figure:
    """Validation error by epoch, a panel for each trunk."""
    figure = Figure(figsize=size, layout="constrained")
    trunks = rows.distinct("trunk")
    shape = (len(trunks), 1) if size[0] < NARROW else (1, len(trunks))
    panels = figure.subplots(*shape, squeeze=False).flat
    for panel, trunk in zip(panels, trunks, strict=True):
        for variant, name in shown(rows, NAMES).items():
            if variant == REGULAR:  # the network of MC dropout
                continue
            colour, line = LINES[variant]
            own = rows.where(
                trunk=trunk, method=variant.method, loss=variant.loss, metric="watched"
            )
            epochs = own.distinct("epoch")
            draw_mean_curve(
                panel, epochs, [own.where(epoch=k).values() for k in epochs],
                colour=colour, line=line, label=name,
            )  # fmt: skip
        panel.set_title(TRUNKS[trunk])
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_ylabel("validation error")
        finish(panel)
    legend(figure, panels[0], size)
    return figure


def finish(panel: Axes) -> None:
    """Percent on the vertical axis, and quiet lines."""
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panel.grid(axis="y", color=RULE, linewidth=0.6)


def legend(figure: Figure, panel: Axes, size: Size) -> None:
    """One legend for all panels, below them: that of the first."""
    handles, labels = panel.get_legend_handles_labels()
    columns = 1 if size[0] < NARROW else 4
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


PAGE = Page(CLAIMS, exhibits, examined="small-b8c848ee", ledger=printed_numbers)
