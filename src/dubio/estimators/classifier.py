"""Classification with predictive uncertainty, as a scikit-learn estimator."""

from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from dubio.estimators.estimator import Array, DropoutEstimator
from dubio.likelihoods import Categorical, Likelihood
from dubio.predictive.predictive import Predictive


@final
class DropoutClassifier(ClassifierMixin, DropoutEstimator):
    """A classifier network with predictive uncertainty, as a scikit-learn estimator.

    Inputs are standardised internally. Labels may be anything that can be sorted.

    Args:
        hidden_layer_sizes: Units of the hidden layers of the default network.
        activation: Activation of the hidden layers: "relu", "elu", "gelu", "silu" or "tanh".
        method: The source of uncertainty, as for `DropoutRegressor`: "mc", "concrete", "learnable",
            "bayes" or "ensemble".
        module: A function of (n_features, n_outputs) that makes a network, instead of the default
            one. The outputs are one score per class.
        drop: The dropout rate, or the initial rate if it is learned; for the default network.
        members: Number of networks in an ensemble.
        draws: Number of stochastic passes per prediction; may be changed after `fit`.
        learning_rate_init: The learning rate of Adam.
        batch_size: Rows per step; "auto" is a fiftieth of all rows, between 32 and 256.
        max_iter: Largest number of epochs.
        early_stopping: Whether to hold out rows, and to stop when their loss no longer improves.
        validation_fraction: The share of rows of each class to hold out. If that is fewer than 10
            rows, none are held out, and training takes ``max_iter`` epochs.
        n_iter_no_change: Number of epochs without improvement after which to stop.
        random_state: The seed of all randomness. Global generators are not used.
        verbose: Whether to print a line for every epoch.

    Attributes:
        classes_: The labels, sorted.
        members_: The trained networks, each with its likelihood and its history.
        n_iter_: Largest number of epochs that a network was trained for.
        seed_: The seed taken from ``random_state``.
        n_features_in_: D.
        feature_names_in_: The columns of a data frame.
    """

    _numeric = False
    classes_: Array

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue training with one pass over more rows.

        The first call fixes the scaling of the inputs from its rows, unless `fit` did. Nothing is
        held out.

        Args:
            X: More rows `(N, D)`.
            y: Their labels.
            classes: All labels that can occur; for the first call.
            sample_weight: Weight of each row, `(N,)`.
        """
        return self._partial_fit(X, y, sample_weight, self._all_classes(classes))

    def predict(self, X: Any) -> Array:
        """Return the likeliest label of each row, `(B,)`."""
        numbers = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[numbers])

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities in the order of `classes_`, `(B, K)`: the mean over draws."""
        return np.concatenate([part.mean.numpy() for part in self._draw(X)])

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution of the index of the class in `classes_`.

        It has `mean`, the probabilities; `entropy`; and its parts `mutual_information` (epistemic)
        and `expected_entropy` (label noise). dubio's calibration, metrics and deferral accept it.
        Its values are tensors.

        Args:
            X: Rows `(B, D)`.
        """
        return self._predict(self._standard_inputs(X))

    def _all_classes(self, classes: ArrayLike | None) -> Array | None:
        """Return the classes of the first call of `partial_fit`; later calls may leave them out."""
        known: Array | None = getattr(self, "classes_", None)
        given = None if classes is None else np.unique(np.asarray(classes))
        if known is None and given is None:
            raise ValueError(
                "classes: expected all labels in the first call of partial_fit, got None; pass "
                "np.unique of all labels that will come"
            )
        if known is not None and given is not None and not np.array_equal(known, given):
            raise ValueError(
                f"classes: expected {known.tolist()} as in the first call, got {given.tolist()}; "
                "leave them out from the second call on, or call fit to begin anew"
            )
        return given if known is None else known

    def _learn_targets(self, y: Array, weights: Array | None, classes: Array | None) -> None:
        check_classification_targets(y)
        self.classes_ = np.unique(y) if classes is None else classes
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: expected at least 2 classes, got {len(self.classes_)} class, "
                f"{self.classes_.tolist()}; add rows of another class"
            )

    def _standard_targets(self, y: Array, dtype: np.dtype[Any]) -> Tensor:
        numbers = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[numbers] != y
        if unknown.any():
            raise ValueError(
                f"y: expected labels among {self.classes_.tolist()}, got "
                f"{np.unique(y[unknown]).tolist()}; name all of them in the first call"
            )
        return torch.from_numpy(numbers)

    def _likelihood(self, dtype: torch.dtype) -> Likelihood:
        return Categorical()

    @property
    def _outputs(self) -> int:
        return len(self.classes_)
