"""The drawings of table 2: rows in, pictures out. Nothing here trains."""

from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import RULE, house_style
from dubio.report.lines import draw_key, styled
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.table_2.claims import CLAIMS, METHODS
from dubio_studies.scenes.names import BINS, TOP_BINS
from dubio_studies.scenes.reading import CONCRETE, reliability, values

COLUMNS = ("calibration RMSE, weighted", "calibration RMSE, unweighted", "ECE")


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "calibration",
            "Table 2: predicted probability against frequency",
            "One line for each of four methods, near the diagonal of perfect calibration",
            partial(draw_reliability, rows),
            wide=(7.0, 7.2),
            narrow=(5.0, 5.2),
            note=f"Probabilities of all classes and labelled pixels of the test images, in {BINS} "
            "bins; each curve pools all forks of a method. Below the diagonal a network is "
            "overconfident.",
        ),
        calibration_table(rows),
    ]


@house_style()
def draw_reliability(rows: Rows, size: Size) -> Figure:
    """Frequencies against probabilities, a line for each method."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1.2)
    curves = {method.name: reliability(rows, method) for method in METHODS}
    for name, (confidences, frequencies), style in styled(curves):
        axes.plot(confidences, frequencies, label=name, markersize=5, **style)
    axes.set_aspect("equal")
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("frequency")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(color=RULE, linewidth=0.6)
    draw_key(axes)
    return figure


def calibration_table(rows: Rows) -> Table:
    """Errors of calibration, and the log-likelihood."""
    cells = []
    for method in METHODS:
        errors = [with_error(values(rows, method, name), 4) for name in COLUMNS]
        likelihood = with_error([-value for value in values(rows, method, "nll")], 3)
        cells.append([method.name, *errors, likelihood])
    forks = len(values(rows, CONCRETE, "nll"))
    return Table(
        "Calibration errors",
        ("method", "RMSE, weighted", "RMSE, unweighted", "ECE", "log-likelihood"),
        cells,
        f"Means over {forks} forks, ± standard errors. The RMSE pools all classes in {BINS} "
        "bins; with weights the lowest bin, which has most of the cases, dominates it. ECE "
        f"is for the most likely class, in {TOP_BINS} bins. The log-likelihood is in nats per "
        "labelled pixel. MC dropout and Concrete average over draws; the others make one "
        "pass without noise.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-b0035cf1")
