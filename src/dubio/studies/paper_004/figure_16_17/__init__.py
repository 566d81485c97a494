"""Clark et al. 2022, figures 16 and 17: trained weights, by method and prior."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE, NetworksByWidth
from dubio.studies.paper_004.figure_16_17.claims import CLAIMS
from dubio.studies.paper_004.figure_16_17.computation import pieces, run
from dubio.studies.paper_004.figure_16_17.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/figure-16-17",
    protocol="The weights, without biases, of all three layers of the networks of table 3, slow "
    "and cold variants included, and of one more with a Laplace prior: those of the plain network "
    "and of dropout as they are, those of Bayes by Backprop as one draw of the posterior and as "
    "its means.",
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
        "The paper does not say whether its Bayesian weights are drawn, as those of Blundell et "
        "al. are, or means; here are both, and claims are judged by the drawn ones.",
        "Weights of the first layer depend on the unit of pixels: for the same outputs they are "
        "about half of those for pixels from 0 to 1.",
    ),
)
