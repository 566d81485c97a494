"""Layers with distributions on their weights, by the names of the layers of torch."""

from typing import Any, Protocol

from torch import nn

from dubio.layers.bayesian import Bayesian, Sampler
from dubio.priors import Gaussian, Prior


class BayesianLayer(Protocol):
    """Makes a layer of torch, by the arguments of that layer, and puts it into `Bayesian`."""

    def __call__(
        self,
        *args: Any,
        prior: Prior = ...,
        sampler: Sampler = ...,
        deviation: float = ...,
        **options: Any,
    ) -> Bayesian:
        """The layer, with a distribution on its weights."""
        ...


def _bayesian(layer: type[nn.Module]) -> BayesianLayer:
    def make(
        *args: Any,
        prior: Prior = Gaussian(1.0),  # noqa: B008  (an immutable value)
        sampler: Sampler = "weights",
        deviation: float = 0.01,
        **options: Any,
    ) -> Bayesian:
        return Bayesian(layer(*args, **options), prior=prior, sampler=sampler, deviation=deviation)

    make.__name__ = make.__qualname__ = f"Bayes{layer.__name__}"
    make.__doc__ = f"`nn.{layer.__name__}`, by its arguments, with random weights: see `Bayesian`."
    return make


BayesLinear = _bayesian(nn.Linear)
BayesConv1d = _bayesian(nn.Conv1d)
BayesConv2d = _bayesian(nn.Conv2d)
BayesConv3d = _bayesian(nn.Conv3d)
BayesConvTranspose1d = _bayesian(nn.ConvTranspose1d)
BayesConvTranspose2d = _bayesian(nn.ConvTranspose2d)
BayesConvTranspose3d = _bayesian(nn.ConvTranspose3d)
BayesEmbedding = _bayesian(nn.Embedding)
BayesLSTM = _bayesian(nn.LSTM)
BayesGRU = _bayesian(nn.GRU)
BayesRNN = _bayesian(nn.RNN)
BayesMultiheadAttention = _bayesian(nn.MultiheadAttention)
