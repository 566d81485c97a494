"""The posterior of weights and noise under the dropout constraint (Herlau et al. 2022, eq. 14)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from dubio.regression.design import Design, blocks
from dubio.regression.factor import Factor, factorise
from dubio.regression.predictive import StudentTMixture
from dubio.regression.prior import DropoutPrior, FloatArray
from dubio.regression.solver import Solver
from dubio.report.progress import Progress


@final
@dataclass(frozen=True)
class WeightDraws:
    """Draws from the posterior; each is one linear function, `x @ coef + intercept`.

    Attributes:
        coef: (1 − f) w, as `coef_` is (1 − f) μ: `(S, *E, D)`.
        intercept: `(S, *E)`; zero without one.
        noise_variance: σ², `(S, *E)`.
    """

    coef: FloatArray
    intercept: FloatArray
    noise_variance: FloatArray


@final
class DropoutPosterior:
    """w | σ² ~ N(μ, σ²Λ⁻¹) and σ² ~ InvGamma(a, b), for each of K targets.

        μ = (1 − f) Λ⁻¹ Aᵀ y,  2a = degrees of freedom,  2b = |y − (1 − f) A μ|² + μᵀ P μ

    with Λ = P + (1 − f)² AᵀA and Jeffreys' prior p(σ²) ∝ 1/σ². Without an intercept 2a is the
    number of rows. Eq. 14 as printed lacks the Jeffreys factor, and eq. 11 has a Gamma where an
    inverse Gamma is meant. 2b is the paper's yᵀy − μᵀΛμ as a sum of squares, which cannot cancel.
    The intercept β | w, σ² ~ N(ȳ − (1 − f) x̄ᵀw, σ²/Σs).

    Args:
        design: The training rows.
        y: Their targets, `(N, *E)`.
        prior: f and λ0.
        solver: How to find μ.

    Attributes:
        mean: μ, `(D, K)`.
        shape: a.
        rate: b, `(K,)`.
    """

    def __init__(self, design: Design, y: FloatArray, prior: DropoutPrior, solver: Solver) -> None:
        targets, self._target_mean = design.center_targets(y.reshape(len(y), -1))
        self._factor: Factor | None = None
        self._design: Design | None = None
        if solver.factorises(design, [prior]):
            self._factor = factorise(design, prior)
            self.mean = self._factor.mean(design, targets)
        else:
            self._design = None if solver.name == "cg" else design
            self.mean = solver.means(design, targets, [prior])[:, 0]
        self.prior = prior
        self.event = y.shape[1:]
        self.count, self.intercept, self.center = design.count, design.intercept, design.center
        self.squares, self.penalty = design.squares, prior.penalty(design.squares)
        residual = targets - prior.keep * design.forward(self.mean)
        self.shape = design.freedom / 2
        self.rate: FloatArray = (
            np.square(residual).sum(0) + self.penalty @ np.square(self.mean)
        ) / 2
        rounding = np.finfo(np.float64).eps * self._target_mean
        self.rate[self.rate <= self.count * rounding**2] = 0  # targets that do not vary

    @property
    def factor(self) -> Factor:
        """The factorised Λ; computed when more than the mean is first asked for."""
        if self._factor is None:
            if self._design is None:
                raise ValueError(
                    "solver: expected 'auto' or 'cholesky' for variances, samples and the "
                    "evidence, got 'cg', which computes the mean only; fit again with another"
                )
            self._factor, self._design = factorise(self._design, self.prior), None
        return self._factor

    @property
    def coef(self) -> FloatArray:
        """(1 − f) μ, `(*E, D)`: the weights for inputs without dropout."""
        return self.prior.keep * self.mean.T.reshape(*self.event, -1)

    @property
    def offset(self) -> FloatArray:
        """ȳ − (1 − f) x̄ᵀμ, `(*E)`: the mean of the intercept."""
        return (self._target_mean - self.prior.keep * self.center @ self.mean).reshape(self.event)

    @property
    def noise_variance(self) -> FloatArray:
        """E[σ²] = b/(a − 1), `(K,)`; infinite up to two degrees of freedom."""
        return self.rate / (self.shape - 1) if self.shape > 1 else np.full_like(self.rate, np.inf)

    def check_noise(self) -> None:
        """Raise a ValueError if there are too few rows for a posterior of the noise."""
        if self.shape <= 0:
            raise ValueError(
                "X: expected more than one row beside the intercept for a posterior of the noise, "
                f"got n_samples = {self.count:g} by weight; give more rows, weights that count "
                "them, or fit_intercept=False"
            )

    def sample(self, draws: int, rng: np.random.Generator) -> WeightDraws:
        """Sample weights, intercept and noise from their joint posterior."""
        self.check_noise()
        outputs, features = len(self.rate), len(self.mean)
        noise = self.rate / rng.standard_gamma(self.shape, size=(draws, outputs))  # σ²
        spread = self.factor.sample(draws * outputs, rng).reshape(draws, outputs, features)
        coef = self.prior.keep * (self.mean.T + np.sqrt(noise)[..., None] * spread)  # (S, K, D)
        intercept = np.zeros((draws, outputs))
        if self.intercept:
            wobble = rng.standard_normal((draws, outputs)) * np.sqrt(noise / self.count)
            intercept = self._target_mean - coef @ self.center + wobble
        return WeightDraws(
            coef.reshape(draws, *self.event, features),
            intercept.reshape(draws, *self.event),
            noise.reshape(draws, *self.event),
        )

    def predictive(self, X: Any, draws: int, rng: np.random.Generator) -> StudentTMixture:
        """Return the predictive distribution of rows X `(B, D)`.

        Without dropout at test time y = β + (1 − f) xᵀw + noise is a Student t with 2a degrees of
        freedom and the squared scale (b/a)(1 + 1/Σs + uᵀΛ⁻¹u), u = (1 − f)(x − x̄), where 1/Σs is
        the intercept's. The factor 1 − f is the training model's own (eq. 13), which the paper
        leaves open at test time.

        With dropout, u = z∘x − (1 − f) x̄ for a mask z: a mixture over masks. By the law of total
        variance it adds f(1 − f) Σ_d x_d² E[w_d²] to the variance and nothing to the mean.

        Args:
            X: Dense or sparse rows.
            draws: Masks for each row; 0 for no dropout at test time.
            rng: The source of the masks.
        """
        self.check_noise()
        keep, shape = self.prior.keep, (X.shape[0], *self.event)
        noise = self.noise_variance
        mean, spread = self._project(keep * X)
        components = [(mean, spread)] if draws == 0 else []
        with Progress("masks", draws) as progress:
            for _ in range(draws):
                components.append(self._project(_mask(X, keep, rng)))
                progress.advance()
        epistemic = np.full_like(mean, np.inf)
        if self.shape > 1:
            epistemic = noise * spread[:, None]
            if draws > 0:
                second = np.square(self.mean) + noise * self.factor.variances[:, None]  # E[w²]
                squares = X.power(2) if sparse.issparse(X) else np.square(X)
                epistemic = epistemic + self.prior.drop * keep * (squares @ second)
        location = np.stack([location for location, _ in components])  # (S, B, K)
        scale = np.stack([np.sqrt(1 + spread) for _, spread in components])[..., None]
        scale = scale * np.sqrt(self.rate / self.shape)
        return StudentTMixture(
            2 * self.shape,
            location.reshape(-1, *shape),
            scale.reshape(-1, *shape),
            mean.reshape(shape),
            epistemic.reshape(shape),
            np.broadcast_to(noise, mean.shape).reshape(shape),
        )

    def _project(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return ȳ + uᵀμ, `(B, K)`, and [1/Σs] + uᵀΛ⁻¹u, `(B,)`, of rows u = X − (1 − f) x̄."""
        location = np.empty((X.shape[0], len(self.rate)))
        spread = np.empty(X.shape[0])
        for part, rows in _dense_blocks(X):
            rows = rows - self.prior.keep * self.center
            location[part] = self._target_mean + rows @ self.mean
            spread[part] = self.intercept / self.count + self.factor.quadratic(rows)
        return location, spread


def _dense_blocks(X: Any) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some rows at a time, dense: a sparse X is never dense as a whole."""
    for part in blocks(*X.shape):
        yield part, X[part].toarray() if sparse.issparse(X) else X[part]


def _mask(X: Any, keep: float, rng: np.random.Generator) -> Any:
    """Return a copy of X in which every number stays with probability `keep`."""
    if not sparse.issparse(X):
        return X * (rng.random(X.shape) < keep)
    masked = X.copy()
    masked.data = masked.data * (rng.random(masked.data.shape) < keep)
    return masked
