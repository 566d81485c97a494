"""Bias, standard deviation and RMSE of one-sample gradients for dropout rates.

Every estimator of `LearnableBernoulli` and `Concrete` (t = 0.1) at the same rates, against the true
gradient: in closed form on the toy regression of Boluki et al. 2020, section 3.1, and from exact
differences of the loss, unit by unit, inside a trained classifier. See README.md in this folder.
The toy alone, with figures: ``dubio run boluki2020/figure-1``.
"""

import argparse
import math
from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from dubio import ELBO, Masked
from dubio.likelihoods import Categorical
from dubio.masks import LearnableBernoulli
from dubio_studies.boluki2020.gradients import (
    GROUPS,
    METHODS,
    Problem,
    Quality,
    grad,
    gradients,
    jackknife,
    masks,
    toy,
)

WIDTHS = [2, 20, 200, 2000]


def classifier(width: int, drop: float, epochs: int, reference: int) -> Problem:
    """A trained net with masks before its last two layers, and one batch of its data."""
    torch.manual_seed(0)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    network = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(),
        Masked(nn.Linear(width, width), LearnableBernoulli(width, drop=drop)), nn.ReLU(),
        Masked(nn.Linear(width, 10), LearnableBernoulli(width, drop=drop)),
    )  # fmt: skip
    elbo = ELBO(network, Categorical(), num_data=len(x))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            elbo(x[rows], y[rows]).backward()
            optimizer.step()
    rows = torch.randperm(len(x))[:64]
    x, y = x[rows], y[rows]
    draws = torch.stack([exact_for_masks(network, x, y) for _ in range(reference)])
    error = float((draws.var(0).mean() / reference).sqrt())
    name = f"classifier, width {width}, {epochs} epochs from drop {drop:g}"
    return Problem(name, network, Categorical(), x, y, draws.mean(0), error)


def exact_for_masks(network: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:  # (logits,)
    """keep·drop·(ℓ(z_k = 1) − ℓ(z_k = 0)) for every unit k, the others at one sample of z.

    Plus the derivative through the scale 1/keep. Unbiased, and low in variance: what is left is
    the noise of the other units.
    """
    trunk, _, middle, _, last = network
    w1, b1, w2, b2 = (*middle.layer.parameters(), *last.layer.parameters())
    logits = [mask.logit for mask in masks(network)]
    keep1, keep2 = (logit.sigmoid() for logit in logits)
    with torch.no_grad():
        a = trunk(x).relu()  # (B, width)
        z1 = (torch.rand_like(a) < keep1).to(a.dtype)
        z2 = (torch.rand_like(a) < keep2).to(a.dtype)

    def top(hidden: Tensor, mask: Tensor) -> Tensor:  # (B, …, width) -> (B, …)
        outputs = F.linear(hidden.relu() * mask / keep2, w2, b2)
        labels = y.view(-1, *[1] * (outputs.dim() - 1)).expand(*outputs.shape[:-1], 1)
        return -outputs.log_softmax(-1).gather(-1, labels).squeeze(-1)

    hidden = F.linear(a * z1 / keep1, w1, b1)
    losses = top(hidden, z2)  # (B,)
    exact = grad(losses.mean(), logits)  # through the scale alone
    with torch.no_grad():
        change = (1 - 2 * z1) * a / keep1  # of the k-th input when its mask flips
        flipped1 = top(hidden[:, None] + change[..., None] * w1.T, z2[:, None])  # (B, units)
        eye = torch.eye(len(keep2), dtype=a.dtype)
        flipped2 = top(hidden[:, None], (z2[:, None] - eye).abs())  # (B, units)
        for part, flipped, z, keep in (
            (exact[: len(keep1)], flipped1, z1, keep1),
            (exact[len(keep1) :], flipped2, z2, keep2),
        ):
            difference = (2 * z - 1) * (losses[:, None] - flipped)  # ℓ(1) − ℓ(0)
            part += (keep * (1 - keep) * difference).mean(0)
    return exact


def with_error(value: float, error: float) -> str:
    return f"{value:7.4f} ± {error:.4f}"


def rows(problem: Problem, samples: int) -> Iterator[str]:
    """The lines of the table for one problem."""
    truth = problem.truth
    base = math.nan
    for name in METHODS:
        drawn = gradients(problem, name, samples)
        quality = Quality.of(drawn, truth)
        base = quality.rmse if name == "concrete" else base
        cells = [
            with_error(
                getattr(quality, field),
                jackknife(lambda s, field=field: getattr(Quality.of(s, truth), field), drawn),
            )
            for field in ("bias", "deviation", "rmse")
        ]
        yield f"{name:<15} {'  '.join(f'{cell:>17}' for cell in cells)} {quality.rmse / base:10.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200, help="gradients for each estimator")
    parser.add_argument("--epochs", type=int, default=30, help="of training the classifier")
    parser.add_argument("--reference", type=int, default=400, help="masks behind its true gradient")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS, help="of the toy")
    parser.add_argument("--drops", type=float, nargs="*", default=[0.1, 0.5], help="to train from")
    arguments = parser.parse_args()
    if arguments.samples < 2 * GROUPS:
        parser.error(f"--samples: expected at least {2 * GROUPS}, got {arguments.samples}.")
    problems = [lambda width=width: toy(width, seed=width) for width in arguments.widths]
    for drop in arguments.drops:
        problems.append(
            lambda drop=drop: classifier(256, drop, arguments.epochs, arguments.reference)
        )
    for make in problems:
        problem = make()
        samples = max(2 * GROUPS, arguments.samples // max(1, len(problem.truth) // 500))
        scale = float(problem.truth.square().mean().sqrt())
        print(f"\n{problem.name}: {samples} samples, true gradient (RMS) {scale:.3g}", end="")
        print(f", known to ± {problem.error / scale:.2g}" if problem.error else "")
        print(f"{'':<15} {'bias':>17}  {'sd':>17}  {'RMSE':>17} {'× Concrete':>10}", flush=True)
        for row in rows(problem, samples):
            print(row, flush=True)


if __name__ == "__main__":
    main()
