"""What Clark et al. 2022 says of its figure 18, and how our rows are shown."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import NARROW, house_style
from dubio_studies.clark2022.causes import CURVES
from dubio_studies.clark2022.legend import LINES, NAMES, widths
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

METHODS = ("plain", "dropout", "gaussian", "slow gaussian", "cold gaussian")
SETTLED = 0.1  # points above the error at the end
TOLERATED = 0.1  # points: the standard error of 1.2 % from the choice of 10,000 test digits

Summary = Callable[[Sequence[float]], float]


def curves(rows: Rows, method: str, width: int) -> list[list[float]]:
    """Test error in percent by epoch, of each restart."""
    found = rows.where(method=method, width=width, metric="error")
    return [
        [round(100 * value, 6) for value in found.where(restart=restart).values()]
        for restart in found.distinct("restart")
    ]


def final(curve: Sequence[float]) -> float:
    """The error at the end."""
    return curve[-1]


def settled(curve: Sequence[float]) -> float:
    """The first epoch from which on the error is about that at the end, or lower."""
    unsettled = [e for e, error in enumerate(curve, start=1) if error > final(curve) + SETTLED]
    return max(unsettled, default=0) + 1


def means(rows: Rows, summary: Summary) -> dict[int, dict[str, float]]:
    """A number of the curves by width and method, averaged over restarts."""
    return {
        width: {method: fmean(map(summary, curves(rows, method, width))) for method in METHODS}
        for width in widths(rows)
    }


def settles_first(rows: Rows) -> Finding:
    """Whether the plain network settles before the Bayesian one, at each width."""
    found = means(rows, settled)
    return judged(found, 0, all(m["plain"] < m["gaussian"] for m in found.values()))


def errs_most(rows: Rows) -> Finding:
    """Whether the plain network ends with the highest error, at each width."""
    found = means(rows, final)
    agrees = all(m["plain"] > max(m["dropout"], m["gaussian"]) for m in found.values())
    return judged(found, 2, agrees)


def reaches_dropout(rows: Rows) -> Finding:
    """Whether the Bayesian network ends with about the error of dropout, or a lower one."""
    found = means(rows, final)
    return judged(found, 2, all(m["gaussian"] <= m["dropout"] + TOLERATED for m in found.values()))


def judged(found: dict[int, dict[str, float]], digits: int, agrees: bool) -> Finding:
    """The numbers in words, and the verdict."""
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {values[method]:.{digits}f}" for method in METHODS)
        + f" ({width} units)"
        for width, values in found.items()
    )
    return Finding(f"{shown}.", agrees)


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    panels = len(widths(rows))
    return [
        Plot(
            "curves",
            "Test error during training",
            "Test error against epochs for plain, dropout and Bayesian networks, a panel for each "
            "number of hidden units",
            partial(draw_curves, rows),
            wide=(12.0 if panels > 1 else 9.0, 5.0),
            narrow=(5.0, 1.0 + 4.0 * panels),
            note="Errors are on a logarithmic scale. Thin lines are restarts, thick lines their "
            "means. Networks with fewer epochs end earlier.",
        ),
        summary_table(rows),
    ]


def summary_table(rows: Rows) -> Table:
    """The end of the curves, and how they get there."""
    summaries = ((final, 2), (min, 2), (settled, 0), (largest_rise, 2))
    return Table(
        "The curves in numbers",
        ("network", "units", "last, %", "lowest, %", "epochs to settle", "largest rise, points"),
        [
            [
                NAMES[method],
                str(width),
                *(
                    with_error([float(summary(curve)) for curve in curves(rows, method, width)], n)
                    for summary, n in summaries
                ),
            ]
            for method in METHODS
            for width in widths(rows)
        ],
        "Test errors after each epoch. The lowest is selected on the test digits, so it is "
        "not an estimate. A curve has settled when it stays below its last value plus "
        f"{SETTLED:g} points. The largest rise between consecutive epochs is over the second "
        "half of the epochs: the paper's plain network has spikes. ± is a standard error "
        "over restarts, if there are several.",
    )


def largest_rise(curve: Sequence[float]) -> float:
    """From one epoch to the next, in the second half of a curve; zero if it only falls."""
    late = curve[len(curve) // 2 :]
    return max([0.0, *(after - before for before, after in pairwise(late))])


@house_style()
def draw_curves(rows: Rows, size: Size) -> Figure:
    """Error against epochs, a panel for each width."""
    figure = Figure(figsize=size, layout="constrained")
    shown = widths(rows)
    shape = (len(shown), 1) if size[0] < NARROW else (1, len(shown))
    panels = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    for axes, width in zip(panels.flat, shown, strict=True):
        for method in METHODS:
            draw_method(axes, method, curves(rows, method, width))
        axes.set_title(f"{width} units")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    for axes in panels[:, 0]:
        axes.set_ylabel("test error, %")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    columns = 2 if size[0] < NARROW else 3
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5,
        handlelength=3.2,
    )  # fmt: skip
    return figure


def draw_method(axes: Axes, method: str, found: Sequence[Sequence[float]]) -> None:
    """The restarts of a method, and their mean."""
    epochs = range(1, len(found[0]) + 1)
    if len(found) > 1:
        for curve in found:
            axes.plot(epochs, curve, color=LINES[method]["color"], linewidth=0.7, alpha=0.45)
    mean = [fmean(errors) for errors in zip(*found, strict=True)]
    axes.plot(epochs, mean, label=NAMES[method], linewidth=2.0, **LINES[method])


CLAIMS = (
    Claim(
        "A plain network converges earlier than a Bayesian one.",
        "figure 18, 1200 units",
        "At each width it takes fewer epochs until its test error stays below its last value plus "
        f"{SETTLED:g} points, on average over restarts.",
        settles_first,
    ),
    Claim(
        "It converges to a higher error.",
        "figure 18; table 3, %, 1200 units: plain 1.83, dropout 1.37, Bayes 1.35",
        "At each width its error after the last epoch is above that of dropout and of Bayes by "
        "Backprop.",
        errs_most,
        otherwise=CURVES,
    ),
    Claim(
        "A Bayesian network converges to about the error of dropout, or lower.",
        "figure 18; table 3, %, 1200 units: dropout 1.37, Bayes 1.35",
        f"At each width its error after the last epoch is at most {TOLERATED:g} points above that "
        "of dropout.",
        reaches_dropout,
        otherwise=CURVES,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-bd69b7bd")
