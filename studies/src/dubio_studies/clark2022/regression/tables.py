"""The tables of the regression, from rows."""

from dubio.report.exhibits import Table
from dubio_studies.clark2022.regression.published import (
    DIFFERENCES,
    LPPD,
    MILLISECONDS,
    TABLE_1,
    TABLE_2,
)
from dubio_studies.clark2022.regression.reading import (
    GAUSSIAN,
    MIXTURE,
    Which,
    ensembles,
    final,
    gaussian,
    milliseconds,
    noises,
    noisy,
    number,
    of,
    plain_milliseconds,
    sigmas,
    spikes,
    starts,
    stepped,
    timed_units,
)
from dubio_studies.framework.rows import Rows

SAMPLERS = ("weights", "local")
WHOSE = ("published", "authors' protocol", "ours")
LPPD_NOTE = (
    "lppd is a mean over points (eq. 20): higher is better, and with σ_ε = 0.1 it is at most "
    "1.38. The paper evaluates on [−0.5, 1.5], three quarters of which has no data. So its "
    "values mainly show how far the mean strays there (−16.21 is an RMSE of 0.6 with "
    "certainty), not how good the fit is; [0, 0.5] has separate columns. The authors' protocol "
    "divides the learning rate by ten every 250 epochs, as an earlier version of their code did: "
    "mean and standard error over the starts. Ours is constant, with one network per prior as "
    "in the paper."
)
LPPD_COLUMNS = (
    "published",
    "authors' protocol",
    "starts",
    "authors' protocol, on [0, 0.5]",
    "ours",
    "ours, on [0, 0.5]",
    "ours, outside",
)


def spread_table(rows: Rows) -> Table:
    """How wide bands are, and how much they hold, where there are data and where there are none."""
    plain, dropped = ensembles(rows)
    masks = rows.where(part="masks")
    named: list[tuple[str, Rows]] = [
        ("ensemble", plain),
        (f"ensemble, {dropped[0]['drop']:.0%} dropout", dropped),
        *(
            (
                f"– {masks[0]['members']} members, dropout {way} for prediction",
                masks.where(dropout=way),
            )
            for way in ("off", "on")
        ),
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
        ("−log σ", *LPPD_COLUMNS),
        [
            [str(sigma), *lppd_cells(rows, gaussian(sigma), TABLE_1.get(sigma))]
            for sigma in sigmas(rows)
        ],
        f"{LPPD_NOTE} By the authors' protocol a network stops while the deviations of its weights "
        "are still moving towards those of the prior, and is about as certain outside the data as "
        "it was initially.",
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
    """The paper's value, that by the authors' protocol, and ours in each region."""
    ours = (of(rows, "lppd", region, **which) for region in ("all", "inside", "outside"))
    return [
        "–" if published is None else number(published),
        starts(rows, "lppd", "all", which).shown(2),
        str(len(rows.where(metric="lppd", region="all", **stepped(which)))),
        starts(rows, "lppd", "inside", which).shown(2),
        *map(number, ours),
    ]


def sampler_table(rows: Rows) -> Table:
    """What local reparameterisation changes, next to the paper's values."""
    none = ["–", "–"]
    differences = "variance of ELBO differences"
    many, few = timed_units(rows)

    def published(values: dict[str, float]) -> list[str]:
        return [f"{value}".replace("-", "−") for value in values.values()]

    def authors(metric: str, region: str) -> list[str]:
        return [starts(rows, metric, region, gaussian(1, s)).shown(2) for s in SAMPLERS]

    def ours(metric: str, region: str, sigma: int = 1) -> list[str]:
        return [number(of(rows, metric, region, **gaussian(sigma, s))) for s in SAMPLERS]

    def varied(field: str, sigma: int = 1) -> list[str]:
        found = (rows.row(metric=differences, **gaussian(sigma, s)) for s in SAMPLERS)
        return [number(float(row[field]), 1) for row in found]

    def plain(kl: str, units: int) -> list[str]:
        pairs = zip(SAMPLERS, (kl, "exact"), strict=True)
        return [number(plain_milliseconds(rows, s, own, units), 0) for s, own in pairs]

    same = [
        number(rows.value(metric="variance of one batch", of=sampler, **GAUSSIAN))
        for sampler in SAMPLERS
    ]
    time = [number(milliseconds(rows, sampler), 0) for sampler in SAMPLERS]
    lines = [
        ["lppd, −log σ = 1", *published(LPPD), *authors("lppd", "all"), *ours("lppd", "all")],
        ["– −log σ = 0", *none, *none, *ours("lppd", "all", 0)],
        ["– on [0, 0.5]", *none, *authors("lppd", "inside"), *ours("lppd", "inside")],
        ["width outside", *none, *authors("width", "outside"), *ours("width", "outside")],
        [differences, *published(DIFFERENCES), *none, *varied("value")],
        ["– −log σ = 0", *none, *none, *varied("value", 0)],
        ["– second half of training", *none, *none, *varied("second_half")],
        ["variance of one minibatch at the same weights", *none, *none, *same],
        [f"ms per epoch, {many} units", *published(MILLISECONDS), *plain("draws", many), *time],
        ["– KL in closed form for both", *none, *plain("exact", many), *time],
        [f"– {few} units", *none, *plain("draws", few), *none],
    ]
    return Table(
        "Local reparameterisation in numbers",
        ("", *(f"{whose}: {sampler}" for whose in WHOSE for sampler in SAMPLERS)),
        lines,
        "The paper compares −26.03 with −3.21, which belongs to the mixture (1, 6); the "
        "network with the same prior and sampled weights has −16.21. ELBO differences are "
        "between last minibatches of consecutive epochs, in nats, so they include the "
        "difference between two minibatches and the descent. With the same weights and "
        "minibatch, only noise is left. Our times are for one core, the paper's for a GPU. By the "
        "authors' protocol a network is written in plain torch, and if weights are sampled, so is "
        "the KL (eq. 9); local noise has it in closed form.",
    )
