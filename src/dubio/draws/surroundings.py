"""What lies around a pass: modes of torch, and global generators of random numbers."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy
import torch

from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import outside_of_passes


@contextmanager
def quietly(device: torch.device, *, gradients: bool = False) -> Iterator[None]:
    """Operations as they are on a tape: no noise, no mixed precision around them.

    Args:
        device: Where they run.
        gradients: Whether they leave a graph behind.
    """
    with ExitStack() as around:
        around.enter_context(outside_of_passes())
        around.enter_context(torch.set_grad_enabled(gradients))
        if torch.is_inference_mode_enabled():
            around.enter_context(torch.inference_mode(False))
            around.enter_context(torch.no_grad())
        if torch.is_autocast_enabled(device.type):
            around.enter_context(torch.autocast(device.type, enabled=False))
        yield


@contextmanager
def fed(numbers: RandomNumbers) -> Iterator[None]:
    """Feed torch's global generator with the seed of a draw, and give its state back."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(numbers.seeds(-2)[0])
    try:
        yield
    finally:
        torch.set_rng_state(state)


def other_generators() -> tuple[object, ...]:
    """The state of the global generators of Python and numpy."""
    state = numpy.random.get_state(legacy=False)
    words = [state.get("has_gauss"), state.get("gauss")]
    for word in state["state"].values():
        words.append(word.tobytes() if isinstance(word, numpy.ndarray) else word)
    return random.getstate(), *words
