"""What Clark et al. 2022 says of calibration, and how our rows are shown."""

from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.clark2022.legend import (
    AUTHORS,
    BAYESIAN,
    COLD_GAUSSIAN,
    DROPOUT,
    GAUSSIAN,
    PLAIN,
    SLOW_GAUSSIAN,
    WAY_LINES,
    WAY_NAMES,
    Way,
)
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Row, Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

CASES = 20  # fewer in a bin are not drawn
COLUMNS = ("", "accuracy %", "NLL", "Brier", "ECE %", "ACE %", "confidence − accuracy, points")
VARIANTS = {  # loss and softmaxes, and what a panel of them is called
    ("cross-entropy", 1): "One softmax",
    ("double softmax", 1): "Trained with two, read after one",
    ("double softmax", 2): "Trained with two, read after two",
}


def own(rows: Rows, way: Way, loss: str = "cross-entropy", softmaxes: int = 1) -> Rows:
    """The rows of a method that is read in one way."""
    method, reading = way
    return rows.where(method=method, reading=reading, loss=loss, softmaxes=softmaxes)


def mean(rows: Rows, metric: str, field: str = "value") -> float:
    """A number, averaged over restarts."""
    return fmean(rows.where(metric=metric).values(field))


def highest_bin(rows: Rows) -> Row | None:
    """The bin of the surest predictions, of the first restart; None if it is empty."""
    row = rows.where(metric="reliability", restart=1)[-1]
    return row if row["cases"] else None


def is_calibrated(rows: Rows) -> Finding:
    """ECE of the Bayesian networks and of the plain one, and which are below it."""
    errors = {way: mean(own(rows, way), "ece") for way in (PLAIN, *BAYESIAN)}
    noise = {way: mean(own(rows, way), "ece", "error") for way in errors}
    shown = [f"{WAY_NAMES[w]} {100 * e:.2f} ± {100 * noise[w]:.2f} %" for w, e in errors.items()]
    below = [way for way in BAYESIAN if errors[way] < errors[PLAIN]]
    shown.append(f"below the plain network's: {'; '.join(WAY_NAMES[w] for w in below) or 'none'}")
    return Finding("; ".join(shown), GAUSSIAN in below)


def is_overconfident(rows: Rows) -> Finding:
    """How far confidence is above accuracy."""
    shown, agrees = [], True
    for way in (PLAIN, DROPOUT):
        excess, noise = (mean(own(rows, way), "overconfidence", f) for f in ("value", "error"))
        shown.append(f"{WAY_NAMES[way]} {100 * excess:+.2f} ± {100 * noise:.2f} points")
        agrees &= excess > 2 * noise
    return Finding("; ".join(shown), agrees)


def is_right_when_sure(rows: Rows) -> Finding:
    """Accuracy in the highest bin."""
    shares, shown = {}, []
    for way in (PLAIN, DROPOUT, GAUSSIAN, SLOW_GAUSSIAN, COLD_GAUSSIAN, AUTHORS):
        row = highest_bin(own(rows, way))
        shares[way] = -1.0 if row is None else float(row["value"])
        shown.append(
            f"{WAY_NAMES[way]} never so sure"
            if row is None
            else f"{WAY_NAMES[way]} {row['value']:.2%} of {row['cases']:,}"
        )
    agrees = shares[GAUSSIAN] > max(shares[PLAIN], shares[DROPOUT])
    return Finding("; ".join(shown), agrees)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        right_table(rows),
        Plot(
            "reliability",
            "Accuracy against confidence",
            "Accuracy against confidence with the diagonal, one line per method; one panel "
            "for the correct loss and two for the authors'",
            partial(draw_reliability, rows),
            wide=(12.0, 5.6),
            narrow=(5.0, 15.0),
            note=f"Bins with at least {CASES} images; their accuracy has a standard error of up "
            "to 11 points. On the diagonal the network is calibrated; above it it is "
            "underconfident, below it overconfident. First restart.",
        ),
        Plot(
            "confidences",
            "Distribution of the confidence",
            "Histograms of the confidence, one panel per method, on a logarithmic scale",
            partial(draw_confidences, rows),
            wide=(12.0, 7.0),
            narrow=(5.0, 10.5),
            note="The share of test images in each of the 15 bins, on a logarithmic scale. First "
            "restart.",
        ),
        double_table(rows),
    ]


def right_table(rows: Rows) -> Table:
    """All methods with the right loss."""
    cases = rows.where(metric="ece")[0]["cases"]
    return Table(
        "Calibration",
        COLUMNS,
        [[name, *cells(own(rows, way))] for way, name in WAY_NAMES.items()],
        f"{cases:,} test images. ECE has 15 bins of equal width; ACE has 15 bins of equal "
        "mass for every class. ± of the ECE and of the last column is a bootstrap standard "
        "error over images; elsewhere it is a standard error over restarts, if there are "
        "several. NLL is in nats; the Brier score is between 0 and 2.",
    )


def double_table(rows: Rows) -> Table:
    """The authors' loss."""
    found = rows.where(loss="double softmax").distinct("method")
    return Table(
        "Trained with a double softmax",
        COLUMNS,
        [
            [f"{name}, {('one', 'two')[softmaxes - 1]}", *cells(part)]
            for way, name in WAY_NAMES.items()
            if way[0] in found
            for softmaxes in (1, 2)
            if (part := own(rows, way, "double softmax", softmaxes))
        ],
        "The variant of an earlier version of the authors' code, whose loss takes the "
        "softmax of probabilities. One: the probabilities are the network's outputs. Two: "
        "they are the softmax of these, as in the loss, and at most e/(e + 9) = 23 %.",
    )


def cells(rows: Rows) -> list[str]:
    """The numbers of one method."""

    def value(metric: str, digits: int, factor: float = 1.0) -> str:
        return with_error([factor * v for v in rows.where(metric=metric).values()], digits)

    def with_noise(metric: str, sign: str = "") -> str:
        level, noise = (100 * mean(rows, metric, field) for field in ("value", "error"))
        return f"{level:{sign}.2f} ± {noise:.2f}".replace("-", "−")

    return [
        value("accuracy", 2, 100.0),
        value("nll", 4),
        value("brier", 4),
        with_noise("ece"),
        value("ace", 2, 100.0),
        with_noise("overconfidence", "+"),
    ]


@house_style()
def draw_reliability(rows: Rows, size: Size) -> Figure:
    """A panel for each loss and number of softmaxes."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(3, 1) if narrow else figure.subplots(1, 3, sharey=True)
    handles: dict[str, Any] = {}
    for axes, ((loss, softmaxes), title) in zip(panels, VARIANTS.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=RULE, linewidth=1.2, linestyle="--", zorder=0)
        for way, style in WAY_LINES.items():
            part = own(rows, way, loss, softmaxes).where(metric="reliability", restart=1)
            bins = [row for row in part if row["cases"] >= CASES]
            if bins:
                (handles[WAY_NAMES[way]],) = axes.plot(
                    [row["confidence"] for row in bins],
                    [row["value"] for row in bins],
                    markersize=4.5,
                    linewidth=1.8,
                    **style,
                )
        axes.set_title(title)
        axes.set_xlabel("confidence")
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("accuracy")
    names = [name for name in WAY_NAMES.values() if name in handles]
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=1 if narrow else 4,
        handlelength=3.2,
        frameon=False,
    )
    return figure


@house_style()
def draw_confidences(rows: Rows, size: Size) -> Figure:
    """A panel for each method; the authors' loss behind the right one."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    ways = [way for way in WAY_LINES if own(rows, way)]
    columns = 2 if narrow else 4
    grid = figure.subplots(-(-len(ways) // columns), columns, sharex=True, sharey=True)
    panels = list(grid.flat)
    cases = rows.where(metric="ece")[0]["cases"]
    for spare in panels[len(ways) :]:
        spare.set_axis_off()
    for axes, way in zip(panels, ways, strict=False):
        draw_steps(axes, rows, way, "double softmax", cases, QUIET)
        draw_steps(axes, rows, way, "cross-entropy", cases, VERMILION)
        axes.set_yscale("log")
        axes.set_ylim(0.5 / cases, 1.5)
        axes.set_xlim(0, 1)
        axes.set_title(WAY_NAMES[way], fontsize=10)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    for axes in panels[len(ways) - columns : len(ways)]:  # the lowest of each column
        axes.set_xlabel("confidence")
        axes.tick_params(axis="x", labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of images")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_steps(axes: Axes, rows: Rows, way: Way, loss: str, cases: int, colour: str) -> None:
    """A histogram of confidences, if there are networks with this loss."""
    shares = [
        count / cases
        for count in own(rows, way, loss).where(metric="reliability", restart=1).values("cases")
    ]
    if shares:
        edges = [k / len(shares) for k in range(len(shares) + 1)]
        floor = 0.5 / cases
        axes.stairs(shares, edges, baseline=floor, fill=True, color=colour, alpha=0.14)
        name = "one softmax" if loss == "cross-entropy" else "trained with two, read after one"
        axes.stairs(shares, edges, baseline=floor, color=colour, linewidth=1.5, label=name)


CLAIMS = (
    Claim(
        "The Bayesian network's calibration curve is close to the diagonal, the plain network's is "
        "not.",
        "Figure 19, without numbers",
        "ECE (15 bins, all test images) of Bayes by Backprop with the Gaussian prior, that "
        "of the figure, is below the plain network's; ± is a bootstrap standard error from "
        "the choice of images. Other Bayesian networks are shown for information.",
        is_calibrated,
        otherwise=Refuted(
            "With the full KL the Bayesian network is underconfident, by 2.2 points. By the "
            "authors' protocol the claim holds: 0.76 ± 0.10 % against 1.12 ± 0.10 %."
        ),
    ),
    Claim(
        "The plain network and the one with dropout are overconfident.",
        "Figure 19, without numbers",
        "Mean confidence is above accuracy by more than two standard errors, for the plain "
        "network and for dropout without noise.",
        is_overconfident,
    ),
    Claim(
        "With scores around 1 the Bayesian network is always right, the others are not.",
        "About 70 % right (plain), 90 % (dropout), 100 % (Bayesian). Since the plain network "
        "errs on 1.83 % of all images, at most 6 % of them can have such scores and be wrong "
        "so often",
        "In the highest of 15 bins the Bayesian network (Gaussian prior, first restart) is "
        "right more often than the plain network and standard dropout. A less confident "
        "network has fewer and easier images there, so their numbers are given.",
        is_right_when_sure,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-4d8a096b")
