"""Random numbers that a network draws by itself, in eval mode too: they become sites as well.

They are fed from the seed of the draw, so that the same noise gives the same output and torch's
global generator stays as it was.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dubio.noise.interceptor import Args, Function, Kwargs, handles, transparent
from dubio.noise.run import Pass


@handles(
    torch.rand,
    torch.randn,
    torch.randint,
    torch.randperm,
    torch.normal,
    torch.bernoulli,
    torch.multinomial,
    torch.poisson,
    torch.binomial,
    Tensor.bernoulli,
    Tensor.multinomial,
    Tensor.bernoulli_,
    Tensor.cauchy_,
    Tensor.exponential_,
    Tensor.geometric_,
    Tensor.log_normal_,
    Tensor.normal_,
    Tensor.random_,
    Tensor.uniform_,
)
def _seeded(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    out = running.own_randomness(function, args, kwargs)
    if running.reach(function.__name__, out, None) is None and not running.watching:
        raise ValueError(
            f"where: the network calls torch's {function.__name__} itself, which cannot be left "
            f"out; choose {running.sites[-1].name!r} as well, or dubio.register the module"
        )
    return out


@handles(torch.rand_like, torch.randn_like)
def _seeded_like(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    x = args[0] if args else kwargs["input"]
    options = {"dtype": x.dtype, "device": x.device, **kwargs}
    options.pop("input", None)
    options.pop("memory_format", None)
    sized = torch.rand if function is torch.rand_like else torch.randn
    return _seeded(running, sized, (x.shape,), options)


_gumbel_softmax = transparent(F.gumbel_softmax)


@handles(F.gumbel_softmax)
def _gumbel(running: Pass, function: Function, args: Args, kwargs: Kwargs) -> Any:
    """Look inside, where the random numbers are drawn."""
    with running:
        return _gumbel_softmax(*args, **kwargs)
