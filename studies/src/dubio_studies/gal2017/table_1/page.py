"""The drawings of table 1 and figure 7: rows in, pictures out. Nothing here trains."""

import math
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.class_table import class_table
from dubio.report.exhibits import Plot, Size, Table
from dubio.report.scenes import Scene, draw_strips
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.table_1.claims import CLAIMS, IOU, PUBLISHED
from dubio_studies.gal2017.table_1.ledger import printed_numbers
from dubio_studies.scenes.reading import CONCRETE, of, percent, values
from dubio_studies.scenes.strips import read_strips

INFORMATION = 0.02  # nats: draws of these forks differ little
HEIGHTS = (4.0, 14.1)  # inches of two strips, on a desk and on a phone


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    shown: list[Table | Plot] = [iou_table(rows), by_class(rows)]
    colours = {row["class"]: row["value"] for row in rows.where(metric="colour")}
    backdrop = (row for row in rows if "kind" not in row)
    if strips := read_strips(Rows([*of(rows, CONCRETE), *backdrop]), len(colours)):
        shown.append(
            Plot(
                "scenes",
                "Figure 7: test images, predictions and uncertainty",
                "Two street scenes from left to right: photograph, labels, prediction, entropy, "
                "mutual information, and errors",
                partial(draw, strips, colours),
                wide=(12.0, HEIGHTS[0]),
                narrow=(5.0, HEIGHTS[1]),
                note="Concrete dropout, the first fork. The maps have every third pixel. Entropy "
                "is the total uncertainty; mutual information, the epistemic part, is a "
                "hundredth of it. The scales are fixed, and void pixels are grey.",
            )
        )
    return shown


def draw(strips: list[Scene], colours: dict[str, str], size: Size) -> Figure:
    """A strip for each scene."""
    return draw_strips(
        strips,
        list(colours),
        colours=list(colours.values()),
        width=size[0],
        most_information=INFORMATION,
    )


def iou_table(rows: Rows) -> Table:
    """Ours next to the paper's."""
    forks = len(values(rows, CONCRETE, IOU))
    return Table(
        "Table 1: mean IoU on CamVid's test images, %",
        ("method", "mean IoU", "published", "accuracy", "log-likelihood"),
        [
            [
                method.name,
                percent(rows, method, IOU),
                f"{published:.1f}",
                percent(rows, method, "accuracy"),
                with_error([-value for value in values(rows, method, "nll")], 3),
            ]
            for method, published in PUBLISHED.items()
        ],
        f"Means over {forks} forks, ± standard errors, which do not include the variation "
        "that forks share. IoU is over the whole data set. The log-likelihood is in nats per "
        "labelled pixel. MC dropout and Concrete average over draws; the others make one "
        "pass without noise. Published: FC-DenseNet-103 at 480 × 360.",
    )


def by_class(rows: Rows) -> Table:
    """The IoU of every class, means over forks."""
    classes = rows.where(metric="IoU").distinct("class")
    scores = {}
    for method in PUBLISHED:
        own = of(rows, method).where(metric="IoU")
        each = [own.where(**{"class": name}).values() for name in classes]
        scores[method.name] = [fmean(found) if found else math.nan for found in each]
    return class_table(scores, classes)


PAGE = Page(CLAIMS, exhibits, examined="small-d99e2afa", ledger=printed_numbers)
