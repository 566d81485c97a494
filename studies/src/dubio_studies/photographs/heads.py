"""Heads with one kind of dropout each: two hidden layers, both masked (Boluki et al. 2020)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, final

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask
from dubio_studies.framework.study import Measurement
from dubio_studies.networks.vgg import head

BATCH = 500  # rows that are predicted at a time
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of the rates of units

Method = Literal["dropout", "gaussian", "concrete", "lbd-layer", "lbd-unit", "lbd-shared"]
"""Fixed rates; Gaussian noise of a learned variance (Kingma et al. 2015) and Concrete dropout, one
for each layer; learnable Bernoulli dropout with a rate for each layer, each unit, and one for all.
"""

LEARNED: tuple[Method, ...] = ("gaussian", "concrete", "lbd-layer", "lbd-unit", "lbd-shared")


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


def rates(network: nn.Module) -> Iterator[Measurement]:
    """Dropout rates of both layers: the mean, and quantiles where units have their own."""
    masks = [module for module in network.modules() if isinstance(module, Mask)]
    for layer, mask in enumerate(masks, start=1):
        yield {"metric": "drop", "layer": layer, "value": float(mask.drop.mean())}
        if mask.units > 1:
            for level in QUANTILES:
                value = float(mask.drop.quantile(level))
                yield {"metric": "drop quantile", "layer": layer, "level": level, "value": value}


def probabilities(network: nn.Module, seen: Tensor, draws: int) -> Tensor:  # -> (N, K)
    """Class probabilities: by so many draws, or by one pass without noise."""
    found = []
    device = next(network.parameters()).device
    for rows in seen.split(BATCH):
        batch = rows.to(device)
        if draws:
            made = dubio.predict(
                network, batch, draws=draws, likelihood=Categorical(), keep_draws=False
            )
            found.append(made.mean)
        else:
            with torch.inference_mode():
                found.append(network(batch).softmax(-1))
    return torch.cat(found).double().cpu()


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
