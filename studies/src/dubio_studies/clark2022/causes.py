"""Why our networks of section 4.2 differ from the authors'."""

from dubio_studies.framework.claims import Behind, Refuted

_WEIGHTS = (
    "The authors weight the KL by 2^(M−i)/(2^M−1), which leaves almost none of it after the first "
    "minibatches of an epoch. "
)

KL_IN_FULL = Refuted(
    f"{_WEIGHTS}With the full KL and converged deviations, our errors are those of Blundell et al. "
    "(1.87 and 1.94 % with 400 and 800 units, theirs 1.82 and 1.99), while our plain networks err "
    "less than theirs (1.47 and 1.33 against 1.83 and 1.84). With a tenth of the KL, or by the "
    "authors' protocol (clark2022/kl-terms), the error is within two standard errors of theirs."
)
CURVES = Refuted(
    "Our plain network errs less than the authors' (1.42 against 1.95 % with 400 units), and with "
    "the full KL and converged deviations the Bayesian one errs more (1.91 against 1.31). With a "
    "tenth of the KL it has 1.38 %."
)
BEHIND = {
    "gaussian": Behind(
        f"{_WEIGHTS}Our networks use the full KL and have the error of Blundell et al.; by the "
        "authors' protocol they have 1.55 % (clark2022/kl-terms)."
    ),
    "mixture": Behind(
        "With a tenth of the KL the error is that of the authors, who leave out most of it. The "
        "sampling noise of the KL is not the cause: a bound without noise has 3.07 % "
        "(clark2022/kl-terms)."
    ),
}
