"""The numbers of figure 8: rates by layer, epoch and start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dubio_studies.framework.study import Computation, Measurement, Piece, Seed
from dubio_studies.mnist import checks
from dubio_studies.scenes import protocol
from dubio_studies.scenes.evaluation import rate_rows
from dubio_studies.scenes.networks import PAPER, SMALL, SMOKE, Forks
from dubio_studies.scenes.training import SceneTraining


@dataclass(frozen=True)
class Config(Forks):
    """Settings of the networks and of their rates.

    Attributes:
        starts: Initial rates.
        drop_momentum: Share of the former steps in a step of the logits of rates.
        temperature: How far Concrete masks are from binary ones.
        pairs: Whether forks see half as many scenes in a step, each under two masks; gradients of
            rates then come from what the two differ by.
    """

    starts: tuple[float, ...] = (0.05, 0.1, 0.2, 0.35, 0.5)
    drop_momentum: float = 0.9
    temperature: float = 2 / 3
    pairs: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        super().__post_init__()
        if len(set(self.starts)) < 2:
            raise ValueError(f"starts: expected two different rates or more, got {self.starts}.")
        for start in self.starts:
            checks.rates(starts=start)
        checks.rates(drop_momentum=self.drop_momentum)
        checks.positive(temperature=self.temperature)
        if self.pairs and self.batch_size % 2:
            raise ValueError(
                f"batch_size: expected an even number with pairs, got {self.batch_size}; half of "
                "the rows are another mask of the same scene."
            )

    def fork_training(self) -> SceneTraining:
        """How forks learn: with rates that average more of the noise of their gradients."""
        usual = replace(super().fork_training(), drop_momentum=self.drop_momentum)
        if not self.pairs:
            return usual
        return replace(usual, batch_size=self.batch_size // 2, copies=2)  # as many rows

    def concrete_temperature(self) -> float:
        """As given."""
        return self.temperature


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
    "fork each; the rates of the 15 layers are recorded after every epoch. Claims and rules "
    "were written before the run.",
    scales={
        "smoke": scale(SMOKE, starts=(0.1, 0.4), pairs=True),
        "small": scale(SMALL, fork_epochs=4, drop_learning_rate=0.2, pairs=True),
        "paper": scale(PAPER),
    },
    pieces=pieces,
    run=run,
    deviations=(
        *protocol.DEVIATIONS,
        "The paper shows the first, second, middle and last two layers of the whole network; "
        "ours are the first, second and so on of the 15 layers of the middle block, which "
        "have dropout.",
        "Logits have a learning rate of their own, four times that of the other CamVid studies, "
        "since with Adam a logit moves in a step by at most its learning rate. It was raised after "
        "a first run, whose rates still depended on their starts.",
        "In a second run single layers drifted, since the gradient of a rate is mostly noise. So "
        "at the small scale a batch has two scenes under two masks each instead of four scenes: "
        "what both passes of a scene have in common cancels, and the expectation stays the same.",
        "The temperature is 2/3, as in Gal's code for channels, instead of 0.1 as in the other "
        "CamVid studies. In a trial, for rates of 0.05, the ratio of the mean gradient to its "
        "standard deviation was 1/15 before, 2/9 with pairs, and 2/5 with pairs at 2/3.",
    ),
)
