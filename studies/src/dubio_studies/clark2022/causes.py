"""Why our networks of section 4.2 differ from the authors'."""

from dubio_studies.framework.claims import Behind, Refuted

STEPS = (
    "With 400 units a rate held five times as long gives 1.40 % instead of 1.55 (published: 1.31); "
    "with 800 and 1200 units that was not run. Steps are from an earlier state of the authors' "
    "code; at their own rate, with steps, it is 1.57 %."
)
KL_IN_FULL = Refuted(
    "With the full KL our errors are those of Blundell et al. (1.87, 1.94 and 1.92 %; theirs 1.82, "
    "1.99 and 2.04), and above our plain networks, which err less than theirs. With a tenth of the "
    "KL it is 1.37 %, by the authors' protocol 1.55 %, or 1.40 % with a held rate "
    "(clark2022/kl-terms); plain has 1.47 %, dropout 1.22 % (400 units)."
)
CURVES = Refuted(
    "Our plain network errs less than the authors' (1.42 against 1.95 %), and with the full KL the "
    "Bayesian one errs more (1.91 against 1.31). With a tenth of the KL it has 1.38 %, by the "
    "authors' protocol 1.58 % (one to three networks of 400 units)."
)
BEHIND = {
    "gaussian": Behind(
        "The authors' weights, 2^(M−i)/(2^M−1), leave almost none of the KL; our networks use all "
        "of it and err as those of Blundell et al. do. By the authors' protocol the error is "
        "1.55 % with 400 units, and 1.40 % if the rate is held five times as long "
        "(clark2022/kl-terms)."
    ),
    "mixture": Behind(
        "With a tenth of the KL the error is 1.50 % with 400 units, and by the authors' protocol, "
        "which leaves out most of it, 1.66 %. Removing the KL's noise by a bound does not help: "
        "3.07 % (clark2022/kl-terms)."
    ),
}
