"""Generators of random numbers: of any device, and the global ones of torch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def on(device: torch.device | str) -> torch.Generator:
    """Return a new generator of a device: a tensor takes random numbers of its own device alone."""
    return torch.Generator(device)


def global_generators() -> list[torch.Generator]:
    """Return that of the CPU, and those of the accelerator if it is in use.

    An accelerator that nobody has used so far is not woken up.
    """
    return [torch.default_generator, *_of_accelerator()]


def _of_accelerator() -> tuple[torch.Generator, ...]:
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return ()
    if accelerator.type == "mps":
        return (torch.mps._get_default_mps_generator(),)
    module = torch.get_device_module(accelerator)
    return tuple(module.default_generators) if module.is_initialized() else ()


def global_states() -> list[Tensor]:
    """Return the states of the global generators."""
    return [generator.get_state() for generator in global_generators()]


def set_global_states(states: list[Tensor]) -> None:
    """Put the global generators there; one that has come into use since stays where it is."""
    for generator, state in zip(global_generators(), states, strict=False):
        generator.set_state(state)


@contextmanager
def unmoved() -> Iterator[None]:
    """Leave the global generators as they were, whatever the block draws."""
    states = global_states()
    try:
        yield
    finally:
        set_global_states(states)
