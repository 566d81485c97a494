"""Why our networks of section 4.2 differ from the authors'."""

from dubio_studies.framework.claims import Behind, Refuted

_WEIGHTS = (
    "The authors' weights of the KL, 2^(M−i)/(2^M−1), leave almost none of it after the first "
    "minibatches of an epoch"
)

STEPS = (
    "The rate falls in steps, as in an earlier state of the authors' code; the paper names none. "
    "With 400 units a rate held five times as long gives 1.40 % instead of 1.55 (published: 1.31), "
    "while the authors' own rate with steps has 1.57 % after 80 epochs; with 800 and 1200 units a "
    "held rate was not run."
)
KL_IN_FULL = Refuted(
    f"{_WEIGHTS}; with the full KL and converged deviations our errors are those of Blundell et "
    "al. (1.87 and 1.94 % with 400 and 800 units, theirs 1.82 and 1.99), while our plain networks "
    "err less than theirs (1.47 and 1.33 against 1.83 and 1.84). With a tenth of the KL, or with "
    "the authors' weights (1.40 % with 400 units, clark2022/kl-terms), the error is about theirs."
)
CURVES = Refuted(
    "Our plain network errs less than the authors' (1.42 against 1.95 % with 400 units), and with "
    "the full KL and converged deviations the Bayesian one errs more (1.91 against 1.31). With a "
    "tenth of the KL it has 1.38 %."
)
BEHIND = {
    "gaussian": Behind(
        f"{_WEIGHTS}; our networks use the full KL and have the error of Blundell et al. By the "
        "authors' protocol they have 1.55 % with 400 units, and 1.40 % if the rate has no steps "
        "(clark2022/kl-terms)."
    ),
    "mixture": Behind(
        "With a tenth of the KL the error is 1.50 % with 400 units, and by the authors' protocol, "
        "which leaves out most of it, 1.66 %. The sampling noise of the KL is not the cause: a "
        "bound without noise has 3.07 % (clark2022/kl-terms)."
    ),
}
