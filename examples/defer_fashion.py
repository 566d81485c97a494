"""Deferral with a guarantee on Fashion-MNIST: the network answers if it is certain, else a human.

A small dropout CNN is trained. Half of the test images calibrate an entropy threshold below which
at most 2 or 5 % of its answers are wrong, with 95 % confidence. The other half shows the share of
images it answers, and how often it is wrong. The baseline is a Bonferroni correction over 16
coverages. ``python examples/defer_fashion.py 1 6000`` runs one epoch with 6000 training images.
"""

import sys

import torch
from scipy.stats import binom
from torch import Tensor, nn

import dubio
from dubio.data import fashion_mnist
from dubio.decide import Deferral
from dubio.likelihoods import Categorical

DRAWS, CONFIDENCE = 20, 0.95


def network() -> nn.Module:
    """Two convolutions and two layers, with dropout before the latter."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.25), nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip


def pixels(images: Tensor) -> Tensor:
    """One channel of numbers around 0."""
    return images[:, None].float() / 255 - 0.3


def by_bonferroni(scores: Tensor, wrong: Tensor, error_rate: float) -> float:
    """The threshold of the largest of 16 coverages, each tested at a 16th of the level."""
    order = scores.argsort()
    errors = wrong[order].cumsum(0)
    threshold = -torch.inf
    for last in torch.linspace(len(scores) / 16, len(scores), 16).long() - 1:
        passed = binom.cdf(errors[last], last + 1, error_rate) <= (1 - CONFIDENCE) / 16
        threshold = scores[order[last]].item() if passed else threshold
    return threshold


def main(epochs: int = 4, rows: int = 60_000) -> None:
    """Train, calibrate, defer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train, test = fashion_mnist("train"), fashion_mnist("test")
    net = network()
    elbo = dubio.ELBO(net, Categorical(), num_data=rows)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    data = pixels(train.images[:rows]), train.labels[:rows]
    dubio.fit(elbo, data, epochs=epochs, batch_size=128, optimizer=optimizer, progress=False)

    order = torch.randperm(len(test.images))
    x, y = pixels(test.images[order]), test.labels[order]
    p = dubio.predict(net, [*x.split(500)], likelihood=Categorical(), draws=DRAWS, generator=0)
    wrong = p.mean.argmax(-1) != y
    print(f"error of all answers: {wrong.float().mean():.1%}")
    half = len(y) // 2
    for error_rate in (0.02, 0.05):
        old = p.entropy[half:] <= by_bonferroni(p.entropy[:half], wrong[:half], error_rate)
        try:
            deferral = Deferral("entropy", confidence=CONFIDENCE)
            kept = deferral.fit_error_rate(p[:half], y[:half], error_rate)(p[half:]).answered
        except ValueError as error:
            print(error)
            continue
        print(f"at most {error_rate:.0%} wrong: answers {kept.float().mean():.1%} of new images, "
              f"{wrong[half:][kept].float().mean():.1%} of them wrong; by Bonferroni "
              f"{old.float().mean():.1%}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
