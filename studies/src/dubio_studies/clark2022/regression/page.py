"""The tables of the regression, and its figures in the order of the paper: rows in, pages out."""

from collections.abc import Sequence
from functools import partial

from dubio.report.exhibits import Plot, Table
from dubio.report.ink import BLUE, GREEN, VERMILION
from dubio_studies.clark2022.regression.claims import (
    BASE,
    CLAIMS,
    GAUSSIAN,
    MIXTURE,
    Which,
    ensembles,
    final,
    gaussian,
    milliseconds,
    mixtures,
    noisy,
    number,
    of,
)
from dubio_studies.clark2022.regression.drawings import (
    TrainingLine,
    draw_bands,
    draw_curves,
    draw_training,
)
from dubio_studies.clark2022.regression.ledger import printed_numbers
from dubio_studies.clark2022.regression.published import (
    DIFFERENCES,
    LPPD,
    MILLISECONDS,
    TABLE_1,
    TABLE_2,
)
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Page

HUES = (BLUE, VERMILION, GREEN)
LINES = ("-", "--", ":")
BANDS = (
    "Dark: the middle half of the functions; light: 5th to 95th percentile; thick line: "
    "mean; thin black line: the true curve; dots: an eighth of the training data; grey "
    "background: the range of the training data. The bands do not include observation noise."
)
LPPD_NOTE = (
    "lppd is a mean over points (eq. 20): higher is better, and with σ_ε = 0.1 it is at most "
    "1.38. The paper evaluates on [−0.5, 1.5], three quarters of which has no data. So its "
    "values mainly show how far the mean strays there (−16.21 is an RMSE of 0.6 with "
    "certainty), not how good the fit is; [0, 0.5] has separate columns. There is one "
    "network per prior, as in the paper: differences of a few nats between priors may be due "
    "to the initial weights."
)
LPPD_COLUMNS = ("published", "on [−0.5, 1.5]", "on [0, 0.5]", "outside [0, 0.5]")


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        bands(
            rows,
            "figure-7",
            "Figures 1 and 7: ensembles",
            ensemble_panels(rows),
            "Percentiles are over the members' predictions, with dropout off.",
        ),
        spread_table(rows),
        bands(rows, "figure-8", "Figure 8: the noise of the likelihood", noise_panels(rows)),
        training(rows, "figure-9", "Figure 9: training, by the noise of the likelihood", [
            TrainingLine(f"noise σ = {noise:g}", rows.where(**noisy(noise)), hue)
            for noise, hue in zip(noises(rows), HUES, strict=False)
        ]),
        noise_table(rows),
        Plot(
            "figure-10",
            "Figure 10: ten functions from each posterior",
            "Ten draws of the network: close to each other on the data, spread apart outside",
            partial(draw_curves, rows, prior_panels(rows)),
            wide=(12.0, 4.6),
            narrow=(5.0, 8.0),
        ),
        bands(rows, "figure-11", "Figure 11: bands by prior", prior_panels(rows)),
        training(rows, "figure-12", "Figure 12: training with Gaussian priors", [
            TrainingLine(f"−log σ = {sigma}", rows.where(**gaussian(sigma)), hue)
            for sigma, hue in zip(sigmas(rows), HUES, strict=False)
        ]),
        table_1(rows),
        training(rows, "figure-13", "Figure 13: training with mixtures", [
            TrainingLine(
                f"{sigma}, {spike}", mixtures(rows).where(sigma=sigma, spike=spike), hue, line
            )
            for sigma, hue in zip(sigmas(rows), HUES, strict=False)
            for spike, line in zip(spikes(rows), LINES, strict=False)
        ], "The legend gives −log σ1 (hue) and −log σ2 (line)."),
        table_2(rows),
        bands(rows, "figure-14", "Figure 14: local reparameterisation", sampler_panels(rows)),
        training(rows, "figure-15", "Figure 15: training with local reparameterisation", [
            TrainingLine(
                f"{name}, −log σ = {sigma}", rows.where(**gaussian(sigma, sampler)), hue, line
            )
            for sampler, name, hue in (("weights", "weights", BLUE), ("local", "local", VERMILION))
            for sigma, line in ((1, "-"), (0, "--"))
        ], "Figure 14 of the paper says −log σ = 1, its figure 15 says σ = 1: we show both."),
        sampler_table(rows),
    ]  # fmt: skip


def bands(
    rows: Rows, name: str, title: str, panels: Sequence[tuple[str, Rows]], note: str = ""
) -> Plot:
    """Panels of bands side by side, or on a phone below each other."""
    return Plot(
        name,
        title,
        "Mean and percentiles of predictions and the true curve, in panels: "
        + "; ".join(label for label, _ in panels),
        partial(draw_bands, rows, panels),
        wide=(12.0, 4.6 if len(panels) < 3 else 3.9),
        narrow=(5.0, 4.0 * len(panels)),
        note=f"{BANDS} {note}".strip(),
    )


def training(
    rows: Rows, name: str, title: str, lines: Sequence[TrainingLine], note: str = ""
) -> Plot:
    """The objective, what the paper calls ELBO, and the error against epochs."""
    return Plot(
        name,
        title,
        "Negative ELBO of whole epochs, objective of the last minibatch, and RMSE, by epoch",
        partial(draw_training, lines),
        wide=(12.0, 4.2),
        narrow=(5.0, 10.5),
        note="The paper's ELBO curves are values for the last minibatch of each epoch (middle), "
        f"in which Blundell's weights leave 1/(2^M − 1) of the KL. {note}".strip(),
    )


def sigmas(rows: Rows) -> list[int]:
    """−log σ of the Gaussian priors."""
    return sorted(rows.where(**BASE).where(prior="gaussian").distinct("sigma"))


def spikes(rows: Rows) -> list[int]:
    """−log σ2 of the mixtures."""
    return sorted(mixtures(rows).distinct("spike"))


def noises(rows: Rows) -> list[float]:
    """σ_ε of the likelihoods."""
    return sorted(rows.where(part="network").distinct("noise"))


def ensemble_panels(rows: Rows) -> list[tuple[str, Rows]]:
    """The two ensembles."""
    plain, dropped = ensembles(rows)
    return [("without dropout", plain), (f"trained with {dropped[0]['drop']:.0%} dropout", dropped)]


def noise_panels(rows: Rows) -> list[tuple[str, Rows]]:
    """A network for each noise level."""
    return [(f"noise σ = {noise:g}", rows.where(**noisy(noise))) for noise in noises(rows)]


def prior_panels(rows: Rows) -> list[tuple[str, Rows]]:
    """A Gaussian prior and a mixture."""
    return [
        ("Gaussian prior, −log σ = 1", rows.where(**GAUSSIAN)),
        ("mixture, −log σ1 = 1, −log σ2 = 6", rows.where(**MIXTURE)),
    ]


def sampler_panels(rows: Rows) -> list[tuple[str, Rows]]:
    """Networks with the same prior, trained with one or the other kind of noise."""
    return [
        ("sampled weights, −log σ = 1", rows.where(**gaussian(1))),
        ("local reparameterisation, −log σ = 1", rows.where(**gaussian(1, "local"))),
    ]


def spread_table(rows: Rows) -> Table:
    """How wide bands are, and how much they hold, where there are data and where there are none."""
    plain, dropped = ensembles(rows)
    named: list[tuple[str, Rows]] = [
        ("ensemble", plain),
        (f"ensemble, {dropped[0]['drop']:.0%} dropout", dropped),
        *((f"Gaussian, −log σ = {sigma}", rows.where(**gaussian(sigma))) for sigma in sigmas(rows)),
        ("mixture (1, 6)", rows.where(**MIXTURE)),
        ("Gaussian, −log σ = 1, local", rows.where(**gaussian(1, "local"))),
        *(
            (f"Gaussian, −log σ = 1, σ_ε = {noise:g}", rows.where(**noisy(noise)))
            for noise in noises(rows)
            if noise != 0.1
        ),
    ]

    def cells(chosen: Rows) -> list[str]:
        inside, outside = (of(chosen, "width", region) for region in ("inside", "outside"))
        covered = (of(chosen, "coverage", region) for region in ("inside", "outside"))
        errors = (of(chosen, "rmse", region) for region in ("inside", "outside"))
        return [
            f"{inside:.3f}",
            f"{outside:.3f}",
            f"{outside / inside:.1f}×",
            *(f"{share:.0%}" for share in covered),
            *(f"{error:.3f}" for error in errors),
        ]

    return Table(
        "Spread inside and outside [0, 0.5]",
        (
            "networks",
            "width inside",
            "width outside",
            "ratio",
            "covered inside",
            "covered outside",
            "RMSE inside",
            "RMSE outside",
        ),
        [[name, *cells(chosen)] for name, chosen in named],
        "Width is the mean distance from the 5th to the 95th percentile of the functions (25 "
        "members, or draws of a posterior); outside is the rest of [−0.5, 1.5]. Covered is "
        "the share of new noisy targets in that band, which does not include observation "
        "noise. The paper prints no such numbers.",
    )


def noise_table(rows: Rows) -> Table:
    """The noise levels in numbers."""

    def cells(noise: float) -> list[str]:
        chosen = rows.where(**noisy(noise))
        return [
            number(final(chosen), 0),
            number(final(chosen, "last_batch"), 1),
            *(number(of(chosen, "lppd", region)) for region in ("all", "inside")),
            f"{of(chosen, 'rmse', 'inside'):.3f}",
        ]

    return Table(
        "The noise of the likelihood",
        (
            "σ_ε",
            "negative ELBO",
            "last minibatch",
            "lppd on [−0.5, 1.5]",
            "lppd on [0, 0.5]",
            "RMSE on [0, 0.5]",
        ),
        [[f"{noise:g}", *cells(noise)] for noise in noises(rows)],
        "At the end of training, Gaussian prior with −log σ = 1. The paper says that σ_ε is "
        "known to be 0.02. That is the standard deviation of ε inside the sines of eq. 22; y "
        "itself scatters by 0.02·|1 + 0.6π cos 2πx + 1.2π cos 4πx|, a root mean square of "
        "0.063 and at most 0.133 on [0, 0.5]. So 0.1 is the closest of these levels.",
    )


def table_1(rows: Rows) -> Table:
    """Lppd by Gaussian prior, next to the paper's."""
    return Table(
        "Table 1: lppd with Gaussian priors",
        ("−log σ", *LPPD_COLUMNS, "stepped: on [−0.5, 1.5]", "stepped: on [0, 0.5]"),
        [
            [
                str(sigma),
                *lppd_cells(rows, gaussian(sigma), TABLE_1.get(sigma)),
                *lppd_cells(rows, {**gaussian(sigma), "schedule": "stepped"}, None)[1:3],
            ]
            for sigma in sigmas(rows)
        ],
        f"{LPPD_NOTE} The last columns repeatedly divide the learning rate by ten, as an "
        "earlier version of the authors' code did. Such a network stops while the deviations "
        "of its weights are still moving towards those of the prior, and is as certain "
        "outside the data as it was initially.",
    )


def table_2(rows: Rows) -> Table:
    """Lppd by mixture, next to the paper's."""
    return Table(
        "Table 2: lppd with mixtures",
        ("−log σ1, −log σ2", *LPPD_COLUMNS),
        [
            [
                f"{sigma}, {spike}",
                *lppd_cells(
                    rows,
                    {**MIXTURE, "sigma": sigma, "spike": spike},
                    TABLE_2.get((sigma, spike)),
                ),
            ]
            for sigma in sigmas(rows)
            for spike in spikes(rows)
        ],
        f"{LPPD_NOTE} The paper calls −3.21 the lowest; it is the highest of its nine.",
    )


def lppd_cells(rows: Rows, which: Which, published: float | None) -> list[str]:
    """The paper's value, and ours in each region."""
    ours = (of(rows, "lppd", region, **which) for region in ("all", "inside", "outside"))
    return ["–" if published is None else number(published), *map(number, ours)]


def sampler_table(rows: Rows) -> Table:
    """What local reparameterisation changes, next to the paper's values."""
    differences = "variance of ELBO differences"

    def pair(published: dict[str, float] | None, ours: Sequence[float], digits: int) -> list[str]:
        theirs = ["–", "–"] if published is None else [f"{v}" for v in published.values()]
        return [*(v.replace("-", "−") for v in theirs), *(number(value, digits) for value in ours)]

    def both(metric: str, field: str, sigma: int) -> list[float]:
        return [
            float(rows.row(metric=metric, **gaussian(sigma, sampler))[field])
            for sampler in ("weights", "local")
        ]

    def lppd(sigma: int, region: str) -> list[float]:
        return [of(rows, "lppd", region, **gaussian(sigma, s)) for s in ("weights", "local")]

    same = [
        rows.value(metric="variance of one batch", of=sampler, **GAUSSIAN)
        for sampler in ("weights", "local")
    ]
    time = [milliseconds(rows, sampler) for sampler in MILLISECONDS]
    lines = [
        ["lppd on [−0.5, 1.5], −log σ = 1", *pair(LPPD, lppd(1, "all"), 2)],
        ["lppd on [−0.5, 1.5], −log σ = 0", *pair(None, lppd(0, "all"), 2)],
        ["lppd on [0, 0.5], −log σ = 1", *pair(None, lppd(1, "inside"), 2)],
        ["variance of ELBO differences", *pair(DIFFERENCES, both(differences, "value", 1), 1)],
        ["– the same, −log σ = 0", *pair(None, both(differences, "value", 0), 1)],
        ["– second half of training", *pair(None, both(differences, "second_half", 1), 1)],
        ["variance of one minibatch at the same weights", *pair(None, same, 2)],
        ["ms per epoch", *pair(MILLISECONDS, time, 0)],
    ]
    return Table(
        "Local reparameterisation in numbers",
        ("", "published: weights", "published: local", "ours: weights", "ours: local"),
        lines,
        "The paper compares −26.03 with −3.21, which belongs to the mixture (1, 6); the "
        "network with the same prior and sampled weights has −16.21. ELBO differences are "
        "between last minibatches of consecutive epochs, in nats, so they include the "
        "difference between two minibatches and the descent. With the same weights and "
        "minibatch, only noise is left. Our times are for one core, the paper's for a GPU.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-176921a6", ledger=printed_numbers)
