"""The prior of the largest evidence.

(1 − f)w has the prior precision ρ + r c_d with ρ = λ0/(1 − f)² and r = f/(1 − f). So there is a
size ρ/r of features: smaller ones are regularised by λ0, larger ones by dropout. Where it lies
beyond all features, one of the two does nothing. The evidence often has a hill at either end: at
f = 0, where all weights are of one size, and at small λ0, where all features contribute alike.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special
from sklearn.exceptions import ConvergenceWarning

from dubio.regression.design import Design
from dubio.regression.evidence import gradient, log_marginal_likelihood
from dubio.regression.posterior import DropoutPosterior
from dubio.regression.prior import DropoutPrior, FloatArray
from dubio.regression.solver import Solver
from dubio.report.progress import Progress

_WEAKEST, _STRONGEST = 1e-8, 1e8  # the prior's precision over that of the data
_STEP = 10.0  # from one strength to the next
_BEYOND = 100.0  # how far a size lies beyond all features
_BINDS = 1e-2  # a slope, in nats for a factor e, that makes a bound worth a warning


def maximise(
    design: Design, y: FloatArray, drop: float | None, precision: float | None
) -> DropoutPrior:
    """Return the best prior; given numbers stay, those that are None are optimised.

    A coarse grid goes through all strengths and all sizes ρ/r that tell features apart, and from
    each of its peaks log r and log λ0 climb on. Hence units do not matter.
    """
    grid = _grid(design, drop, precision)
    bounds = _bounds(grid)
    exact = Solver("cholesky")
    with Progress("evidence", None) as progress:

        def posterior_of(prior: DropoutPrior) -> DropoutPosterior:
            progress.advance()
            return DropoutPosterior(design, y, prior, exact)

        def height(prior: DropoutPrior) -> float:
            try:
                return log_marginal_likelihood(posterior_of(prior))
            except np.linalg.LinAlgError:  # a prior too weak for float64
                return -np.inf

        def climb(start: DropoutPrior) -> tuple[float, DropoutPrior]:
            """From a prior of the grid; where f = 0 it stays."""
            free = np.array([drop is None and start.drop > 0, precision is None])

            def prior_at(moved: FloatArray) -> DropoutPrior:
                rate = float(special.expit(moved[0])) if free[0] else start.drop
                return DropoutPrior(rate, float(np.exp(moved[-1])) if free[1] else start.precision)

            def loss(moved: FloatArray) -> tuple[float, FloatArray]:
                try:
                    posterior = posterior_of(prior_at(moved))
                    return -log_marginal_likelihood(posterior), -_slopes(posterior)[free]
                except np.linalg.LinAlgError:
                    return -heights[np.isfinite(heights)].min(), np.zeros(len(moved))

            if not free.any():
                return height(start), start
            point = np.array([special.logit(start.drop), np.log(start.precision or 1)])[free]
            options = {"ftol": 1e-12}
            found = optimize.minimize(
                loss, point, jac=True, method="L-BFGS-B", bounds=bounds[free], options=options
            )
            return -found.fun, prior_at(found.x)

        heights = np.array([[height(prior) for prior in line] for line in grid])
        peaks = [climb(grid[i][j]) for i, j in np.argwhere(_is_peak(heights))]
        _, best = max(peaks, key=lambda peak: round(peak[0], 3))  # of equal ones that with f = 0
        _warn_at_bounds(posterior_of(best), bounds, (drop is None, precision is None))
    return best


def _grid(design: Design, drop: float | None, precision: float | None) -> list[list[DropoutPrior]]:
    """Return lines of priors from weak to strong; from line to line dropout takes over.

    A strength t stands for the precisions t v_d. It is weak where they are far below the
    precisions of the data, the diagonal of AᵀA, for every feature, and strong where far above.
    """
    varies = design.centred_squares > np.finfo(np.float64).eps * design.squares
    data, squares = (
        (design.centred_squares[varies], design.squares[varies])
        if varies.any()
        else (np.ones(1), np.ones(1))
    )
    decades = np.log(_STRONGEST / _WEAKEST * data.max() / data.min())
    count = 1 + int(np.ceil(decades / np.log(_STEP)))

    def strengths(weights: FloatArray) -> list[float]:
        ratios = data / weights
        low, high = _WEAKEST * ratios.min(), _STRONGEST * ratios.max()
        return [float(t) for t in np.geomspace(low, high, count)]

    if drop is not None:
        return [[DropoutPrior(drop, (1 - drop) ** 2 * t) for t in strengths(np.ones_like(data))]]
    if precision is not None:
        line = [DropoutPrior(r / (1 + r), precision) for r in strengths(squares)]
        return [[DropoutPrior(0.0, precision), *line] if precision > 0 else line]
    low, middle, high = np.quantile(squares, (0, 0.5, 1))
    sizes = np.array([_BEYOND * high, high, middle, low, low / _BEYOND])
    sizes = sizes[np.diff(np.log(sizes), prepend=np.inf) < -0.5]  # no two alike
    return [
        [DropoutPrior(0.0, t) for t in strengths(np.ones_like(data))],
        *(
            [DropoutPrior(r / (1 + r), r * size / (1 + r) ** 2) for r in strengths(squares + size)]
            for size in sizes
        ),
    ]


def _bounds(grid: list[list[DropoutPrior]]) -> FloatArray:
    """Return the extent of the grid in log r and in log λ0, `(2, 2)`."""
    priors = [prior for line in grid for prior in line]
    rates = [special.logit(prior.drop) for prior in priors if prior.drop > 0]
    precisions = [np.log(prior.precision) for prior in priors if prior.precision > 0]
    return np.array([(min(logs, default=0), max(logs, default=0)) for logs in (rates, precisions)])


def _is_peak(heights: FloatArray) -> NDArray[np.bool_]:
    """Return where no neighbour is higher, along a line or across."""
    around = np.pad(heights, 1, constant_values=-np.inf)
    neighbours = around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]
    return np.asarray(np.isfinite(heights) & (heights >= np.max(neighbours, axis=0)))


def _slopes(posterior: DropoutPosterior) -> FloatArray:
    """Return the derivatives of the evidence in log r and in log λ0, `(2,)`."""
    prior = posterior.prior
    return np.multiply(gradient(posterior), (prior.drop * prior.keep, prior.precision))


def _warn_at_bounds(posterior: DropoutPosterior, bounds: FloatArray, free: Sequence[bool]) -> None:
    """Warn if the evidence grows beyond a bound, so that the best prior lies outside."""
    prior = posterior.prior
    with np.errstate(divide="ignore"):
        point = np.array([special.logit(prior.drop), np.log(prior.precision)])
    slopes = _slopes(posterior)
    for i, name in enumerate(("drop", "prior_precision")):
        low, high = bounds[i]
        outwards = -slopes[i] if point[i] <= low + 1e-6 else slopes[i] * (point[i] >= high - 1e-6)
        if free[i] and outwards > _BINDS:
            value = (prior.drop, prior.precision)[i]
            warnings.warn(
                f"{name}: expected a largest evidence inside the search, got {value:g} at its end, "
                "where the evidence still grows: the targets seem to have no noise; set it by hand",
                ConvergenceWarning,
                stacklevel=2,
            )
