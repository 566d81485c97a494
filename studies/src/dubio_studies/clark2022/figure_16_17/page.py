"""What Clark et al. 2022 says of its figures 16 and 17, and how our rows are shown."""

from collections.abc import Callable
from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import NARROW, house_style
from dubio_studies.clark2022.legend import LINES, NAMES, widths
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

METHODS = (
    "plain",
    "dropout",
    "gaussian",
    "slow gaussian",
    "cold gaussian",
)  # figure 16 and variants
PRIORS = ("gaussian", "mixture", "laplace")  # of figure 17
AUTHORS = ("authors gaussian", "authors laplace")  # with the paper's scales
SIMILAR = 1.5  # times as wide, at most
PANELS = {"drawn": "Bayesian weights: a draw", "means": "Bayesian weights: their means"}
MEASURES = {"deviation": 3, "width": 3, "kurtosis": 1}  # decimals


def kinds(method: str) -> tuple[str, ...]:
    """The weights that a method has, those of the figures first."""
    return ("trained",) if method in ("plain", "dropout") else ("drawn", "means")


def numbers(rows: Rows, method: str, width: int, weights: str, metric: str) -> list[float]:
    """A measure of the weights of each restart."""
    return rows.where(method=method, width=width, weights=weights, metric=metric).values()


def spread(rows: Rows, method: str, width: int) -> float:
    """The width of the middle nine tenths of the weights, drawn ones if they are random."""
    return fmean(numbers(rows, method, width, kinds(method)[0], "width"))


def bayes_is_widest(rows: Rows) -> Finding:
    """Whether weights of Bayes by Backprop reach farther than those of the other methods."""
    return judged(rows, METHODS, lambda s: s["gaussian"] > max(s["plain"], s["dropout"]))


def mixture_is_narrower(rows: Rows) -> Finding:
    """Whether weights under the mixture are narrower than under the Gaussian prior."""
    shown = ("gaussian", "mixture", "cold gaussian", "cold mixture")
    return judged(rows, shown, lambda s: s["mixture"] < s["gaussian"])


def laplace_is_similar(rows: Rows) -> Finding:
    """Whether weights under the paper's Laplace prior are about as wide as under its Gaussian."""
    gaussian, laplace = AUTHORS
    return judged(
        rows,
        AUTHORS,
        lambda s: 1 / SIMILAR <= s[laplace] / s[gaussian] <= SIMILAR,
        ("gaussian", "laplace"),
    )


def judged(
    rows: Rows,
    methods: tuple[str, ...],
    rule: Callable[[dict[str, float]], bool],
    beside: tuple[str, ...] = (),
) -> Finding:
    """The widths in words, and whether the rule holds for each number of units.

    Other methods stand beside them and are not judged.
    """
    found = spreads(rows, methods)
    shown = "; ".join(
        ", ".join(f"{NAMES[method]} {value:.3f}" for method, value in own.items())
        + f" ({width} units)"
        for which in (methods, beside)
        for width, own in spreads(rows, which).items()
    )
    return Finding(f"{shown}.", bool(found) and all(rule(own) for own in found.values()))


def spreads(rows: Rows, methods: tuple[str, ...]) -> dict[int, dict[str, float]]:
    """By number of units and method, where there are networks of all these methods."""
    return {
        width: {method: spread(rows, method, width) for method in methods}
        for width in widths(rows)
        if methods and all(rows.where(method=method, width=width) for method in methods)
    }


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    shown = {
        "figure-16": ("by method", METHODS, "plain, dropout and Bayesian networks"),
        "figure-17": ("by prior", PRIORS, "three priors"),
        "figure-17-authors": ("by prior, authors' protocol", AUTHORS, "two priors of the paper"),
    }
    return [
        *(
            Plot(
                name,
                f"Trained weights {which}",
                f"Histograms of the weights of {what}, drawn weights and means",
                partial(draw_histograms, rows.where(width=units), methods),
                wide=(12.0, 5.0),
                narrow=(5.0, 8.5),
                note=f"Densities, on a logarithmic scale, of all weights of a network with {units} "
                "units, first restart; the outermost thousandth is not shown. Left: Bayesian "
                "weights are one draw from the posterior. Right: its means, without the "
                "uncertainty of each weight.",
            )
            for name, (which, methods, what) in shown.items()
            for units in widths(rows.where(method=methods[0]))[-1:]
        ),
        measure_table(rows),
    ]


def measure_table(rows: Rows) -> Table:
    """How wide the histograms are, and how heavy their tails."""
    return Table(
        "The histograms in numbers",
        ("network", "weights", "units", "deviation", "middle 90 %", "excess kurtosis"),
        [
            [
                NAMES[method],
                weights,
                str(width),
                *(
                    with_error(numbers(rows, method, width, weights, measure), digits)
                    for measure, digits in MEASURES.items()
                ),
            ]
            for method in dict.fromkeys((*METHODS, *PRIORS, "cold mixture", *AUTHORS))
            for weights in kinds(method)
            for width in widths(rows.where(method=method))
        ],
        "The middle 90 % is the distance from the 5th percentile to the 95th. The excess "
        "kurtosis is 0 for a Gaussian, and large if most weights are near zero. ± is a "
        "standard error over restarts, if there are several.",
    )


@house_style()
def draw_histograms(rows: Rows, methods: tuple[str, ...], size: Size) -> Figure:
    """Densities of weights, with drawn and with mean weights of Bayesian networks."""
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    panels = figure.subplots(
        *((2, 1) if narrow else (1, 2)), sharex=True, sharey=True, squeeze=False
    )
    for axes, (weights, title) in zip(panels.flat, PANELS.items(), strict=True):
        for method in methods:
            which = weights if weights in kinds(method) else "trained"
            draw_histogram(axes, method, rows.where(method=method, weights=which))
        axes.set_title(title)
        axes.set_yscale("log")
    for axes in panels[-1]:
        axes.set_xlabel("weight")
    for axes in panels[:, 0]:
        axes.set_ylabel("density")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if narrow else 5, frameon=False,
        fontsize=9.5, handlelength=3.2,
    )  # fmt: skip
    return figure


def draw_histogram(axes: Axes, method: str, rows: Rows) -> None:
    """A line through the middles of the bins; those that are empty are left out."""
    bins = rows.where(metric="density")
    left = bins.values("left")
    half = (left[1] - left[0]) / 2
    filled = [
        (x + half, density) for x, density in zip(left, bins.values(), strict=True) if density
    ]
    axes.plot(
        [x for x, _ in filled], [density for _, density in filled],
        label=NAMES[method], linewidth=1.8, **LINES[method],
    )  # fmt: skip


CLAIMS = (
    Claim(
        "As in the original, weights of Bayes by Backprop spread wider than those of plain and "
        "dropout networks.",
        "figure 16, 1200 units; Blundell et al., figure 3",
        "With the Gaussian prior, the middle 90 % of the drawn weights are wider than for "
        "either of the others, for each number of units.",
        bayes_is_widest,
    ),
    Claim(
        "Under the mixture weights are much narrower than under the Gaussian prior.",
        "figure 17, 1200 units",
        "The middle 90 % of the drawn weights are narrower, for each number of units.",
        mixture_is_narrower,
    ),
    Claim(
        "Under the Laplace prior they are similar to those under the Gaussian prior.",
        "figure 17, 1200 units",
        "The widths of the middle 90 % of the drawn weights differ by a factor of at most "
        f"{SIMILAR:g}, for each number of units.",
        laplace_is_similar,
        otherwise=Refuted(
            "By the authors' protocol the middle 90 % are 0.33 and 0.06 wide, with our priors 0.63 "
            "and 0.21. The Laplace prior pulls most means to zero (widths 0.02 and 0.01); under "
            "N(0, 1) they stay about as wide as at the start, 0.36."
        ),
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-a252f71b")
