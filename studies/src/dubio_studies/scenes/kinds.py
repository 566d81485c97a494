"""Kinds of dropout for the layers of a network's middle block."""

from functools import partial

from torch import Tensor, nn

import dubio
from dubio.conversion.rules import MaskMaker
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio_studies.scenes.names import Kind
from dubio_studies.scenes.pairs import PairedConcrete

TEMPERATURE = 0.1  # of Concrete masks, unless a study has another

_MASKS: dict[Kind, MaskMaker] = {
    "fixed": Bernoulli,
    "concrete": Concrete,
    "bernoulli": LearnableBernoulli,
    "gaussian": LearnableGaussian,
}


def with_dropout(
    network: nn.Module,
    kind: Kind,
    drop: float,
    length_scale: float,
    *,
    temperature: float = TEMPERATURE,
    paired: bool = False,
) -> nn.Module:
    """A copy of a network, in which the convolutions of its middle block drop input channels.

    All channels that feed a convolution have one rate.

    Args:
        network: A network with a part ``middle``.
        kind: What multiplies the channels.
        drop: The rate, or that to start from.
        length_scale: Length scale ℓ of the prior on the weights of these convolutions.
        temperature: Of Concrete masks.
        paired: Whether every scene is in a batch twice, for gradients of Concrete rates with less
            noise.
    """
    if kind == "none":
        return network
    mask = _MASKS[kind]
    if kind == "concrete":
        mask = partial(PairedConcrete if paired else Concrete, temperature=temperature)
    rule = dubio.rules.mask_inputs(mask, where="*middle.*", drop=drop, length_scale=length_scale)
    return dubio.convert(network, rule)


def drops(network: nn.Module) -> list[Tensor]:
    """The rate of every layer of the middle block, from the first to the last."""
    return [module.drop for module in network.modules() if isinstance(module, Mask)]
