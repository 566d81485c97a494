"""A prior, and where it is centered."""

from typing import NamedTuple

from torch import Tensor

from dubio.priors.prior import Prior


class CenteredPrior(NamedTuple):
    """A prior, and its mean for each weight or for all."""

    prior: Prior
    center: Tensor | float  # (weights,)

    def offset(self, mean: Tensor) -> Tensor:
        """Return the distance of means from those of the prior."""
        center = self.center
        return mean if isinstance(center, float) and center == 0 else mean - center
