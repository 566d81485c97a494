"""The tables and drawings of table 2: rows in, pictures out. Nothing here trains."""

from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, INK, NARROW, QUIET, RULE, VERMILION, house_style
from dubio_studies.boluki2020.table_2.claims import CLAIMS
from dubio_studies.boluki2020.table_2.ledger import printed_numbers
from dubio_studies.boluki2020.table_2.published import (
    DATASETS,
    METHODS,
    METRICS,
    published,
)
from dubio_studies.boluki2020.table_2.reading import (
    ABLATION,
    OURS,
    SEMI_IMPLICIT,
    Model,
    gain,
    has,
    in_table,
    main_metric,
    numbers,
    value,
)
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error
from dubio_studies.framework.study import Page

EXTRA = ("vae-drop-mixture", "vae-lbdrop")  # of the ablation only
PREDICTIONS = {"mean": "no noise", "draws": "draws"}
EQUAL = {"score": "equal score", "predicted hits": "equal expected hits"}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    datasets = rows.distinct("dataset")
    return [
        *(result_table(rows, dataset) for dataset in datasets),
        *(ablation_table(rows, dataset) for dataset in datasets),
        *spread_plots(rows),
        *keep_plots(rows),
        *example_tables(rows),
        choice_table(rows),
    ]


def metrics_of(rows: Rows, dataset: str) -> list[str]:
    """The metrics of a data set, in the order of the papers."""
    here = rows.where(dataset=dataset).distinct("metric")
    return [metric for metric in METRICS if metric in here]


def result_table(rows: Rows, dataset: str) -> Table:
    """Our rows and published ones."""
    metrics = metrics_of(rows, dataset)
    known = published(dataset)
    heads = [m for m in METRICS if any(m in theirs for theirs in known.values())]
    names = [name for name in METHODS if name not in EXTRA]
    best = {m: max((found(rows, dataset, n, m) or 0.0) for n in names) for m in metrics}

    def cells(method: str) -> list[str]:
        ours = [measured(rows, dataset, method, m, best[m]) for m in metrics]
        theirs = [f"{known[method][m]:.2f}" if m in known.get(method, {}) else "–" for m in heads]
        return [METHODS.get(method, method), *ours, *theirs]

    users = rows.where(dataset=dataset, metric="users")[0]
    cases = rows.where(dataset=dataset, metric=metrics[-1])[0]["cases"]
    others = [name for name in known if name not in METHODS]
    return Table(
        f"Table 2: {DATASETS[dataset]}",
        (
            "method",
            *(METRICS[m] for m in metrics),
            *(f"{METRICS[m]}, published" for m in heads),
        ),
        [cells(name) for name in (*names, *others)],
        f"Percent. The first ± is the standard error over {cases:,} test users, the second, "
        "if any, over restarts. Rows share their test users, so differences are much more "
        f"precise: see the ablation. {users['value']:,} training users, {users['items']:,} "
        f"items, {users['interactions']:,} interactions. SIVAE rows average draws, the others "
        f"make one pass without noise. {notes(rows, dataset)}",
    )


def found(rows: Rows, dataset: str, method: str, metric: str) -> float | None:
    """A number of the table; None if it was not run."""
    model = in_table(method)
    return value(rows, dataset, model, metric) if has(rows, dataset, model) else None


def measured(rows: Rows, dataset: str, method: str, metric: str, best: float) -> str:
    """A cell: percent with both standard errors; a dash if it was not run."""
    if (mean := found(rows, dataset, method, metric)) is None:
        return "–"
    here = numbers(rows, dataset, in_table(method), metric)
    over_restarts = standard_error(here.values())
    text = f"{100 * mean:.2f} ± {100 * fmean(here.values('error')):.2f}"
    if over_restarts is not None:
        text += f" ± {100 * over_restarts:.2f}"
    return f"**{text}**" if mean == best else text


def notes(rows: Rows, dataset: str) -> str:
    """Why rows of the table are empty."""
    here = rows.where(dataset=dataset)
    said = [f"{METHODS[row['method']]}: {row['value']}." for row in here.where(metric="skipped")]
    if not has(rows, dataset, in_table("cdae")):
        said.append("CDAE has a vector for each training user, so it cannot handle new users.")
    return " ".join(said)


def ablation_table(rows: Rows, dataset: str) -> Table:
    """Where the gain comes from."""
    metric = main_metric(rows, dataset)
    start = ("vae-drop", "mean")

    def cells(model: Model) -> list[str]:
        if not (has(rows, dataset, model) and has(rows, dataset, start)):
            return [*described(model), "–", "–"]
        mean = f"{100 * value(rows, dataset, model, metric):.2f}"
        less = "–" if model == start else gain(rows, dataset, model, start).shown()
        return [*described(model), mean, less]

    return Table(
        f"Ablation: {DATASETS[dataset]}",
        ("model", "rates", "masks", "prediction", METRICS[metric], "minus VAE+Drop, no noise"),
        [cells((method, prediction)) for method in ABLATION for prediction in PREDICTIONS],
        "Percent. Differences are paired by user, with a standard error over users and "
        "restarts. By our reading of their code, which we did not run, the authors' gradient "
        "hardly moves the rates; their SIVAE+LBDrop would then be close to rates fixed at 0.5 with "
        "three masks and draws.",
    )


def described(model: Model) -> list[str]:
    """The parts of a model of the ablation."""
    method, prediction = model
    return [
        METHODS[method],
        "learned" if "lbdrop" in method else "0.5",
        "3" if method in (*SEMI_IMPLICIT, "vae-drop-mixture") else "1",
        PREDICTIONS[prediction],
    ]


def spread_plots(rows: Rows) -> list[Plot]:
    """A figure for each data set with spreads."""
    return [
        Plot(
            f"spread-{dataset}",
            f"Spread against error: {DATASETS[dataset]}",
            "Hit rates of recommendations with a low and with a high spread against their score",
            partial(draw_spreads, rows, dataset),
            wide=(12.0, 5.0),
            narrow=(5.0, 9.6),
            note="SIVAE+LBDrop, the 100 best items of each test user. They are sorted by the "
            "quantity held equal and cut into blocks of 20, and each block is split in half "
            "by spread, so both curves have the same scores. Left: the score itself. Right: "
            "the expected hit 1 − (1 − p)ᵐ for a score p and m held-out items, since users "
            "with long histories have low spreads and more items to find. The line is what "
            "the model predicts. Bars are two standard errors over users; means over "
            "restarts.",
        )
        for dataset in rows.distinct("dataset")
        if rows.where(dataset=dataset, method=OURS, metric="hits by spread")
    ]


@house_style()
def draw_spreads(rows: Rows, dataset: str, size: Size) -> Figure:
    """Hit rates of low and high spreads, at equal score and at equal expected hits."""
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(2, 1) if size[0] < NARROW else figure.subplots(1, 2)
    own = rows.where(dataset=dataset, method=OURS, metric="hits by spread")
    for axes, (equal, title) in zip(panels, EQUAL.items(), strict=True):
        draw_halves(axes, own.where(equal=equal))
        axes.set_title(f"At {title}")
        axes.set_xlabel("score" if equal == "score" else "expected hit rate")
        axes.set_ylabel("hit rate")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(axis="y", color=RULE, linewidth=0.6)
    low, high = panels[1].get_xlim()
    panels[1].plot([low, high], [low, high], color=QUIET, linewidth=1.0, zorder=0)
    panels[0].legend(frameon=False, loc="upper left")
    return figure


def draw_halves(axes: Axes, own: Rows) -> None:
    """Two curves with error bars over bins of scores."""
    bins = [number for number in own.distinct("bin") if number > 0]
    x = [fmean(own.where(bin=number).values("score")) for number in bins]
    for half, colour, mark in (("low", BLUE, "o"), ("high", VERMILION, "s")):
        rates, errors = (
            [fmean(own.where(bin=number).values(name)) for number in bins]
            for name in (half, f"{half}_error")
        )
        axes.errorbar(
            x, rates, yerr=[2 * error for error in errors], color=colour, marker=mark,
            markersize=5, linewidth=1.6, label=f"{half} spread",
        )  # fmt: skip
    axes.set_xscale("log")


def keep_plots(rows: Rows) -> list[Plot]:
    """A figure for each data set with learned rates."""
    return [
        Plot(
            f"keep-{dataset}",
            f"Learned keep rates against popularity: {DATASETS[dataset]}",
            "The mean probability of keeping an item against the share of users who have it",
            partial(draw_keep, rows, dataset),
            wide=(12.0, 4.8),
            narrow=(5.0, 5.4),
            note="Bins have equal numbers of items; bands hold 80 % of the items. First restart; "
            f"all rates start at 0.5. {correlations(rows, dataset)}",
        )
        for dataset in rows.distinct("dataset")
        if rows.where(dataset=dataset, metric="keep")
    ]


def correlations(rows: Rows, dataset: str) -> str:
    """Rank correlations of keep rates and popularity, in words."""
    found = rows.where(dataset=dataset, metric="keep against popularity")
    return "; ".join(
        f"{METHODS[method]}: rank correlation "
        f"{fmean(found.where(method=method).values()):.2f}".replace("-", "−")
        for method in found.distinct("method")
    )


@house_style()
def draw_keep(rows: Rows, dataset: str, size: Size) -> Figure:
    """Keep rates against popularity, a line for each learned mask."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    own = rows.where(dataset=dataset, metric="keep", restart=1)
    styles = {
        "sivae-lbdrop": (BLUE, "-"),
        "vae-lbdrop": (GREEN, "--"),
        "sivae-cdrop": (VERMILION, "-."),
        "sivae-gdrop": (INK, ":"),
    }
    for method, (colour, line) in styles.items():
        bins = own.where(method=method)
        x = [max(popularity, 1e-5) for popularity in bins.values("popularity")]
        if not x:
            continue
        axes.plot(x, bins.values(), color=colour, linestyle=line, label=METHODS[method])
        axes.fill_between(
            x, bins.values("low"), bins.values("high"), color=colour, alpha=0.12, linewidth=0
        )
    axes.axhline(0.5, color=RULE, linewidth=1.0, zorder=0)
    axes.set_xscale("log")
    axes.set_xlabel("share of training users with the item")
    axes.set_ylabel("probability of keeping it")
    axes.legend(frameon=False, loc="best")
    return figure


def example_tables(rows: Rows) -> list[Table]:
    """What a user liked, and what is recommended, where there are titles."""
    titles = {row["item"]: str(row["value"]) for row in rows.where(metric="title")}
    tables = []
    for dataset in rows.distinct("dataset"):
        own = rows.where(dataset=dataset, method=OURS, metric="recommended")
        liked = rows.where(dataset=dataset, method=OURS, metric="liked")
        if not own or dataset not in ("movielens-1m", "tastes"):
            continue
        names = titles if dataset == "movielens-1m" else {}
        seen = "; ".join(names.get(int(item), f"item {int(item)}") for item in liked.values())
        tables.append(
            Table(
                f"A user of {DATASETS[dataset]}",
                ("recommended", "score %", "spread %", "spread / score", "held out"),
                [
                    [
                        names.get(row["value"], f"item {row['value']}"),
                        f"{100 * row['score']:.2f}",
                        f"{100 * row['spread']:.2f}",
                        f"{row['spread'] / row['score']:.2f}",
                        "yes" if row["hit"] else "no",
                    ]
                    for row in own
                ],
                "SIVAE+LBDrop. The test user with the median number of liked items. The "
                f"model saw {liked[0]['of']} of them, including the most popular: {seen}. The "
                "score is the probability of being the next item; the spread is its standard "
                "deviation between draws.",
            )
        )
    return tables


def choice_table(rows: Rows) -> Table:
    """What was chosen on the validation, and what it cost."""
    cells = []
    for dataset in rows.distinct("dataset"):
        for method in rows.where(dataset=dataset).distinct("method"):
            own = rows.where(dataset=dataset, method=method)
            chosen = [str(m) for m in own.distinct("metric") if str(m).startswith("chosen ")]
            settings = ", ".join(
                f"{metric.removeprefix('chosen ')} {fmean(own.where(metric=metric).values()):.4g}"
                for metric in chosen
            )
            keep = own.where(metric="mean keep")
            seconds = own.where(metric="users").values("cpu_seconds")
            cells.append(
                [
                    f"{dataset}, {METHODS[method]}",
                    settings or "–",
                    f"{fmean(keep.values()):.3f}" if keep else "–",
                    f"{fmean(seconds):.0f}" if seconds else "–",
                ]
            )
    return Table(
        "What validation selected, and its cost",
        ("model", "chosen", "mean keep", "CPU seconds"),
        cells,
        "Means over restarts. β is that of the kept epoch. Seconds of fitting include all "
        "settings tried, on one core of a busy machine.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-31f0efc7", ledger=printed_numbers)
