"""Agents that have learned to forage, for a world that a browser runs."""

from collections import deque
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from torch import nn

from dubio.masks import Mask
from dubio_studies.gal2016.figure_6.computation import Config, foragers, networks
from dubio_studies.gal2016.figure_6.timing import TICKS_OF_BATCH, WINDOW
from dubio_studies.live.graphs import in_half_precision

AGENTS = ("thompson", "concrete")
SETTINGS = Config(batches=75, seeds=2)


@final
@dataclass(frozen=True)
class Agent:
    """A network that gives a value for each action.

    Attributes:
        name: That of its setting in figure 6.
        network: From what nine eyes see to five values.
        drop: Its dropout rates, layer by layer.
        reward: Per tick, over the last ticks of its training.
    """

    name: str
    network: nn.Module
    drop: tuple[float, ...]
    reward: float


def best_agent(name: str, settings: Config = SETTINGS, seed: int = 0) -> Agent:
    """Let some agents of a setting learn side by side; the one that earns most at the end."""
    import gymnasium  # an extra of the studies

    import dubio_studies.worlds  # noqa: F401  registers them
    from dubio_studies.agents.play import play

    seeds = [seed + number for number in range(settings.seeds)]
    nets = networks(settings, name, seeds)
    agents = foragers(settings, name, seeds, nets)
    envs: Any = gymnasium.make_vec("dubio/Forager-v0", num_envs=settings.seeds, reward="gal")
    ticks = TICKS_OF_BATCH * (settings.burn_in + settings.batches)
    rewards: deque[Any] = deque(maxlen=5 * WINDOW)
    for tick in play(agents, envs, ticks, seed=seed):
        rewards.append(tick.rewards)
    agents.write()
    earned = np.mean(rewards, axis=0)  # (M,)
    best = int(earned.argmax())
    network = in_half_precision(nets[best][0]).eval()
    return Agent(name, network, drop_rates(network), float(earned[best]))


def drop_rates(network: nn.Module) -> tuple[float, ...]:
    """Of nn.Dropout and of dubio's masks, in order."""
    return tuple(
        float(part.p if isinstance(part, nn.Dropout) else part.drop)
        for part in network.modules()
        if isinstance(part, nn.Dropout | Mask)
    )
