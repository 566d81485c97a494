"""The numbers of figure 8: rates by layer, epoch and start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.scenes import protocol
from dubio_studies.scenes.evaluation import rate_rows
from dubio_studies.scenes.networks import PAPER, SMALL, SMOKE, Forks
from dubio_studies.scenes.training import Training


@dataclass(frozen=True)
class Config(Forks):
    """Settings of the networks and of their rates.

    Attributes:
        starts: Rates that learning starts from.
        drop_momentum: Share of the former steps in a step of the logits of rates.
    """

    starts: tuple[float, ...] = (0.05, 0.1, 0.2, 0.35, 0.5)
    drop_momentum: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        super().__post_init__()
        if len(set(self.starts)) < 2:
            raise ValueError(f"starts: expected two different rates or more, got {self.starts}.")
        for start in self.starts:
            checks.rates(starts=start)
        checks.rates(drop_momentum=self.drop_momentum)

    def fork_training(self) -> Training:
        """How forks learn: with rates that average more of the noise of their gradients."""
        return replace(super().fork_training(), drop_momentum=self.drop_momentum)


def pieces(config: Config) -> list[Piece]:
    """A fork from each start."""
    return [{"kind": "concrete", "restart": 1, "drop": start} for start in config.starts]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """The rates of one fork while it learns."""
    return rate_rows(config.of(piece, seed))


def scale(settings: Mapping[str, Any], **more: Any) -> Config:
    """The settings of all studies of CamVid, with one fork a start."""
    return Config(**{**settings, "restarts": 1, **more})


COMPUTATION = Computation(
    protocol=f"{protocol.NETWORKS} For figure 8 Concrete dropout starts from five rates, with one "
    "fork each; the rates of the 15 layers are noted after every epoch. Claims and rules were "
    "written before the run.",
    scales={
        "smoke": scale(SMOKE, starts=(0.1, 0.4)),
        "small": scale(SMALL, drop_learning_rate=0.2, drop_momentum=0.98),
        "paper": scale(PAPER),
    },
    pieces=pieces,
    run=run,
    deviations=(
        *protocol.DEVIATIONS,
        "The paper shows the first, second, middle and last two layers of the whole network; here "
        "the 15 layers of the middle block have dropout, and first, second and so on are theirs.",
        "By Adam a logit moves no further in a step than its learning rate. Logits have one of "
        "their own, large enough to get from any start to any end: four times that of the other "
        "studies of CamVid, and a momentum of 0.98. Both were raised after a first run, whose "
        "rates had not forgotten their starts.",
    ),
)
