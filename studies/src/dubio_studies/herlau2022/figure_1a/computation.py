"""The numbers of figure 1a: coefficients of dropout, ridge and lasso along their paths."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import lars_path

from dubio.data import qspr
from dubio.regression import BayesianDropoutRegression
from dubio.regression.prior import FloatArray
from dubio_studies.framework.study import Computation, Measurement, Piece, Seed

UNITS = ("unit variance", "own units")
METHODS = ("dropout", "ridge", "lasso")
WEAKEST, STRONGEST = 1e-4, 1e3  # f/(1 − f), and λ0 over a typical sum of squares


@dataclass(frozen=True)
class Config:
    """Settings of the paths.

    Attributes:
        steps: Points of each path.
    """

    steps: int = 40

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        if self.steps < 2:
            raise ValueError(f"steps: expected at least 2, got {self.steps}.")


def pieces(config: Config) -> list[Piece]:
    """A piece for each path."""
    return [{"units": units, "method": method} for units in UNITS for method in METHODS]


def run(config: Config, piece: Piece, seed: Seed) -> Iterator[Measurement]:
    """Coefficients along a path, and with dropout's those of each feature alone."""
    names, features, target = amino_acids()
    scales = features.std(0)
    rows = features / scales if piece["units"] == "unit variance" else features
    shown = scales if piece["units"] == "own units" else np.ones(len(scales))
    if piece["method"] == "dropout":
        alone = rows.T @ target / np.square(rows).sum(0)  # the limit f → 1 of μ
        for name, value in zip(names, shown * alone, strict=True):
            yield {"metric": "alone", "feature": name, "value": float(value)}
    strengths, weights, fitted = path(str(piece["method"]), rows, target, config.steps)
    residuals = target[:, None] - rows @ fitted  # (N, steps)
    explained = 1 - np.square(residuals).sum(0) / np.square(target).sum()
    for j, strength in enumerate(strengths):
        for name, value in zip(names, shown * weights[:, j], strict=True):
            yield {
                "metric": "coefficient",
                "feature": name,
                "step": j,
                "strength": float(strength),
                "explained": float(explained[j]),
                "value": float(value),
            }


def amino_acids() -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Names, centred features and centred target; DGR has its sign flipped."""
    data = qspr()
    features, target = data.features.numpy().copy(), data.target.numpy()
    features[:, data.feature_names.index("DGR")] *= -1
    return data.feature_names, features - features.mean(0), target - target.mean()


def path(
    method: str, rows: FloatArray, target: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Strengths `(J,)`, coefficients, and coefficients that predict, both `(D, J)`.

    The last two differ for dropout: μ and (1 − f)μ.
    """
    strengths = np.geomspace(WEAKEST, STRONGEST, steps)
    if method == "lasso":
        shares = np.geomspace(WEAKEST, 1.0, steps)
        penalties, _, knots = lars_path(rows, target, method="lasso")
        order = np.argsort(penalties)
        weights = np.stack(
            [np.interp(shares * penalties.max(), penalties[order], w[order]) for w in knots]
        )  # linear between its knots
        return shares, weights, weights
    if method == "ridge":
        typical = np.exp(np.log(np.square(rows).sum(0)).mean())
        priors = [(0.0, precision) for precision in strengths * typical]
    else:
        priors = [(strength / (1 + strength), 0.0) for strength in strengths]
    models = [
        BayesianDropoutRegression(*prior, fit_intercept=False).fit(rows, target) for prior in priors
    ]
    fitted = np.stack([model.coef_ for model in models], axis=1)
    return strengths, fitted / [1 - model.drop_ for model in models], fitted


COMPUTATION = Computation(
    protocol="Seven correlated features of nineteen amino acids predict a free energy of "
    "unfolding. The sign of DGR is flipped, so that every feature is positively correlated "
    "with the target. Features and target are centred. Coefficients are computed for growing "
    "regularisation: f/(1 − f) for dropout without a prior (λ0 = 0), λ0 over the geometric "
    "mean of the features' sums of squares for ridge regression, and for lasso its penalty "
    "relative to the one that removes all features. Dropout's coefficients are the paper's "
    "μ; predictions are (1 − f)Xμ. Features have unit variance in one version and their own "
    "units in the other; coefficients are always for unit variance.",
    scales={"smoke": Config(steps=8), "small": Config(steps=20), "paper": Config()},
    pieces=pieces,
    run=run,
    deviations=(
        "The paper says neither whether features were scaled nor what the axis is. Our axis "
        "is the share of the target's variance explained in training, which falls as "
        "regularisation grows and has the same meaning for all three methods.",
        "With features of unit variance (1 − f)μ is exactly ridge regression's solution with "
        "λ0 = n·f/(1 − f), so both become all positive at the same point; what differs is the "
        "size, as ridge's coefficients vanish. In the features' own units the signs differ too, "
        "since dropout is invariant to units.",
    ),
)
