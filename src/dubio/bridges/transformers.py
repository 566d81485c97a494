"""Hugging Face's Trainer with an ELBO as its loss."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, PredictionOutput

from dubio.bridges.objective import check_num_data, check_objective, mean_nll, progress
from dubio.objectives.elbo import ELBO
from dubio.predict import predict
from dubio.predictive.predictive import Predictive

Metric = Callable[[Predictive, Tensor], Tensor | float]


class ELBOTrainer(Trainer):
    """A `transformers.Trainer` that minimises a `dubio.ELBO`.

    Batches are dicts, as Transformers makes them: ``labels`` are the targets, all else are the
    arguments of the network. The loss of a batch is the ELBO per row, so that the KL counts
    once for all rows of the training set, however batches are cut, accumulated or spread over
    processes. Labels of −100 do not count if the likelihood says so: ``Categorical(void=-100)``;
    then ``num_data`` is the number of rows with a label.

    Evaluation and prediction draw from the predictive distribution, with the same seed every time;
    ``eval_loss`` is the mean of −log p(y | x) of the mixture over draws, by which
    ``load_best_model_at_end`` chooses unless told otherwise. `predict` has a `dubio.Predictive`
    for its ``predictions``. Logs have ``nll``, ``kl`` and ``rate/…`` of learned masks beside
    ``loss``.

    What is saved is the state of the objective: the network, a likelihood that learns, and the step
    of a KL schedule. A run that is resumed from a checkpoint goes on with the same numbers.

    Args:
        elbo: The objective, mostly with ``select="logits"``.
        args: Training arguments, as for `transformers.Trainer`.
        draws: Passes for every row in evaluation and prediction.
        metrics: More metrics for evaluation by name: functions of a `dubio.Predictive` and labels,
            such as those of `dubio.metrics`.
        **options: Other arguments of `transformers.Trainer`, such as ``train_dataset``.
    """

    _signature_columns: list[str] | None

    def __init__(
        self,
        elbo: ELBO,
        args: TrainingArguments | None = None,
        *,
        draws: int = 20,
        metrics: Mapping[str, Metric] | None = None,
        **options: Any,
    ) -> None:
        check_objective(elbo)
        _check_options(options)
        if args is not None and args.gradient_checkpointing:
            raise ValueError(
                "args: expected gradient_checkpointing=False, got True, which would draw other "
                "noise for the gradient than for the loss; leave it out"
            )
        super().__init__(model=elbo, args=args, compute_metrics=self._score, **options)
        if self.args.n_gpu > 1:
            raise ValueError(
                f"args: expected one device for each process, got {self.args.n_gpu}, for which "
                f"Trainer would copy the objective; start a process for each with torchrun"
            )
        self.elbo = elbo
        self.label_names = self.args.label_names or ["labels"]
        if len(self.label_names) > 1:
            raise ValueError(
                f"args: expected one of label_names, got {self.label_names}; join the targets in "
                f"one column, or write a likelihood for them"
            )
        self._draws = draws
        self._metrics = dict(metrics or {})
        self._nlls: list[Tensor] = []  # since the last entry of the log

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the loader of Trainer, if the objective knows how many rows there are."""
        if hasattr(self.train_dataset, "__len__"):
            check_num_data(self.elbo, len(self.train_dataset))
        loader: DataLoader[Any] = super().get_train_dataloader()
        return loader

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the ELBO of a batch."""
        x, y = self._split(inputs)
        if y is None:
            raise ValueError(
                f"inputs: expected {self.label_names[0]!r} among them, got {sorted(inputs)}; name "
                f"the column of the targets in TrainingArguments(label_names=[…])"
            )
        loss: Tensor = model(x, y)
        self._nlls.append(self.elbo.nll)
        return loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log also the parts of the loss and the rates."""
        if "loss" in logs and self._nlls:
            found = progress(self.elbo) | {"nll": torch.stack(self._nlls).mean()}
            logs = logs | {name: float(value) for name, value in found.items()}
            self._nlls.clear()
        super().log(logs, *args, **kwargs)

    def predict(
        self,
        test_dataset: Dataset[Any],
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
    ) -> PredictionOutput:
        """Return the predictive distribution of a data set, and metrics if it has labels.

        Returns:
            A tuple of predictions, which are a `dubio.Predictive`, label_ids and metrics.
        """
        found = super().predict(test_dataset, ignore_keys, metric_key_prefix)
        return found._replace(predictions=self._predictive(found.predictions))

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Run Trainer's loop with the same noise every time, apart from that of training."""
        seed = self.args.seed + self.args.process_index
        self._generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):  # a loader draws a seed
            return super().evaluation_loop(*args, **kwargs)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: Mapping[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[None, Tensor, Tensor | None]:
        """Return the draws of a batch, draws last, since Trainer joins along the first two axes."""
        x, y = self._split(self._prepare_inputs(inputs))
        with self.accelerator.autocast():
            p = predict(
                self.elbo.model,
                x,
                draws=self._draws,
                likelihood=self.elbo.likelihood,
                generator=self._generator,
                select=self.elbo.select,
            )
        return None, p.draws.movedim(0, -1).contiguous(), y  # (B, …, S)

    def _split(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the arguments of the network, and the targets."""
        x = dict(inputs)
        return x, x.pop(self.label_names[0], None)

    def _predictive(self, draws: Any) -> Predictive:  # (B, …, S)
        return Predictive.from_draws(
            self.elbo.likelihood, torch.as_tensor(draws).movedim(-1, 0).cpu()
        )

    def _score(self, found: EvalPrediction) -> dict[str, float]:
        p, y = self._predictive(found.predictions), torch.as_tensor(found.label_ids)
        return {
            "loss": float(mean_nll(p, y)),
            **{name: float(metric(p, y)) for name, metric in self._metrics.items()},
        }

    def _save(
        self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None
    ) -> None:
        """Save a copy of each tensor that shares memory, such as tied weights."""
        super()._save(output_dir, _apart(state_dict or self.elbo.state_dict()))

    def _set_signature_columns_if_needed(self) -> None:
        """Columns of a data set that matter are those that the network takes, and the targets."""
        if self._signature_columns is None:
            network: Any = self.elbo.model
            network = network.get_base_model() if hasattr(network, "get_base_model") else network
            taken = inspect.signature(network.forward).parameters
            self._signature_columns = [*taken, "label", "label_ids", *self.label_names]


def _check_options(options: Mapping[str, Any]) -> None:
    instead = {
        "model": "the network is in the ELBO",
        "compute_loss_func": "the ELBO is the loss",
        "compute_metrics": "pass metrics={name: function of a Predictive and labels}",
        "model_init": "make an ELBO for every trial",
    }
    for name, advice in instead.items():
        if name in options:
            raise TypeError(f"{name}: expected none with an ELBO, got one; {advice}")


def _apart(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state without shared memory, which safetensors refuses."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in state.items():
        home = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if home in seen else tensor.contiguous()
        seen.add(home)
    return apart
