"""Gal & Ghahramani 2016, figure 3: CO2 extrapolated by MC dropout with ten draws."""

from dataclasses import replace

from dubio.studies.paper_002.curves import DEVIATIONS, SCALES
from dubio.studies.paper_002.figure_3.claims import CLAIMS
from dubio.studies.paper_002.figure_3.computation import backdrop, pieces, run
from dubio.studies.paper_002.figure_3.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="002/figure-3",
    protocol="The ReLU network of figure 2 is trained again. Its mean and standard deviation are "
    "estimated from ten stochastic passes, a hundred times over, and compared with those from all "
    "thousand passes together.",
    scales={
        "smoke": replace(SCALES["smoke"], draws=10),
        "small": replace(SCALES["small"], draws=10),
        "paper": replace(SCALES["paper"], draws=10),
    },
    pieces=pieces,
    run=run,
    backdrop=backdrop,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        *DEVIATIONS,
        "The data are those of the authors' files: 272 months, standardised and linearly "
        "detrended; x* is ours, see figure 2.",
    ),
)
