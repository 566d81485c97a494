"""The base class of the autoencoders: training, draws and files."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend.arguments import Check, number, one_of, whole
from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.evaluate import evaluate
from dubio.recommend.histories import content
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.masks_by_name import MakeMask, mask_name, mask_of_setting, mask_setting
from dubio.recommend.output import Precision
from dubio.recommend.rates import RateEstimator
from dubio.recommend.recommender import Recommender
from dubio.recommend.sparse import SparseRows
from dubio.recommend.storage import take
from dubio.recommend.training import TrainingEpoch, TrainingRun, train
from dubio.recommend.training_plan import ScheduleName, TrainingPlan
from dubio.recommend.validation import check_validation
from dubio.recommend.variational import VariationalNetwork
from dubio.recommend.weights import initialise

AutoencoderNetwork: TypeAlias = VariationalNetwork | DenoisingNetwork

AUTOENCODER_CHECKS = {
    "hidden": whole(1),
    "drop": number(above=0, below=1, advice="0.5 is common, and mask=None is without"),
    "estimator": one_of(*get_args(RateEstimator)),
    "weight_decay": number(least=0, advice="0 is without"),
}
_METRIC = "ndcg@100"


class Autoencoder(Recommender, ABC):
    """A recommender that encodes a history and decodes it into scores of all items.

    Attributes:
        history: The epochs of the training; saved.
        best_epoch: The epoch whose weights the model has; None without validation.
    """

    _checks: ClassVar[Mapping[str, Check]] = AUTOENCODER_CHECKS
    stochastic = True
    probabilities = True
    mask: MakeMask | None
    beta: float | str = 0.0
    anneal: int = 0
    weight_decay: float = 0.0
    _network: AutoencoderNetwork
    history: tuple[TrainingEpoch, ...] = ()
    best_epoch: TrainingEpoch | None = None

    @abstractmethod
    def _build(self, items: int, users: int) -> AutoencoderNetwork:
        """Return a network whose weights are still to be set."""

    def fit(
        self,
        user_items: Any,
        validation: tuple[Any, Any] | None = None,
        *,
        epochs: int = 100,
        batch_size: int = 500,
        learning_rate: float = 1e-3,
        rate_learning_rate: float = 1e-2,
        schedule: ScheduleName = "constant",
        precision: Precision = "float32",
        patience: int = 20,
        seed: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        save_every: float = 60.0,
        progress: bool = True,
    ) -> Self:
        """Train on histories with Adam.

        The same seed gives the same weights, bit for bit, on the same machine with the same number
        of threads. A killed run with a ``checkpoint`` that is called again in the same way ends
        with the same weights as an uninterrupted one. After a `KeyboardInterrupt` the model has the
        best weights so far. After any other error it is unchanged.

        Args:
            user_items: Users × items, a scipy sparse matrix; see `histories`.
            validation: Fold-in and held-out items of users, both users × items. After every epoch
                the model recommends from the former, without noise, and the weights with the
                highest NDCG@100 on the latter are kept.
            epochs: Largest number of passes over the users.
            batch_size: Users per step.
            learning_rate: Learning rate of Adam.
            rate_learning_rate: Learning rate of Adam for the rates of a learned mask.
            schedule: ``"constant"``, or ``"cosine"``: learning rates fall to 0 over all epochs.
            precision: Of the products with the last layer: ``"bfloat16"`` is about twice as fast on
                processors that support it, and slow on others.
            patience: Epochs without a better validation after which to stop.
            seed: Seed of the initial weights, the order of users and all noise.
            checkpoint: File to save the run to, and to resume from if it exists.
            save_every: Seconds between saves; the run is also saved at the beginning, at the end,
                and before a `KeyboardInterrupt` or SIGTERM is passed on.
            progress: Whether to show a progress bar, on a terminal.
        """
        given = self._training_data(user_items)
        users, items = given.shape
        checked = None if validation is None else check_validation(given, validation)
        if checked is not None and self.knows_users and checked[0].shape[0] != users:
            raise ValueError(
                f"validation: expected the {users} users of user_items in the same order, got "
                f"{checked[0].shape[0]} rows; {type(self).__name__} has a vector for each user and "
                "cannot be validated on others: hold back items instead (recommend.by_ratio)"
            )
        if self.beta == "validate" and checked is None:
            raise ValueError(
                "validation: expected fold-in and held-out items, which choose β with "
                "beta='validate', got none; give parts.validation, or a number for beta"
            )
        plan = TrainingPlan(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            rate_learning_rate=rate_learning_rate,
            schedule=schedule,
            precision=precision,
            weight_decay=self.weight_decay,
            patience=patience,
            beta=self._largest_beta(),
            anneal=self.anneal,
            seed=seed,
        )
        network = self._new_network(items, users)
        initialise(network, torch.Generator().manual_seed(plan.seed))
        self._start(network, given, plan.seed)
        run = TrainingRun(network, given, plan, self._about(checked))
        trained = copy(self)  # this model stays as it is until the training has succeeded
        trained._items, trained._network, trained._catalogue = items, network, None
        try:
            train(
                run,
                validate=None if checked is None else lambda: trained._validate(*checked),
                checkpoint=None if checkpoint is None else Path(checkpoint),
                save_every=save_every,
                progress=progress,
            )
        except (KeyboardInterrupt, SystemExit):
            if run.has_begun:
                self._take_over(network, run, items)
            raise
        self._take_over(network, run, items)
        return self

    def _take_over(self, network: AutoencoderNetwork, run: TrainingRun, items: int) -> None:
        self._network = network
        self.history, self.best_epoch = tuple(run.history), run.best
        self._learnt(items)

    def _about(self, validation: tuple[csr_array, csr_array] | None) -> dict[str, Any]:
        """Return what identifies a run, besides its plan and data."""
        return {
            "model": type(self).__name__,
            **self._arguments(),
            "mask": mask_name(self.mask),
            "validation": None if validation is None else " ".join(map(content, validation)),
        }

    def _new_network(self, items: int, users: int) -> AutoencoderNetwork:
        """In float32, whatever torch's default is."""
        return self._build(items, users).float()

    def _start(self, network: Any, user_items: csr_array, seed: int) -> None:
        """Initialise the parameters that depend on data."""

    @property
    def keep(self) -> npt.NDArray[np.float32]:
        """The probability of keeping each item of a history, (I,); learned or fixed."""
        _ = self.num_items  # fitted?
        mask = self._network.input.mask
        keep = torch.ones(1) if mask is None else mask.keep.detach()
        return np.asarray(keep.expand(self.num_items).numpy())

    def _largest_beta(self) -> float:
        if self.beta == "validate":
            return 1.0
        if isinstance(self.beta, str):
            raise ValueError(f"beta: expected a number or 'validate', got {self.beta!r}; try 0.2")
        return self.beta

    def _validate(self, fold_in: csr_array, held_out: csr_array) -> float:
        users = np.arange(fold_in.shape[0])
        return evaluate(self, fold_in, held_out, [_METRIC], draws=0, users=users)[_METRIC]

    def _scores(self, histories: csr_array, seeds: Seeds | None) -> Tensor:
        return self._scores_of(SparseRows.of(histories), seeds)

    def _scores_of(self, rows: SparseRows, seeds: Seeds | None) -> Tensor:
        network = self._network
        return network.scores(rows, None if seeds is None else network.noise_of_draw(rows, seeds))

    def _embed(self, histories: csr_array) -> Tensor:
        return self._network.embed(SparseRows.of(histories))

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        return {**settings, "mask": mask_setting(settings["mask"])}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(**{**settings, "mask": mask_of_setting(settings["mask"])})

    def _notes(self) -> dict[str, Any]:
        best = None if self.best_epoch is None else self.best_epoch.epoch
        history = [asdict(epoch) for epoch in self.history]
        return {**super()._notes(), "history": history, "best_epoch": best}

    def _set_notes(self, notes: dict[str, Any]) -> None:
        super()._set_notes(notes)
        self.history = tuple(TrainingEpoch(**epoch) for epoch in notes.get("history", ()))
        best = notes.get("best_epoch")
        self.best_epoch = None if best is None else self.history[best - 1]

    def _state(self) -> dict[str, Tensor]:
        return self._network.state_dict()

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._network = self._new_network(self._items, len(tensors.get("users", ())))
        state = self._network.state_dict()
        found = {name: take(tensors, name, tuple(state[name].shape)) for name in state}
        self._network.load_state_dict(found)
