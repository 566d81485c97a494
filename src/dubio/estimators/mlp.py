"""The default network: layers, an activation and dropout in turn."""

from collections.abc import Sequence
from typing import Literal, get_args

from torch import nn

Activation = Literal["relu", "elu", "gelu", "silu", "tanh"]

_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def mlp(
    features: int, outputs: int, *, hidden: Sequence[int], activation: Activation, drop: float
) -> nn.Sequential:
    """Return a multi-layer perceptron with dropout behind every hidden layer.

    The inputs themselves are not dropped: a table may have a single column.

    Args:
        features: Columns of a row.
        outputs: Numbers that come out for a row.
        hidden: Units of each hidden layer; none gives a linear model, which has no dropout.
        activation: What follows each hidden layer.
        drop: The dropout rate; 0 leaves dropout out.
    """
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(features, units), _ACTIVATIONS[activation]()]
        if drop > 0:
            layers.append(nn.Dropout(drop))
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))
