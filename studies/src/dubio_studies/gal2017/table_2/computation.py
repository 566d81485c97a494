"""The numbers of table 2: those of the forks of table 1."""

from collections.abc import Iterator

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.scenes import protocol
from dubio_studies.scenes.evaluation import judged
from dubio_studies.scenes.networks import PAPER, SMALL, SMOKE, Forks

KEPT = ("calibration RMSE, weighted", "calibration RMSE, unweighted", "ECE", "nll", "frequency")


def pieces(config: Forks) -> list[Piece]:
    """Forks without dropout, with fixed and with Concrete dropout."""
    return protocol.pieces(config, ("none", "fixed", "concrete"))


def run(config: Forks, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Calibration of one fork."""
    return (row for row in judged(config, piece, seed) if row["metric"] in KEPT)


COMPUTATION = Computation(
    protocol=f"{protocol.NETWORKS} Calibration pools the probabilities of all classes and pixels, "
    "as in Kendall and Gal (2017): in 10 bins of equal width, the mean probability is "
    "compared with the observed frequency. The RMSE of the gaps is given with bins weighted "
    "by their cases and unweighted: the paper does not say which it uses. Claims and rules "
    "were written before the run.",
    scales={"smoke": Forks(**SMOKE), "small": Forks(**SMALL), "paper": Forks(**PAPER)},
    pieces=pieces,
    run=run,
    deviations=(
        *protocol.DEVIATIONS,
        "The paper shows its RMSE only in the legend of a plot, so we have no numbers to "
        "compare with.",
    ),
)
