"""Active learning on MNIST: from 20 labels to 200, chosen by BALD, BatchBALD, entropy or at random.

The experiment of Gal, Islam and Ghahramani (2017) with a small dropout network. Prints the test
accuracy with 50, 100 and 200 labels, and the gain over random choice, averaged over all rounds,
with a 95 % interval. ``python examples/active_mnist.py 1 2`` runs one seed and two rounds.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from dubio.data import Images, mnist
from dubio.decide import Acquisition, acquire
from dubio.likelihoods import Categorical

START, AT_ONCE = 20, 10
POOL, CANDIDATES, TEST = 20_000, 1000, 5000  # candidates are random rows of the pool
RULES: tuple[Acquisition | None, ...] = (None, "entropy", "bald", "batchbald")
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # quantiles of Student's t by the number of seeds


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A dropout network, trained on a few labels."""
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.003, weight_decay=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def accuracies(by: Acquisition | None, seed: int, rounds: int, data: list[Images]) -> Tensor:
    """Test accuracy after each round, (rounds + 1,); None chooses at random."""
    torch.manual_seed(seed)
    digits, test = data
    rows = torch.randperm(len(digits.images))[:POOL]
    x, y = digits.images[rows].flatten(1) / 255, digits.labels[rows]
    x_test, y_test = test.images[:TEST].flatten(1) / 255, test.labels[:TEST]
    free = torch.ones(POOL, dtype=torch.bool)
    free[:START] = False
    found = []
    for _ in range(rounds + 1):
        net = trained(x[~free], y[~free])
        p = dubio.predict(net, x_test, likelihood=Categorical(), draws=20, shared=True)
        found.append((p.mean.argmax(-1) == y_test).float().mean())
        pool = free.nonzero().flatten()
        chosen = pool[torch.randperm(len(pool))[: AT_ONCE if by is None else CANDIDATES]]
        if by is not None:
            p = dubio.predict(net, x[chosen], likelihood=Categorical(), draws=50, shared=True)
            chosen = chosen[acquire(p, AT_ONCE, by)]
        free[chosen] = False
    return torch.stack(found)


def main(seeds: int = 5, rounds: int = 18) -> None:
    """Compare all rules over several seeds."""
    torch.set_num_threads(1)
    data = [mnist("train"), mnist("test")]
    at_random = torch.zeros(())
    for by in RULES:
        found = torch.stack([accuracies(by, seed, rounds, data) for seed in range(seeds)])
        error = found.std(0, correction=min(1, seeds - 1)) / seeds**0.5
        print(f"{by or 'random':10}", *(
            f"{START + r * AT_ONCE}: {found[:, r].mean():.3f} ± {error[r]:.3f}"
            for r in (3, 8, 18) if r <= rounds
        ), end="  ")  # fmt: skip
        at_random = found if by is None else at_random
        gain = (found - at_random)[:, 1:].mean(1)  # (seeds,)
        half = T_95.get(seeds, math.nan) * gain.std(correction=min(1, seeds - 1)) / seeds**0.5
        print("" if by is None else f"{gain.mean():+.3f}, 95 %: ± {half:.3f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
