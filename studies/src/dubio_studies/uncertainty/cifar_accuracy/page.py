"""What the networks reach: rows in, a table out. Nothing here trains."""

from collections.abc import Sequence
from statistics import fmean

from dubio.report.exhibits import Plot, Table
from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import share_error, with_error
from dubio_studies.framework.study import Page

PUBLISHED = 0.94
NEAR = 0.005  # two standard errors of 10,000 photographs at 94 %
METRICS = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "error auroc": "error AUROC"}


def values(rows: Rows, metric: str, *, views: int, noise: str, drop: float) -> list[float]:
    """A number of every network with a rate."""
    return rows.where(metric=metric, views=views, noise=noise, drop=drop).values()


def most(rows: Rows) -> int:
    """The number of views that are averaged."""
    return int(max(rows.distinct("views")))


def is_as_accurate(rows: Rows) -> Finding:
    """The best rate's accuracy with all views and without noise, against the published one."""
    found = {
        drop: fmean(values(rows, "accuracy", views=most(rows), noise="no noise", drop=drop))
        for drop in rows.distinct("drop")
    }
    drop = max(found, key=lambda rate: found[rate])
    cases = rows.where(metric="accuracy")[0]["cases"]
    error = share_error(found[drop], cases)
    return Finding(
        f"{found[drop]:.2%} ± {error:.2%} (dropout {drop:g}).",
        found[drop] >= PUBLISHED - NEAR,
        further=found[drop] > PUBLISHED + NEAR,
    )


def views_help(rows: Rows) -> Finding:
    """Accuracy and NLL with all views less those with one."""
    texts, verdicts = [], []
    for drop in rows.distinct("drop"):
        gains = {
            metric: fmean(values(rows, metric, views=most(rows), noise="no noise", drop=drop))
            - fmean(values(rows, metric, views=1, noise="no noise", drop=drop))
            for metric in ("accuracy", "nll")
        }
        texts.append(
            f"dropout {drop:g}: accuracy {100 * gains['accuracy']:+.2f} points, NLL "
            f"{gains['nll']:+.4f}"
        )
        verdicts.append(gains["accuracy"] > 0 > gains["nll"])
    return Finding(f"{'; '.join(texts)}.".replace("-", "−"), all(verdicts))


def draws_help(rows: Rows) -> Finding:
    """NLL with draws of dropout less that of one pass without noise."""
    texts, verdicts = [], []
    for drop in rows.where(noise="draws").distinct("drop"):
        gain = fmean(values(rows, "nll", views=1, noise="draws", drop=drop)) - fmean(
            values(rows, "nll", views=1, noise="no noise", drop=drop)
        )
        texts.append(f"dropout {drop:g}: {gain:+.4f}".replace("-", "−"))
        verdicts.append(gain < 0)
    return Finding(f"{'; '.join(texts)}.", all(verdicts))


CLAIMS = (
    Claim(
        "A small network learns CIFAR-10 to 94 % in ten epochs.",
        "94.01 % (Jordan 2024)",
        "With all views and without noise the best rate is within half a point of 94 %, or better.",
        is_as_accurate,
        otherwise=Behind(
            "This run read a copy of the photographs that is compressed with loss (JPEG of quality "
            "75), for training and for the test. What the original pixels give, and what the "
            "deviations from Jordan's training cost, was not run."
        ),
    ),
    Claim(
        "Averages over flips and shifts are more accurate, and have a lower NLL.",
        "not published in this form",
        "Both, for every rate of dropout.",
        views_help,
        ours=True,
    ),
    Claim(
        "Draws of dropout before the last layer lower the NLL.",
        "not published in this form",
        "With one view, for every rate of dropout.",
        draws_help,
        otherwise=Refuted(
            "Labels were smoothed by 0.2, so that the network is too little sure of itself, and "
            "averages over draws make it less sure still: the ECE rises with the NLL."
        ),
        ours=True,
    ),
)


def exhibits(rows: Rows) -> Sequence[Table | Plot]:
    """What the page shows, in order."""

    def cells(drop: float, noise: str, views: int) -> list[str]:
        numbers = {m: values(rows, m, views=views, noise=noise, drop=drop) for m in METRICS}
        percent = [100 * value for value in numbers["accuracy"]]
        return [
            f"{drop:g}",
            noise,
            f"{views}",
            with_error(percent),
            *(with_error(numbers[m], 4) for m in ("nll", "ece", "error auroc")),
        ]

    first = rows.where(metric="accuracy")
    trained = rows.where(metric="images")
    cost = fmean(trained.values("cpu_seconds")) / 60
    copy = trained[0].get("copy")
    return [
        Table(
            "CIFAR-10 from scratch",
            ("dropout", "prediction", "views", "accuracy", *list(METRICS.values())[1:]),
            [
                cells(drop, noise, views)
                for drop in rows.distinct("drop")
                for noise in first.where(drop=drop).distinct("noise")
                for views in first.distinct("views")
            ],
            f"Accuracy in percent on {first[0]['cases']:,} photographs; a network takes "
            f"{cost:.1f} minutes of a core. Labels were smoothed, so that probabilities are too "
            "low: see the ECE." + (f" Read: {copy}." if copy else ""),
        )
    ]


PAGE = Page(CLAIMS, exhibits, examined="small-51bb0862")
