"""Clark et al. 2022, table 3: how often Bayesian, dropout and plain networks err on MNIST."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE
from dubio.studies.paper_004.table_3.claims import CLAIMS
from dubio.studies.paper_004.table_3.computation import Config, pieces, run
from dubio.studies.paper_004.table_3.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/table-3",
    protocol="Networks pixels–h–h–10 with ReLU learn all training digits of MNIST: by Bayes by "
    "Backprop with a Gaussian prior and with a mixture of two Gaussians, with dropout of pixels "
    "and hidden units, and with neither. Bayes by Backprop recognises the test digits by the "
    "average over draws of all weights, as in the paper, and by the mean weights alone; dropout in "
    "one pass without masks, as in the paper, and by the average over masks. Variants are the "
    "authors' double softmax, one in the network and one in its loss, one network of each kind; "
    "Bayes by Backprop with the paper's Gaussian prior, the KL in full, and deviations that learn "
    "slowly, which is called slow; and Bayes by Backprop with less weight on the KL, which is "
    "called cold.",
    scales={
        "smoke": Config(**SMOKE, widths=(16,), double_widths=(16,)),
        "small": Config(**{**SMALL, "restarts": 3}, widths=(400,)),
        "paper": Config(**PAPER),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "All 10,000 test digits count. The earlier state of the authors' code left out the last "
        "16.",
    ),
)
