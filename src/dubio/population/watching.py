"""Watch a pass: which noise it needs, and whether members can be batched."""

from collections.abc import Callable
from traceback import walk_tb
from typing import TypeAlias

import torch
from torch import Tensor, nn

from dubio.noise.libraries import is_known
from dubio.noise.upkeep import Upkeep
from dubio.objectives.elbo import ELBO
from dubio.population.given import NoiseRequests, NumberSource
from dubio.population.identity import checksum
from dubio.population.settings import shown
from dubio.population.stack import Stack

MemberPass: TypeAlias = Callable[[nn.Module, NumberSource], Tensor]


@torch.no_grad()
def watch(stack: Stack, x: Tensor, one_pass: MemberPass, *, training: bool) -> NoiseRequests:
    """Return which noise a pass needs.

    A copy of the first member is called alone, so that errors are told in its own terms, and then
    two at once: what fails only then is for `torch.vmap` to blame.

    Args:
        stack: The members.
        x: What they are called with.
        one_pass: Calls a member with a source of noise.
        training: Whether in train mode, where buffers must not change.
    """
    _call_alone(stack.take(torch.arange(1)).skeleton.train(training), x, one_pass)
    if training and not all(map(is_known, stack.skeleton.modules())):
        _check_state(stack, one_pass)
    requests = NoiseRequests()
    few = stack.take(torch.arange(min(len(stack), 2)))
    few.skeleton.train(training)
    try:
        few.each(lambda member: one_pass(member, requests.note), in_dims=())
    except Exception as error:
        differ = ", ".join(map(shown, stack.numbers)) or "no number"
        raise NotImplementedError(
            f"members: expected networks that torch.vmap can compute at once, got one that it "
            f"cannot batch: {_place(error, few.skeleton)} failed ({_reason(error)}); members "
            f"differ in {differ}. Some layers have no batched form (recurrent cells, "
            f"nn.RReLU, nn.AlphaDropout and attention with rates that differ), and code cannot "
            f"branch on tensor values; give members the same settings, or train them one by one "
            f"with dubio.fit."
        ) from error
    return requests


def _call_alone(member: nn.Module, x: Tensor, one_pass: MemberPass) -> None:
    """Raise an error for a pass that fails or changes the network."""
    before = {name: checksum(buffer) for name, buffer in member.named_buffers()}
    try:
        one_pass(member, NoiseRequests().note)
    except Exception as error:
        like = next(member.parameters())
        if x.is_floating_point() and x.dtype != like.dtype:
            raise TypeError(
                f"x: expected {like.dtype}, as members have, got {x.dtype}; convert it with "
                f"x.to({like.dtype})"
            ) from error
        raise
    changed = [name for name, b in member.named_buffers() if before.get(name) != checksum(b)]
    if member.training and changed:
        raise ValueError(
            f"members: expected buffers that stay as they are in training, got {changed[0]}, which "
            f"a pass has changed; leave it out, or train members one by one with dubio.fit"
        )


def _check_state(stack: Stack, one_pass: MemberPass) -> None:
    """Raise an error for a network that uses what it kept from the pass before.

    Numbers that are attributes of modules go on from step to step, the same in all members. Tensors
    do not, nor does what lies in lists and objects. So a second pass must give the same without.
    """
    losses = []
    for only_numbers in (False, True):
        member = stack.take(torch.arange(1)).skeleton.train()
        upkeep = Upkeep(member.modules(), stay=True)
        with upkeep:
            one_pass(member, NoiseRequests().note)
        if only_numbers:
            kept = [(vars(module), dict(vars(module))) for module in member.modules()]
            upkeep.undo()
            for live, after in kept:
                live.update({name: v for name, v in after.items() if isinstance(v, int | float)})
        losses.append(one_pass(member, NoiseRequests().note))
    natural, without = losses
    if not torch.allclose(natural, without, rtol=0, atol=0, equal_nan=True):
        names = {
            id(vars(module)): name
            for name, module in member.named_modules()
            if not isinstance(module, ELBO)
        }
        found = [f"{names[i]}.{key}".lstrip(".") for i, key in upkeep.changed if i in names]
        raise ValueError(
            f"members: expected networks whose passes depend on no tensor, list or object that an "
            f"earlier one has left, got another loss in a second pass, which has changed "
            f"{', '.join(sorted(found)) or 'something inside of an attribute'}; train such "
            f"networks one by one with dubio.fit"
        )


def _place(error: Exception, skeleton: nn.Module) -> str:
    """Return the innermost module that was at work."""
    names = {module: name for name, module in skeleton.named_modules()}
    selves = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    at_work = [skeleton, *(m for m in selves if isinstance(m, nn.Module) and m in names)]
    return f"{names[at_work[-1]]} ({type(at_work[-1]).__name__})".lstrip()


def _reason(error: Exception) -> str:
    """Return the first sentence of an error."""
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
