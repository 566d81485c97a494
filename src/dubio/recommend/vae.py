"""Variational autoencoders of histories, semi-implicit if their masks are a mixture."""

from collections.abc import Mapping
from typing import ClassVar, Literal, final, get_args

import numpy as np
import torch
from scipy.sparse import csr_array
from torch.nn import functional as F

from dubio.masks import Bernoulli
from dubio.recommend.arguments import Check, one_of, whole
from dubio.recommend.autoencoder import AUTOENCODER_CHECKS, Autoencoder
from dubio.recommend.masks_by_name import MakeMask, make_mask
from dubio.recommend.rates import RateEstimator
from dubio.recommend.variational import LatentPosterior, LatentPrior, VariationalNetwork


@final
class VAE(Autoencoder):
    """A variational autoencoder with a multinomial likelihood and masks on its input.

    With fixed masks it is Mult-VAE (Liang et al. 2018). With learned masks and a mixture of several
    it is SIVAE: ``mask=masks.LearnableBernoulli, mixture=3`` is SIVAE + LBDrop, and
    `masks.Concrete` and `masks.LearnableGaussian` are + CDrop and + GDrop (Boluki et al. 2020,
    section 3.3). Scores are probabilities of the next item.

    Args:
        hidden: Units of the hidden layer in encoder and decoder.
        latent: Length of the latent vector η.
        mask: A class of `dubio.masks`, called as ``mask(items, drop=drop)``, so that every item has
            its own rate; None for no mask.
        drop: The dropout rate, or the initial one if it is learned.
        mixture: V + 1, the number of masks in the posterior of the bound; see
            `dubio.recommend.bound`.
        decodings: J, the number of them that are decoded.
        prior: Prior of η: ``"normal"``, or ``"vamp"`` for a mixture of the posteriors of learned
            pseudo-inputs (Tomczak & Welling 2018).
        posterior: ``"gaussian"``, or ``"iaf"`` for an inverse autoregressive flow (Kingma et al.
            2016).
        pseudo_inputs: Their number, with ``prior="vamp"``.
        estimator: Gradient estimator for the rates of `masks.LearnableBernoulli`: ``"trapezoid"``
            or ``"arm"`` with two passes per step, ``"trapezoid_once"`` with one.
        beta: Largest weight of the divergence from the prior; ``"validate"`` lets it rise to 1 and
            keeps the weights of the best validation, whose β is ``best_epoch.beta``.
        anneal: T in β = min(beta, step/T): the steps in which β would rise from 0 to 1. 0 for none.
        weight_decay: λ of the penalty ½λ‖W‖².
    """

    _checks: ClassVar[Mapping[str, Check]] = {
        **AUTOENCODER_CHECKS,
        **dict.fromkeys(("latent", "mixture", "decodings", "pseudo_inputs"), whole(1)),
        "prior": one_of(*get_args(LatentPrior)),
        "posterior": one_of(*get_args(LatentPosterior)),
    }

    def __init__(
        self,
        hidden: int = 600,
        latent: int = 200,
        mask: MakeMask | None = Bernoulli,
        drop: float = 0.5,
        mixture: int = 1,
        decodings: int = 1,
        prior: LatentPrior = "normal",
        posterior: LatentPosterior = "gaussian",
        pseudo_inputs: int = 100,
        estimator: RateEstimator = "trapezoid",
        beta: float | Literal["validate"] = 0.2,
        anneal: int = 20_000,
        weight_decay: float = 0.0,
    ) -> None:
        self.hidden = hidden
        self.latent = latent
        self.mask = mask
        self.drop = drop
        self.mixture = mixture
        self.decodings = decodings
        self.prior = prior
        self.posterior = posterior
        self.pseudo_inputs = pseudo_inputs
        self.estimator = estimator
        self.beta = beta
        self.anneal = anneal
        self.weight_decay = weight_decay
        self._check()

    def _build(self, items: int, users: int) -> VariationalNetwork:
        return VariationalNetwork(
            items,
            self.hidden,
            self.latent,
            make_mask(self.mask, items, self.drop),
            mixture=self.mixture,
            decodings=self.decodings,
            prior=self.prior,
            posterior=self.posterior,
            pseudo_inputs=self.pseudo_inputs,
            estimator=self.estimator,
        )

    def _start(self, network: VariationalNetwork, user_items: csr_array, seed: int) -> None:
        """Pseudo-inputs start as the histories of some users, as Tomczak & Welling have it."""
        if network.prior is None:
            return
        count, users = self.pseudo_inputs, user_items.shape[0]
        chosen = np.random.default_rng(seed).choice(users, count, replace=count > users)
        rows = torch.from_numpy(user_items[np.sort(chosen)].toarray())
        with torch.no_grad():
            network.prior.inputs.copy_(F.normalize(rows))

    def _check(self) -> None:
        super()._check()
        if self.decodings > self.mixture:
            raise ValueError(
                f"decodings: expected at most mixture, {self.mixture}, since every mask is decoded "
                f"once, got {self.decodings}"
            )
        if self.mask is None and self.mixture > 1:
            raise ValueError(
                f"mixture: expected 1 without a mask, since all components would be the same, got "
                f"{self.mixture}; give a mask, such as masks.Bernoulli"
            )
        if self.prior == "vamp" and self.posterior == "iaf":
            raise ValueError(
                "posterior: expected 'gaussian' with prior='vamp', got 'iaf'; the flow would bend "
                "both alike and be a part of the decoder only"
            )
