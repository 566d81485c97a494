"""What Clark et al. 2022 says of calibration."""

from statistics import fmean

from dubio.studies.paper_004.legend import (
    BAYESIAN,
    COLD_GAUSSIAN,
    DROPOUT,
    GAUSSIAN,
    PLAIN,
    SLOW_GAUSSIAN,
    WAY_NAMES,
    Way,
)
from dubio.studies.rows import Row, Rows
from dubio.studies.study import Claim, Finding


def own(rows: Rows, way: Way, loss: str = "cross-entropy", softmaxes: int = 1) -> Rows:
    """The rows of a method that is read in one way."""
    method, reading = way
    return rows.where(method=method, reading=reading, loss=loss, softmaxes=softmaxes)


def mean(rows: Rows, metric: str, field: str = "value") -> float:
    """A number, averaged over restarts."""
    return fmean(rows.where(metric=metric).values(field))


def highest_bin(rows: Rows) -> Row | None:
    """The bin of the surest predictions, of the first restart; None if it is empty."""
    row = rows.where(metric="reliability", restart=1)[-1]
    return row if row["cases"] else None


def is_calibrated(rows: Rows) -> Finding:
    """ECE of the Bayesian networks and of the plain one, and which are below it."""
    errors = {way: mean(own(rows, way), "ece") for way in (PLAIN, *BAYESIAN)}
    noise = {way: mean(own(rows, way), "ece", "error") for way in errors}
    shown = [f"{WAY_NAMES[w]} {100 * e:.2f} ± {100 * noise[w]:.2f} %" for w, e in errors.items()]
    below = [way for way in BAYESIAN if errors[way] < errors[PLAIN]]
    shown.append(f"below the plain network's: {'; '.join(WAY_NAMES[w] for w in below) or 'none'}")
    return Finding("; ".join(shown), "reproduces" if GAUSSIAN in below else "worse")


def is_overconfident(rows: Rows) -> Finding:
    """How far confidence is above accuracy."""
    shown, agrees = [], True
    for way in (PLAIN, DROPOUT):
        excess, noise = (mean(own(rows, way), "overconfidence", f) for f in ("value", "error"))
        shown.append(f"{WAY_NAMES[way]} {100 * excess:+.2f} ± {100 * noise:.2f} points")
        agrees &= excess > 2 * noise
    return Finding("; ".join(shown), "reproduces" if agrees else "worse")


def is_right_when_sure(rows: Rows) -> Finding:
    """Accuracy in the highest bin."""
    shares, shown = {}, []
    for way in (PLAIN, DROPOUT, GAUSSIAN, SLOW_GAUSSIAN, COLD_GAUSSIAN):
        row = highest_bin(own(rows, way))
        shares[way] = -1.0 if row is None else float(row["value"])
        shown.append(
            f"{WAY_NAMES[way]} never so sure"
            if row is None
            else f"{WAY_NAMES[way]} {row['value']:.2%} of {row['cases']:,}"
        )
    agrees = shares[GAUSSIAN] > max(shares[PLAIN], shares[DROPOUT])
    return Finding("; ".join(shown), "reproduces" if agrees else "worse")


CLAIMS = (
    Claim(
        "The Bayesian network's calibration curve is close to the diagonal, the plain network's is "
        "not.",
        "Figure 19, without numbers",
        "ECE (15 bins, all test images) of Bayes by Backprop with the Gaussian prior, that of the "
        "figure, is below the plain network's; ± is a bootstrap standard error from the choice of "
        "images. Other Bayesian networks are for information.",
        is_calibrated,
    ),
    Claim(
        "The plain network and the one with dropout are overconfident.",
        "Figure 19, without numbers",
        "Mean confidence is above accuracy by more than two standard errors, for the plain network "
        "and for dropout that is read without noise.",
        is_overconfident,
    ),
    Claim(
        "With scores around 1 the Bayesian network is always right, the others are not.",
        "About 70 % right (plain), 90 % (dropout), 100 % (Bayesian). As the plain network errs on "
        "1.83 % of all images, no more than 6 % of them can have such scores and be wrong so often",
        "In the highest of 15 bins the Bayesian network (Gaussian prior, first restart) is right "
        "more often than the plain network and standard dropout. A network that is less sure has "
        "fewer images there, which are easier: their numbers are given.",
        is_right_when_sure,
    ),
)
