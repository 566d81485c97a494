"""What the autoencoders have in common: training, draws and files."""

from abc import ABC, abstractmethod
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from dubio.recommend.denoising import DenoisingNetwork
from dubio.recommend.evaluate import evaluate
from dubio.recommend.histories import histories
from dubio.recommend.keyed_noise import Seeds
from dubio.recommend.masks_by_name import MakeMask, mask_of_setting, mask_setting
from dubio.recommend.output import Precision
from dubio.recommend.recommender import Recommender
from dubio.recommend.sparse import SparseRows
from dubio.recommend.storage import take
from dubio.recommend.training import (
    Schedule,
    TrainingEpoch,
    TrainingPlan,
    TrainingRun,
    train,
)
from dubio.recommend.validation import check_validation
from dubio.recommend.variational import VariationalNetwork
from dubio.recommend.weights import initialise

_METRIC = "ndcg@100"


class Autoencoder(Recommender, ABC):
    """Encodes a history and decodes it into scores of all items.

    Attributes:
        history: The epochs of the training.
        best_epoch: That of the weights; None without validation.
    """

    stochastic = True
    probabilities = True
    mask: MakeMask | None
    beta: float | str = 0.0
    anneal: int = 0
    weight_decay: float = 0.0
    _network: VariationalNetwork | DenoisingNetwork
    history: tuple[TrainingEpoch, ...] = ()
    best_epoch: TrainingEpoch | None = None

    @abstractmethod
    def _build(self, items: int, users: int) -> VariationalNetwork | DenoisingNetwork:
        """A network whose weights are still to be set."""

    def fit(
        self,
        user_items: Any,
        validation: tuple[Any, Any] | None = None,
        *,
        epochs: int = 100,
        batch_size: int = 500,
        learning_rate: float = 1e-3,
        rate_learning_rate: float = 1e-2,
        schedule: Schedule = "constant",
        precision: Precision = "float32",
        patience: int = 20,
        seed: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        save_every: float = 60.0,
        progress: bool = True,
    ) -> Self:
        """Train on histories, by Adam.

        The same seed gives the same weights, bit for bit, on the same machine with the same number
        of threads. A run with a ``checkpoint`` that was killed at any moment and is called again in
        the same way ends with the same weights as one that was not. After a `KeyboardInterrupt` the
        model has the best weights so far.

        Args:
            user_items: Users × items, a scipy sparse matrix; see `histories`.
            validation: Fold-in and held-out items of users, both users × items. After every epoch
                the model recommends from the former, without noise, and the weights with the
                highest NDCG@100 on the latter are kept.
            epochs: How often to go through the users, at most.
            batch_size: Users in a step.
            learning_rate: Of Adam.
            rate_learning_rate: That for the rates of a learned mask.
            schedule: ``"constant"``, or ``"cosine"``: learning rates fall to 0 over all epochs.
            precision: Of the products with the last layer: ``"bfloat16"`` is about twice as fast on
                processors with instructions for it, and slow on others.
            patience: Epochs without a better validation after which to stop.
            seed: Of the weights to start from, the order of users and all noise.
            checkpoint: File to save the run to, and to go on from if it exists.
            save_every: Seconds between saves; it is also saved at the beginning, at the end, and
                before a `KeyboardInterrupt` or SIGTERM is passed on.
            progress: Whether to show a bar, on a terminal.
        """
        given = histories(user_items)
        users, items = given.shape
        if given.nnz == 0:
            raise ValueError(
                f"user_items: expected interactions, got shape {given.shape} without any; check "
                "how it was filtered"
            )
        checked = None if validation is None else check_validation(given, *validation)
        if checked is not None and self.knows_users and checked[0].shape[0] != users:
            raise ValueError(
                f"validation: expected the {users} users of user_items in the same order, got "
                f"{checked[0].shape[0]} rows; {type(self).__name__} has a vector for each user and "
                "cannot be validated on others: hold back items instead (recommend.split.by_ratio)"
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
        network = self._build(items, users)
        initialise(network, torch.Generator().manual_seed(seed))
        self._start(network, given, seed)
        run = TrainingRun(network, given, plan)
        self._items, self._network = items, network
        try:
            train(
                run,
                validate=None if checked is None else lambda: self._validate(*checked),
                checkpoint=None if checkpoint is None else Path(checkpoint),
                save_every=save_every,
                progress=progress,
            )
        finally:
            self.history, self.best_epoch = tuple(run.history), run.best
        return self

    def _start(self, network: Any, user_items: csr_array, seed: int) -> None:
        """Set what starts from data."""

    @property
    def keep(self) -> npt.NDArray[np.float32]:
        """The probability of keeping each item of a history, (I,); learned, or as it was given."""
        _ = self.num_items  # fitted?
        mask = self._network.input.mask
        keep = torch.ones(1) if mask is None else mask.keep.detach()
        return np.asarray(keep.expand(self.num_items).numpy())

    def _largest_beta(self) -> float:
        if self.beta == "validate":
            return 1.0
        if isinstance(self.beta, str):
            raise ValueError(f"beta: expected a number or 'validate', got {self.beta!r}.")
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
        return {**super()._settings(), "mask": mask_setting(self.mask)}

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        return cls(**{**settings, "mask": mask_of_setting(settings["mask"])})

    def _state(self) -> dict[str, Tensor]:
        return self._network.state_dict()

    def _set_state(self, tensors: dict[str, Tensor]) -> None:
        self._network = self._build(self._items, len(tensors.get("users", ())))
        state = self._network.state_dict()
        found = {name: take(tensors, name, tuple(state[name].shape)) for name in state}
        self._network.load_state_dict(found)
