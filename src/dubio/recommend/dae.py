"""Denoising autoencoders of histories."""

from typing import final

from dubio.masks import Bernoulli
from dubio.recommend.autoencoder import Autoencoder
from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.masks_by_name import MakeMask, make_mask
from dubio.recommend.rates import RateEstimator


@final
class DAE(Autoencoder):
    """Mult-DAE: an autoencoder with a multinomial likelihood and masks on its input.

    Liang et al. 2018, section 2.3. Scores are probabilities of the next item.

    Args:
        hidden: Units of the hidden layer.
        mask: A class of `dubio.masks`, called as ``mask(items, drop=drop)``, so that every item has
            its own rate; None for no mask.
        drop: The dropout rate, or the initial one if it is learned.
        estimator: Gradient estimator for the rates of `masks.LearnableBernoulli`, as in `VAE`.
        weight_decay: λ of the penalty ½λ‖W‖². Liang et al. use 2·0.01/500.
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

    def _build(self, items: int, users: int) -> DenoisingNetwork:
        mask = make_mask(self.mask, items, self.drop)
        return DenoisingNetwork(items, self.hidden, mask, estimator=self.estimator)
