"""Accuracy against the share of pruned weights (Clark et al. 2022, figures 20 and 21).

A network with Gaussian weights is trained on MNIST or on the digits of scikit-learn, then more and
more of its weights are set to zero by signal-to-noise ratio. Accuracy is that of the predictive
mean of 20 draws.
"""

import argparse
import copy
from itertools import pairwise

import torch
from torch import Tensor, nn

import dubio
from dubio.data.errors import DataError
from dubio.likelihoods import Categorical

SHARES = (0.0, 0.5, 0.75, 0.9, 0.95, 0.98)
Pair = tuple[Tensor, Tensor]


def mnist() -> tuple[Pair, Pair]:
    train, test = dubio.data.mnist("train"), dubio.data.mnist("test")
    return tuple((part.images.flatten(1) / 255, part.labels) for part in (train, test))  # type: ignore[return-value]


def digits() -> tuple[Pair, Pair]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return (x[order[:1300]], y[order[:1300]]), (x[order[1300:]], y[order[1300:]])


def train(data: Pair, width: int, epochs: int, scale: float) -> nn.Sequential:
    x, y = data
    prior = dubio.priors.Laplace(scale)
    sizes = (x.shape[1], width, width, 10)
    layers: list[nn.Module] = []
    for ins, outs in pairwise(sizes):
        layers += [dubio.BayesLinear(ins, outs, prior=prior, sampler="local"), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    elbo = dubio.ELBO(net, Categorical(), len(x))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        for rows in torch.randperm(len(x)).split(256):
            optimizer.zero_grad()
            elbo(x[rows], y[rows]).backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch + 1}: nll {float(elbo.nll):.4f}, kl {float(elbo.kl):.0f}", flush=True)
    return net


def accuracy(net: nn.Module, data: Pair) -> float:
    x, y = data
    generator = torch.Generator().manual_seed(0)
    p = dubio.predict(
        net, x, draws=20, likelihood=Categorical(), generator=generator, keep_draws=False
    )
    return float((p.mean.argmax(-1) == y).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=("mnist", "digits"))
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--scale", type=float, default=0.1, help="of the Laplace prior")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    try:
        training, test = digits() if arguments.data == "digits" else mnist()
    except DataError as error:
        print(f"no MNIST ({error}); digits instead")
        training, test = digits()
    epochs = arguments.epochs or (10 if len(training[0]) > 10_000 else 300)
    net = train(training, arguments.width, epochs, arguments.scale)
    for share in SHARES:
        pruned = copy.deepcopy(net)
        table = dubio.prune(pruned, share)
        print(f"pruned {share:4.0%}: accuracy {accuracy(pruned, test):.4f}", flush=True)
        if share == 0.9:
            print(table)


if __name__ == "__main__":
    main()
