"""The settings that all denoising autoencoders share."""

from dubio.masks import Bernoulli
from dubio.recommend.autoencoder import Autoencoder
from dubio.recommend.masks_by_name import MakeMask
from dubio.recommend.rates import RateEstimator


class DenoisingAutoencoder(Autoencoder):
    """An autoencoder with one hidden layer that learns to undo the masks on its input.

    Args:
        hidden: Units of the hidden layer.
        mask: A class of `dubio.masks`, called as ``mask(items, drop=drop)``, so that every item has
            its own rate; None for no mask.
        drop: The dropout rate, or the initial one if it is learned.
        estimator: Gradient estimator for the rates of `masks.LearnableBernoulli`, as in `VAE`.
        weight_decay: λ of the penalty ½λ‖W‖².
    """

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
