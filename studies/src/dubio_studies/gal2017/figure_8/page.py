"""The drawings of figure 8: rows in, pictures out. Nothing here trains."""

from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import NARROW, RULE, house_style
from dubio.report.lines import styled
from dubio.report.rates import draw_rates
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.figure_8.claims import CLAIMS, ends, last_epoch, layers


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "epochs",
            "Figure 8: Concrete dropout rates over training, from several starts",
            "Dropout rates against epochs in five panels, one for each of five layers; one "
            "line per start",
            partial(draw_epochs, rows),
            wide=(12.0, 4.2),
            narrow=(5.0, 12.0),
            note="The first, second, middle and last two of the layers with dropout. Each line "
            "is one fork.",
        ),
        Plot(
            "layers",
            "Final rates of all layers",
            "Dropout rates against the number of the layer, one line per start",
            partial(draw_ends, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 4.4),
        ),
        ends_table(rows),
    ]


def named(rows: Rows) -> dict[str, Rows]:
    """The rows of every start, by its name."""
    return {f"from {start:g}": rows.where(drop=start) for start in rows.distinct("drop")}


@house_style()
def draw_epochs(rows: Rows, size: Size) -> Figure:
    """Rates over epochs, a panel for each of five layers."""
    own = layers(rows)
    shown = list(dict.fromkeys([own[0], own[1], own[len(own) // 2], own[-2], own[-1]]))
    figure = Figure(figsize=size, layout="constrained")
    narrow = size[0] < NARROW
    shape = (len(shown), 1) if narrow else (1, len(shown))
    panels = figure.subplots(*shape, sharey=True, squeeze=False).flat
    for panel, layer in zip(panels, shown, strict=True):
        for name, found, style in styled(named(rows)):
            drops = found.where(metric="drop", layer=layer)
            style["marker"] = ""
            panel.plot(drops.values("epoch"), drops.values(), label=name, **style)
        panel.set_title(f"layer {layer}")
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        panel.set_ylim(bottom=0.0)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    figure.supylabel("dropout rate")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = 2 if narrow else len(labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw_ends(rows: Rows, size: Size) -> Figure:
    """Rates at the end, by layer."""
    rates = {
        name: found.where(metric="drop", epoch=last_epoch(rows)).values()
        for name, found in named(rows).items()
    }
    return draw_rates(rates, [str(layer) for layer in layers(rows)], size)


def ends_table(rows: Rows) -> Table:
    """Rates at the end and how far apart they are."""
    own = layers(rows)
    cells = [
        [name, *(f"{found.value(metric='drop', layer=k, epoch=last_epoch(rows)):.3f}" for k in own)]
        for name, found in named(rows).items()
    ]
    gaps = [f"{max(ends(rows, k)) - min(ends(rows, k)):.3f}" for k in own]
    return Table(
        f"Rates after {last_epoch(rows)} epochs",
        ("start", *(str(k) for k in own)),
        [*cells, ["largest − smallest", *gaps]],
        "One column per layer of the middle block.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-c8251690")
