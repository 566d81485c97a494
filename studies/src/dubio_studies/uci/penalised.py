"""Networks without noise that learn with a prior."""

from typing import final

import torch
from torch import Tensor, nn

from dubio.likelihoods import GammaPrior, LearnedGaussian

PRIOR = GammaPrior(0.1, 0.01)  # of the noise precision, as in Gal et al. 2017


@final
class Penalised(nn.Module):
    """A plain network at the maximum of its posterior, for ensembles: the prior, but no noise."""

    def __init__(self, model: nn.Module, length_scale: float, num_data: int) -> None:
        super().__init__()
        self.model = model
        self.likelihood = LearnedGaussian(prior=PRIOR)
        self.length_scale = length_scale
        self.num_data = num_data

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """−log p(y | x) − (log p(W) + log p(τ))/N."""
        nll = -self.likelihood.log_prob(self.model(x)[None], y).mean()
        squares = [
            layer.in_features * layer.weight.square().sum()
            for layer in self.model.modules()
            if isinstance(layer, nn.Linear)
        ]
        penalty = 0.5 * self.length_scale**2 * torch.stack(squares).sum()
        return nll + (penalty - self.likelihood.log_prior()) / self.num_data
