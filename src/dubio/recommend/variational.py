"""The network of a variational autoencoder for histories."""

from typing import Literal, TypeAlias, final

import torch
from torch import Tensor, nn

from dubio.masks import Mask
from dubio.recommend.bound import (
    Normals,
    bound,
    divergence,
    log_mixture,
    log_standard_normal,
)
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.latent import AutoregressiveFlow, VampPrior
from dubio.recommend.masked_input import MaskedInput
from dubio.recommend.output import Output
from dubio.recommend.rates import RateEstimator
from dubio.recommend.sparse import SparseRows
from dubio.recommend.step_noise import StepNoise, step_noise
from dubio.recommend.weights import dense

LatentPrior: TypeAlias = Literal["normal", "vamp"]
LatentPosterior: TypeAlias = Literal["gaussian", "iaf"]


@final
class VariationalNetwork(nn.Module):
    """Encoder I → hidden → latent and decoder latent → hidden → I, with tanh between.

    Args:
        num_items: I.
        hidden: Units between.
        latent: D.
        mask: On the input.
        mixture: V + 1, masks in the posterior.
        decodings: J, how many of them are decoded.
        prior: N(0, I), or a mixture of posteriors of learned pseudo-inputs.
        posterior: A normal distribution, or one that an autoregressive flow bends.
        pseudo_inputs: How many, with ``prior="vamp"``.
        estimator: Of the gradient for learned rates; see `MaskedInput`.
    """

    def __init__(
        self,
        num_items: int,
        hidden: int,
        latent: int,
        mask: Mask | None,
        *,
        mixture: int = 1,
        decodings: int = 1,
        prior: LatentPrior = "normal",
        posterior: LatentPosterior = "gaussian",
        pseudo_inputs: int = 100,
        estimator: RateEstimator = "trapezoid",
    ) -> None:
        super().__init__()
        self.input = MaskedInput(num_items, hidden, mask, estimator)
        self.encoder = dense(hidden, 2 * latent)
        self.decoder = dense(latent, hidden)
        self.output = Output(hidden, num_items)
        self.prior = VampPrior(pseudo_inputs, num_items) if prior == "vamp" else None
        self.flow = AutoregressiveFlow(latent) if posterior == "iaf" else None
        self.mixture = 1 if mask is None else mixture
        self.decodings = decodings
        self.latent = latent

    def noise(self, rows: SparseRows, seeds: Seeds) -> StepNoise:
        """Return the noise of a step of training."""
        return step_noise(
            rows,
            seeds,
            self.input.mask,
            mixture=self.mixture,
            decodings=self.decodings,
            latent=self.latent,
        )

    def noise_of_draw(self, rows: SparseRows, seeds: Seeds) -> StepNoise:
        """Return the noise of a draw: one mask and one ε."""
        return step_noise(rows, seeds, self.input.mask, latent=self.latent)

    def forward(self, rows: SparseRows, noise: StepNoise, beta: float) -> Tensor:
        """Return the bound f for each history, not averaged."""  # (B,)
        components = self._encode(self.input(rows, noise.masks))  # (P, V + 1, B, D)
        drawn = components.first(self.decodings)
        eta = drawn.at(noise.latent)  # (P, J, B, D)
        if self.mixture == 1 and self.prior is None and self.flow is None:
            excess = divergence(drawn)
        else:
            log_h = log_mixture(eta, components)
            if self.flow is not None:
                eta, log_scale = self.flow(eta)
                log_h = log_h - log_scale
            excess = log_h - self._log_prior(eta)
        nll = self.output.negative_log_likelihood(self._decode(eta).flatten(0, 1), rows)
        losses = bound(nll.view(excess.shape), excess, beta)  # (P, B)
        return self.input.average(losses, rows, noise.masks)

    @torch.no_grad()
    def scores(self, rows: SparseRows, noise: StepNoise | None) -> Tensor:
        """Return probabilities of the next item, (B, I).

        Args:
            rows: Histories.
            noise: Of one draw with one mask; None for the mean mask and the mean of η.
        """
        return self.output.probabilities(self._decode(self._latent(rows, noise)))

    @torch.no_grad()
    def embed(self, rows: SparseRows) -> Tensor:
        """Return η without noise, as `scores` decodes it."""  # (B, D)
        return self._latent(rows, None)

    def _latent(self, rows: SparseRows, noise: StepNoise | None) -> Tensor:  # (B, D)
        """Return η. The posterior of a user without a history is the prior."""
        posterior = self._encode(self.input.once(rows, () if noise is None else noise.masks))
        eta = posterior.mean if noise is None else posterior.at(noise.latent[0])
        if self.flow is not None:
            eta, _ = self.flow(eta)
        empty = rows.lengths == 0
        if empty.any():
            eta[empty] = self._draw_prior(empty, noise)
        return eta

    def _encode(self, a: Tensor) -> Normals:  # (…, H) -> (…, D)
        mean, log_variance = self.encoder(torch.tanh(a)).chunk(2, -1)
        return Normals(mean, log_variance)

    def _decode(self, eta: Tensor) -> Tensor:  # (…, D) -> (…, H)
        return torch.tanh(self.decoder(eta))

    def _log_prior(self, eta: Tensor) -> Tensor:  # (…, D) -> (…)
        if self.prior is None:
            return log_standard_normal(eta)
        return self.prior.log_density(eta, self._encode(self.input.dense(self.prior.inputs)))

    def _draw_prior(self, wanted: Tensor, noise: StepNoise | None) -> Tensor:  # (B,) -> (E, D)
        """Return η from the prior for some users; its mean without noise."""
        if self.prior is None:
            return self.decoder.weight.new_zeros(()) if noise is None else noise.latent[0, wanted]
        components = self._encode(self.input.dense(self.prior.inputs))  # (K, D)
        if noise is None:
            return components.mean.mean(0)
        chosen = (noise.component[wanted] * len(components.mean)).long()
        of_users = Normals(components.mean[chosen], components.log_variance[chosen])
        return of_users.at(noise.latent[0, wanted])
