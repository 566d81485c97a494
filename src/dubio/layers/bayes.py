"""Layers with distributions on their weights, by the names of the layers of torch."""

from typing import Any, ClassVar, final

from torch import nn

from dubio.layers.bayesian import Bayesian, Sampler
from dubio.priors import Gaussian, Prior


class BayesianOf(Bayesian):
    """A torch layer with random weights, made from that layer's arguments.

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
    """`nn.Linear` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.Linear


@final
class BayesConv1d(BayesianOf):
    """`nn.Conv1d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.Conv1d


@final
class BayesConv2d(BayesianOf):
    """`nn.Conv2d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.Conv2d


@final
class BayesConv3d(BayesianOf):
    """`nn.Conv3d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.Conv3d


@final
class BayesConvTranspose1d(BayesianOf):
    """`nn.ConvTranspose1d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.ConvTranspose1d


@final
class BayesConvTranspose2d(BayesianOf):
    """`nn.ConvTranspose2d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.ConvTranspose2d


@final
class BayesConvTranspose3d(BayesianOf):
    """`nn.ConvTranspose3d` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.ConvTranspose3d


@final
class BayesEmbedding(BayesianOf):
    """`nn.Embedding` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.Embedding


@final
class BayesLSTM(BayesianOf):
    """`nn.LSTM` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.LSTM


@final
class BayesGRU(BayesianOf):
    """`nn.GRU` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.GRU


@final
class BayesRNN(BayesianOf):
    """`nn.RNN` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.RNN


@final
class BayesMultiheadAttention(BayesianOf):
    """`nn.MultiheadAttention` with random weights, made from its arguments; see `Bayesian`."""

    made = nn.MultiheadAttention
