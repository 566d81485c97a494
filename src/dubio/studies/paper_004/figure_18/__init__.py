"""Clark et al. 2022, figure 18: test error on MNIST while networks learn."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE, NetworksByWidth
from dubio.studies.paper_004.figure_18.claims import CLAIMS
from dubio.studies.paper_004.figure_18.computation import pieces, run
from dubio.studies.paper_004.figure_18.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/figure-18",
    protocol="The networks of table 3 that are plain, have dropout or a Gaussian prior, the slow "
    "and the cold variant of that included, are watched while they learn: after each epoch, the "
    "share of test digits that one pass gets wrong, by the mean weights of Bayes by Backprop and "
    "without dropout's masks.",
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
        "The paper does not say how the Bayesian network predicts while it learns; here by its "
        "mean weights.",
        "As the rate falls along a cosine, curves settle towards the end of their epochs, whatever "
        "their number; the paper's rate is constant. When networks converge depends on this.",
    ),
)
