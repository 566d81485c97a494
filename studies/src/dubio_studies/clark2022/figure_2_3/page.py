"""What Clark et al. 2022 says of its priors, and how they look."""

import math
from functools import partial

from matplotlib.figure import Figure

from dubio.report.exhibits import Plot, Size, Table
from dubio.report.ink import BLUE, GREEN, PURPLE, RULE, VERMILION, house_style
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

HUES = (BLUE, VERMILION, GREEN)
LINES = ("-", "--", ":")
COMPARED = {"sigma": 0, "spike": 6}


def mixture(rows: Rows) -> Rows:
    """The mixture of figure 3."""
    return rows.where(prior="mixture", **COMPARED)


def laplace_is_narrower(rows: Rows) -> Finding:
    """Probabilities near zero and in the tails."""
    both = {"Laplace": rows.where(prior="laplace"), "mixture": mixture(rows)}
    near, tails = (
        {name: own.value(metric=metric) for name, own in both.items()}
        for metric in ("near zero", "tails")
    )
    text = "; ".join(
        f"{what} {', '.join(f'{name} {value:.3f}' for name, value in found.items())}"
        for what, found in (("|w| < 0.5:", near), ("|w| > 1:", tails))
    )
    agrees = near["Laplace"] > near["mixture"] and tails["Laplace"] < tails["mixture"]
    return Finding(text, agrees)


def spike_is_subtle(rows: Rows) -> Finding:
    """What σ2 changes at zero, and everywhere else."""
    at_zero, elsewhere = [], []
    for sigma in rows.where(prior="mixture").distinct("sigma"):
        curves = [
            rows.where(prior="mixture", sigma=sigma, spike=spike, metric="log density")
            for spike in rows.where(prior="mixture").distinct("spike")
        ]
        for values in zip(*(curve.values() for curve in curves), strict=True):
            densities = [math.exp(value) for value in values]
            at_zero.append(max(densities) / min(densities))
        wide = [v for c in curves for w, v in zip(c.values("w"), c.values(), strict=True) if w >= 1]
        groups = len(wide) // len(curves)
        parts = [wide[k * groups : (k + 1) * groups] for k in range(len(curves))]
        elsewhere.append(max(max(v) - min(v) for v in zip(*parts, strict=True)))
    peak, far = max(at_zero), max(elsewhere)
    return Finding(
        f"densities at zero differ by a factor of up to {peak:.1f}, those at |w| ≥ 1 by up to "
        f"{math.expm1(far):.1%}",
        peak > 2 and far < 0.01,
    )


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        Plot(
            "priors",
            "Figures 2 and 3: densities of priors",
            "Densities of nine mixtures, and of a Gaussian, a mixture and Laplace",
            partial(draw, rows),
            wide=(12.0, 4.6),
            narrow=(5.0, 9.0),
            note="Densities on a logarithmic axis. Left: hue is −log σ1 of 0, 1 and 2, line is "
            "−log σ2 of 6, 7 and 8; the narrow component is a spike at zero.",
        )
    ]


@house_style()
def draw(rows: Rows, size: Size) -> Figure:
    """Densities of both figures."""
    figure = Figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2) if size[0] > size[1] else figure.subplots(2, 1)
    mixtures = rows.where(prior="mixture", metric="log density")
    for sigma, hue in zip(mixtures.distinct("sigma"), HUES, strict=False):
        for spike, line in zip(mixtures.distinct("spike"), LINES, strict=False):
            own = mixtures.where(sigma=sigma, spike=spike)
            densities = [math.exp(value) for value in own.values()]
            label = f"{sigma}, {spike}"
            left.plot(own.values("w"), densities, color=hue, linestyle=line, label=label)
    shown = {"Gaussian": rows.where(prior="gaussian"), "mixture": mixture(rows),
             "Laplace": rows.where(prior="laplace")}  # fmt: skip
    for (name, own), hue in zip(shown.items(), (PURPLE, VERMILION, GREEN), strict=True):
        curve = own.where(metric="log density")
        right.plot(curve.values("w"), [math.exp(v) for v in curve.values()], color=hue, label=name)
    for panel in (left, right):
        panel.set_yscale("log")
        panel.set_ylim(1e-6, 1e4)
        panel.set_xlabel("weight")
        panel.grid(color=RULE, linewidth=0.6)
        panel.legend(frameon=False, fontsize=8.5)
    left.set_ylabel("density")
    return figure


CLAIMS = (
    Claim(
        "Laplace has greater probability mass around zero than the mixture, and less in the tails.",
        "figure 3",
        "P(|w| < 0.5) is larger and P(|w| > 1) smaller than under the mixture with −log σ1 = 0 and "
        "−log σ2 = 6.",
        laplace_is_narrower,
    ),
    Claim(
        "The impact of σ2 is subtle, but for the peak.",
        "figure 2",
        "Among −log σ2 densities differ by more than a factor of two at zero, and by less than 1 % "
        "where |w| ≥ 1.",
        spike_is_subtle,
    ),
)

PAGE = Page(CLAIMS, exhibits)
