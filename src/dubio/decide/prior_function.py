"""Randomised prior functions for the members of an ensemble."""

from copy import deepcopy
from typing import Self, final

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from dubio.noise.stochastic import Stochastic


@final
class PriorFunction(nn.Module):
    """A network plus a fixed random one: f(x) = net(x) + scale · prior(x).

    Osband, Aslanides and Cassirer 2018, algorithm 1. Only ``net`` is trained. Near the data it
    compensates for the prior; elsewhere the priors of different members differ. Pass a list of
    these as the ensemble of a `Bandit`.

    Args:
        net: The network to train.
        scale: Weight of the prior, β in the paper.
        prior: The fixed network; by default a copy of ``net`` with new weights.
        seed: Seed of the new weights; by default drawn from torch's global generator, like the
            weights of layers.
    """

    def __init__(
        self,
        net: nn.Module,
        scale: float = 1.0,
        *,
        prior: nn.Module | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise ValueError(f"scale: expected a number > 0, got {scale}; 1.0 is a common choice")
        self.net = net
        self.scale = scale
        self.prior = (_restarted(net, seed) if prior is None else prior).requires_grad_(False)
        self.prior.eval()
        noisy = [
            name or type(module).__name__
            for name, module in self.prior.named_modules()
            if isinstance(module, Stochastic) or (isinstance(module, _DropoutNd) and module.p > 0)
        ]
        if noisy:
            raise ValueError(
                f"prior: expected a network without noise, got noise in {', '.join(noisy)}; pass "
                "prior=, a network of the same inputs and outputs that has none"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return net(x) + scale · prior(x)."""
        outputs: Tensor = self.net(x) + self.scale * self.prior(x)
        return outputs

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the trained network; the prior stays in eval mode."""
        super().train(mode)
        self.prior.eval()
        return self


def _restarted(net: nn.Module, seed: int | None) -> nn.Module:
    """Return a copy with weights as at the start of training."""
    device = next((parameter.device for parameter in net.parameters()), None)
    copy = deepcopy(net).cpu()
    seed = int(torch.randint(2**62, ())) if seed is None else seed
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for name, module in copy.named_modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
            elif next(module.parameters(recurse=False), None) is not None:
                raise ValueError(
                    f"net: expected modules with reset_parameters(), got {name or 'the network'} "
                    f"({type(module).__name__}) without; pass prior=, a network with new weights"
                )
    return copy.to(device)
