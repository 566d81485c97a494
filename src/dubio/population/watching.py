"""A pass that is watched: which noise it needs, and whether members can be computed at once."""

from collections.abc import Callable
from traceback import walk_tb
from typing import TypeAlias

import torch
from torch import Tensor, nn

from dubio.population.given import NoiseRequests, Source
from dubio.population.identity import checksum
from dubio.population.settings import shown
from dubio.population.stack import Stack

MemberPass: TypeAlias = Callable[[nn.Module, Source], Tensor]


@torch.no_grad()
def watch(stack: Stack, x: Tensor, one_pass: MemberPass, *, training: bool) -> NoiseRequests:
    """Which noise a pass needs.

    A copy of the first member is called alone, so that errors are told in its own terms, and then
    two at once: what fails only then is for `torch.vmap` to blame.

    Args:
        stack: The members.
        x: What they are called with.
        one_pass: Calls a member with a source of noise.
        training: Whether in train mode, where buffers must not change.
    """
    _call_alone(stack.take(torch.arange(1)).skeleton.train(training), x, one_pass)
    requests = NoiseRequests()
    few = stack.take(torch.arange(min(len(stack), 2)))
    few.skeleton.train(training)
    try:
        few.each(lambda member: one_pass(member, requests.note), in_dims=())
    except Exception as error:
        differ = ", ".join(map(shown, stack.numbers)) or "no number"
        raise NotImplementedError(
            f"members: expected networks that torch.vmap can compute at once, got one that works "
            f"only alone: {_place(error, few.skeleton)} failed ({_reason(error)}); members "
            f"differ in {differ}. Some layers have no such form (recurrent cells, nn.RReLU, "
            f"nn.AlphaDropout and attention with rates that differ), nor has code that decides by "
            f"the values of tensors; give members the same settings, or train them one by one with "
            f"dubio.fit."
        ) from error
    return requests


def _call_alone(member: nn.Module, x: Tensor, one_pass: MemberPass) -> None:
    """Complain about a pass that fails, or that leaves another network behind."""
    before = {name: checksum(buffer) for name, buffer in member.named_buffers()}
    try:
        one_pass(member, NoiseRequests().note)
    except Exception as error:
        like = next(member.parameters())
        if x.is_floating_point() and x.dtype != like.dtype:
            raise TypeError(
                f"x: expected {like.dtype}, as members have, got {x.dtype}; convert it with "
                f"x.to({like.dtype})."
            ) from error
        raise
    changed = [name for name, b in member.named_buffers() if before.get(name) != checksum(b)]
    if member.training and changed:
        raise ValueError(
            f"members: expected buffers that stay as they are in training, got {changed[0]}, which "
            f"a pass has changed; leave it out, or train members one by one with dubio.fit."
        )


def _place(error: Exception, skeleton: nn.Module) -> str:
    """The innermost module that was at work."""
    names = {module: name for name, module in skeleton.named_modules()}
    selves = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    at_work = [skeleton, *(m for m in selves if isinstance(m, nn.Module) and m in names)]
    return f"{names[at_work[-1]]} ({type(at_work[-1]).__name__})".lstrip()


def _reason(error: Exception) -> str:
    """The first sentence of an error."""
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
