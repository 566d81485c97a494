"""The numbers of figures 26 and 27: Bayesian agents with other priors and learning rates."""

from dubio_studies.clark2022.figure_23_27.computation import MAIN, SETTINGS, Config, pieces, run
from dubio_studies.framework.study import Computation

VARIANTS = tuple(name for name in SETTINGS if name not in MAIN)
ALL = ("greedy", "bayes", *VARIANTS)

COMPUTATION = Computation(
    protocol="The agents of figure 23 once more, for fewer mushrooms: a greedy one, and Bayes by "
    "Backprop whose mixture prior has a wide deviation σ₁ of 1, as there, or 0.25, 0.75 or 4, and "
    "whose learning rate is 1e-4, as there, or 1e-3 or 1e-5. The narrow deviation is exp(−6). All "
    "meet the same mushrooms and have the same luck. Claims and rules were written before the run.",
    scales={
        "smoke": Config(
            interactions=20, start=64, seeds=2, variants=2, steps=2, hidden=8, settings=ALL,
        ),
        "small": Config(interactions=1000, seeds=3, settings=ALL),
        "paper": Config(seeds=3, settings=ALL),
    },
    pieces=pieces,
    run=run,
    deviations=(
        "The paper shows single runs of 50,000 mushrooms; at small scale there are three runs of "
        "1,000.",
        "The paper does not say which prior variances figure 27b has, nor which learning rates "
        "beside 1e-5 and 1e-4 figure 27a; 0.25, 4 and 1e-3 are ours.",
    ),
)  # fmt: skip
