"""Regression with predictive uncertainty, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any, Literal, Self, final, get_args, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from torch import Tensor

from dubio.estimators.estimator import Array, DropoutEstimator, ModuleFactory
from dubio.estimators.methods import Method
from dubio.estimators.mlp import Activation
from dubio.estimators.parameters import check_choice
from dubio.estimators.scaling import Scaling
from dubio.estimators.seeds import RandomSeed
from dubio.estimators.splitting import LabelledRows
from dubio.estimators.target_noise import log_noise_factors, means_and_log_variances
from dubio.likelihoods import HeteroscedasticGaussian, LearnedGaussian, Likelihood
from dubio.predictive.predictive import Predictive, StoredDraws

TargetNoise = Literal["constant", "varying"]


@final
class DropoutRegressor(MultiOutputMixin, RegressorMixin, DropoutEstimator):
    """A regression network with predictive uncertainty, as a scikit-learn estimator.

    Inputs and targets are standardised internally; predictions are in the units of the targets. The
    noise of the targets is Gaussian with a learned variance.

    Args:
        hidden_layer_sizes: Units of the hidden layers of the default network.
        activation: Activation of the hidden layers: "relu", "elu", "gelu", "silu" or "tanh".
        method: The source of uncertainty: "mc" dropout (Gal & Ghahramani 2016), "concrete" dropout
            (Gal et al. 2017), "learnable" Bernoulli dropout (Boluki et al. 2020), "bayes", Bayes by
            Backprop (Clark et al. 2022), or an "ensemble" (Lakshminarayanan et al. 2017).
        module: A function of (n_features, n_outputs) that makes a network, instead of the default
            one. The outputs are one number per target, or with ``noise="varying"`` means and then
            log variances.
        drop: The dropout rate, or the initial rate if it is learned; for the default network.
        members: Number of networks in an ensemble.
        noise: "constant" for noise of one size, or "varying" if it depends on the row.
        draws: Number of stochastic passes per prediction; may be changed after `fit`.
        learning_rate_init: The learning rate of Adam.
        batch_size: Rows per step; "auto" is a fiftieth of all rows, between 32 and 256.
        max_iter: Largest number of epochs.
        early_stopping: Whether to hold out rows, to stop when their loss no longer improves, and to
            fit the size of the noise to them.
        validation_fraction: The share of rows to hold out. If that is fewer than 10 rows, none are
            held out, and training takes ``max_iter`` epochs.
        n_iter_no_change: Number of epochs without improvement after which to stop.
        random_state: The seed of all randomness. Global generators are not used.
        verbose: Whether to print a line for every epoch.

    Attributes:
        members_: The trained networks, each with its likelihood and its history.
        n_iter_: Largest number of epochs that a network was trained for.
        seed_: The seed taken from ``random_state``.
        n_features_in_: D.
        feature_names_in_: The columns of a data frame.
    """

    _numeric = True

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | int = (100, 100),
        activation: Activation = "relu",
        *,
        method: Method = "mc",
        module: ModuleFactory | None = None,
        drop: float = 0.1,
        members: int = 5,
        noise: TargetNoise = "constant",
        draws: int = 100,
        learning_rate_init: float = 1e-3,
        batch_size: int | Literal["auto"] = "auto",
        max_iter: int = 200,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        random_state: RandomSeed = None,
        verbose: bool | int = False,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            activation,
            method=method,
            module=module,
            drop=drop,
            members=members,
            draws=draws,
            learning_rate_init=learning_rate_init,
            batch_size=batch_size,
            max_iter=max_iter,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            verbose=verbose,
        )
        self.noise = noise

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Continue training with one pass over more rows.

        The first call fixes the scaling of inputs and targets from its rows, unless `fit` did.
        Nothing is held out.

        Args:
            X: More rows `(N, D)`.
            y: Their targets.
            sample_weight: Weight of each row, `(N,)`.
        """
        return self._partial_fit(X, y, sample_weight)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the mean of the predictive distribution, `(B,)` or `(B, K)`.

        Args:
            X: Rows `(B, D)`.
            return_std: Whether to return the predictive standard deviation as well. It includes the
                noise and the epistemic uncertainty.

        Returns:
            The mean, or the mean and the standard deviation.
        """
        parts = [self._in_units(part) for part in self._draw(X)]
        mean = np.concatenate([part.mean.numpy() for part in parts])
        if not return_std:
            return mean
        return mean, np.concatenate([part.std.numpy() for part in parts])

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution, in the units of the targets.

        It has `mean`, `std`, `interval(0.9)`, `log_prob(y)`, `sample()`, and the parts of the
        variance, `epistemic` and `aleatoric`. dubio's calibration, metrics and deferral accept it.
        Its values are tensors, `(B,)` or `(B, K)` like the targets of `fit`.

        Args:
            X: Rows `(B, D)`.
        """
        return self._in_units(self._predict(self._standard_inputs(X)))

    def _in_units(self, p: Predictive) -> Predictive:
        """Return a prediction in the units of the targets."""
        mean, log_variance = means_and_log_variances(p)  # (S, B, K)
        scale = torch.from_numpy(self._units.scale).to(mean)
        mean = mean * scale + torch.from_numpy(self._units.mean).to(mean)
        log_variance = log_variance + self._log_noise_factors + 2 * scale.log()
        single = not self._event
        if single:
            mean, log_variance = mean[..., 0], log_variance[..., 0]
        likelihood = HeteroscedasticGaussian(scalar=single)
        return Predictive(likelihood, StoredDraws(likelihood.joined(mean, log_variance)))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("noise", self.noise, get_args(TargetNoise))

    def _learn_targets(self, y: Array, weights: Array | None, classes: Array | None) -> None:
        self._event = y.shape[1:]
        self._units = Scaling.of(_columns(y), weights)
        self._log_noise_factors = torch.zeros(len(self._units.scale))

    def _standard_targets(self, y: Array, dtype: np.dtype[Any]) -> Tensor:
        if y.shape[1:] != self._event:
            raise ValueError(
                f"y: expected targets of shape {('N', *self._event)} as in the first call, got "
                f"{y.shape}; give every row the same targets"
            )
        return torch.from_numpy(self._units.scaled(_columns(y)).numpy().astype(dtype))

    def _look_at(self, held_out: LabelledRows) -> None:
        self._log_noise_factors = log_noise_factors(self._predict(held_out.x), held_out)

    def _likelihood(self, dtype: torch.dtype) -> Likelihood:
        if self.noise == "varying":
            return HeteroscedasticGaussian()
        return LearnedGaussian(torch.ones(len(self._units.scale), dtype=dtype))

    @property
    def _outputs(self) -> int:
        return len(self._units.scale) * (2 if self.noise == "varying" else 1)


def _columns(y: Array) -> Array:
    """Return targets `(N,)` or `(N, K)` as a table of numbers."""
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y: expected numbers, got {y.dtype}; convert them, y.astype(float)")
    return y.reshape(len(y), -1).astype(np.float64)
