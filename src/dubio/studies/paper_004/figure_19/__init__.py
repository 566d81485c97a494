"""Clark et al. 2022, figure 19: whether what networks are sure of comes true."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE
from dubio.studies.paper_004.figure_19.claims import CLAIMS
from dubio.studies.paper_004.figure_19.computation import Config, pieces, run
from dubio.studies.paper_004.figure_19.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/figure-19",
    protocol="Networks with two hidden layers learn MNIST by maximum likelihood, with dropout, and "
    "by Bayes by Backprop with a Gaussian and a mixture prior, and, as a variant that is called "
    "cold, with less weight on the KL. All test images are put in 15 bins of equal width by the "
    "probability of the likeliest class, and its mean is compared with the share of images that "
    "are recognised. Networks with dropout are read twice: by one pass "
    "without noise, which is the standard, and averaged over draws. An earlier state of the "
    "authors' code has a softmax in the network and another in the loss; networks that were "
    "trained so are a variant of their own.",
    scales={
        "smoke": Config(**SMOKE, width=16, resamples=5),
        "small": Config(**SMALL, width=400),
        "paper": Config(**PAPER),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper does not say whether the probabilities of all classes are put in bins or that "
        "of the likeliest alone, nor how many bins there are: here it is the likeliest, and 15.",
        "All test images count; the earlier state of the authors' code leaves the last incomplete "
        "batch out.",
    ),
)
