"""An exact last layer, conditioned on what an agent remembers."""

from typing import Self, final

import torch
from torch import Tensor, nn

from dubio.decide.experience import Experience
from dubio.layers.exact_linear import ExactLinear
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.modes import sampling_mode
from dubio.noise.run import outside_of_passes

_ROWS = 1024  # that go through a trunk at once


@final
class LastLayer:
    """The `ExactLinear` that a network ends with.

    Args:
        net: The network.
        layer: Its last layer, whose outputs are those of the network.
        by_action: Whether it has a regression for every action; else it has one, and the network
            was given the action.

    Attributes:
        layer: As given.
    """

    def __init__(self, net: nn.Module, layer: ExactLinear, *, by_action: bool) -> None:
        self.layer = layer
        self._net = net
        self._by_action = by_action

    @classmethod
    def of(cls, net: nn.Module, likelihood: RewardOfAction) -> Self | None:
        """Return the last layer of a network if it is an `ExactLinear`; None otherwise."""
        layers = [module for module in net.modules() if isinstance(module, ExactLinear)]
        if not layers:
            return None
        if len(layers) > 1:
            raise ValueError(
                f"net: expected one ExactLinear, the last layer, got {len(layers)}; use "
                "dubio.BayesLinear in other places"
            )
        expected, got = likelihood.actions or 1, layers[0].linear.out_features
        if got != expected:
            raise ValueError(f"net: expected ExactLinear with {expected} actions, got {got}")
        if not _means_are_outputs(likelihood, expected):
            raise ValueError(
                "likelihood: expected one whose mean is the output, such as Gaussian(1.0), since "
                f"ExactLinear is a regression of rewards, got {likelihood.rewards!r}; use another "
                "likelihood, or dubio.BayesLinear"
            )
        return cls(net, layers[0], by_action=likelihood.actions is not None)

    def condition(self, experience: Experience) -> None:
        """Replace its posterior by that of all rows, with their current features."""
        features, targets = [], []
        for places in torch.arange(len(experience)).split(_ROWS):
            x, y = experience.take(places)
            features.append(self._features(x))
            targets.append(y)
        actions, rewards, weights = torch.cat(targets).unbind(1)
        which = actions.long() if self._by_action else torch.zeros_like(actions, dtype=torch.int64)
        self.layer.condition(torch.cat(features), which, rewards, weights)

    def _features(self, x: Tensor) -> Tensor:  # (B, features)
        """Return the layer's inputs, without noise."""
        seen: list[tuple[Tensor, Tensor]] = []
        hook = self.layer.register_forward_hook(
            lambda _, given, output: seen.append((given[0], output))
        )
        try:
            with outside_of_passes(), torch.no_grad(), sampling_mode([self._net], ()):
                outputs = self._net(x)
        finally:
            hook.remove()
        if len(seen) != 1 or not torch.equal(seen[0][1], outputs):
            raise ValueError(
                "net: expected ExactLinear as the last layer, called once, whose outputs are those "
                "of the network, got a network that computes something else of it; put it at the "
                "end, or use dubio.BayesLinear"
            )
        return seen[0][0]


def _means_are_outputs(likelihood: RewardOfAction, actions: int) -> bool:
    outputs = torch.linspace(-2.0, 2.0, actions)[None, None]  # (1, 1, A)
    try:
        return torch.equal(likelihood.mean(outputs), outputs)
    except ValueError:  # outputs of another shape were expected
        return False
