"""The methods as layers of small networks."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, final

from torch import nn

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio.priors import Gaussian

Method = Literal[
    "plain", "ensemble", "mc", "concrete", "bernoulli", "gaussian", "drop-connect", "bayes",
    "last-layer", "linear",
]  # fmt: skip
"""plain is one network without noise, ensemble several of them; mc has a fixed dropout rate;
concrete, bernoulli and gaussian learn one for each layer; drop-connect drops weights; bayes has
Gaussian weights, last-layer in its last layer alone; linear is closed-form dropout regression."""

QUIET: tuple[Method, ...] = ("plain", "ensemble")  # no noise in a network
MASKS: dict[Method, Callable[..., Mask]] = {
    "mc": Bernoulli,
    "concrete": Concrete,
    "bernoulli": LearnableBernoulli,
    "gaussian": LearnableGaussian,
    "drop-connect": Bernoulli,
}


@final
class Candidate(NamedTuple):
    """Settings that validation chooses among.

    Attributes:
        length_scale: l of the prior N(0, 1/(l²K)) on the weights of a layer with K inputs.
        drop: The dropout rate, or that which learning starts from.
    """

    length_scale: float
    drop: float


def candidates(method: Method) -> tuple[Candidate, ...]:
    """Three for each method: of the prior, or of the rate where that decides more."""
    if method in ("mc", "drop-connect"):
        return tuple(Candidate(0.1, drop) for drop in (0.005, 0.02, 0.1))
    if method == "gaussian":  # its prior has no scale
        return tuple(Candidate(0.1, drop) for drop in (0.02, 0.1, 0.3))
    return tuple(Candidate(length_scale, 0.1) for length_scale in (0.01, 0.1, 0.5))


def network(method: Method, sizes: Sequence[int], candidate: Candidate) -> nn.Sequential:
    """Fully connected layers with rectifiers in between, and the noise of the method."""
    pairs = list(pairwise(sizes))
    layers = [
        part
        for place, (ins, outs) in enumerate(pairs)
        for part in (
            layer(method, nn.Linear(ins, outs), candidate, last=place == len(pairs) - 1),
            nn.ReLU(),
        )
    ]
    return nn.Sequential(*layers[:-1])


def layer(method: Method, plain: nn.Linear, candidate: Candidate, *, last: bool) -> nn.Module:
    """A layer as the method has it."""
    length_scale = candidate.length_scale * math.sqrt(plain.in_features)
    if method == "bayes" or (method == "last-layer" and last):
        return dubio.Bayesian(plain, prior=Gaussian(1 / length_scale))
    if method == "drop-connect":
        return dubio.DropConnect(plain, Bernoulli(drop=candidate.drop), length_scale=length_scale)
    if method in MASKS:
        mask = MASKS[method](drop=candidate.drop)
        return dubio.Masked(plain, mask, length_scale=length_scale)
    return plain
