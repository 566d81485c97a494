"""Table 3 as a table and as a drawing: rows in, pictures out. Nothing here trains."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.ink import BLUE, INK, RULE, VERMILION, house_style
from dubio.studies.paper_004.legend import NAMES, widths
from dubio.studies.paper_004.table_3.claims import METHODS, READING, errors, numbers
from dubio.studies.paper_004.table_3.published import AUTHORS, BLUNDELL, by_width
from dubio.studies.restarts import standard_error, with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

LOSSES = {"cross-entropy": "", "double softmax": ", double softmax"}
READINGS = ("draws", "pass")


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    height = 1.6 + 0.32 * len(list(lines(rows)))
    return [
        error_table(rows),
        Plot(
            "errors",
            "Test error, ours and published",
            "A line for each kind of network and number of units, with our error and the two "
            "published ones",
            partial(draw_errors, rows),
            wide=(11.0, height),
            narrow=(5.0, height),
            note="Predicted as in the paper. Bars are two standard errors over restarts to each "
            "side, if there are several. The choice of 10,000 test digits alone gives an error of "
            "1.2 % a standard error of 0.11 points, in ours and in the published numbers.",
        ),
    ]


def lines(rows: Rows) -> Iterator[tuple[str, str, int]]:
    """Loss, method and units of each line."""
    for loss in LOSSES:
        of_loss = rows.where(loss=loss)
        for method in METHODS:
            for width in widths(of_loss.where(method=method)):
                yield loss, method, width


def error_table(rows: Rows) -> Table:
    """Errors by both ways to read them, next to the published ones."""

    def cells(loss: str, method: str, width: int) -> list[str]:
        own = rows.where(loss=loss)
        found = []
        for reading in READINGS:
            error, nll = (
                numbers(own, method, width, reading, metric) for metric in ("error", "nll")
            )
            mark = "**" if reading == READING[method] else ""
            found += [
                f"{mark}{with_error([100 * value for value in error], 2)}{mark}" if error else "–",
                with_error(nll, 3) if nll else "–",
            ]
        divergences = own.where(method=method, width=width, metric="kl").values()
        return [*found, with_error(divergences, 2) if divergences else "–"]

    return Table(
        "Test error",
        (
            "network", "units", "Blundell et al., %", "authors, %",
            "ours by draws, %", "NLL", "ours in one pass, %", "NLL", "KL, nats an image",
        ),
        [
            [
                f"{NAMES[method]}{LOSSES[loss]}",
                str(width),
                *(published(table, method, width) for table in (BLUNDELL, AUTHORS)),
                *cells(loss, method, width),
            ]
            for loss, method, width in lines(rows)
        ],
        "By draws: class probabilities are averaged over draws of the weights, each the same for "
        "all digits, or of dropout's masks, every digit with its own. In one pass: by the mean "
        "weights, or without masks. "
        "In bold what the paper does, to be compared with its numbers. NLL is the mean of "
        "−log p(label) in nats; with the double softmax, of the network's own. The KL, in full "
        "whatever its weight, is what the posterior costs: less is a better bound. ± is a standard "
        "error over restarts, if there are several. Blundell's 2.04 is printed as 2.02 in paper "
        "004.",
    )  # fmt: skip


def published(table: dict[str, dict[int, float]], method: str, width: int) -> str:
    """A number of the paper, or a dash."""
    value = by_width(table, method).get(width)
    return "–" if value is None else f"{value:.2f}"


@house_style()
def draw_errors(rows: Rows, size: Size) -> Figure:
    """A dot for each error, a line for each network."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    shown = list(lines(rows))
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for table, label, marker, colour in (
        (BLUNDELL, "Blundell et al.", "D", VERMILION),
        (AUTHORS, "authors", "s", BLUE),
    ):
        places = [
            (by_width(table, method)[width], place)
            for place, (_, method, width) in enumerate(shown)
            if width in by_width(table, method)
        ]
        axes.plot(
            [x for x, _ in places], [y for _, y in places], linestyle="none", marker=marker,
            markersize=6, markerfacecolor="none", color=colour, label=label,
        )  # fmt: skip
    found = [errors(rows.where(loss=loss), method, width) for loss, method, width in shown]
    axes.errorbar(
        [fmean(values) for values in found], range(len(found)),
        xerr=[2 * (standard_error(values) or 0.0) for values in found],
        linestyle="none", marker="o", markersize=6.5, color=INK, label="ours",
    )  # fmt: skip
    axes.set_yticks(
        range(len(shown)),
        [
            NAMES[method] + LOSSES[loss].replace(" ", "\n", 1) + f", {width}"
            for loss, method, width in shown
        ],
    )
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelsize=9.5)
    axes.set_xlabel("test error, %")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
    return figure
