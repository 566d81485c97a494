"""Gal & Ghahramani 2016, figure 2: CO2 extrapolated by dropout networks and a Gaussian process."""

from dubio.studies.paper_002.curves import DEVIATIONS, SCALES
from dubio.studies.paper_002.figure_2.claims import CLAIMS
from dubio.studies.paper_002.figure_2.computation import backdrop, pieces, run
from dubio.studies.paper_002.figure_2.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="002/figure-2",
    protocol="Networks with four hidden layers and dropout after each learn 272 months of CO2 at "
    "Mauna Loa from one input, the date. Standard dropout is one pass with averaged weights; MC "
    "dropout is mean and standard deviation of many stochastic passes, with noise of precision "
    "1e5 added, at the data, to the right of them and at x*. The Gaussian process of scikit-learn "
    "has a constant times a squared exponential kernel plus white noise; its amplitude, length "
    "scale and noise maximise the evidence, climbed from three length scales, since there is a "
    "second optimum that takes the seasons for noise. Errors are over restarts of the networks.",
    scales=SCALES,
    pieces=pieces,
    run=run,
    backdrop=backdrop,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        *DEVIATIONS,
        "The data are those of the authors' files: 272 months, not about 200 points, standardised "
        "and linearly detrended, which the paper does not say. Their 1000 test inputs have no "
        "observations, so nothing is compared with the truth there.",
        "The paper does not say where x* is: ours is 3, in the middle of the test inputs. The "
        "inputs beyond them, up to 1000, are ours as well.",
        "The TanH network with rate 0.2 has no weight decay in the authors' files; that with 0.1 "
        "has.",
    ),
)
