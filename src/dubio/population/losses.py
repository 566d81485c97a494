"""The losses of all members at once, and the noise that they need."""

import torch
from torch import Tensor, nn

from dubio.noise.noise import noise_from
from dubio.noise.run import Pass, run_pass
from dubio.objectives.elbo import ELBO
from dubio.population.given import NoisePlace, NoiseRequests, NumberSource, Origin, answers
from dubio.population.stack import Stack
from dubio.population.watching import watch


def losses(stack: Stack, x: Tensor, y: Tensor, noise: dict[NoisePlace, Tensor]) -> Tensor:  # (M,)
    """Return the loss of every member on its own batch, under its own noise."""
    return stack.each(
        lambda member, x, y, noise: _loss(member, x, y, answers(noise)),
        x,
        y,
        noise,
        in_dims=(0, 0, 0),
    )


def gradients(
    stack: Stack, x: Tensor, y: Tensor, noise: dict[NoisePlace, Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the detached losses (M,) and their gradients for each learned parameter."""
    loss = losses(stack, x, y, noise)
    found = torch.autograd.grad(loss, list(stack.learned.values()), torch.ones_like(loss))
    return loss.detach(), found


def noise_of_loss(stack: Stack, x: Tensor, y: Tensor) -> NoiseRequests:
    """Return which noise the loss of a batch needs."""

    def one_pass(member: nn.Module, source: NumberSource) -> Tensor:
        return _loss(member, x.clone(), y.clone(), source)  # which a pass may write over

    return watch(stack, x, one_pass, training=True)


def _loss(member: nn.Module, x: Tensor, y: Tensor, source: NumberSource) -> Tensor:
    origin = Origin(source)
    with noise_from(origin):
        if isinstance(member, ELBO):  # which asks for noise itself
            loss = member(x, y)
        else:
            loss = run_pass(lambda: member(x, y), Pass(origin(range(1), False), roots=None))
    if not isinstance(loss, Tensor) or loss.dim() > 0:
        what = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"members: expected a loss of shape (), got {what}; return its mean")
    return loss
