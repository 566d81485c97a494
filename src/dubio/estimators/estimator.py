"""Shared code of the estimators: parameters, training and draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from dubio.estimators.methods import METHODS, Method, make_stochastic, uses_dropout
from dubio.estimators.mlp import ACTIVATIONS, Activation, mlp
from dubio.estimators.parameters import (
    check_choice,
    check_count,
    check_flag,
    check_layers,
    check_module,
    check_number,
)
from dubio.estimators.scaling import Scaling
from dubio.estimators.seeds import RandomSeed, SeedUse, seed_of, seeded, stream
from dubio.estimators.splitting import LabelledRows, split
from dubio.estimators.training import Member, TrainingBudget, new_member, train, train_further
from dubio.likelihoods import Likelihood
from dubio.predict import predict
from dubio.predictive.predictive import Predictive

ModuleFactory = Callable[[int, int], nn.Module]
Array = NDArray[Any]

_BLOCK = 8192  # rows that are predicted at a time


class DropoutEstimator(BaseEstimator, ABC):
    """Networks trained on a table in standard units."""

    _numeric: ClassVar[bool]  # whether targets are numbers, one or several for a row
    members_: list[Member]

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | int = (100, 100),
        activation: Activation = "relu",
        *,
        method: Method = "mc",
        module: ModuleFactory | None = None,
        drop: float = 0.1,
        members: int = 5,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.method = method
        self.module = module
        self.drop = drop
        self.members = members
        self.draws = draws
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _learn_targets(self, y: Array, weights: Array | None, classes: Array | None) -> None:
        """Take the units from the targets of the first rows, or the classes if none are given."""

    @abstractmethod
    def _standard_targets(self, y: Array, dtype: np.dtype[Any]) -> Tensor:
        """Return targets as a network learns them."""

    @abstractmethod
    def _likelihood(self, dtype: torch.dtype) -> Likelihood:
        """Return a likelihood for a new member."""

    def _look_at(self, held_out: LabelledRows) -> None:
        """Fit what training cannot, on held-out rows."""

    @property
    @abstractmethod
    def _outputs(self) -> int:
        """How many numbers a network gives for a row."""

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on a table, from scratch.

        Args:
            X: Rows `(N, D)`: an array or a data frame of numbers.
            y: Their targets.
            sample_weight: Weight of each row, `(N,)`: a row of weight 2 counts twice, one of weight
                0 not at all.
        """
        self._check_parameters()
        table, targets, weights = self._read(X, y, sample_weight, first=True)
        self._start(table, targets, weights, None)
        rows = self._rows(table, targets, weights)
        groups = rows.y.numpy() if rows.y.ndim == 1 else np.zeros(len(rows))
        fraction = self.validation_fraction if self.early_stopping else 0.0
        rng = np.random.default_rng(stream(self.seed_, SeedUse.SPLIT))
        learned, held_out = split(groups, fraction, rng)
        plan = self._plan(len(learned))
        for member in self.members_:
            train(member, rows[learned], rows[held_out], plan)
        self.n_iter_ = max(len(member.history) for member in self.members_)
        if len(held_out) > 0:
            self._look_at(rows[held_out])
        return self

    def _partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, classes: Array | None = None
    ) -> Self:
        """Train for one pass over more rows; the first call may pass classes."""
        first = not hasattr(self, "members_")
        self._check_parameters()
        table, targets, weights = self._read(X, y, sample_weight, first=first)
        if first:
            self._start(table, targets, weights, classes)
            self.n_iter_ = 0
        rows = self._rows(table, targets, weights)
        plan = self._plan(len(rows))
        for member in self.members_:
            train_further(member, rows, plan)
        self.n_iter_ += 1
        return self

    def _check_parameters(self) -> None:
        check_layers("hidden_layer_sizes", self.hidden_layer_sizes)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("method", self.method, METHODS)
        check_module(self.module)
        check_number("drop", self.drop, 0, 1, "it is the share of units to drop, such as 0.1")
        check_count("members", self.members, "an ensemble of 5 is common")
        check_count("draws", self.draws, "100 are common")
        check_number(
            "learning_rate_init", self.learning_rate_init, 0, np.inf, "0.001 is a common choice"
        )
        if not (isinstance(self.batch_size, str) and self.batch_size == "auto"):
            check_count("batch_size", self.batch_size, "or say 'auto'")
        check_count("max_iter", self.max_iter, "it is the number of epochs, at most")
        check_flag("early_stopping", self.early_stopping)
        check_number(
            "validation_fraction", self.validation_fraction, 0, 1, "0.1 holds a tenth of rows out"
        )
        check_count("n_iter_no_change", self.n_iter_no_change, "it is a number of epochs")
        if not isinstance(self.verbose, bool):
            check_count("verbose", self.verbose, "True reports every epoch", least=0)

    def _read(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, first: bool
    ) -> tuple[Array, Array, Array | None]:
        """Table, targets and weights as arrays, without the rows that do not count."""
        table, targets = validate_data(
            self,
            X,
            y,
            reset=first,
            dtype=[np.float64, np.float32],
            order="C",
            multi_output=self._numeric,
            y_numeric=self._numeric,
        )
        if sample_weight is None:
            return table, targets, None
        weights = _check_sample_weight(sample_weight, table, dtype=table.dtype)
        if (weights < 0).any() or not weights.any():
            raise ValueError(
                "sample_weight: expected counts >= 0 that are not all zero, got "
                f"{weights.min():g} to {weights.max():g}; leave out rows that do not count"
            )
        counts = weights > 0
        return table[counts], targets[counts], weights[counts]

    def _start(
        self, table: Array, targets: Array, weights: Array | None, classes: Array | None
    ) -> None:
        """Scales, seeds and new networks."""
        self.seed_ = seed_of(self.random_state)
        self._learn_targets(targets, weights, classes)
        self._inputs = Scaling.of(table, weights)
        self._dtype = table.dtype
        example = self._inputs.scaled(table[:2])
        self.members_ = [
            self._new_member(number, example)
            for number in range(self.members if self.method == "ensemble" else 1)
        ]

    def _new_member(self, number: int, example: Tensor) -> Member:
        with seeded(stream(self.seed_, SeedUse.WEIGHTS, number)):
            network = self._build(example.shape[1]).to(example.dtype)
            self._check_outputs(network, example)
            network = make_stochastic(network, self.method, example).to(example.dtype)
        likelihood = self._likelihood(example.dtype)
        return new_member(network, likelihood, number, self.learning_rate_init)

    def _build(self, features: int) -> nn.Module:
        """Return a plain network, before any method."""
        if self.module is None:
            return mlp(
                features,
                self._outputs,
                hidden=check_layers("hidden_layer_sizes", self.hidden_layer_sizes),
                activation=self.activation,
                drop=self.drop if uses_dropout(self.method) else 0.0,
            )
        network = self.module(features, self._outputs)
        if not isinstance(network, nn.Module):
            raise TypeError(
                f"module: expected a function that returns an nn.Module, got {network!r} from it; "
                "return the network"
            )
        return network

    def _check_outputs(self, network: nn.Module, example: Tensor) -> None:
        with torch.no_grad():
            found = network.eval()(example)
        network.train()
        expected = len(example), self._outputs
        if not isinstance(found, Tensor) or found.shape != expected:
            what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"module: expected outputs of shape {expected} for {len(example)} rows, got "
                f"{what}; the second argument of the function is how many numbers to give a row"
            )

    def _rows(self, table: Array, targets: Array, weights: Array | None) -> LabelledRows:
        return LabelledRows(
            self._inputs.scaled(table.astype(self._dtype, copy=False)),
            self._standard_targets(targets, self._dtype),
            None if weights is None else torch.from_numpy(weights.astype(self._dtype)),
        )

    def _plan(self, rows: int) -> TrainingBudget:
        size = self.batch_size if self.batch_size != "auto" else min(max(32, rows // 50), 256)
        report = None
        if self.verbose:
            report = lambda line: print(f"[{type(self).__name__}] {line}")  # noqa: E731
        return TrainingBudget(self.max_iter, int(size), self.n_iter_no_change, self.seed_, report)

    def _draw(self, X: Any) -> Iterator[Predictive]:
        """Yield the predictions of the networks in standard units, some rows at a time."""
        for part in self._standard_inputs(X).split(_BLOCK):
            yield self._predict(part)

    def _standard_inputs(self, X: Any) -> Tensor:
        """Return rows as the networks take them, `(B, D)`."""
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], order="C")
        return self._inputs.scaled(table.astype(self._dtype, copy=False))

    def _predict(self, x: Tensor) -> Predictive:
        """Return the prediction of all networks for some rows, in standard units."""
        return predict(
            [member.network for member in self.members_],
            x,
            draws=self.draws,
            likelihood=[member.likelihood for member in self.members_],
            shared=True,
            generator=stream(self.seed_, SeedUse.PREDICTION),
        )
