"""Stochastic modules around an ordinary layer."""

from abc import ABC
from typing import Any

from torch import nn

from dubio.noise.stochastic import Stochastic


class Wrapping(Stochastic, ABC):
    """A stochastic module that wraps and replaces a ``layer``.

    Attributes of the layer, such as ``weight`` or ``batch_first``, can be read off it, as code of
    others does: in eval mode `nn.TransformerEncoderLayer` hands the weights of its layers to one
    function. That is the mean, and torch does not do so while there is noise around.
    """

    def settle(self) -> None:
        """Write the current weights into the layer, before others read them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):  # such as __deepcopy__, which would copy the layer alone
                raise
            value = getattr(super().__getattr__("layer"), name)
            if isinstance(value, nn.Parameter | nn.Module):
                self.settle()
            return value
