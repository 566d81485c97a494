"""Rescaling for regression: one factor on the noise, or on all of the predictive variance."""

import math
from collections.abc import Callable, Iterator
from typing import Self, final

import torch
from torch import Tensor

from dubio.likelihoods.likelihood import Likelihood, sum_events
from dubio.noise.float64 import in_float64
from dubio.noise.protocols import DrawSource
from dubio.predictive.fitted import Fitted
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.predictive.validation import NumberPrediction, check_numbers, number_prediction

GRID = 33  # places at which the likelihood of a mixture is looked at before it is refined
WIDEST = 16.0  # of |log c| for noise that is not Gaussian


@final
class PrecisionScaling(Fitted):
    """A factor c on the noise precision that maximises the predictive likelihood.

        Σ_i log 1/S Σ_t N(y_i; f_t(x_i), σ_t²(x_i) / c)

    Gal & Ghahramani 2016 choose τ on validation data by this criterion (eq. 13), among a few
    values; here it is the optimum. Draws and mean do not change. With one draw, a Gaussian, it is
    in closed form:

        c = n / Σ_i (y_i − f_i)² / σ_i².

    With more draws it solves c = n / Σ_i E_c[(y_i − f_t)² / σ_t²], where draws are weighted by how
    well they explain y_i. The sum falls as c grows, from the mean over draws of their densities at
    c → 0 to the closest draw alone at c → ∞. These two ends enclose every solution; there may be
    several, and a grid between them finds the best. For other noise, such as that of `StudentT`,
    the scale is divided by √c, and a search over c finds the optimum to six digits.

    Attributes:
        factor: c, a buffer; below 1 the prediction was overconfident.
    """

    factor: Tensor
    _values = ("factor",)

    def fit(self, p: NumberPrediction, y: Tensor) -> Self:
        """Set c to its optimum on validation data.

        Args:
            p: A prediction with noise that can be rescaled, or mean and standard deviation,
                `(B, D)` each.
            y: Targets in the shape of its mean.

        Returns:
            The fitted scaling itself.
        """
        p = number_prediction(p)
        _check_noise(p)
        known = check_numbers(p, y)
        if not p.likelihood.gaussian:
            self._keep("factor", _likeliest_factor(p, y))
            self._keep_sizes(p)
            return self
        blocks = []
        for rows, chunks in p.blocks():
            parts = [
                _squares_and_scales(p.likelihood, outputs, y[rows], known[rows])
                for outputs in chunks
            ]
            blocks.append(torch.cat(parts, dim=1))  # (2, S, B)
        distances, scales = torch.cat(blocks, dim=2)
        self._keep("factor", _best_factor(distances, scales, int(known.sum())))
        self._keep_sizes(p)
        return self

    def forward(self, p: NumberPrediction) -> Predictive:
        """Return the prediction with rescaled noise."""
        p = number_prediction(p)
        _check_noise(p)
        factor = float(self._known("factor"))
        self._check_sizes(p)
        return _rescaled(p, spread=1.0, noise=factor**-0.5)


@final
class VarianceScaling(Fitted):
    """A factor on the whole predictive variance.

        y = m(x) + s (y' − m(x)),  y' ~ the prediction,  m = E[y' | x]

    The mean does not change; epistemic, aleatoric and total variance are multiplied by s². The
    factor is the maximum-likelihood one for a Gaussian with the predictive mean and variance (Laves
    et al. 2020):

        s² = 1/n Σ_i (y_i − m_i)² / v_i.

    It also calibrates the spread of draws from `predict` without a likelihood. Use
    `PrecisionScaling` if the draws are right and only the noise is not.

    Attributes:
        factor: s², a buffer; above 1 the prediction was overconfident.
    """

    factor: Tensor
    _values = ("factor",)

    def fit(self, p: NumberPrediction, y: Tensor) -> Self:
        """Set s² from validation data.

        Args:
            p: A prediction of real targets, or mean and standard deviation, `(B, D)` each.
            y: Targets in the shape of its mean.

        Returns:
            The fitted scaling itself.
        """
        p = number_prediction(p)
        known = check_numbers(p, y)
        variance = in_float64(p.variance)
        if not bool((variance > 0).all()):
            raise ValueError(
                "p: expected a variance > 0 everywhere, got 0; predict with a likelihood that has "
                "noise"
            )
        squares = (in_float64(y) - in_float64(p.mean)).square() / variance
        factor = squares[known.to(squares.device)].mean()
        _check_errors(float(factor))
        self._keep("factor", factor)
        self._keep_sizes(p)
        return self

    def forward(self, p: NumberPrediction) -> Predictive:
        """Return the prediction with rescaled draws and noise."""
        p = number_prediction(p)
        scale = float(self._known("factor")) ** 0.5
        self._check_sizes(p)
        return _rescaled(p, spread=scale, noise=scale)


@final
class _ChangedDraws:
    """Draws that are changed whenever they are played."""

    def __init__(self, source: DrawSource, change: Callable[[slice, Tensor], Tensor]) -> None:
        self.source = source
        self.change = change

    @property
    def num_draws(self) -> int:
        return self.source.num_draws

    @property
    def num_rows(self) -> int:
        return self.source.num_rows

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        for rows, outputs in self.source.chunks():
            yield rows, self.change(rows, outputs)


def _rescaled(p: Predictive, spread: float, noise: float) -> Predictive:
    """Return the draws' distances from their mean times `spread`, the noise times `noise`."""
    likelihood, mean = p.likelihood, p.mean
    scaled = likelihood.rescaled(noise)  # complains if there is no such thing

    def change(rows: slice, outputs: Tensor) -> Tensor:
        moved = mean[rows] + spread * (likelihood.mean(outputs) - mean[rows])  # (S, B, *E)
        return likelihood.with_mean(outputs, moved, noise)

    source = p.source
    changed: DrawSource
    if isinstance(source, StoredDraws):
        changed = StoredDraws(change(slice(None), source.draws), source.chunk_bytes)
    else:
        changed = _ChangedDraws(source, change)
    return Predictive(scaled, changed)


def _best_factor(distances: Tensor, scales: Tensor, targets: int) -> Tensor:
    """Maximise Σ_b log Σ_t exp(scales − c/2 distances) + targets/2 log c, both `(S, B)`."""

    def value_and_slope(log_factor: Tensor) -> tuple[Tensor, Tensor]:
        factor = log_factor.exp()
        logs = scales - 0.5 * factor * distances
        distance = (logs.softmax(0) * distances).sum()
        value = logs.logsumexp(0).sum() + 0.5 * targets * log_factor
        return value, targets - factor * distance

    closest = distances.amin(0).sum()
    _check_errors(float(closest))
    widest = (scales.softmax(0) * distances).sum()
    low, high = (targets / widest).log(), (targets / closest).log()
    grid = [low + (high - low) * k / (GRID - 1) for k in range(GRID)]
    values = torch.stack([value_and_slope(place)[0] for place in grid])
    best = int(values.argmax())
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    middle = grid[best]
    while bool(high - low > 1e-13 * (1 + middle.abs())):
        low, high = (middle, high) if value_and_slope(middle)[1] > 0 else (low, middle)
        middle = (low + high) / 2
    return middle.exp()


def _likeliest_factor(p: Predictive, y: Tensor) -> Tensor:
    """Maximise the mean of log_prob over c, on a grid of log c and by golden sections of it."""

    def value(log_factor: float) -> float:
        scaled = _rescaled(p, spread=1.0, noise=math.exp(-0.5 * log_factor))
        return float(in_float64(scaled.log_prob(y)).mean())

    grid = [WIDEST * (2 * k / (GRID - 1) - 1) for k in range(GRID)]
    best = max(range(GRID), key=lambda k: value(grid[k]))
    if best in (0, GRID - 1):
        raise ValueError(
            f"y: expected targets for which some factor from e^-{WIDEST:g} to e^{WIDEST:g} is the "
            "best, got others; use validation data that the network was not trained on"
        )
    low, high = grid[best - 1], grid[best + 1]
    share = (math.sqrt(5) - 1) / 2
    while high - low > 1e-7:
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (low, right) if value(left) > value(right) else (left, high)
    return torch.tensor((low + high) / 2, dtype=torch.float64).exp()


def _squares_and_scales(
    likelihood: Likelihood, outputs: Tensor, y: Tensor, known: Tensor
) -> Tensor:
    """Return Σ (y − f)²/σ² and −½ Σ log σ² over the event, per draw and row: `(2, S, B)`."""
    variance = in_float64(likelihood.variance(outputs))  # (S, B, *E)
    squares = (in_float64(y) - in_float64(likelihood.mean(outputs))).square() / variance
    known = known.to(squares.device)
    sums = squares.where(known, 0), -0.5 * variance.log().where(known, 0)
    return torch.stack([sum_events(part) for part in sums])


def _check_noise(p: Predictive) -> None:
    if not p.likelihood.noisy:
        raise TypeError(
            f"p: expected a prediction with noise, got one by {p.likelihood!r}; VarianceScaling "
            "takes predictions without noise"
        )
    p.likelihood.rescaled(1.0)  # complains if there is no such thing


def _check_errors(total: float) -> None:
    if total == 0:
        raise ValueError(
            "y: expected targets that differ from the prediction, got none, so that no factor is "
            "too small; use validation data that the network was not trained on"
        )
