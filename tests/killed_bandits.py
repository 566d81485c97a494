"""An agent that is killed and loaded again: `python killed_bandits.py FOLDER KIND KILLS`.

This process imports torch once and forks a child for every attempt, so that each can be killed as a
process of its own. It prints how many were killed, and whether all came out as one left alone.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from bandit_runs import made, result, run
from dubio import decide

STEPS = 30


def attempt(folder: Path, kind: str) -> None:
    """Go on from what is there, to the end."""
    kept = folder / "agent"
    there = (kept / "agent.pt").exists()
    agent = decide.Bandit.load(kept) if there else made(kind, keep_log=True)
    agent.keep_in(kept, save_every=0.1)
    temporary = folder / "result.tmp"
    temporary.write_text(json.dumps(result(run(agent, STEPS))))
    os.replace(temporary, folder / "result")


def main() -> None:
    torch.set_num_threads(1)
    place, kind, wanted = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    alone = json.loads(json.dumps(result(run(made(kind, keep_log=True), STEPS))))
    start = time.monotonic()
    run(made(kind, keep_log=True), STEPS)  # once more, as all code is loaded now
    duration = time.monotonic() - start
    chance = random.Random(0)
    kills = rounds = different = 0
    while kills < wanted:
        folder = place / f"{rounds}"
        folder.mkdir()
        while not (folder / "result").exists():
            child = os.fork()
            if child == 0:
                try:
                    attempt(folder, kind)
                except BaseException as error:
                    print(repr(error), file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            if kills < wanted:
                time.sleep(chance.uniform(0.0, 0.5 * duration))
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                sys.exit("an attempt failed")
            kills += os.WIFSIGNALED(status)
        different += json.loads((folder / "result").read_text()) != alone
        rounds += 1
    print(json.dumps({"kills": kills, "rounds": rounds, "different": different}))


if __name__ == "__main__":
    main()
