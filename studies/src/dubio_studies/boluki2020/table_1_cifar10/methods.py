"""The kinds of dropout that are compared, in the paper's head: two hidden layers, each masked."""

from collections.abc import Callable
from functools import partial
from typing import Literal, final

from torch import Tensor, nn

import dubio
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio_studies.networks.vgg import head

Method = Literal["dropout", "gaussian", "concrete", "lbd-layer", "lbd-unit", "lbd-shared"]
"""Fixed rates; Gaussian noise of a learned variance (Kingma et al. 2015) and Concrete dropout, one
for each layer; learnable Bernoulli dropout with a rate for each layer, each unit, and one for all.
"""

LEARNED: tuple[Method, ...] = ("gaussian", "concrete", "lbd-layer", "lbd-unit", "lbd-shared")

Loss = Literal["cross-entropy", "double softmax"]
"""double softmax is the authors': a softmax in the network, and another in loss and test."""


@final
class Widened(nn.Module):
    """Features in float16 as float32."""

    def forward(self, features: Tensor) -> Tensor:
        """The same numbers."""
        return features.float()


def masked_head(
    method: Method, features: int, classes: int, *, hidden: int, drop: float, length_scale: float
) -> nn.Module:
    """From features to logits.

    Args:
        method: What the masks behind both hidden layers are.
        features: How many come in.
        classes: How many logits go out.
        hidden: Units of each hidden layer.
        drop: The rate, or that which learning starts from.
        length_scale: ℓ of the prior N(0, 1/ℓ²) on the weights that masks feed.
    """
    plain = head(features, classes, partial(nn.Dropout, drop), hidden)
    rule = dubio.rules.replace_dropout(
        _maker(method), per_unit=method == "lbd-unit", length_scale=length_scale
    )
    return nn.Sequential(Widened(), dubio.convert(plain, rule))


def _maker(method: Method) -> Callable[..., Mask]:
    match method:
        case "dropout":
            return Bernoulli
        case "gaussian":
            return LearnableGaussian
        case "concrete":
            return Concrete
        case "lbd-shared":
            return _one_for_all()
        case "lbd-layer" | "lbd-unit":
            return LearnableBernoulli


def _one_for_all() -> Callable[..., Mask]:
    """Makes masks that all have the rate of the first."""
    made: list[Mask] = []

    def make(units: int, *, drop: float) -> Mask:
        made.append(made[0].tied() if made else LearnableBernoulli(units, drop=drop))
        return made[-1]

    return make
