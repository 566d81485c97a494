"""The Gaussian process of figure 2b, by scikit-learn."""

import warnings
from dataclasses import dataclass
from typing import Any, final

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from torch import Tensor

STARTS = (0.02, 0.1, 0.5)
"""Length scales from which the evidence is climbed: it has an optimum for each kind of motion."""


@final
@dataclass(frozen=True)
class SquaredExponential:
    """A zero-mean process with covariance s²·exp(−(x − x′)²/(2ℓ²)) + σ²·1[x = x′].

    The three numbers maximise the evidence of the training data; the best of several optima counts.

    Attributes:
        process: The fitted estimator.
    """

    process: Any

    @classmethod
    def fit(cls, x: Tensor, y: Tensor) -> "SquaredExponential":
        """Climb the evidence from each of the starts."""

        def climb(length_scale: float) -> Any:
            kernel = ConstantKernel() * RBF(length_scale, (1e-3, 1e2))
            process = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-6, 1e1)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a bound of a poor optimum
                return process.fit(x.double().numpy(), y.double().flatten().numpy())

        return cls(max(map(climb, STARTS), key=lambda p: p.log_marginal_likelihood_value_))

    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of a new observation, noise included."""
        mean, std = self.process.predict(x.double().numpy(), return_std=True)
        return torch.from_numpy(mean), torch.from_numpy(std)

    @property
    def settings(self) -> dict[str, float]:
        """s, ℓ, σ² and the evidence."""
        signal, noise = self.process.kernel_.k1, self.process.kernel_.k2
        return {
            "amplitude": float(signal.k1.constant_value) ** 0.5,
            "length_scale": float(signal.k2.length_scale),
            "noise_variance": float(noise.noise_level),
            "log_evidence": float(self.process.log_marginal_likelihood_value_),
        }
