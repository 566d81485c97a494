"""The drawings of section 4.3: rows in, pictures out. Nothing here trains."""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.mnist.claims import CLAIMS, PUBLISHED, accuracy_with_error, nats
from dubio_studies.gal2017.mnist.sweeps import (
    LAYERS,
    LEARNED,
    NAMES,
    checks,
    differences,
    drifts,
    drops,
    swept_by_length_scale,
    swept_by_size,
    swept_by_width,
)

LAYER_COLOURS = (QUIET, BLUE, VERMILION, GREEN)
METHOD_COLOURS = {"concrete": BLUE, "bernoulli": VERMILION, "mc": INK}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    width = swept_by_size(rows)[0]["width"]
    dots = (
        "Dots are networks, filled or open by their initial rate; lines are means. Each "
        "layer has one rate, for its inputs: pixels, or a hidden layer."
    )
    return [
        accuracy_table(rows),
        Plot(
            "sizes",
            f"Figure 5: rates against the number of images (three layers of {width})",
            "Dropout rates of the four layers against the number of training images, one "
            "panel for each of two methods",
            partial(draw_rates, swept_by_size(rows), "size", "training images"),
            wide=(12.0, 4.8),
            narrow=(5.0, 9.0),
            note=dots,
        ),
        Plot(
            "widths",
            "Figure 6: rates against the number of hidden units",
            "Dropout rates of the four layers against the width of the hidden layers, one "
            "panel for each of two methods",
            partial(draw_rates, swept_by_width(rows), "width", "units of a hidden layer"),
            wide=(12.0, 4.8),
            narrow=(5.0, 9.0),
            note=dots,
        ),
        Plot(
            "length-scales",
            f"Figure 11: the length scale of the prior (three layers of {width})",
            "Test log-likelihood and accuracy against the length scale, one line for each of "
            "two methods, and a dashed level for dropout at fixed rates",
            partial(draw_length_scales, learned(swept_by_length_scale(rows))),
            wide=(12.0, 4.8),
            narrow=(5.0, 9.0),
            note="The prior of a weight is N(0, 1/ℓ²) with ℓ = l·√inputs of its layer. Dots are "
            "networks, lines are means. Dashed: MC dropout at fixed rates, not tuned, with "
            "the l of the other figures. Length scales "
            "with less than half of the best accuracy are left out.",
        ),
        *convergence_tables(rows),
        check_table(rows),
    ]


def learned(rows: Rows) -> Rows:
    """All but the length scales at which networks are less than half as accurate as the best."""
    hits = rows.where(metric="accuracy")
    half = max(hits.values()) / 2
    return Rows(
        [r for r in rows if max(hits.where(length_scale=r["length_scale"]).values()) >= half]
    )


def accuracy_table(rows: Rows) -> Table:
    """The widest networks, next to the paper's."""
    widest = swept_by_width(rows).where(width=max(rows.distinct("width")))

    def cells(method: str) -> list[str]:
        own = widest.where(method=method)
        likelihood = fmean(own.where(metric="log-likelihood").values())
        own_drops = (own.where(metric="drop", layer=layer).values() for layer in range(len(LAYERS)))
        return [
            NAMES[method],
            accuracy_with_error(rows, method),
            f"{PUBLISHED:.1%}" if method == "concrete" else "–",
            nats(likelihood),
            *(f"{fmean(values):.3f}" for values in own_drops),
        ]

    judged = widest.where(metric="accuracy")
    row = judged[0]
    networks = {method: len(judged.where(method=method)) for method in NAMES}
    return Table(
        f"Three hidden layers of {row['width']}, {row['size']:,} images",
        ("method", "accuracy", "published", "log-likelihood", *LAYERS),
        [cells(method) for method in NAMES],
        f"{row['cases']:,} test images; the log-likelihood is in nats per image, and the last "
        "four columns are dropout rates. Numbers are means over networks: "
        f"{', '.join((f'{NAMES[method]} {count}' for method, count in networks.items()))}. ± "
        "is the standard error over test images, √(a(1 − a)/n) for an accuracy a on n "
        "images; it does not include the variation between networks. The fixed rates are not "
        "tuned, and too high for narrow networks. The paper says that its 98.6% matches "
        "hand-tuned dropout.",
    )


def convergence_tables(rows: Rows) -> list[Table]:
    """How far apart different starts end, and how far rates move in the end."""
    starts = " and ".join(f"{start:g}" for start in rows.distinct("start") if start is not None)

    def table(title: str, find: Callable[[Rows, str], list[tuple[float, str]]], note: str) -> Table:
        found = {method: {place: far for far, place in find(rows, method)} for method in LEARNED}
        places = list(dict.fromkeys(place.partition(", ")[2] for place in found[LEARNED[0]]))
        columns = [(method, layer) for method in LEARNED for layer in LAYERS]
        return Table(
            title,
            ("networks", *(f"{NAMES[method]}: {layer}" for method, layer in columns)),
            [
                [place, *(f"{found[m][f'{layer}, {place}']:.3f}" for m, layer in columns)]
                for place in places
            ],
            note,
        )

    return [
        table(
            f"How far apart runs from rates of {starts} end",
            differences,
            "Differences of dropout rates, means over restarts.",
        ),
        table(
            "How far rates move in the last fifth of the steps",
            drifts,
            "The largest change of a network of that kind, from any start. Learning rates fall to "
            "zero, so this alone does not show convergence: see the next table.",
        ),
    ]


def check_table(rows: Rows) -> Table:
    """Networks that were trained twice, with and without a larger weight of the KL at first."""
    titles = {"annealed": "falls to its full weight", "direct": "has its full weight"}

    def cells(place: str, own: Rows, check: str, training: int) -> list[str]:
        each = own.where(twice=check, training=training)
        found = (fmean(each.where(layer=layer).values()) for layer in range(len(LAYERS)))
        return [
            place,
            titles[check],
            str(training),
            nats(fmean(each.where(metric="loss").values()), 4),
            *(f"{value:.3f}" for value in found),
        ]

    return Table(
        "Concrete dropout trained twice",
        ("networks", "at first the KL", "training", "negative ELBO", *LAYERS),
        [
            cells(place, own, check, training)
            for place, own in checks(rows).items()
            for check in titles
            for training in (1, 2)
        ],
        "The second training starts from the end of the first, with the full weight of the KL and "
        "the learning rates of the first. The negative ELBO is in nats per training image, without "
        "constants: lower is better. The last four columns are dropout rates. Where the "
        "ELBO hardly differs, it does not tell which end is right.",
    )


@house_style()
def draw_rates(rows: Rows, by: str, label: str, size: Size) -> Figure:
    """Rates by layer against a field, a panel for each method."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (2, 1) if size[0] < NARROW else (1, 2)
    panels = figure.subplots(*shape, sharey=True)
    first = min(start for start in rows.distinct("start") if start is not None)
    for panel, method in zip(panels, LEARNED, strict=True):
        for layer, (name, colour) in enumerate(zip(LAYERS, LAYER_COLOURS, strict=True)):
            for row in rows.where(method=method, metric="drop", layer=layer):
                panel.plot(
                    row[by], row["value"], "o", color=colour, markersize=5, alpha=0.7,
                    fillstyle="full" if row["start"] == first else "none",
                )  # fmt: skip
            means = drops(rows, method, by, [layer])
            panel.plot(list(means), list(means.values()), color=colour, linewidth=1.8, label=name)
        mark_logarithmic(panel, rows.distinct(by), lambda value: f"{value:,.0f}")
        panel.set_ylim(bottom=0.0)
        panel.set_title(NAMES[method])
        panel.set_xlabel(label)
        panel.set_ylabel("dropout rate")
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    handles, labels = panels[0].get_legend_handles_labels()
    for start in sorted(start for start in rows.distinct("start") if start is not None):
        inside = INK if start == first else "none"
        handles.append(Line2D([], [], color=INK, marker="o", linestyle="none", mfc=inside))
        labels.append(f"from {start:g}")
    columns = 3 if size[0] < NARROW else len(labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


@house_style()
def draw_length_scales(rows: Rows, size: Size) -> Figure:
    """Log-likelihood and accuracy against l."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(2, 1) if size[0] < NARROW else figure.subplots(1, 2)
    drawn = {
        "log-likelihood": ("test log-likelihood (nats)", lambda value: f"{value:g}"),
        "accuracy": ("test accuracy", lambda value: f"{100 * value:g}%"),
    }
    for panel, (metric, (label, text)) in zip(panels, drawn.items(), strict=True):
        for method, name in NAMES.items():
            own = rows.where(method=method, metric=metric)
            colour = METHOD_COLOURS[method]
            if method == "mc":
                level = fmean(own.values())
                panel.axhline(level, color=colour, linewidth=1.2, linestyle="--", label=name)
                continue
            panel.plot(own.values("length_scale"), own.values(), "o", color=colour, markersize=5,
                       alpha=0.6, markeredgewidth=0)  # fmt: skip
            points = sorted(own.distinct("length_scale"))
            means = [fmean(own.where(length_scale=point).values()) for point in points]
            panel.plot(points, means, color=colour, linewidth=1.8, label=name)
        mark_logarithmic(panel, rows.distinct("length_scale"), lambda value: f"{value:g}")
        panel.set_xlabel("length scale l")
        panel.set_title(label, pad=12)
        panel.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _, text=text: text(value).replace("-", "−"))
        )
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 1 if size[0] < NARROW else len(labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def mark_logarithmic(panel: Axes, values: list[Any], text: Callable[[float], str]) -> None:
    """A logarithmic axis with a mark at each value."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(sorted(values)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


PAGE = Page(CLAIMS, exhibits, examined="small-4579dbf7")
