"""Adversarial examples against the predictive mean, and how robust a network is.

The attack sees what a user sees: the averaged probability 1/S Σ p(y | x, ω_s) of the right answer,
not that of one draw. Its gradient is that of

    L(x) = −log 1/S Σ_s p(y | x, ω_s),  ∇L = −Σ_s r_s ∇log p(y | x, ω_s),  r = softmax_s log p,

and needs the memory of one draw. The norm is the largest change of an entry (L∞).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Protocol, final

import torch
from torch import Tensor, nn

from dubio.likelihoods import Likelihood
from dubio.noise import inputs
from dubio.noise.gates import find_gates
from dubio.noise.inputs import Network, Select
from dubio.noise.modes import sampling_mode
from dubio.noise.noise import Noise
from dubio.noise.run import Pass, run_pass
from dubio.noise.upkeep import Beginning
from dubio.predict import predict
from dubio.report.tables import table

Bounds = tuple[float, float]


class Attack(Protocol):
    """A function that changes a batch to fool a network: `fgsm`, `pgd`, or your own."""

    def __call__(
        self,
        model: Network,
        x: Tensor,
        y: Tensor,
        epsilon: float,
        *,
        likelihood: Likelihood,
        draws: int,
        generator: torch.Generator | None,
        bounds: Bounds | None,
        select: Select,
    ) -> Tensor:
        """Return the attacked batch."""
        ...


def fgsm(
    model: Network,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    likelihood: Likelihood,
    draws: int = 20,
    generator: torch.Generator | None = None,
    bounds: Bounds | None = (0.0, 1.0),
    select: Select = None,
) -> Tensor:
    """Attack a batch by the fast gradient sign method: x + ε·sign ∇L(x).

    Clark et al. 2022, eq. 21; Goodfellow et al. 2015.

    Args:
        model: The network whose gradient is used; it is not changed. If it is not the network to be
            fooled, the attack is transferred, as in Clark et al. 2022.
        x: A batch.
        y: Its targets.
        epsilon: The largest change of an entry.
        likelihood: The distribution of targets given outputs.
        draws: Number of draws to average the gradient over; one is enough without noise.
        generator: Source of the noise.
        bounds: The range of entries, such as that of pixels; None if there is none.
        select: Which part of the network's output to use.

    Returns:
        The attacked batch.
    """
    _check(x, epsilon, bounds)
    noise = Noise(draws, generator=generator)
    return _clamp(x + epsilon * _gradient(model, x, y, likelihood, noise, select).sign(), bounds)


def pgd(
    model: Network,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    likelihood: Likelihood,
    draws: int = 20,
    generator: torch.Generator | None = None,
    bounds: Bounds | None = (0.0, 1.0),
    select: Select = None,
    steps: int = 10,
    step_size: float | None = None,
    random_start: bool = True,
    fresh_noise: bool = True,
) -> Tensor:
    """Attack a batch by projected gradient descent: small steps, projected onto the ε-ball.

    Madry et al. (2018).

    Args:
        model: The network whose gradient is used, as for `fgsm`.
        x: A batch.
        y: Its targets.
        epsilon: The largest change of an entry.
        likelihood: The distribution of targets given outputs.
        draws: Number of draws to average each gradient over.
        generator: Source of the noise and of the start.
        bounds: The range of entries; None if there is none.
        select: Which part of the network's output to use.
        steps: Number of steps.
        step_size: Change of an entry in one step; by default 2.5·ε/steps.
        random_start: Whether to start from a random point of the ball instead of x.
        fresh_noise: Whether each step uses new draws, which attacks the network, instead of the
            same draws, which attacks these draws.

    Returns:
        The attacked batch.
    """
    _check(x, epsilon, bounds)
    if steps < 1:
        raise ValueError(f"steps: expected a positive int, got {steps}")
    size = 2.5 * epsilon / steps if step_size is None else step_size
    if step_size is not None and not (isinstance(size, Real) and 0 < size < math.inf):
        raise ValueError(f"step_size: expected a positive number, got {step_size!r}")
    noise = Noise(draws, generator=generator)
    found = x
    if random_start:
        offset = torch.empty_like(x).uniform_(-epsilon, epsilon, generator=generator)
        found = _clamp(x + offset, bounds)
    for step in range(steps):
        if fresh_noise and step:
            noise = Noise(draws, generator=generator)
        direction = _gradient(model, found, y, likelihood, noise, select).sign()
        found = _clamp(x + (found + size * direction - x).clamp(-epsilon, epsilon), bounds)
    return found


@final
@dataclass(frozen=True)
class Robustness:
    """Accuracy and uncertainty of a network on attacked inputs; prints as a table.

    Attributes:
        epsilon: The sizes of the attack.
        accuracy: The share of labels that are the likeliest by the predictive mean, for each size;
            all elements, such as pixels, count equally.
        entropy: The mean entropy of the predictive distribution, in nats.
        mutual_information: The mean mutual information: the disagreement among draws, in nats.
    """

    epsilon: tuple[float, ...]
    accuracy: tuple[float, ...]
    entropy: tuple[float, ...]
    mutual_information: tuple[float, ...]

    def __str__(self) -> str:
        columns = (self.epsilon, self.accuracy, self.entropy, self.mutual_information)
        return table(
            ("epsilon", "accuracy", "entropy", "mutual information"),
            [(f"{e:g}", *(f"{v:.4f}" for v in row)) for e, *row in zip(*columns, strict=True)],
        )


def robustness(
    model: Network,
    x: Tensor,
    y: Tensor,
    epsilons: Sequence[float],
    *,
    likelihood: Likelihood,
    attack: Attack = fgsm,
    source: Network | None = None,
    source_draws: int | None = None,
    draws: int = 20,
    generator: torch.Generator | None = None,
    bounds: Bounds | None = (0.0, 1.0),
    select: Select = None,
) -> Robustness:
    """Measure accuracy and uncertainty of a classifier for several sizes of an attack.

    Args:
        model: The network to be fooled.
        x: A batch.
        y: Its labels.
        epsilons: Sizes of the attack; 0 is the unchanged batch.
        likelihood: The distribution of labels given outputs, such as ``Categorical()``.
        attack: `fgsm`, `pgd`, or ``functools.partial(pgd, steps=40)``.
        source: The network that the attack uses; by default the model itself (white-box).
        source_draws: Draws for its gradient; by default as many as for predictions.
        draws: Draws for predictions.
        generator: Source of the noise.
        bounds: The range of entries; None if there is none.
        select: Which part of the networks' output to use.

    Returns:
        Accuracy, entropy and mutual information for each size.
    """
    if not likelihood.discrete:
        raise TypeError(f"likelihood: expected one for labels, got {likelihood!r}")
    if not len(epsilons):
        raise ValueError("epsilons: expected at least one size, got none; 0 is the batch itself")
    source_draws = draws if source_draws is None else source_draws
    own = torch.Generator()  # the labels are looked at before the noise of the generator is drawn
    predict(model, x, draws=1, likelihood=likelihood, generator=own, select=select).log_prob(y)
    rows: list[tuple[float, ...]] = []
    for epsilon in epsilons:
        attacked = x
        if epsilon:
            attacked = attack(
                model if source is None else source, x, y, epsilon, likelihood=likelihood,
                draws=source_draws, generator=generator, bounds=bounds, select=select,
            )  # fmt: skip
        p = predict(
            model, attacked, draws=draws, likelihood=likelihood, generator=generator,
            select=select, keep_draws=False,
        )  # fmt: skip
        right = (likelihood.labels(p.mean) == y).float().mean()
        values = (right, p.entropy.mean(), p.mutual_information.mean())
        rows.append((epsilon, *map(float, values)))
    return Robustness(*zip(*rows, strict=True))


def _gradient(
    model: Network, x: Tensor, y: Tensor, likelihood: Likelihood, noise: Noise, select: Select
) -> Tensor:
    """Return ∇ −log 1/S Σ_s p(y | x, ω_s), row by row, one draw at a time."""
    roots = inputs.networks(model)
    _check_weights(roots)
    gates = find_gates(model, roots, x, select)
    gates.check()
    beginning = Beginning(gates.keeping)
    if isinstance(y, Tensor) and y.is_inference():
        with torch.inference_mode(False):
            y = y.clone()  # which may be saved for the gradient
    total = torch.zeros_like(x)
    norm: Tensor | None = None  # log Σ_s p(y | x, ω_s) so far
    for k in range(len(noise)):
        running = Pass(noise[k].numbers, roots=None, evaluating=True)
        with torch.inference_mode(False), torch.enable_grad(), sampling_mode(roots, gates.raised):
            moved = x.detach().clone().requires_grad_()
            outputs = (beginning.again if k else beginning.first)(
                partial(
                    run_pass,
                    partial(_outputs, model, moved, select),
                    running,
                    around=gates.around(),
                )
            )
            logs = likelihood.log_prob(outputs[None], y)[0]  # (B,)
            gradient = _derivative(logs.sum(), moved)
        logs = logs.detach()
        before, norm = norm, logs if norm is None else torch.logaddexp(norm, logs)
        share = (logs - norm).exp()
        if before is not None:
            total.mul_(_by_row((before - norm).exp(), x))
        total.sub_(gradient * _by_row(share, x))
    return total


def _derivative(total: Tensor, x: Tensor) -> Tensor:
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, x, allow_unused=True)
    if gradient is None:
        raise ValueError(
            "model: expected an output with a gradient for x, got one without; take torch.no_grad, "
            "torch.inference_mode and detach() out of the network"
        )
    return gradient


def _check_weights(roots: Sequence[nn.Module]) -> None:
    for root in roots:
        for name, tensor in (*root.named_parameters(), *root.named_buffers()):
            if tensor.is_inference():
                raise ValueError(
                    f"model: expected weights that gradients can go through, got {name}, made in "
                    f"torch.inference_mode; make or load the network outside of it"
                )


def _outputs(model: Network, x: Tensor, select: Select) -> Tensor:
    return inputs.choose(inputs.call(model, x), select)


def _by_row(values: Tensor, x: Tensor) -> Tensor:
    return values.to(x.dtype).view(-1, *[1] * (x.dim() - 1))


def _clamp(x: Tensor, bounds: Bounds | None) -> Tensor:
    return x if bounds is None else x.clamp(*bounds)


def _check(x: Tensor, epsilon: float, bounds: Bounds | None) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError("x: expected a floating-point tensor; other inputs have no gradient")
    if not (isinstance(epsilon, Real) and 0 <= epsilon < math.inf):
        raise ValueError(f"epsilon: expected a number >= 0, got {epsilon!r}")
    if bounds is not None and bool((x < bounds[0]).any() or (x > bounds[1]).any()):
        low, high = float(x.min()), float(x.max())
        raise ValueError(
            f"bounds: expected entries of x within {bounds}, got {low:.3g} to {high:.3g}; pass the "
            f"range of your inputs, or bounds=None"
        )
