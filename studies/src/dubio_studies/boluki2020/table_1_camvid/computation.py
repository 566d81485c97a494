"""The numbers of CamVid in table 1 and figure 2."""

from collections.abc import Iterator

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.scenes import protocol
from dubio_studies.scenes.evaluation import judged
from dubio_studies.scenes.names import MAPS
from dubio_studies.scenes.networks import PAPER, SMALL, SMOKE, Forks

LEFT_OUT = (*MAPS, "IoU", "frequency", "rank PAvgPU: accurate if certain",
            "rank PAvgPU: uncertain if inaccurate")  # fmt: skip


def pieces(config: Forks) -> list[Piece]:
    """Forks with fixed and with learned dropout."""
    return protocol.pieces(config, ("fixed", "concrete", "bernoulli", "gaussian"))


def run(config: Forks, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Scores and rates of one fork."""
    return (row for row in judged(config, piece, seed) if row["metric"] not in LEFT_OUT)


COMPUTATION = Computation(
    protocol=f"{protocol.NETWORKS} PAvgPU uses patches of 2 × 2 pixels: a patch is accurate if "
    "more than half of its pixels are, and uncertain if its mean entropy exceeds a "
    "threshold. Thresholds range from the smallest to the largest entropy of the validation "
    "images; the mean is over all thresholds. Regular and MC dropout use the same forks: one "
    "pass without noise, and an average over draws. LBD's gradient uses the one-pass "
    "trapezoid rule at the small scale, and ARM, as in the paper, at the paper scale. Claims "
    "and rules were written before the run.",
    scales={"smoke": Forks(**SMOKE), "small": Forks(**SMALL), "paper": Forks(**PAPER)},
    pieces=pieces,
    run=run,
    deviations=(
        *protocol.DEVIATIONS,
        "The mean IoU is computed over the whole data set. The authors' public code averages "
        "over images and counts predictions for void pixels in the unions; our table has "
        "that too.",
        "The authors' public code slices rows twice, so its patches are bands of whole rows; "
        "for classification it sums entropies over a batch. Both are shown as variants.",
        "In the authors' public code the second pass of ARM does not reuse the noise of the "
        "first. Our gradients for rates are tested against enumeration.",
        "The paper names 232 test images; there are 233.",
    ),
)
