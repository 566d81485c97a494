"""What Gal & Ghahramani 2016 says of its figure 3."""

from statistics import fmean

from dubio.studies.restarts import with_error
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding


def few_draws_suffice(rows: Rows) -> Finding:
    """Errors of mean and deviation from T draws against those from a hundred times as many."""
    mean, std, ratio = (
        rows.where(metric=metric).values() for metric in ("mean-error", "std-error", "std-ratio")
    )
    return Finding(
        f"the mean is off by {with_error(mean)} predictive deviations, the deviation by "
        f"{with_error([100 * v for v in std], 0)} % (root mean squares over inputs and estimates); "
        f"the deviation is too small by {100 * (1 - fmean(ratio)):.0f} % on average",
        "reproduces" if max(mean) < 0.5 and max(std) < 0.5 else "worse",
    )


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
