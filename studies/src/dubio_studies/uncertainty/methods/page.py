"""Which method is best at what, and what it costs: rows in, tables and figures out."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.framework.study import Page
from dubio_studies.uci.tables import TITLES, as_printed

NAMES = {
    "plain": "plain network",
    "ensemble": "deep ensemble",
    "mc": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli dropout",
    "gaussian": "learned Gaussian dropout",
    "drop-connect": "DropConnect",
    "bayes": "Bayes by Backprop",
    "last-layer": "Bayes by Backprop, last layer",
    "linear": "linear, closed form",
}
NOISY = tuple(name for name in NAMES if name not in ("plain", "ensemble", "linear"))
METRICS = {"nll": "NLL", "rmse": "RMSE", "calibration": "calibration gap", "auroc": "shift, AUROC"}
HIGHER = ("auroc",)
NOTICED = 0.6  # AUROC of shifted rows


def on(rows: Rows, method: str, metric: str, table: str) -> list[float]:
    """A score of every split of a table."""
    return rows.where(part="tables", table=table, method=method, metric=metric).values()


def tables(rows: Rows) -> list[str]:
    """The tables that were run, in the order of the papers."""
    return as_printed(rows.where(part="tables").distinct("table"))


def ranks(rows: Rows, metric: str) -> dict[str, list[float]]:
    """By method: its rank among all methods, one for each table and split; ties share theirs."""
    found: dict[str, list[float]] = {}
    for table in tables(rows):
        scored = {m: values for m in NAMES if (values := on(rows, m, metric, table))}
        for split in zip(*scored.values(), strict=True):
            signed = [-value if metric in HIGHER else value for value in split]
            for method, value in zip(scored, signed, strict=True):
                better = sum(other < value for other in signed)
                level = sum(other == value for other in signed)
                found.setdefault(method, []).append(better + (level + 1) / 2)
    return found


def differences(rows: Rows, one: str, other: str, metric: str) -> list[float]:
    """One method less another on every split of every table."""
    pairs = (
        zip(*(on(rows, m, metric, t) for m in (one, other)), strict=True) for t in tables(rows)
    )
    return [a - b for table in pairs for a, b in table]


def better_than_plain(rows: Rows) -> Finding:
    """The likelihood of each method with several functions against the plain network's."""
    texts, agrees = [], True
    for method in ("ensemble", *NOISY):
        found = differences(rows, "plain", method, "nll")
        error = standard_error(found)
        texts.append(f"{NAMES[method]} {with_error(found)}")
        agrees = agrees and error is not None and fmean(found) > 2 * error
    return Finding("nats gained: " + ", ".join(texts), agrees)


def ensembles_lead(rows: Rows) -> Finding:
    """Mean ranks by likelihood."""
    found = {method: fmean(own) for method, own in ranks(rows, "nll").items()}
    order = sorted(found, key=lambda method: found[method])
    text = ", ".join(f"{NAMES[method]} {found[method]:.1f}" for method in order)
    return Finding(f"mean ranks: {text}", order[0] == "ensemble")


def learned_rates_are_as_good(rows: Rows) -> Finding:
    """Rates that are learned against one that validation chooses."""
    texts, agrees = [], True
    for method in ("concrete", "bernoulli"):
        found = differences(rows, method, "mc", "nll")
        texts.append(f"{NAMES[method]} less MC dropout {with_error(found)} nats")
        agrees = agrees and fmean(found) <= 2 * (standard_error(found) or 0.0)
    return Finding(", ".join(texts), agrees)


def notice_shift(rows: Rows) -> Finding:
    """The AUROC of shifted rows, averaged over splits and tables."""
    found = {
        m: fmean(fmean(on(rows, m, "auroc", table)) for table in tables(rows))
        for m in ("ensemble", *NOISY)
    }
    text = ", ".join(f"{NAMES[method]} {value:.2f}" for method, value in found.items())
    return Finding(text, min(found.values()) > NOTICED)


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
        *(score_table(rows, metric) for metric in ("nll", "rmse")),
    ]
    if rows.where(part="digits"):
        shown.append(digits_table(rows))
    return shown


def costs(rows: Rows, method: str, metric: str) -> str:
    """CPU time in units of the plain network's, the mean over data sets or restarts."""
    own, plain = (
        rows.where(method=m, metric=metric).values("cpu_seconds") for m in (method, "plain")
    )
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
        "mutual information, for the plain network of entropy.",
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


CLAIMS = (
    Claim(
        "Every method that averages functions predicts better than a plain network.",
        "what all of them promise",
        "On tables the NLL of each is below the plain network's, by more than two standard errors "
        "of the paired differences over splits.",
        better_than_plain,
        otherwise=Undecided(
            "After 1,000 of 20,000 steps, noise may have slowed learning: on energy and yacht the "
            "errors are larger too, and on Boston most methods are about equal. Longer training "
            "was not run."
        ),
    ),
    Claim(
        "Deep ensembles predict best.",
        "Lakshminarayanan et al. 2017, and many after them",
        "On tables they have the lowest mean rank by NLL.",
        ensembles_lead,
    ),
    Claim(
        "Learned dropout rates are as good as one that validation chooses.",
        "Gal et al. 2017; Boluki et al. 2020",
        "On tables the NLL of Concrete and of learnable Bernoulli dropout is not above that of MC "
        "dropout, by more than two standard errors of the paired differences over splits.",
        learned_rates_are_as_good,
    ),
    Claim(
        "Draws differ more where rows are unlike those seen in training.",
        "what epistemic uncertainty is for",
        f"On tables the AUROC of shifted rows is above {NOTICED:g} for every method but the plain "
        "network.",
        notice_shift,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-b3213824")
