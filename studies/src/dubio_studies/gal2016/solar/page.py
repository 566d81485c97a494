"""What the solar study is to show, and how our rows are shown."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import INK, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.axes import name_axes
from dubio_studies.gal2016.bands import draw_band

GAPS = ("1", "2", "3", "4", "5")
PANELS = (
    ("standard dropout, ReLU", "relu", "standard"),
    ("Gaussian process, squared exponential", "gp", "gp"),
    ("MC dropout, ReLU", "relu", "mc"),
    ("MC dropout, TanH", "tanh", "mc"),
)
METHODS = {
    ("relu", "standard"): "standard dropout, ReLU",
    ("tanh", "standard"): "standard dropout, TanH",
    ("gp", "gp"): "Gaussian process",
    ("relu", "mc"): "MC dropout, ReLU",
    ("tanh", "mc"): "MC dropout, TanH",
}


def all_gaps(rows: Rows, model: str, method: str, metric: str) -> list[float]:
    """A number over all gaps, for every restart."""
    return rows.where(model=model, method=method, metric=metric, gap="all").values()


def widening(rows: Rows, model: str, method: str) -> list[float]:
    """Deviation in the gaps over that on the data, for every restart."""
    on_data = rows.where(model=model, method=method, metric="std-on-data").values()
    in_gaps = all_gaps(rows, model, method, "std")
    return [gap / data for gap, data in zip(in_gaps, on_data, strict=True)]


def wider_in_gaps(rows: Rows) -> Finding:
    """Ratios of MC dropout and of the Gaussian process."""
    relu, tanh = widening(rows, "relu", "mc"), widening(rows, "tanh", "mc")
    process = widening(rows, "gp", "gp")
    return Finding(
        f"deviation in the gaps over that on the data: ReLU {with_error(relu)}, TanH "
        f"{with_error(tanh)}, Gaussian process {with_error(process)}, standard dropout 1",
        min(*relu, *process) > 1.1,
    )


def better_density(rows: Rows) -> Finding:
    """Log densities of MC dropout and standard dropout in the gaps, from the same networks."""
    found = {
        (model, method): all_gaps(rows, model, method, "lppd")
        for model in ("relu", "tanh")
        for method in ("mc", "standard")
    }
    better = all(
        min(m - s for m, s in zip(found[model, "mc"], found[model, "standard"], strict=True)) > 0
        for model in ("relu", "tanh")
    )
    return Finding(
        "; ".join(
            f"{name}: MC {with_error(found[model, 'mc'])}, standard "
            f"{with_error(found[model, 'standard'])}"
            for model, name in (("relu", "ReLU"), ("tanh", "TanH"))
        )
        + f"; Gaussian process {with_error(all_gaps(rows, 'gp', 'gp', 'lppd'))}",
        better,
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    scale = rows[0]["scale"]
    return [
        Plot(
            "panels",
            f"Solar irradiance with five gaps ({scale} scale)",
            "Four panels: predictive means and bands through the observed curve and its five gaps",
            partial(draw_panels, rows),
            wide=(12.0, 7.4),
            narrow=(5.0, 12.0),
            note="Orange: training data. Dark: observations in the shaded gaps. Blue: predictive "
            "mean ± two standard deviations; each shade is half a deviation, with the noise "
            "that is optimal for the training data. First restart.",
        ),
        summary_table(rows),
        gap_table(rows),
    ]


@house_style()
def draw_panels(rows: Rows, size: Size) -> Figure:
    """The four methods, with the same axes."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (4, 1) if size[0] < 8 else (2, 2)
    panels = figure.subplots(*shape, sharex=True, sharey=True).flatten()
    for panel, (title, model, method) in zip(panels, PANELS, strict=True):
        shade_gaps(panel, rows.where(metric="observed", part="test"))
        draw_band(panel, rows.where(model=model, method=method, metric="curve"), 2)
        for part, colour in (("train", VERMILION), ("test", INK)):
            seen = rows.where(metric="observed", part=part)
            panel.plot(
                seen.values("x"), seen.values(), color=colour, linestyle="none", marker="o",
                markersize=2.2, markeredgewidth=0,
            )  # fmt: skip
        panel.set_title(title)
        panel.set_xlim(-1.75, 1.75)
        panel.set_ylim(-3, 4)
    name_axes(figure, "irradiance")
    return figure


def shade_gaps(axes: Axes, test: Rows) -> None:
    """A ground for each gap."""
    x = test.values("x")
    step = max(1, len(x) // len(GAPS))
    for start in range(0, len(x), step):
        axes.axvspan(x[start], x[start + step - 1], color=RULE, alpha=0.35, linewidth=0)


def summary_table(rows: Rows) -> Table:
    """Errors, densities and coverage in all gaps together."""

    def cells(model: str, method: str) -> list[str]:
        coverage = [100 * v for v in all_gaps(rows, model, method, "coverage")]
        published = all_gaps(rows, model, method, "published-lppd")
        return [
            METHODS[model, method],
            with_error(all_gaps(rows, model, method, "rmse"), 3),
            with_error(all_gaps(rows, model, method, "lppd")),
            with_error(coverage, 0),
            with_error(widening(rows, model, method)),
            with_error(published, 0) if published else "–",
        ]

    return Table(
        f"In the gaps ({rows[0]['scale']} scale)",
        ("method", "RMSE", "lppd", "within 2 deviations, %", "deviation / data", "lppd, τ = 1e5"),
        [cells(*key) for key in METHODS],
        "lppd: mean log predictive density of the 100 held-out years; targets have variance "
        "1. The noise of the networks is optimal for the training data, given their weights; "
        "that of the Gaussian process maximises its evidence. With the published precision, "
        "1e5, errors of a few tenths cost thousands of nats: it was chosen for pictures. "
        "Errors are standard errors over restarts.",
    )


def gap_table(rows: Rows) -> Table:
    """RMSE and log density of every gap."""

    def cell(model: str, method: str, gap: str) -> str:
        chosen = rows.where(model=model, method=method, gap=gap)
        rmse, lppd = (chosen.where(metric=metric).values() for metric in ("rmse", "lppd"))
        return f"{with_error(rmse)} / {with_error(lppd)}"

    return Table(
        f"RMSE / lppd by gap ({rows[0]['scale']} scale)",
        ("method", *(f"gap {gap}" for gap in GAPS)),
        [[name, *(cell(*key, gap) for gap in GAPS)] for key, name in METHODS.items()],
        "From left to right in the figure, 20 years each.",
    )


CLAIMS = (
    Claim(
        "MC dropout is less certain where data are missing, like a Gaussian process.",
        "appendix D.1, a figure",
        "The predictive deviation is larger in the gaps than on the data by more than a tenth, for "
        "the Gaussian process and in every restart of the ReLU network.",
        wider_in_gaps,
    ),
    Claim(
        "Uncertainty gives better predictive densities than standard dropout.",
        "tables of other data; none for these",
        "In every restart the mean log density of the observations in the gaps is higher "
        "with MC dropout than with standard dropout of the same network, both with the noise "
        "that is optimal for the training data.",
        better_density,
    ),
)

PAGE = Page(CLAIMS, exhibits, examined="small-20de460d")
