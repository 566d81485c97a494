"""Which method is best at what, and what it costs: rows in, tables and figures out."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, RULE, VERMILION, house_style
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page
from dubio_studies.uci.tables import TITLES
from dubio_studies.uncertainty.methods.claims import CLAIMS
from dubio_studies.uncertainty.methods.comparison import (
    AVERAGES,
    NAMES,
    is_above_zero,
    on,
    paired,
    ranks,
    tables,
)

METRICS = {"nll": "NLL", "rmse": "RMSE", "calibration": "calibration gap", "auroc": "shift, AUROC"}
RATES = ("mc", "concrete", "bernoulli", "gaussian", "drop-connect")  # methods that have them


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    shown: list[Table | Plot] = [
        rank_table(rows),
        Plot(
            "ranks",
            "Mean ranks on tables",
            "For every method its mean rank by likelihood, error and calibration",
            partial(draw_ranks, rows),
            wide=(12.0, 5.0),
            narrow=(5.0, 6.4),
            note="Left is better. Bars are two standard errors over tables and splits.",
        ),
        gain_table(rows),
        *(score_table(rows, metric) for metric in ("nll", "rmse")),
    ]
    if rows.where(part="tables", metric="training rmse"):
        shown += [fit_table(rows), rate_table(rows)]
    if rows.where(part="longer"):
        shown.append(longer_table(rows))
    if rows.where(part="digits"):
        shown.append(digits_table(rows))
    return shown


def costs(rows: Rows, method: str, metric: str) -> str:
    """CPU time in units of the plain network's, the mean over data sets, of restarts the least."""
    own, plain = (
        rows.where(method=m, metric=metric).values("cpu_seconds") for m in (method, "plain")
    )
    if rows.distinct("part") == ["digits"]:
        own, plain = [min(own)], [min(plain)]
    ratio = fmean(a / b for a, b in zip(own, plain, strict=True))
    return f"{ratio:.1f}" if ratio >= 0.1 else f"{ratio:.3f}"


def rank_table(rows: Rows) -> Table:
    """Mean ranks, and costs."""
    found = {metric: ranks(rows, metric) for metric in METRICS}
    own = rows.where(part="tables")

    def cell(metric: str, method: str) -> str:
        values = found[metric].get(method)
        if values is None:
            return "–"
        best = min(fmean(each) for each in found[metric].values())
        text = with_error(values, 1)
        return f"**{text}**" if fmean(values) == best else text

    splits = len(found["nll"]["plain"])
    return Table(
        "Tables: mean ranks and cost",
        ("method", *METRICS.values(), "training", "prediction"),
        [
            [
                name,
                *(cell(metric, method) for metric in METRICS),
                costs(own, method, "training"),
                costs(own, method, "prediction"),
            ]
            for method, name in NAMES.items()
        ],
        f"Mean ranks over {splits} splits of {len(tables(rows))} tables, 1 the best, ± standard "
        "errors. The calibration gap is the mean difference between the level of central intervals "
        "and the share of targets in them. Shift: how well the spread of draws tells rows with "
        "noise on their features from test rows; one network has no spread. Costs are CPU time in "
        "units of the plain network's, whose penalty on weights a population computes more slowly "
        "than the KL of the others: the costs on digits are a better guide.",
    )


def gain_table(rows: Rows) -> Table:
    """What averaging functions gains, by table."""

    def cell(method: str, table: str) -> str:
        gained = paired(rows, "plain", method, "nll", table)
        text = with_error(gained)
        return f"**{text}**" if is_above_zero(gained) else text

    names = tables(rows)
    return Table(
        "Tables: nats gained over the plain network",
        ("method", *(TITLES[name] for name in names)),
        [[NAMES[m], *(cell(m, table) for table in names)] for m in AVERAGES],
        "NLL of the plain network less that of the method, means over splits, ± standard errors "
        "of paired differences. Bold: above zero by more than two of them.",
    )


def fit_table(rows: Rows) -> Table:
    """Errors on training rows and on test rows in units of the plain network's."""

    def cell(method: str, table: str) -> str:
        own, plain = (
            [fmean(on(rows, m, metric, table)) for metric in ("training rmse", "rmse")]
            for m in (method, "plain")
        )
        return " / ".join(f"{a / b:.2f}" for a, b in zip(own, plain, strict=True))

    names = tables(rows)
    return Table(
        "Tables: training / test RMSE over the plain network's",
        ("method", *(TITLES[name] for name in names)),
        [[NAMES[m], *(cell(m, table) for table in names)] for m in AVERAGES],
        "Ratios of means over splits. Above 1 on training rows, the method fits them less well; "
        "below 1 on test rows, it predicts better.",
    )


def rate_table(rows: Rows) -> Table:
    """Dropout rates of the inputs and of the hidden units."""

    def cell(method: str, table: str) -> str:
        own = rows.where(part="tables", method=method, table=table, metric="drop")
        return " / ".join(f"{fmean(own.where(layer=k).values()):.3f}" for k in (0, 1))

    names = tables(rows)
    return Table(
        "Tables: dropout rates",
        ("method", *(TITLES[name] for name in names)),
        [[NAMES[m], *(cell(m, table) for table in names)] for m in RATES],
        "First layer / second layer, means over splits. Validation chooses those of MC dropout and "
        "DropConnect among 0.005, 0.02 and 0.1; the others are learned.",
    )


def longer_table(rows: Rows) -> Table:
    """NLL after the steps of the run, and after twice as many."""
    names = tables(rows, "longer")

    def cells(method: str) -> list[str]:
        found = (on(rows, method, "nll", t, part) for t in names for part in ("tables", "longer"))
        return [with_error(values) if values else "–" for values in found]

    heads = (f"{TITLES[name]}, {steps} steps" for name in names for steps in lengths(rows))
    return Table(
        "Tables: NLL with twice the steps",
        ("method", *heads),
        [[name, *cells(method)] for method, name in NAMES.items() if method != "linear"],
        "Means over splits, ± standard errors. Less is better.",
    )


def lengths(rows: Rows) -> list[str]:
    """How many steps networks are trained for, and how many where it is longer."""
    return [
        f"{rows.where(part=part, method='plain', metric='training').values()[0]:,.0f}"
        for part in ("tables", "longer")
    ]


def score_table(rows: Rows, metric: str) -> Table:
    """A score by table."""
    names = tables(rows)
    cells = []
    for method, name in NAMES.items():
        found = [on(rows, method, metric, table) for table in names]
        cells.append([name, *(with_error(values) if values else "–" for values in found)])
    return Table(
        f"Tables: {METRICS[metric]}",
        ("method", *(TITLES[name] for name in names)),
        cells,
        "Means over splits, ± standard errors, in the units of the targets. Less is better.",
    )


def digits_table(rows: Rows) -> Table:
    """Scores on digits."""
    own = rows.where(part="digits")
    foreign = own.where(metric="auroc").distinct("foreign")

    def cells(method: str) -> list[str]:
        of = own.where(method=method)
        numbers: Sequence[list[float]] = [
            [100 * value for value in of.where(metric="error").values()],
            of.where(metric="nll").values(),
            [100 * value for value in of.where(metric="calibration").values()],
            *(of.where(metric="auroc", foreign=name).values() for name in foreign),
        ]
        digits = (2, 3, 2, *(3 for _ in foreign))
        return [
            NAMES[method],
            *(with_error(each, d) for each, d in zip(numbers, digits, strict=True)),
            costs(own, method, "training"),
            costs(own, method, "prediction"),
        ]

    return Table(
        "Digits: scores and cost",
        ("method", "error, %", "NLL", "ECE, %", *(f"AUROC, {name}" for name in foreign),
         "training", "prediction"),
        [cells(method) for method in own.distinct("method")],
        "± is a standard error over restarts, which share their images. The AUROC is that of "
        "mutual information, for the plain network of entropy. Costs are the least CPU time of a "
        "restart in units of the plain network's.",
    )  # fmt: skip


@house_style()
def draw_ranks(rows: Rows, size: Size) -> Figure:
    """A line for each method, a mark for each score."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    marks = {"nll": (BLUE, "o"), "rmse": (VERMILION, "s"), "calibration": (GREEN, "D")}
    names = list(NAMES)
    for place, (metric, (colour, mark)) in enumerate(marks.items()):
        found = ranks(rows, metric)
        panel.errorbar(
            [fmean(found[m]) for m in names if m in found],
            [names.index(m) + 0.2 * (place - 1) for m in names if m in found],
            xerr=[2 * (standard_error(found[m]) or 0.0) for m in names if m in found],
            color=colour, marker=mark, markersize=5, linewidth=1.0, linestyle="none",
            label=METRICS[metric],
        )  # fmt: skip
    panel.set_yticks(range(len(names)), list(NAMES.values()))
    panel.invert_yaxis()
    panel.set_xlabel("mean rank")
    panel.grid(axis="x", color=RULE, linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
    return figure


PAGE = Page(CLAIMS, exhibits, examined="small-71ec70e5")
