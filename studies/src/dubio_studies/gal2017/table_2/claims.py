"""What Gal et al. 2017 says of calibration, in table 2."""

from dubio_studies.framework.claims import Claim, Finding, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.scenes.reading import CONCRETE, MC, NO_DROPOUT, REGULAR, difference, listed

METHODS = (NO_DROPOUT, REGULAR, MC, CONCRETE)
BASELINES = (NO_DROPOUT, REGULAR, MC)
WEIGHTINGS = ("weighted", "unweighted")


def is_better_calibrated(rows: Rows) -> Finding:
    """The RMSE of every baseline less that of Concrete dropout."""
    texts, clear = [], True
    for weighting in WEIGHTINGS:
        metric = f"calibration RMSE, {weighting}"
        texts.append(f"{weighting}: {listed(rows, METHODS, metric)}")
        gains = [difference(rows, other, CONCRETE, metric) for other in BASELINES]
        clear = clear and all(gain.is_clear for gain in gains)
    return Finding(f"RMSE in points, {'; '.join(texts)}.", clear)


def weights_decide(rows: Rows) -> Finding:
    """Which method has the lowest RMSE, with weights and without."""
    best = {}
    for weighting in WEIGHTINGS:
        metric = f"calibration RMSE, {weighting}"
        best[weighting] = next(
            one.name
            for one in METHODS
            if all(difference(rows, one, other, metric).mean <= 0 for other in METHODS)
        )
    text = ", ".join(f"{weighting}: {name}" for weighting, name in best.items())
    return Finding(f"The lowest is that of – {text}.", len(set(best.values())) == 1)


CLAIMS = (
    Claim(
        "Concrete dropout reduces the calibration RMSE compared to the baselines.",
        "table 2, a plot whose numbers the text does not repeat",
        "The RMSE of Concrete dropout is lower than that of no dropout and of dropout at "
        "0.2, with one pass and with draws, with and without weights, by more than two "
        "standard errors of the difference over forks.",
        is_better_calibrated,
        otherwise=Undecided(
            "Three forks of each kind differ too little: Concrete dropout has a lower RMSE than "
            "dropout at 0.2, by less than one standard error, and a higher one than no dropout, "
            "by one. All forks start from one well calibrated network without dropout, and with "
            "rates of 0.06 to 0.2 in the middle block only, draws probably change little.",
            cpu_hours=2_700,  # three FC-DenseNet-103 of each kind, as for table 1
        ),
    ),
    Claim(
        "It does not matter whether bins are weighted by their cases.",
        "the paper does not say which it is",
        "The method with the lowest RMSE is the same.",
        weights_decide,
        ours=True,
    ),
)
