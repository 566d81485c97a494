"""Predictions without noise, with draws, and both calibrated."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

from dubio.calibrate import PrecisionScaling, TemperatureScaling
from dubio.evaluation.datasets import Data
from dubio.evaluation.errors import EvaluationError, explained, first_sentence
from dubio.likelihoods import Likelihood
from dubio.noise import inputs
from dubio.noise.generators import unmoved
from dubio.noise.numbers import mix
from dubio.predict import predict
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.predictive.validation import from_logs, log_mean
from dubio.report.progress import Progress

Predictions = dict[str, Predictive]
Bounds = tuple[float, float]
Calibration = TemperatureScaling | PrecisionScaling


@final
class DatasetPredictor:
    """Predicts data with a network, batch by batch.

    ``plain`` is one pass in eval mode without noise, what the network says by itself; ``draws`` is
    the predictive distribution. Once there are calibrations, both come calibrated as well.

    Args:
        network: The network; it is put into eval mode.
        likelihood: What its outputs mean.
        draws: Number of stochastic passes.
        batch_size: Rows at a time.
        seed: Of all noise.
    """

    def __init__(
        self, network: nn.Module, likelihood: Likelihood, draws: int, batch_size: int, seed: int
    ) -> None:
        self.likelihood = likelihood
        self.draws = draws
        self.calibrations: dict[str, Calibration] = {}
        self.bounds: dict[str, Bounds] = {}
        self._network = network.eval()
        self._batch_size = batch_size
        self._seed = seed
        kinds = (tensor.dtype for tensor in network.parameters() if tensor.is_floating_point())
        self._dtype = next(kinds, torch.get_default_dtype())

    def ask(self, data: Data, stream: int) -> Iterator[tuple[Predictions, Tensor | None]]:
        """Answers to every batch, with its targets in the form that the likelihood takes.

        Args:
            data: What is asked about.
            stream: A number of its own for all that is asked about, so that noise is independent.
        """
        generator = torch.Generator().manual_seed(mix(self._seed, stream))
        with Progress(data.name, len(data)) as progress:
            for x, y in data.batches(self._batch_size):
                x = x.to(self._dtype) if x.is_floating_point() else x
                plain = self._pass(x, data)
                with explained(data.name):
                    answers = {
                        "plain": Predictive(self.likelihood, StoredDraws(plain.unsqueeze(0))),
                        "draws": predict(
                            self._network, x, draws=self.draws, likelihood=self.likelihood,
                            generator=generator,
                        ),
                    }  # fmt: skip
                    self._check(answers["plain"])
                    calibrated = {
                        f"{name}_calibrated": calibration(answers[name])
                        for name, calibration in self.calibrations.items()
                    }
                    targets = None if y is None else self._targets(y, answers["plain"])
                yield answers | calibrated, targets
                progress.advance(len(x))

    def calibrate(self, data: Data) -> None:
        """Fit temperatures, or factors on the precision, on validation data.

        Its smallest and largest entropies become ``bounds``, which PAvgPU goes by.
        """
        outputs: dict[str, list[Tensor]] = {}
        targets: list[Tensor] = []
        for answers, y in self.ask(data, stream=0):
            for name, p in answers.items():
                kept = log_mean(p) if self.likelihood.discrete else p.draws
                outputs.setdefault(name, []).append(kept)
            targets.append(need_targets(y, data))
        for name, parts in outputs.items():
            with explained(f"{data.name}, {name}"):
                if self.likelihood.discrete:
                    p = from_logs(self.likelihood, torch.cat(parts))
                    temperature = TemperatureScaling().fit(p, torch.cat(targets))
                    self.calibrations[name] = temperature
                    self.bounds[name] = _entropy_range(p)
                    self.bounds[f"{name}_calibrated"] = _entropy_range(temperature(p))
                else:
                    p = Predictive(self.likelihood, StoredDraws(torch.cat(parts, dim=1)))
                    self.calibrations[name] = PrecisionScaling().fit(p, torch.cat(targets))

    def _pass(self, x: Tensor, data: Data) -> Tensor:
        try:
            with torch.no_grad(), unmoved():
                torch.manual_seed(self._seed)  # for noise that eval mode does not switch off
                return inputs.choose(self._network(x.clone()), None)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise EvaluationError(
                f"{data.name}: expected inputs that the network takes, got x of shape "
                f"{tuple(x.shape)} and {x.dtype}, with which it fails ({first_sentence(error)}); "
                "check shape and type, or reshape x in the network"
            ) from error

    def _check(self, p: Predictive) -> None:
        discrete, shape = p.likelihood.discrete, p.mean.shape
        if discrete and p.likelihood.labels(p.mean).shape != shape and len(shape) != 2:
            raise ValueError(
                f"expected scores of classes (batch, classes) from the network, got shape "
                f"{tuple(shape)}; score maps of pixels with dubio.metrics"
            )

    def _targets(self, y: Tensor, p: Predictive) -> Tensor:
        """Return labels as integers, numbers as floats, with a column for one output."""
        if p.likelihood.discrete and y.is_floating_point():
            raise ValueError(
                f"expected integer labels y, got {y.dtype}; save them as integers, or choose a "
                "Gaussian likelihood for numbers"
            )
        wanted = p.likelihood.labels(p.mean) if p.likelihood.discrete else p.mean
        y = y.long() if p.likelihood.discrete else y.to(p.mean.dtype)
        return y.unsqueeze(-1) if wanted.shape == (*y.shape, 1) else y


def _entropy_range(p: Predictive) -> Bounds:
    low, high = p.entropy.aminmax()
    return float(low), float(high)


def need_targets(y: Tensor | None, data: Data) -> Tensor:
    """Return the targets, or an error if there are none."""
    if y is None:
        raise EvaluationError(f"{data.name}: expected targets y beside x, got none; add them")
    return y
