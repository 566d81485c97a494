"""Clark et al. 2022, figure 22: networks on images that were changed to deceive."""

from dubio.studies.paper_004.deviations import DEVIATIONS
from dubio.studies.paper_004.digits import PAPER, SMALL, SMOKE
from dubio.studies.paper_004.figure_22.claims import CLAIMS
from dubio.studies.paper_004.figure_22.computation import Config, pieces, run
from dubio.studies.paper_004.figure_22.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="004/figure-22",
    protocol="The fast gradient sign method (eq. 21) changes every pixel, from 0 to 1, by ε in the "
    "direction that makes the right class less likely; results are cut to the range of pixels. "
    "Transferred, as in the paper: the gradient is that of a separate convolutional network, and "
    "all networks see the same images. White-box, which the paper does not test: the gradient is "
    "that of the network itself as it is read, for one that is averaged over draws that of the "
    "average. Gradients are in double precision, as in single precision that of a sure prediction "
    "is rounded away. Networks are those of 004/table-3, slow and cold variants included.",
    scales={
        "smoke": Config(**SMOKE, width=16, attacked=60, attack_draws=2, cnn_epochs=1),
        "small": Config(**SMALL, width=400, attacked=2_000, cnn_epochs=3),
        "paper": Config(**PAPER),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    revision=2,
    deviations=(
        *DEVIATIONS,
        "The paper's convolutional network is described as simple. Ours has two layers of 16 and "
        "32 filters, 5 × 5, each with ReLU and pooling by two, and a linear one.",
        "The paper does not say whether changed images are cut to the range of pixels; ours are.",
        "Changes are in units of pixels from 0 to 1, whatever the network divides them by.",
    ),
)
