"""Gal et al. 2017, figure 1: uncertainties and rates against the number of data."""

from dubio.studies.paper_001.figure_1.claims import CLAIMS
from dubio.studies.paper_001.figure_1.computation import Config, pieces, run
from dubio.studies.paper_001.figure_1.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="001/figure-1",
    protocol="y = 2x + 8 + ε with standard normal x and ε; 10 to 10,000 training rows. A network "
    "has three hidden layers of rectifiers and two heads, for the mean and the log variance, with "
    "a Concrete mask (temperature 0.1) before each of its five weight layers, and l = 10⁻⁴. Adam "
    "with a falling learning rate, one draw a step. All sizes and starts of a repeat are one "
    "population. Uncertainties are measured on 1000 rows of the same distribution.",
    scales={
        "smoke": Config(
            sizes=(10, 100), width=8, repeats=1, steps=20, draws=5, batch_size=16
        ),
        "small": Config(width=64, repeats=2, steps=20_000, learning_rate=5e-3),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        "The authors' notebook makes 2000 steps with 10 rows and 1000 with 10,000, at the end of "
        "which rates still move at Adam's full speed, so that its curve of rates against data "
        "shows the number of steps. Here all sizes have the same number of steps, from two starts, "
        "and the page says whether they have met.",
        "At scale small the hidden layers have 64 units, not 1024: the entropy of the masks weighs "
        "more with wide layers, so that rates are higher there.",
    ),
)  # fmt: skip
