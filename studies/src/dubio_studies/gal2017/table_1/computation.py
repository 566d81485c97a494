"""The numbers of table 1, and the maps of figure 7."""

from collections.abc import Iterator

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.scenes import protocol
from dubio_studies.scenes.evaluation import judged
from dubio_studies.scenes.maps import photograph_rows
from dubio_studies.scenes.names import MAPS
from dubio_studies.scenes.networks import PAPER, SMALL, SMOKE, Forks

KEPT = ("accuracy", "mean IoU", "IoU", "nll")


def pieces(config: Forks) -> list[Piece]:
    """Forks without dropout, with fixed and with Concrete dropout."""
    return protocol.pieces(config, ("none", "fixed", "concrete"))


def run(config: Forks, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Scores of one fork; maps are of draws from Concrete dropout's first one."""
    mapped = piece["kind"] == "concrete" and piece["restart"] == 1
    for row in judged(config, piece, seed):
        if row["metric"] in MAPS:
            wanted = mapped and row["sampling"] == "draws"
        else:
            wanted = row["metric"] in KEPT
        if wanted:
            yield row


COMPUTATION = Computation(
    protocol=f"{protocol.NETWORKS} Table 1 compares predictions of one pass without noise and of "
    "averages over draws. Claims and rules were written before the run.",
    scales={"smoke": Forks(**SMOKE), "small": Forks(**SMALL), "paper": Forks(**PAPER)},
    pieces=pieces,
    run=run,
    backdrop=photograph_rows,
    deviations=(
        *protocol.DEVIATIONS,
        "The paper's dropout regulariser, 0.01 × N × H × W, must be a misprint: as a weight "
        "of the entropy in a loss per pixel it must fall with N, H and W. Ours follows from "
        "the ELBO.",
    ),
)
