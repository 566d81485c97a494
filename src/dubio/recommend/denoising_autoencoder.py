"""The settings that all denoising autoencoders share."""

from dubio.masks import Bernoulli
from dubio.recommend.autoencoder import Autoencoder
from dubio.recommend.masks_by_name import MakeMask
from dubio.recommend.rates import RateEstimator


class DenoisingAutoencoder(Autoencoder):
    """An autoencoder with one hidden layer that learns to undo the masks on its input."""

    def __init__(
        self,
        hidden: int = 200,
        mask: MakeMask | None = Bernoulli,
        drop: float = 0.5,
        estimator: RateEstimator = "trapezoid",
        weight_decay: float = 4e-5,
    ) -> None:
        self.hidden = hidden
        self.mask = mask
        self.drop = drop
        self.estimator = estimator
        self.weight_decay = weight_decay
        self.stochastic = mask is not None
        self._check()
