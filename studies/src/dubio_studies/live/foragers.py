"""Agents that have learned to forage, for a world that a browser runs."""

from collections import deque
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from torch import nn

from dubio_studies.gal2016.figure_6.computation import Config, foragers, networks
from dubio_studies.gal2016.figure_6.timing import TICKS_OF_BATCH, WINDOW
from dubio_studies.live.graphs import in_half_precision

SETTING = "thompson"  # of figure 6: dropout, one mask a tick
SETTINGS = Config(batches=200, seeds=4)


@final
@dataclass(frozen=True)
class LiveForager:
    """A network that gives a value for each action.

    Attributes:
        name: How old it is.
        network: From what nine eyes see to five values.
        drop: Its dropout rates, layer by layer.
        ticks: How long it has lived.
        reward: Per tick, over the last 5,000 of these; None if there are none.
    """

    name: str
    network: nn.Module
    drop: tuple[float, ...]
    ticks: int
    reward: float | None


def newborn(settings: Config = SETTINGS, seed: int = 0) -> LiveForager:
    """An agent that has learned nothing yet."""
    ((network,),) = networks(settings, SETTING, [seed])
    network = in_half_precision(network).eval()
    return LiveForager("newborn", network, drop_rates(network), 0, None)


def grown(settings: Config = SETTINGS, seed: int = 0) -> LiveForager:
    """Let some agents learn side by side; the one that earns most at the end."""
    import gymnasium  # an extra of the studies

    import dubio_studies.worlds  # noqa: F401  registers them
    from dubio_studies.agents.play import play

    seeds = [seed + number for number in range(settings.seeds)]
    nets = networks(settings, SETTING, seeds)
    agents = foragers(settings, SETTING, seeds, nets)
    envs: Any = gymnasium.make_vec("dubio/Forager-v0", num_envs=settings.seeds, reward="gal")
    ticks = TICKS_OF_BATCH * (settings.burn_in + settings.batches)
    rewards: deque[Any] = deque(maxlen=5 * WINDOW)
    for tick in play(agents, envs, ticks, seed=seed):
        rewards.append(tick.rewards)
    agents.write()
    earned = np.mean(rewards, axis=0)  # (M,)
    best = int(earned.argmax())
    network = in_half_precision(nets[best][0]).eval()
    return LiveForager("grown", network, drop_rates(network), ticks, float(earned[best]))


def drop_rates(network: nn.Module) -> tuple[float, ...]:
    """Of nn.Dropout, in order."""
    return tuple(float(part.p) for part in network.modules() if isinstance(part, nn.Dropout))
