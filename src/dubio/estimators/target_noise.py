"""Estimate the noise of the targets from held-out rows."""

import math

import torch
from torch import Tensor

from dubio.estimators.splitting import LabelledRows
from dubio.likelihoods import HeteroscedasticGaussian
from dubio.predictive.predictive import Predictive

_WIDTHS = (6.0, 0.5, 0.05)  # of the search for log c, each around the best so far
_PLACES = 25


def means_and_log_variances(p: Predictive) -> tuple[Tensor, Tensor]:
    """Return those of every draw, row and target, `(S, B, K)` each."""
    _, outputs = p.likelihood.with_noise(p.draws)
    mean, log_variance = outputs.chunk(2, dim=-1)
    return mean, log_variance


def log_noise_factors(p: Predictive, rows: LabelledRows) -> Tensor:  # (K,)
    """Return the logarithm of a factor c on the variance of the noise of each target.

    c maximises the predictive likelihood of rows that were held out, as Gal & Ghahramani 2016
    chooses the noise precision on validation data (eq. 13):

        Σ_b w_b log 1/S Σ_t N(y_b; f_t(x_b), c σ_t²(x_b)).

    What training alone learns is too large where draws spread, as the ELBO takes the spread of
    draws for noise, and too small where a network has overfitted. A variance from n rows is
    uncertain itself: c is multiplied by n/(n − 2), the variance of Student's t with n degrees of
    freedom, where n = (Σ w)²/Σ w².

    Args:
        p: The prediction of these rows, Gaussian given the draw.
        rows: At least three rows, with targets `(B, K)`.
    """
    mean, log_variance = means_and_log_variances(p)
    gaussian, weights = HeteroscedasticGaussian(), rows.weights

    def score(log_factor: Tensor) -> Tensor:  # (K,) -> (K,)
        outputs = gaussian.joined(mean, log_variance + log_factor)
        return weights @ gaussian.log_density(outputs, rows.y).logsumexp(0)

    best = torch.zeros_like(mean[0, 0])
    for width in _WIDTHS:
        places = best + width * torch.linspace(-1, 1, _PLACES, dtype=best.dtype)[:, None]  # (P, K)
        scores = torch.stack([score(place) for place in places])
        best = places.gather(0, scores.argmax(0, keepdim=True))[0]
    count = max(3.0, float(weights.sum().square() / weights.square().sum()))
    return best + math.log(count / (count - 2))
