"""Active learning on small digits: BatchBALD, BALD, entropy or a random choice of labels.

Networks start with 20 labels and get 10 more, ten times. Prints, over several seeds, the mean
accuracy of the rounds after the first, and whether a rule beats random choice. ``python
examples/active_learning.py 1 2`` runs one seed and two rounds.
"""

import sys
from typing import get_args

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import dubio
from dubio.decide import Acquisition, acquire
from dubio.likelihoods import Categorical

AT_ONCE = 10
CANDIDATES = 300  # random rows of the pool in each round, to save time


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A small dropout network, trained on a few labels."""
    net = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def accuracies(by: Acquisition | None, seed: int, rounds: int, x: Tensor, y: Tensor) -> Tensor:
    """Accuracy on the test digits after each round; None chooses at random."""
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    test, labelled, pool = order[:600], order[600:620], order[620:]
    found = []
    for _ in range(rounds + 1):
        net = trained(x[labelled], y[labelled])
        p = dubio.predict(net, x[test], likelihood=Categorical(), draws=20)
        found.append((p.mean.argmax(-1) == y[test]).float().mean())
        chosen = torch.randperm(len(pool))[:CANDIDATES]
        if by is not None:
            p = dubio.predict(net, x[pool[chosen]], likelihood=Categorical(), draws=50, shared=True)
            chosen = chosen[acquire(p, AT_ONCE, by)]
        chosen = chosen[:AT_ONCE]
        kept = torch.ones(len(pool), dtype=torch.bool)
        kept[chosen] = False
        labelled, pool = torch.cat([labelled, pool[chosen]]), pool[kept]
    return torch.stack(found)


def main(seeds: int = 5, rounds: int = 10) -> None:
    """Compare all rules over several seeds."""
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)

    def scores(by: Acquisition | None) -> Tensor:
        return torch.stack([accuracies(by, seed, rounds, x, y)[1:].mean() for seed in range(seeds)])

    at_random = scores(None)
    print(f"random     {at_random.mean():.3f}")
    for by in get_args(Acquisition):
        gain = scores(by) - at_random
        error = gain.std() / seeds**0.5 if seeds > 1 else torch.tensor(float("nan"))
        verdict = "beats random" if gain.mean() > 2 * error else "does not clearly beat random"
        print(f"{by:10} {at_random.mean() + gain.mean():.3f}, {verdict}: "
              f"{gain.mean():+.3f} ± {error:.3f}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
