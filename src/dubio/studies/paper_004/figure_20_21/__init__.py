"""Clark et al. 2022, figures 20 and 21: how many weights a Bayesian network can do without."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE, NetworksByWidth
from dubio.studies.paper_004.figure_20_21.claims import CLAIMS
from dubio.studies.paper_004.figure_20_21.computation import pieces, run
from dubio.studies.paper_004.figure_20_21.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/figure-20-21",
    protocol="Networks with two hidden layers learn MNIST by Bayes by Backprop with two priors "
    "and, as a variant that is called cold, with less weight on the KL. Their weights, biases "
    "included, are ranked by signal-to-noise ratio |μ|/σ, all layers together, and a growing share "
    "of the lowest is set to zero in mean and deviation, without further training. All test images "
    "are recognised by draws of what is left, and by its means.",
    scales={
        "smoke": NetworksByWidth(**SMOKE, widths=(16,)),
        "small": NetworksByWidth(**SMALL, widths=(400,)),
        "paper": NetworksByWidth(**PAPER),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper replaces posteriors by a Dirac delta; we take it to be one at zero, as the "
        "original authors remove such weights.",
        "The paper also prunes networks after 300 of 600 epochs; ours are pruned at the end alone.",
    ),
)
