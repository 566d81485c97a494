"""The drawings of CamVid in table 1 and figure 2: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import (
    BLUE,
    GREEN,
    INK,
    NARROW,
    QUIET,
    RULE,
    VERMILION,
    house_style,
)
from dubio.report.rates import draw_rates
from dubio_studies.boluki2020.table_1_camvid.claims import CLAIMS, CODE, METHODS, METRICS, PUBLISHED
from dubio_studies.boluki2020.table_1_camvid.ledger import printed_numbers
from dubio_studies.framework.mean_curve import draw_mean_curve
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page
from dubio_studies.scenes.reading import (
    CONCRETE,
    GAUSSIAN,
    LBD,
    MC,
    REGULAR,
    SceneMethod,
    curve,
    percent,
    values,
)

LINES = {
    LBD: (VERMILION, "-"),
    CONCRETE: (BLUE, "-"),
    GAUSSIAN: (GREEN, "-"),
    MC: (INK, "-"),
    REGULAR: (QUIET, "--"),
}
PANELS = {
    "PAvgPU": "PAvgPU",
    "PAvgPU: accurate if certain": "P(accurate | certain)",
    "PAvgPU: uncertain if inaccurate": "P(uncertain | inaccurate)",
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        scores_table(rows),
        Plot(
            "pavgpu",
            "Figure 2: PAvgPU over thresholds",
            "PAvgPU and the two probabilities it combines, against the entropy threshold, "
            "one line for each of five methods",
            partial(draw_curves, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 9.0),
            note="Means over forks, with bands of two standard errors. The threshold is min + t "
            "(max − min) of the entropies of the validation images. At the left end PAvgPU "
            "is the share of inaccurate patches, at the right end that of accurate ones.",
        ),
        uncertainty_table(rows),
        code_table(rows),
        Plot(
            "rates",
            "Learned rates by layer",
            "Dropout rates of the 15 layers of the middle block, a line for each of three methods",
            partial(draw_learned, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 4.4),
            note="Means over forks, with standard errors. A Gaussian mask has the rate of the "
            "Bernoulli mask with the same variance.",
        ),
    ]


def scores_table(rows: Rows) -> Table:
    """Ours next to the paper's."""
    heads = [head for metric in METRICS for head in (metric, "published")]
    cells = [
        [
            method.name,
            *(
                cell
                for metric, number in zip(METRICS, published, strict=True)
                for cell in (percent(rows, method, metric), f"{number:.2f}")
            ),
        ]
        for method, published in PUBLISHED.items()
    ]
    return Table(
        "Table 1, CamVid: accuracy, IoU and PAvgPU, %",
        ("method", *heads),
        cells,
        f"Means over {len(values(rows, LBD, METRICS[0]))} forks, ± standard errors, which do "
        "not include the variation that forks share. IoU is over the whole data set. PAvgPU "
        "uses patches of 2 × 2 pixels; its mean is over all thresholds. Dropout 0.2 makes "
        "one pass without noise, the others average over draws. Published: FC-DenseNet-103 "
        "at 480 × 360; its IoU is a mean over images.",
    )


def uncertainty_table(rows: Rows) -> Table:
    """Scores of uncertainty that do not depend on the histogram of entropies."""
    return Table(
        "Other measures of the same predictions",
        ("method", "PAvgPU on ranks, %", "error AUROC, %", "log-likelihood"),
        [
            [
                method.name,
                percent(rows, method, "mean rank PAvgPU"),
                percent(rows, method, "error AUROC"),
                with_error([-value for value in values(rows, method, "nll")], 3),
            ]
            for method in METHODS
        ],
        "On ranks, each threshold calls a fixed share of patches certain, whatever the "
        "entropies are. The AUROC is the probability that a wrong pixel has a higher entropy "
        "than a right one. The log-likelihood is in nats per labelled pixel.",
    )


def code_table(rows: Rows) -> Table:
    """What the authors' public code would have reported."""
    heads = ("mean PAvgPU", *CODE, "mean IoU", "IoU by image", "mean IoU with void in unions")
    return Table(
        "The same predictions, scored as in the authors' public code, %",
        ("method", *heads),
        [[method.name, *(percent(rows, method, name) for name in heads)] for method in METHODS],
        "Bands: patches are two whole rows, because rows are sliced twice. Sums: every pixel "
        "of an image gets the sum of the image's entropies, as their classification code "
        "does for a batch. Void in unions: the mean over images of the IoU of their classes, "
        "where predictions for unlabelled pixels count as false.",
    )


@house_style()
def draw_curves(rows: Rows, size: Size) -> Figure:
    """PAvgPU and its two parts over thresholds, a line for each method."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(3, 1) if narrow else figure.subplots(1, 3)
    for panel, (metric, title) in zip(panels, PANELS.items(), strict=True):
        for method, (colour, line) in LINES.items():
            places, found = curve(rows, method, metric)
            draw_mean_curve(panel, places, found, colour=colour, line=line, label=method.name)
        panel.set_title(title)
        panel.set_xlabel("threshold t of the entropy")
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 2 if narrow else len(labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw_learned(rows: Rows, size: Size) -> Figure:
    """Learned rates at the end of training."""
    drops = rows.where(metric="drop")
    layers = sorted(drops.distinct("layer"))
    learned = (LBD, CONCRETE, GAUSSIAN)

    def by_layer(method: SceneMethod) -> list[list[float]]:
        own = drops.where(kind=method.kind, epoch=max(drops.distinct("epoch")))
        return [own.where(layer=layer).values() for layer in layers]

    found = {method.name: by_layer(method) for method in learned}
    rates = {name: [fmean(each) for each in own] for name, own in found.items()}
    errors = {name: [standard_error(each) or 0.0 for each in own] for name, own in found.items()}
    return draw_rates(rates, [str(layer) for layer in layers], size, errors=errors)


PAGE = Page(CLAIMS, exhibits, examined="small-316ec202", ledger=printed_numbers)
