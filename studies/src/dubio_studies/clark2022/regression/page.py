"""The page of the regression: tables and figures in the order of the paper."""

from collections.abc import Sequence
from functools import partial

from dubio.report.exhibits import Plot, Table
from dubio.report.ink import BLUE, GREEN, VERMILION
from dubio_studies.clark2022.regression.claims import CLAIMS
from dubio_studies.clark2022.regression.drawings import (
    TrainingLine,
    draw_bands,
    draw_curves,
    draw_training,
)
from dubio_studies.clark2022.regression.ledger import printed_numbers
from dubio_studies.clark2022.regression.reading import (
    GAUSSIAN,
    MIXTURE,
    ensembles,
    gaussian,
    mixtures,
    noises,
    noisy,
    sigmas,
    spikes,
)
from dubio_studies.clark2022.regression.tables import (
    noise_table,
    sampler_table,
    spread_table,
    table_1,
    table_2,
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


def exhibits(rows: Rows) -> list[Table | Plot]:
    """What the page shows, in order."""
    return [
        bands(
            rows,
            "figure-7",
            "Figures 1 and 7: ensembles",
            ensemble_panels(rows),
            "Percentiles are over the members' predictions, in the last panel with 25 masks each.",
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


def ensemble_panels(rows: Rows) -> list[tuple[str, Rows]]:
    """The two ensembles, and a smaller one that also predicts with dropout."""
    plain, dropped = ensembles(rows)
    return [
        ("without dropout", plain),
        (f"trained with {dropped[0]['drop']:.0%} dropout", dropped),
        ("dropout also for prediction", rows.where(part="masks", dropout="on")),
    ]


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


PAGE = Page(CLAIMS, exhibits, examined="paper-1989edd4", ledger=printed_numbers)
