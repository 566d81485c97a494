"""Bias, standard deviation and RMSE of one-sample gradients for dropout rates.

Every estimator of `LearnableBernoulli` and `Concrete` (t = 0.1) at the same rates, against the true
gradient: in closed form on the toy regression of paper 000 section 3.1, and from exact differences
of the loss, unit by unit, inside a trained classifier. See README.md in this folder.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from dubio import ELBO, Masked
from dubio.likelihoods import Categorical, Gaussian, Likelihood
from dubio.masks import Concrete, LearnableBernoulli
from dubio.objectives.estimators import Estimator

WIDTHS = [2, 20, 200, 2000]
ESTIMATORS = get_args(Estimator)
GROUPS = 10  # of samples, for the jackknife


@dataclass(frozen=True)
class Problem:
    """A network with learnable masks, its data, and the true gradient for its logits.

    Attributes:
        truth: The gradient of the expected loss.  # (logits,)
        error: Standard error of that truth, as a root mean square.
    """

    name: str
    network: nn.Sequential
    likelihood: Likelihood
    x: Tensor
    y: Tensor
    truth: Tensor
    error: float = 0.0


@dataclass(frozen=True)
class Quality:
    """Root mean squares over the logits, in units of the true gradient's."""

    bias: float
    deviation: float
    rmse: float

    @classmethod
    def of(cls, samples: Tensor, truth: Tensor) -> "Quality":  # (n, logits), (logits,)
        """The bias is freed of the share that the mean's own variance has in its square."""
        variance = samples.var(0).mean()
        squared_bias = (samples.mean(0) - truth).square().mean() - variance / len(samples)
        rmse = (samples - truth).square().mean()
        scale = truth.square().mean().sqrt()
        return cls(*(float(v.clamp(min=0).sqrt() / scale) for v in (squared_bias, variance, rmse)))


def masks(network: nn.Sequential) -> list[LearnableBernoulli]:
    return [m.mask for m in network if isinstance(m, Masked)]  # type: ignore[misc]


def with_concrete(network: nn.Sequential) -> nn.Sequential:
    """The network with Concrete masks at the same rates; weights are shared."""

    def swap(module: nn.Module) -> nn.Module:
        if not isinstance(module, Masked):
            return module
        mask = Concrete(module.mask.units, temperature=0.1)
        mask.load_state_dict(module.mask.state_dict())
        return Masked(module.layer, mask)

    return nn.Sequential(*map(swap, network))


def gradients(problem: Problem, estimator: str, samples: int) -> Tensor:  # (samples, logits)
    """One-sample gradients of the expected loss for all logits."""
    concrete = estimator == "concrete"
    network = with_concrete(problem.network) if concrete else problem.network
    elbo = ELBO(
        network,
        problem.likelihood,
        num_data=1,
        estimator="trapezoid_once" if concrete else estimator,  # type: ignore[arg-type]
        kl_weight=0.0,
        generator=torch.Generator().manual_seed(1),
    )
    logits = [mask.logit for mask in masks(network)]
    return torch.stack([grad(elbo(problem.x, problem.y), logits) for _ in range(samples)])


def grad(loss: Tensor, logits: Sequence[Tensor]) -> Tensor:
    return torch.cat(torch.autograd.grad(loss, logits))


def toy(width: int) -> Problem:
    """A 1-width-1 ReLU net with random weights; data from the same net without ReLU and masks.

    With a_k the k-th unit's part of the output, E[ℓ] = (y − Σ a_k)² + Σ a_k²·drop_k/keep_k, and
    d(drop/keep)/dφ = −drop/keep.
    """
    torch.manual_seed(width)
    first, second = nn.Linear(1, width), nn.Linear(width, 1, bias=False)
    mask = LearnableBernoulli(width)
    with torch.no_grad():
        mask.logit.normal_(1.0, 1.0)  # rates of all kinds
        for parameter in first.parameters():
            parameter.normal_()
        second.weight.normal_().div_(math.sqrt(width))
        x = torch.randn(3000, 1)
        y = second(first(x))
        parts = first(x).relu() * second.weight  # (3000, width)
        truth = -(1 / mask.keep - 1) * parts.square().mean(0)
    network = nn.Sequential(first, nn.ReLU(), Masked(second, mask)).requires_grad_(False)
    mask.requires_grad_(True)
    return Problem(f"toy regression, width {width}", network, Gaussian(2.0), x, y, truth)


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


def jackknife(statistic: Callable[[Tensor], float], samples: Tensor) -> float:
    """Standard error of a statistic of the samples, leaving out a group of them at a time."""
    groups = samples.tensor_split(GROUPS)
    left = torch.tensor(
        [statistic(torch.cat([*groups[:i], *groups[i + 1 :]])) for i in range(GROUPS)]
    )
    return float(((GROUPS - 1) * left.var(correction=0)).sqrt())


def with_error(value: float, error: float) -> str:
    return f"{value:7.4f} ± {error:.4f}"


def rows(problem: Problem, samples: int) -> Iterator[str]:
    """The lines of the table for one problem."""
    truth = problem.truth
    base = math.nan
    for name in ["concrete", *ESTIMATORS]:
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
    problems = [lambda width=width: toy(width) for width in arguments.widths]
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
