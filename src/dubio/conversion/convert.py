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
    """Replace weight layers of a network by stochastic ones, according to a rule.

    The weights of the layers do not change, so in eval mode the converted network computes exactly
    what the network did. A dropout that feeds only replaced layers is replaced by `nn.Identity`,
    which keeps its hooks. In the state dict, weights inside `dubio.Masked` have ``.layer`` in their
    names: load checkpoints first, then convert.

    `dubio.plan` takes the same arguments and lists what would be done; `Plan.carry_out` then does
    it. The list is also logged, at level INFO.

    Args:
        model: The network, trained or not.
        rule: What replaces which layer: one of `dubio.rules`, or any function of a `Place` that
            returns a module, or None to leave the layer alone.
        copy: Whether to convert a copy instead of the network itself.
        example: A batch to run the network on once, to see which dropout feeds which layer. Needed
            if the network has dropout and is not an `nn.Sequential`.

    Returns:
        The converted network, in the same mode and on the same devices.

    Raises:
        ValueError: If the rule replaces no layer, or if an example is needed.
    """
    steps = plan(model, rule, example=example)
    converted = steps.carry_out(copy=copy)
    logger.info("converted %s:\n%s", type(model).__name__, steps)
    return converted
