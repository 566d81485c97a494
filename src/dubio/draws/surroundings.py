"""What lies around a pass: modes of torch, and global generators of random numbers."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy
import torch

from dubio.noise.autocast import NO_AUTOCAST
from dubio.noise.generators import global_generators, global_states, set_global_states
from dubio.noise.protocols import RandomNumbers
from dubio.noise.run import outside_of_passes


@contextmanager
def quietly(*, gradients: bool = False) -> Iterator[None]:
    """Operations as they are on a tape: no noise, no mixed precision around them.

    Args:
        gradients: Whether they leave a graph behind.
    """
    with ExitStack() as around:
        around.enter_context(outside_of_passes())
        around.enter_context(torch.set_grad_enabled(gradients))
        if torch.is_inference_mode_enabled():
            around.enter_context(torch.inference_mode(False))
            around.enter_context(torch.no_grad())
        around.enter_context(NO_AUTOCAST.again())
        yield


@contextmanager
def fed(numbers: RandomNumbers) -> Iterator[None]:
    """Feed torch's global generators with the seed of a draw, and give their states back."""
    states = global_states()
    for generator in global_generators():
        generator.manual_seed(numbers.seeds(-2)[0])
    try:
        yield
    finally:
        set_global_states(states)


def other_generators() -> tuple[object, ...]:
    """Return the state of the global generators of Python and numpy."""
    state = numpy.random.get_state(legacy=False)
    words = [state.get("has_gauss"), state.get("gauss")]
    for word in state["state"].values():
        words.append(word.tobytes() if isinstance(word, numpy.ndarray) else word)
    return random.getstate(), *words
