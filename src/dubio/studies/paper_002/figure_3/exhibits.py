"""The drawing and table of figure 3: rows in, pictures out. Nothing here trains."""

from functools import partial

from matplotlib.figure import Figure

from dubio.report.ink import house_style
from dubio.studies.paper_002.bands import draw_band, draw_observed, mark_extrapolation
from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Plot, Size, Table

PANELS = {"few": "as in the figure: a few draws", "many": "a hundred times as many draws"}
METRICS = {
    "mean-error": "error of the mean, in predictive deviations",
    "std-error": "relative error of the deviation",
    "std-ratio": "deviation over that from all draws, on average",
}


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    scale = rows[0]["scale"]
    return [
        Plot(
            "panels",
            f"Figure 3: MC dropout with ReLU from few and from many draws ({scale} scale)",
            "Two panels with the same mean and growing band beyond the data, ragged from few draws "
            "and smooth from many",
            partial(draw_panels, rows),
            wide=(12.0, 4.4),
            narrow=(5.0, 7.0),
            note="Orange: observed. Blue: the predictive mean plus and minus two standard "
            "deviations, half a deviation a shade. Dashed: the end of the data, and x*. Every "
            "input has draws of its own. The same network in both panels.",
        ),
        Table(
            f"Estimates from few draws ({scale} scale)",
            ("root mean square over inputs and estimates", "ours"),
            [
                [name, with_error(rows.where(metric=metric).values(), 3)]
                for metric, name in METRICS.items()
            ],
            "Against all draws of a hundred estimates together. The variance is that of the paper, "
            "divided by T, so that it is too small by a share of 1/T on average. Errors are "
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
    return figure
