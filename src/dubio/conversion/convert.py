"""`convert`: an ordinary network becomes a Bayesian one."""

import logging

from torch import nn

from dubio.conversion.places import Rule
from dubio.conversion.planning import plan
from dubio.noise.inputs import Inputs

logger = logging.getLogger("dubio")


def convert(
    model: nn.Module, rule: Rule, *, copy: bool = True, example: Inputs | None = None
) -> nn.Module:
    """Put other modules in the place of a network's weight layers, as a rule says.

    The weights of the layers stay what they are, bit for bit, so that in eval mode the converted
    network computes what the network did. A dropout that feeds replaced layers and nothing else
    goes: `nn.Identity` takes its place, with its hooks. In the state dict, weights inside of
    `dubio.Masked` have ``.layer`` in their names, so load a checkpoint first and convert then.

    `dubio.plan` takes the same arguments and lists what would be done; `Plan.carry_out` then does
    it. The list is also logged, at level INFO.

    Args:
        model: The network, trained or not.
        rule: What comes in the place of which layer: one of `dubio.rules`, or any function of a
            `Place` that returns a module, or None to leave the layer alone.
        copy: Whether to convert a copy, or the network itself.
        example: A batch to run the network on once, to see which dropout feeds which layer; needed
            if the network has dropout and is no `nn.Sequential`.

    Returns:
        The converted network, in the mode of the network and on its devices.

    Raises:
        ValueError: If the rule replaces no layer, or if an example is needed.
    """
    steps = plan(model, rule, example=example)
    converted = steps.carry_out(copy=copy)
    logger.info("converted %s:\n%s", type(model).__name__, steps)
    return converted
