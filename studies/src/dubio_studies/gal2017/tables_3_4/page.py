"""How our rows of the UCI tables of Gal et al. 2017 are shown."""

from functools import partial
from statistics import median

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, PURPLE, QUIET, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page
from dubio_studies.gal2017.tables_3_4.claims import (
    CLAIMS,
    METRICS,
    SEEN,
    UNSEEN,
    by_split,
    difference,
    longest,
    on_common_splits,
    ours,
    with_variants,
)
from dubio_studies.gal2017.tables_3_4.ledger import printed_numbers
from dubio_studies.gal2017.tables_3_4.published import PublishedRow
from dubio_studies.uci.tables import LONG, TITLES, as_printed
from dubio_studies.uci.values import Value

METHODS = {
    "concrete": "Concrete",
    "bernoulli": "learnable Bernoulli",
    "mc": "MC dropout",
    "bayes": "Bayes by Backprop",
    "ensemble": "deep ensemble",
    "linear": "linear, closed form",
}
BAYES = {
    "bayes": "as it is",
    "bayes-narrow": "a tenth of the initial deviations",
    "bayes-cold": "a tenth of the KL (cold)",
    "bayes-last": "last layer only",
    "concrete": "Concrete dropout",
}
OF_THE_PAPER = ("concrete", "mc")
STAGES = {
    "learned": "τ as learned",
    "m-step": "last M-step",
    "held-out m-step": "M-step on validation rows",
    "tuned": "τ tuned on validation rows",
}
HEADS = {"log-likelihood": "Table 3: log-likelihood", "rmse": "Table 4: RMSE"}
LAYERS = (("features", BLUE, "o"), ("first hidden layer", VERMILION, "s"),
          ("second hidden layer", GREEN, "D"))  # fmt: skip


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    own = longest(rows)
    return [
        *(paper_table(own, metric) for metric in METRICS),
        length_table(rows),
        residual_table(own),
        *(method_table(rows, metric) for metric in METRICS),
        variant_table(rows),
        Plot(
            "methods",
            "Figures 2 and 3: all methods",
            "Log-likelihood of each method on each data set, minus that of the published "
            "Concrete dropout after the last M-step",
            partial(draw_methods, rows),
            wide=(12.0, 6.0),
            narrow=(5.0, 8.0),
            note="Right is better. Thin lines are two standard errors over the splits that "
            "all methods share. Methods beyond the axis are drawn at its end.",
        ),
        Plot(
            "rates",
            "Figure 4: rates of every layer and split",
            "Dropout rates learned by Concrete dropout, for each data set and layer, one dot "
            "per split",
            partial(draw_rates, own),
            wide=(12.0, 4.6),
            narrow=(5.0, 6.4),
            note="Concrete dropout, at the end of training on all training rows.",
        ),
        rate_table(own),
    ]


def paper_table(rows: Rows, metric: str) -> Table:
    """Concrete dropout: published and ours."""
    published, _ = METRICS[metric]
    cells = []
    for name in as_printed(rows.distinct("table")):
        row: PublishedRow = published[name]
        stages = [ours(rows, name, "concrete", s, metric) for s in STAGES]
        splits = len(by_split(rows, name, "concrete", "tuned", metric))
        cells.append(
            [TITLES[name], str(splits), *(shown(v, name, metric) for v in (*row, *stages))]
        )
    return Table(
        HEADS[metric],
        (
            "data",
            "splits",
            "Dropout (published)",
            "CDropout (published)",
            "CDropoutM (published)",
            "DGP (published)",
            *(f"Concrete, {title}" for title in STAGES.values()),
        ),
        cells,
        "Means over splits, ours over as many as stated, with standard errors; two hidden layers "
        "of 50. The noise precision τ does not change means, so all RMSEs of ours are equal. The "
        "deep Gaussian process (Bui et al. 2016) was not run.",
    )


def length_table(rows: Rows) -> Table:
    """The same networks after fewer and after more steps."""
    lines = []
    for name in as_printed(rows.distinct("table")):
        for method in OF_THE_PAPER:
            kinds = [rows.where(table=name, method=kind) for kind in (method, LONG + method)]
            if not all(kinds):
                continue
            found = (
                Value.of(part.where(stage="tuned", metric=metric).values())
                for metric in ("rmse", "log-likelihood")
                for part in kinds
            )
            digits = 4 if name == "naval" else 2
            lines.append([TITLES[name], METHODS[method], *(v.shown(digits) for v in found if v)])
    return Table(
        "Longer training",
        ("data", "method", "RMSE", "RMSE, longer", "log-likelihood", "log-likelihood, longer"),
        lines,
        "With τ tuned on validation rows. Longer is two steps for each training row. Tables 3 and "
        "4, residuals and rates are those of the longer training where there is one; all methods "
        "are compared after the shorter one.",
    )


def residual_table(rows: Rows) -> Table:
    """Why an M-step on training rows is too sure of itself."""
    cells = []
    for name in as_printed(rows.distinct("table")):
        seen, unseen = (ours(rows, name, "concrete", s, "squared residual") for s in (SEEN, UNSEEN))
        if seen is None or unseen is None:
            continue
        densities = {s: by_split(rows, name, "concrete", s, "log-likelihood") for s in STAGES}
        gains = (
            difference(densities[one], densities[other])
            for one, other in (("m-step", "learned"), ("held-out m-step", "m-step"))
        )
        cells.append(
            [
                TITLES[name],
                f"{seen.mean:.4f}",
                f"{unseen.mean:.4f}",
                f"{unseen.mean / seen.mean:.2f}",
                *(shown(gain, name, "log-likelihood") for gain in gains),
            ]
        )
    return Table(
        "Residuals that the M-step sees",
        (
            "data",
            "squared residual, training rows",
            "squared residual, validation rows",
            "ratio",
            "gain by the last M-step",
            "further gain on validation rows",
        ),
        cells,
        "Concrete dropout trained without the validation rows: mean square over draws and rows, "
        "in units of the targets' variance, on as many training rows as there are validation "
        "rows. An M-step sets 1/τ to about this number. Gains are in nats per test row, with "
        "standard errors of the paired differences over splits.",
    )


def method_table(rows: Rows, metric: str) -> Table:
    """All methods of ours, under one protocol."""
    _, sign = METRICS[metric]
    cells = []
    for name in as_printed(rows.distinct("table")):
        part = on_common_splits(rows, name, METHODS)
        found = [ours(part, name, method, "tuned", metric) for method in METHODS]
        means = [sign * value.mean for value in found if value is not None]
        cells.append(
            [
                TITLES[name],
                *(
                    f"**{shown(value, name, metric)}**"
                    if value is not None and sign * value.mean == max(means)
                    else shown(value, name, metric)
                    for value in found
                ),
            ]
        )
    return Table(
        f"All methods: {metric if metric != 'rmse' else 'RMSE'}",
        ("data", *METHODS.values()),
        cells,
        "One protocol for all networks: one of three candidates (the length scale of the "
        "prior, or for MC dropout the rate) is selected on the validation rows of each "
        "split; τ is at its optimum on the validation rows; networks are retrained on all "
        "training rows. The ensemble has five maximum a posteriori networks. Means over the "
        "splits on which all methods were run. Bold: the best mean.",
    )


def shown(value: Value | None, table: str, metric: str) -> str:
    """A mean with its error."""
    if value is None:
        return "not run"
    digits = 4 if table == "naval" and metric == "rmse" and 0 < value.mean < 0.005 else 2
    return value.shown(digits)


def variant_table(rows: Rows) -> Table:
    """Bayes by Backprop as it is, and with what may cure it."""
    cells = []
    for name in with_variants(rows):
        part = on_common_splits(rows, name, BAYES)
        for method, title in BAYES.items():
            columns = ((SEEN, "rmse"), ("tuned", "rmse"), ("tuned", "log-likelihood"))
            found = (ours(part, name, method, stage, metric) for stage, metric in columns)
            cells.append([TITLES[name], title, *(shown(v, name, metric="") for v in found)])
    return Table(
        "Bayes by Backprop: why it underfits",
        ("data", "variant", "RMSE, training rows", "RMSE, test rows", "log-likelihood"),
        cells,
        "Run on the smaller data sets only. Initial deviations are 0.01 as it is. A tenth of "
        "the KL gives a cold posterior, which is not that of the prior. With the last layer "
        "only, hidden layers have no prior. Training rows: networks trained without validation "
        "rows. Means over the splits on which all were run.",
    )


def rate_table(rows: Rows) -> Table:
    """Figure 4 in numbers."""
    cells = []
    for name in as_printed(rows.distinct("table")):
        rates = [
            rows.where(table=name, method="concrete", metric="drop", layer=layer).values()
            for layer in range(len(LAYERS))
        ]
        if all(rates):
            cells.append([TITLES[name], *map(spread, rates)])
    return Table(
        "Figure 4 in numbers",
        ("data", *(title for title, _, _ in LAYERS)),
        cells,
        "Median rate over splits, with the smallest and the largest.",
    )


def spread(values: list[float]) -> str:
    """The median, and the range."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


@house_style()
def draw_methods(rows: Rows, size: Size) -> Figure:
    """A line for each data set, a mark for each method."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    names = as_printed(rows.distinct("table"))
    published, _ = METRICS["log-likelihood"]
    marks = zip(METHODS, (BLUE, VERMILION, GREEN, PURPLE, QUIET, RULE), "osD^vP", strict=True)
    limit = 1.2
    common = {name: on_common_splits(rows, name, METHODS) for name in names}
    for index, (method, colour, mark) in enumerate(marks):
        for place, name in enumerate(names):
            value = ours(common[name], name, method, "tuned", "log-likelihood")
            if value is None:
                continue
            gain = value.mean - published[name].m_step.mean
            panel.errorbar(
                max(-limit, min(limit, gain)),
                place + 0.13 * (index - 2.5),
                xerr=0.0 if abs(gain) > limit else 2 * (value.error or 0.0),
                color=colour,
                marker=mark,
                markersize=5,
                linewidth=1.0,
                linestyle="none",
                label=METHODS[method] if place == 0 else None,
            )
    panel.axvline(0.0, color=QUIET, linewidth=1.0)
    panel.set_xlim(-limit - 0.05, limit + 0.05)
    panel.set_yticks(range(len(names)), [TITLES[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel("nats per row above the published CDropoutM")
    panel.grid(axis="x", color=RULE, linewidth=0.6)
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@house_style()
def draw_rates(rows: Rows, size: Size) -> Figure:
    """Rates by data set and layer, a dot for each split."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    names = as_printed(rows.distinct("table"))
    for layer, (title, colour, mark) in enumerate(LAYERS):
        for place, name in enumerate(names):
            rates = rows.where(table=name, method="concrete", metric="drop", layer=layer).values()
            panel.plot(
                rates,
                [place + 0.22 * (layer - 1)] * len(rates),
                color=colour,
                marker=mark,
                markersize=4,
                alpha=0.6,
                linestyle="none",
                markeredgewidth=0,
                label=title if place == 0 else None,
            )
    panel.set_yticks(range(len(names)), [TITLES[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel("dropout rate")
    panel.set_xlim(left=0.0)
    panel.grid(axis="x", color=RULE, linewidth=0.6)
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


PAGE = Page(CLAIMS, exhibits, examined="small-db62c39d", ledger=printed_numbers)
