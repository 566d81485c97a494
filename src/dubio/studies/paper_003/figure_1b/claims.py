"""What Herlau et al. 2022 says of its figure 1b."""

from functools import partial

from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

ON_PAR = 0.05  # of ridge's error: bars that a reader would call equal
SURE = 4.0  # standard errors of a paired difference
ROBUST = 0.5  # of ridge's rise


def errors(rows: Rows, condition: str, method: str) -> list[float]:
    """Mean squared errors by number of features."""
    chosen = rows.where(condition=condition, method=method, metric="squared error")
    return [chosen.value(features=p) for p in sorted(chosen.distinct("features"))]


def ratios(rows: Rows, condition: str) -> list[float]:
    """Dropout's error over ridge's, by number of features."""
    pairs = zip(errors(rows, condition, "dropout"), errors(rows, condition, "ridge"), strict=True)
    return [dropout / ridge for dropout, ridge in pairs]


def on_par(condition: str, rows: Rows) -> Finding:
    """Errors of both methods are nearly equal, or dropout's are lower."""
    ours = ratios(rows, condition)
    return Finding(
        f"dropout's error over ridge's: {listed(rows, ours, '.3f')}",
        "reproduces" if max(ours) <= 1 + ON_PAR else "worse",
    )


def wins_under_shift(rows: Rows) -> Finding:
    """Dropout's error is lower beyond chance."""
    differences = rows.where(condition="shift", method="dropout", metric="difference")
    by_size = [differences.row(features=p) for p in sorted(differences.distinct("features"))]
    sure = all(row["value"] < -SURE * row["error"] for row in by_size)
    text = ", ".join(
        f"{row['value']:+.3f} ± {row['error']:.3f}".replace("-", "−") for row in by_size
    )
    return Finding(
        f"dropout's error less ridge's: {text}; as a ratio "
        f"{listed(rows, ratios(rows, 'shift'), '.3f')}{share_of_the_prior(rows)}",
        "reproduces" if sure else "worse",
    )


def share_of_the_prior(rows: Rows) -> str:
    """What dropout's λ0 does without dropout, where that control was run."""
    control = rows.where(condition="shift", method="other", drop=0.0, metric="squared error")
    if not control:
        return ""
    found = [control.value(features=p) for p in sorted(control.distinct("features"))]
    pairs = zip(found, errors(rows, "shift", "ridge"), strict=True)
    ratios_of_control = [error / ridge for error, ridge in pairs]
    return (
        ". Part of this is that ridge's λ0 is no longer right after the shift: dropout's λ0 with "
        f"f = 0 has the ratios {listed(rows, ratios_of_control, '.3f')}"
    )


def is_robust(rows: Rows) -> Finding:
    """How much the errors rise from the default condition to covariate shift."""
    rises = {
        method: [
            after - before
            for before, after in zip(
                errors(rows, "default", method), errors(rows, "shift", method), strict=True
            )
        ]
        for method in ("ridge", "dropout")
    }
    pairs = zip(rises["dropout"], rises["ridge"], strict=True)
    robust = all(ridge > 0 and dropout < ROBUST * ridge for dropout, ridge in pairs)
    ours = "; ".join(f"{name} {listed(rows, rise, '+.3f')}" for name, rise in rises.items())
    return Finding(f"rise of the error: {ours}", "reproduces" if robust else "worse")


def listed(rows: Rows, values: list[float], form: str) -> str:
    """Values with the numbers of features that they belong to."""
    sizes = sorted(rows.distinct("features"))
    pairs = zip(sizes, values, strict=True)
    return ", ".join(f"{value:{form}} (p = {p})".replace("-", "−") for p, value in pairs)


CLAIMS = (
    Claim(
        "In the default condition ridge regression with the correct prior is optimal, and dropout "
        "performs on par.",
        "figure 1 (b); no numbers",
        "Dropout's mean error is at most 5 % above ridge's for every number of features. Its rate "
        "is set from the true λ0, so that it regularises as much; other rates are in the table.",
        partial(on_par, "default"),
    ),
    Claim(
        "With junk features both perform on par again.",
        "figure 1 (b); no numbers",
        "Dropout's mean error is at most 5 % above ridge's for every number of features.",
        partial(on_par, "junk"),
    ),
    Claim(
        "Under covariate shift dropout is better than ridge regression.",
        "figure 1 (b), “significantly”; no numbers",
        "Dropout's mean error is lower by more than four standard errors of the paired difference "
        "for every number of features.",
        wins_under_shift,
    ),
    Claim(
        "Ridge regression is quite sensitive to covariate shift, dropout is significantly more "
        "robust.",
        "figure 1 (b); no numbers",
        "From the default condition to covariate shift ridge's error rises, and dropout's by less "
        "than half as much, for every number of features.",
        is_robust,
    ),
)
