"""Steps a second of the worlds: one forager, many at once, the cart-pole and deep sea.

Uniform random actions, with what Gymnasium asks for: observations in float32, ends and infos. One
thread, CPU time, the best of some rounds. The target is 100,000 steps a second for 64 foragers.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import dubio_studies.worlds  # noqa: F401  registers the worlds

TARGETS = {("foragers", 64): 100_000}


def best_rate(steps: Callable[[int], int], rounds: int, count: int) -> float:
    """World-steps a second: the most over rounds of `count` calls."""
    found = 0.0
    for _ in range(rounds):
        start = time.process_time()
        done = steps(count)
        found = max(found, done / (time.process_time() - start))
    return found


def foragers(worlds: int, ticks: int) -> Callable[[int], int]:
    envs = gymnasium.make_vec("dubio/Forager-v0", num_envs=worlds)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(5, size=(ticks, worlds))

    def steps(count: int) -> int:
        for row in actions[:count]:
            envs.step(row)
        return count * worlds

    return steps


def single(name: str) -> Callable[[int], int]:
    env: Any = gymnasium.make(f"dubio/{name}-v0").unwrapped
    env.reset(seed=0)
    env.action_space.seed(0)

    def steps(count: int) -> int:
        for _ in range(count):
            if env.step(env.action_space.sample())[2]:
                env.reset()
        return count

    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in ("Forager", "CartPoleSwingUp", "DeepSea"):
        rows.append({"world": name, "worlds": 1, "rate": best_rate(single(name), 3, 200)})
    for worlds in (1, 8, 64, 256, 1024):
        ticks = min(300, 40_000 // worlds)
        rate = best_rate(foragers(worlds, ticks), arguments.rounds, ticks)
        rows.append({"world": "foragers", "worlds": worlds, "rate": rate})
    for row in rows:
        if arguments.json:
            print(json.dumps(row))
            continue
        target = TARGETS.get((row["world"], row["worlds"]))
        reached = "reached" if target and row["rate"] >= target else "missed"
        note = f"   >= {target:,} {reached}" if target else ""
        print(f"{row['world']:16} {row['worlds']:5} worlds  {row['rate']:10,.0f} steps/s{note}")


if __name__ == "__main__":
    main()
