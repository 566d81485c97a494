"""Lightning: a module that trains an ELBO, and a callback that logs those of other modules."""

from collections.abc import Callable, Iterator, Sized
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import Adam

from dubio.bridges.objective import check_num_data, check_objective, mean_nll, progress, rates
from dubio.objectives.elbo import ELBO
from dubio.predict import predict
from dubio.predictive.predictive import Predictive

_RANDOM = "dubio_random_state"  # in a checkpoint


class ELBOModule(LightningModule):
    """A `LightningModule` that minimises a `dubio.ELBO`.

    Batches are ``(x, y)``, or ``(x, y, weight)`` to train. ``loss``, ``nll``, ``kl`` and ``rate/…``
    of learned masks are logged in training; ``val_nll`` and ``test_nll`` are the mean of
    −log p(y | x) of the mixture over draws, with the same noise every time. ``trainer.predict``
    gives a `dubio.Predictive` for every batch; `dubio.Predictive.concatenate` joins them.

    Checkpoints hold the state of the objective, with the step of a KL schedule, and torch's random
    state, so that a run that goes on from the end of an epoch draws the same numbers as if it had
    not been interrupted.

    Args:
        elbo: The objective.
        optimizer: Makes what `LightningModule.configure_optimizers` returns, an optimizer or a dict
            with a schedule, from the parameters.
        draws: Passes for every row in validation, test and prediction.
        seed: Of the noise in validation, test and prediction.
    """

    def __init__(
        self,
        elbo: ELBO,
        optimizer: Callable[[Iterator[nn.Parameter]], Any] = Adam,
        *,
        draws: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_objective(elbo)
        self.elbo = elbo
        self.make_optimizer = optimizer
        self.draws = draws
        self.seed = seed
        self._generator = torch.Generator()
        self._random_state: Tensor | None = None

    def forward(self, x: Any) -> Predictive:
        """Return the predictive distribution of a batch."""
        return predict(
            self.elbo.model,
            x,
            draws=self.draws,
            likelihood=self.elbo.likelihood,
            generator=self._generator,
            select=self.elbo.select,
        )

    def configure_optimizers(self) -> Any:
        """Call the given function to make optimizers."""
        return self.make_optimizer(self.elbo.parameters())

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the ELBO of a batch."""
        loss: Tensor = self.elbo(*batch)
        rows = len(batch[1])
        self.log("loss", loss, prog_bar=True, batch_size=rows)
        self.log_dict(progress(self.elbo), batch_size=rows)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Log the NLL of the predictive distribution."""
        self._judge("val_nll", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Log the NLL of the predictive distribution."""
        self._judge("test_nll", batch)

    def predict_step(self, batch: Any, batch_idx: int) -> Predictive:
        """Return the predictive distribution; a pair is taken for inputs and targets."""
        return self.forward(batch[0] if isinstance(batch, list | tuple) else batch)

    def on_train_start(self) -> None:
        """See whether the objective knows how many rows there are."""
        data = getattr(self.trainer.train_dataloader, "dataset", None)
        if isinstance(data, Sized):
            check_num_data(self.elbo, len(data))

    def on_fit_start(self) -> None:
        """Go on with the random numbers of a checkpoint."""
        if self._random_state is not None:
            torch.set_rng_state(self._random_state)
            self._random_state = None

    def on_validation_epoch_start(self) -> None:
        """Fix the noise, the same in every validation."""
        self._generator.manual_seed(self.seed + self.global_rank)

    on_test_epoch_start = on_predict_epoch_start = on_validation_epoch_start

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep torch's random state, too."""
        checkpoint[_RANDOM] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remember the random state until training starts."""
        self._random_state = checkpoint.get(_RANDOM)

    def _judge(self, name: str, batch: Any) -> None:
        x, y = batch[0], batch[1]
        self.log(name, mean_nll(self.forward(x), y), prog_bar=True, batch_size=len(y))


class LogELBO(Callback):
    """Logs ``nll``, ``kl`` and ``rate/…`` of the objectives in a `LightningModule` of your own.

    A module without a `dubio.ELBO`, whose loss is its own, has the rates of its learned masks
    logged. The names of several objectives are put before theirs.
    """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise an error if there is nothing to log."""
        if not _objectives(pl_module) and not rates(pl_module):
            raise ValueError(
                f"LogELBO: expected a LightningModule with a dubio.ELBO or learned masks, got "
                f"{type(pl_module).__name__} with neither; keep the ELBO as an attribute"
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        """Log loss, NLL, KL and rates of the last step."""
        found = _objectives(pl_module)
        if not found:
            pl_module.log_dict(rates(pl_module))
        for name, elbo in found.items():
            prefix = f"{name}/" if len(found) > 1 else ""
            pl_module.log_dict({prefix + key: value for key, value in progress(elbo).items()})


def _objectives(module: nn.Module) -> dict[str, ELBO]:
    return {name: each for name, each in module.named_modules() if isinstance(each, ELBO)}
