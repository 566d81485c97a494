"""Layers with distributions on their weights, by the names of the layers of torch."""

from typing import Any, ClassVar, final

from torch import nn

from dubio.layers.bayesian import Bayesian, Sampler
from dubio.priors import Gaussian, Prior


class BayesianOf(Bayesian):
    """Makes a layer of torch, by the arguments of that layer, with random weights.

    Attributes:
        made: The class of the layer.
    """

    made: ClassVar[type[nn.Module]]

    def __init__(
        self,
        *args: Any,
        prior: Prior = Gaussian(1.0),  # noqa: B008  (an immutable value)
        sampler: Sampler = "weights",
        deviation: float = 0.01,
        **options: Any,
    ) -> None:
        layer = self.made(*args, **options)
        super().__init__(layer, prior=prior, sampler=sampler, deviation=deviation)


@final
class BayesLinear(BayesianOf):
    """`nn.Linear`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.Linear


@final
class BayesConv1d(BayesianOf):
    """`nn.Conv1d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.Conv1d


@final
class BayesConv2d(BayesianOf):
    """`nn.Conv2d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.Conv2d


@final
class BayesConv3d(BayesianOf):
    """`nn.Conv3d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.Conv3d


@final
class BayesConvTranspose1d(BayesianOf):
    """`nn.ConvTranspose1d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.ConvTranspose1d


@final
class BayesConvTranspose2d(BayesianOf):
    """`nn.ConvTranspose2d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.ConvTranspose2d


@final
class BayesConvTranspose3d(BayesianOf):
    """`nn.ConvTranspose3d`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.ConvTranspose3d


@final
class BayesEmbedding(BayesianOf):
    """`nn.Embedding`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.Embedding


@final
class BayesLSTM(BayesianOf):
    """`nn.LSTM`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.LSTM


@final
class BayesGRU(BayesianOf):
    """`nn.GRU`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.GRU


@final
class BayesRNN(BayesianOf):
    """`nn.RNN`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.RNN


@final
class BayesMultiheadAttention(BayesianOf):
    """`nn.MultiheadAttention`, by its arguments, with random weights: see `Bayesian`."""

    made = nn.MultiheadAttention
