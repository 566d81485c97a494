"""Denoising autoencoders of histories."""

from typing import final

from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.denoising_autoencoder import DenoisingAutoencoder
from dubio.recommend.masks_by_name import make_mask


@final
class DAE(DenoisingAutoencoder):
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

    def _build(self, items: int, users: int) -> DenoisingNetwork:
        mask = make_mask(self.mask, items, self.drop)
        return DenoisingNetwork(items, self.hidden, mask, estimator=self.estimator)
