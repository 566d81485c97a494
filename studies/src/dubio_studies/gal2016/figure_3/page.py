"""What Gal & Ghahramani 2016 says of its figure 3, and how our rows are shown."""

from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page
from dubio_studies.gal2016.axes import name_axes
from dubio_studies.gal2016.bands import draw_band, draw_observed, mark_extrapolation

PANELS = {"few": "as in the figure: a few draws", "many": "a hundred times as many draws"}
METRICS = {
    "mean-error": "error of the mean, in predictive deviations",
    "std-error": "relative error of the deviation",
    "std-ratio": "deviation over that from all draws, on average",
}


def few_draws_suffice(rows: Rows) -> Finding:
    """Errors of mean and deviation from T draws against those from a hundred times as many."""
    mean, std, ratio = (
        rows.where(metric=metric).values() for metric in ("mean-error", "std-error", "std-ratio")
    )
    return Finding(
        f"the mean is off by {with_error(mean)} predictive deviations, the deviation by "
        f"{with_error([100 * v for v in std], 0)} % (root mean squares over inputs and estimates); "
        f"the deviation is too small by {100 * (1 - fmean(ratio)):.0f} % on average",
        max(mean) < 0.5 and max(std) < 0.5,
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    scale = rows[0]["scale"]
    return [
        Plot(
            "panels",
            f"Figure 3: MC dropout with ReLU from few and from many draws ({scale} scale)",
            "Two panels with the same mean and a growing band beyond the data: ragged with "
            "few draws, smooth with many",
            partial(draw_panels, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 7.0),
            note="Orange: observations. Blue: predictive mean ± two standard deviations; each "
            "shade is half a deviation. Dashed: the end of the data, and x*. Every input has "
            "its own draws. Both panels show the same network.",
        ),
        Table(
            f"Estimates from few draws ({scale} scale)",
            ("root mean square over inputs and estimates", "ours"),
            [
                [name, with_error(rows.where(metric=metric).values(), 3)]
                for metric, name in METRICS.items()
            ],
            "The reference uses all draws of the hundred estimates. The variance is the "
            "paper's, divided by T, so it is too small by 1/T on average. Errors are "
            "standard errors over restarts. The paper prints no numbers.",
        ),
    ]


@house_style()
def draw_panels(rows: Rows, size: Size) -> Figure:
    """Few and many draws."""
    figure = Figure(figsize=size, layout="constrained")
    shape = (2, 1) if size[0] < 8 else (1, 2)
    panels = figure.subplots(*shape, sharex=True, sharey=True)
    observed = rows.where(metric="observed")
    for panel, (method, title) in zip(panels, PANELS.items(), strict=True):
        chosen = rows.where(metric="curve", method=method)
        draw_band(panel, chosen, 2)
        draw_observed(panel, observed)
        mark_extrapolation(panel)
        panel.set_title(title)
        panel.set_xlim(-1.8, max(chosen.values("x")))
    name_axes(figure, "CO2")
    return figure


CLAIMS = (
    Claim(
        "Much fewer than 1000 passes, such as ten, give a reasonable estimate of the predictive "
        "mean and uncertainty.",
        "figure 3; no numbers",
        "Over inputs and estimates, the mean from ten draws is off by less than half a predictive "
        "deviation, and the deviation by less than half of itself (root mean squares; 0.32 and "
        "0.23 are what ten Gaussian draws have).",
        few_draws_suffice,
    ),
)

PAGE = Page(CLAIMS, exhibits)
