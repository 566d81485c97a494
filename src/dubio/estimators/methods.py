"""Methods that turn a plain network into one with uncertainty."""

from typing import Literal, get_args

from torch import Tensor, nn

from dubio.conversion import rules
from dubio.conversion.convert import convert
from dubio.conversion.places import Place, Rule
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli
from dubio.predict import sites
from dubio.priors import Gaussian, Prior

Method = Literal["mc", "concrete", "learnable", "bayes", "ensemble"]
METHODS: tuple[Method, ...] = get_args(Method)

_MASKS: dict[Method, rules.MaskMaker] = {
    "mc": Bernoulli,
    "concrete": Concrete,
    "learnable": LearnableBernoulli,
}


def uses_dropout(method: Method) -> bool:
    """Return whether the noise of a method takes the place of dropout in a network."""
    return method in _MASKS


def make_stochastic(network: nn.Module, method: Method, example: Tensor) -> nn.Module:
    """Put the noise of a method into a network, in place.

    ``mc`` keeps a network whose dropout is not in modules that feed a layer, such as `F.dropout`,
    as it is; ``ensemble`` keeps every network as it is.

    Args:
        network: A plain network.
        method: What makes it stochastic.
        example: Some rows to run it on.  # (B, D)
    """
    if method == "ensemble":
        return network
    try:
        noisy = convert(network, _rule(method), copy=False, example=example)
    except ValueError as error:
        if method != "mc":
            raise ValueError(
                f"module: expected a network with {_needed(method)} for method={method!r}, got "
                f"{type(network).__name__} without; {_ADVICE}"
            ) from error
        noisy = network
    if not sites(noisy, example):
        raise ValueError(
            f"module: expected a network with dropout for method={method!r}, got "
            f"{type(network).__name__} without; {_ADVICE}"
        )
    return noisy


_ADVICE = (
    "put an nn.Dropout before a layer of it (the default network needs at least one of "
    "hidden_layer_sizes), or choose method='bayes' or 'ensemble'"
)


def _needed(method: Method) -> str:
    return "dropout before a layer" if uses_dropout(method) else "layers that have weights"


def _rule(method: Method) -> Rule:
    if method == "bayes":
        return rules.bayes(_prior, sampler="local")
    return rules.replace_dropout(_MASKS[method])


def _prior(place: Place) -> Prior:
    """Return N(0, 1/fan in), under which outputs of a layer are as large as its inputs."""
    weight = next(place.layer.parameters())
    return Gaussian(weight.flatten(1).shape[1] ** -0.5 if weight.dim() > 1 else 1.0)
