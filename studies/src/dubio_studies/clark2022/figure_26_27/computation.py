"""The numbers of figures 26 and 27: Bayesian agents with other priors and learning rates."""

from dubio_studies.clark2022.figure_23_27.computation import MAIN, SETTINGS, Config, pieces, run
from dubio_studies.framework.study import Computation

VARIANTS = tuple(name for name in SETTINGS if name not in MAIN)
ALL = ("greedy", "bayes", *VARIANTS)

COMPUTATION = Computation(
    protocol="The agents of figure 23 with fewer mushrooms: a greedy one, and Bayes by Backprop. "
        "Its mixture prior has a wide deviation σ₁ of 1, as in figure 23, or 0.25, 0.75 or 4; "
        "its learning rate is 1e-4, as in figure 23, or 1e-3 or 1e-5. The narrow deviation is "
        "exp(−6). All agents meet the same mushrooms with the same random rewards. Claims and "
        "rules were written before the run.",
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
        "The paper does not give the prior variances of figure 27b, nor the learning rates "
            "of figure 27a other than 1e-5 and 1e-4; 0.25, 4 and 1e-3 are ours.",
    ),
)  # fmt: skip
