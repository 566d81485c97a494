"""How far Python walks through dubio's files: for one small prediction and one training step.

Printed are calls of functions in dubio's files, how many files they are in, and how often a call
goes from one of these files to another.
"""

import argparse
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import torch
from torch import nn

import dubio
from dubio import ELBO, Masked
from dubio.likelihoods import Categorical
from dubio.masks import LearnableBernoulli

HOME = str(Path(dubio.__file__).parent)


def walk(act: Callable[[], object]) -> dict[str, int]:
    """Calls, files and changes of file while something is done for the second time."""
    act()
    files: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in pairwise(files))
    return {"calls": len(files), "files": len(set(files)), "changes": changes}


def prediction() -> Callable[[], object]:
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    x = torch.randn(5, 4)
    return lambda: dubio.predict(network, x)


def prepared() -> Callable[[], object]:
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    x = torch.randn(5, 4)
    predictor = dubio.Predictor(network)
    return lambda: predictor(x)


def step() -> Callable[[], object]:
    layers = (Masked(nn.Linear(4, 4), LearnableBernoulli(4, drop=0.2)) for _ in range(2))
    elbo = ELBO(nn.Sequential(*layers), Categorical(), 1000, estimator="trapezoid")
    optimizer = torch.optim.Adam(elbo.parameters())
    x, y = torch.randn(8, 4), torch.randint(4, (8,))

    def take() -> None:
        optimizer.zero_grad()
        elbo(x, y).backward()
        optimizer.step()

    return take


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    acts = {"predict": prediction(), "Predictor": prepared(), "ELBO step": step()}
    found = {name: walk(act) for name, act in acts.items()}
    for name, counts in found.items():
        print(f"{name:<12}", ", ".join(f"{count} {what}" for what, count in counts.items()))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
