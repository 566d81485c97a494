"""What dubio adds to small networks: training steps and predictions over those of plain torch.

The networks are so small that hardly anything but the calls themselves takes time. Contenders take
turns in one process; a cell is the median over rounds of the ratio to plain torch within a round.
One thread, CPU time.
"""

import argparse
import json
from collections.abc import Callable

import torch
import torch.nn.functional as F
from arm_step import measure
from torch import Tensor, nn

import dubio
from dubio import ELBO, Masked
from dubio.likelihoods import Categorical
from dubio.masks import LearnableBernoulli

TARGETS = {
    "Bayes": 3.0,
    "trapezoid_once": 3.0,
    "trapezoid": 4.5,
    "arm": 4.5,
    "Predictor": 2.0,
    "Predictor, shared": 2.5,
    "predict / loop": 1.0,
}
DRAWS = 20


def step(
    parameters: list[nn.Parameter], loss: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[], None]:
    x, y = torch.randn(8, 4), torch.randint(4, (8,))
    optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)

    def take() -> None:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return take


def steps() -> dict[str, Callable[[], object]]:
    """Training steps of three layers of four units, batch 8; plain torch first."""
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    found = {"plain": step(list(network.parameters()), lambda x, y: F.cross_entropy(network(x), y))}
    bayes = nn.Sequential(*(dubio.BayesLinear(4, 4) for _ in range(3)))
    objectives = {"Bayes": ELBO(bayes, Categorical(), 1000)}
    for estimator in ("trapezoid_once", "trapezoid", "arm"):
        masked = nn.Sequential(
            *(Masked(nn.Linear(4, 4), LearnableBernoulli(4, drop=0.2)) for _ in range(3))
        )
        objectives[estimator] = ELBO(masked, Categorical(), 1000, estimator=estimator)
    return found | {name: step(list(elbo.parameters()), elbo) for name, elbo in objectives.items()}


def predictions() -> dict[str, Callable[[], object]]:
    """Twenty draws of one row, twelve layers; a pass over twenty copies of the row first."""
    layers = [(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1)) for _ in range(12)]
    network = nn.Sequential(*(part for layer in layers for part in layer))
    x = torch.randn(1, 32)

    @torch.no_grad()
    def repeated() -> None:
        network(x.repeat(DRAWS, 1))

    @torch.no_grad()
    def loop() -> None:
        torch.stack([network(x) for _ in range(DRAWS)])

    found = {
        "repeated": repeated,
        "loop": loop,
        "predict": lambda: dubio.predict(network, x, draws=DRAWS),
        "predict, shared": lambda: dubio.predict(network, x, draws=DRAWS, shared=True),
    }
    if hasattr(dubio, "Predictor"):
        per_row = dubio.Predictor(network, draws=DRAWS)
        shared = dubio.Predictor(network, draws=DRAWS, shared=True)
        found |= {"Predictor": lambda: per_row(x), "Predictor, shared": lambda: shared(x)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ratios = measure(steps(), arguments.rounds) | measure(predictions(), arguments.rounds)
    ratios["predict / loop"] = ratios["predict"] / ratios["loop"]
    for name, ratio in ratios.items():
        target = TARGETS.get(name)
        print(f"{name:<20} {ratio:6.2f}" + (f"   target {target}" if target else ""))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(ratios, file, indent=1)


if __name__ == "__main__":
    main()
