"""What an update of deep PILCO's policies costs: one agent, and many at once."""

import time

import torch

from dubio_studies.agents.episode import Episode
from dubio_studies.agents.pilco import PILCO, Settings

UPDATES = 20


def seconds(agents: int, particles: int, *, moment_matching: bool) -> float:
    """Of one update: 25 imagined steps, their gradient and Adam."""
    settings = Settings(
        dynamics_steps=1,
        updates=UPDATES,
        redraw_every=UPDATES,
        particles=particles,
        moment_matching=moment_matching,
    )
    group = PILCO("concrete", list(range(agents)), settings)
    generator = torch.Generator().manual_seed(0)
    walks = torch.randn(agents, 26, 4, generator=generator)
    forces = torch.randn(agents, 25, generator=generator)
    group.remember(Episode(walks, forces, torch.zeros(agents)))
    group.learn()
    group.follow()
    started = time.process_time()
    group.follow()
    return (time.process_time() - started) / UPDATES


if __name__ == "__main__":
    torch.set_num_threads(1)
    for moment_matching in (False, True):
        for agents, particles in ((1, 12), (5, 12), (15, 12), (1, 25), (5, 25), (15, 25), (5, 100)):
            each = seconds(agents, particles, moment_matching=moment_matching)
            matched = "moments matched" if moment_matching else ""
            print(
                f"{agents:>3} agents  {particles:>3} particles  {1e3 * each:6.1f} ms an update  "
                f"{1e3 * each / agents:5.1f} ms an agent  {matched}".rstrip(),
                flush=True,
            )
