"""What Clark et al. 2022 says of its table 3, and how our rows are shown."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, INK, RULE, VERMILION, house_style
from dubio_studies.clark2022.causes import BEHIND, KL_IN_FULL
from dubio_studies.clark2022.legend import NAMES, widths
from dubio_studies.clark2022.table_3.ledger import printed_numbers
from dubio_studies.clark2022.table_3.published import AUTHORS, BLUNDELL, by_width
from dubio_studies.clark2022.table_3.reading import READING, errors, numbers, single_softmax
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page

METHODS = tuple(READING)
TOLERATED = 0.1  # points: the standard error of 1.2 % from the choice of 10,000 test digits
LOSSES = {"cross-entropy": "", "double softmax": ", double softmax"}
READINGS = ("draws", "pass")


def beats_plain(rows: Rows) -> Finding:
    """Whether the Gaussian prior has a lower error than the plain network at each width."""
    return ordered(rows, "gaussian", "plain", margin=0.0)


def matches_dropout(rows: Rows) -> Finding:
    """Whether its error is about that of dropout, or lower, at each width."""
    return ordered(rows, "gaussian", "dropout", margin=TOLERATED)


def beats_mixture(rows: Rows) -> Finding:
    """Whether its error is lower than that of the mixture at each width."""
    return ordered(rows, "gaussian", "mixture", margin=0.0)


def ordered(rows: Rows, first: str, second: str, margin: float) -> Finding:
    """Whether the first method's error is below the second's plus a margin at each width.

    Slow and cold variants of both are shown where they were run, and not judged.
    """
    rows = single_softmax(rows)
    methods = [m for m in METHODS if m.split()[-1] in (first, second)]
    found = {
        width: {m: fmean(values) for m in methods if (values := errors(rows, m, width))}
        for width in widths(rows)
    }
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {error:.2f}" for method, error in by_method.items())
        + f" ({width} units)"
        for width, by_method in found.items()
    )
    agrees = all(by_method[first] < by_method[second] + margin for by_method in found.values())
    return Finding(f"%: {shown}.", agrees)


def as_published(method: str, rows: Rows) -> Finding:
    """The errors of a method against the authors'."""
    rows, published = single_softmax(rows), by_width(AUTHORS, method)
    ours = {
        width: fmean(values)
        for width in widths(rows)
        if width in published and (values := errors(rows, method, width))
    }
    if not ours:
        return Finding("no network of a width of the paper.", agrees=False)
    excess = round(max(ours[width] - published[width] for width in ours), 6)
    return Finding(
        "; ".join(f"{value:.2f} ({width} units)" for width, value in ours.items()) + ".",
        excess <= TOLERATED,
        further=excess <= 0,
    )


def printed(method: str, table: dict[str, dict[int, float]]) -> str:
    """A method's errors as the paper has them."""
    return ", ".join(f"{value:.2f}" for value in by_width(table, method).values())


def printed_pair(first: str, second: str) -> str:
    """Two methods' errors, of the authors and of Blundell et al."""
    return "; ".join(
        f"{who} {printed(first, table)} and {printed(second, table)}"
        for who, table in (("authors", AUTHORS), ("Blundell et al.", BLUNDELL))
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    height = 1.6 + 0.32 * len(list(lines(rows)))
    return [
        error_table(rows),
        Plot(
            "errors",
            "Test error, ours and published",
            "Our error and the two published ones, one line per kind of network and number "
            "of units",
            partial(draw_errors, rows),
            wide=(11.0, height),
            narrow=(5.0, height),
            note="Predictions are made as in the paper. Bars are two standard errors over "
            "restarts to each side, if there are several. The choice of 10,000 test digits "
            "alone gives an error of 1.2 % a standard error of 0.11 points, in our numbers "
            "and in the published ones.",
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
            "ours by draws, %", "NLL", "ours in one pass, %", "NLL", "KL, nats per image",
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
        "By draws: class probabilities are averaged over draws of the weights, shared by all "
            "digits, or over dropout masks, one per digit. In one pass: with the mean weights, "
            "or without masks. Bold: what the paper does, to compare with its numbers. NLL is "
            "the mean of −log p(label) in nats; with the double softmax, that of the network's "
            "own probabilities. The KL is given in full, whatever its weight in training: lower "
            "is a better bound. ± is a standard error over restarts, if there are several. "
            "Blundell's 2.04 is printed as 2.02 in Clark et al. 2022.",
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


CLAIMS = (
    Claim(
        "Bayes by Backprop has a lower error than a plain network.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'plain')}",
        "With the Gaussian prior its error is below that of the plain network at each width.",
        beats_plain,
        otherwise=KL_IN_FULL,
    ),
    Claim(
        "Its error is about that of dropout, or lower.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'dropout')}",
        f"With the Gaussian prior its error is at most {TOLERATED:g} points above that of dropout "
        "at each width.",
        matches_dropout,
        otherwise=KL_IN_FULL,
    ),
    Claim(
        "The Gaussian prior is better than the mixture, contrary to Blundell et al.",
        f"%, 400 to 1200 units: {printed_pair('gaussian', 'mixture')}",
        "Its error is below that of the mixture at each width.",
        beats_mixture,
    ),
    *(
        Claim(
            f"Test error: {NAMES[method]}.",
            f"%, 400 to 1200 units: authors {printed(method, AUTHORS)}",
            f"At each width at most {TOLERATED:g} points above the authors', the standard "
            "error due to the choice of test digits; further if it is never above.",
            partial(as_published, method),
            otherwise=BEHIND.get(method),
            ours=method == "slow gaussian",
        )
        for method in (*AUTHORS, "slow gaussian")
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-c1cf1b5e", ledger=printed_numbers)
