"""Policies made of Gaussian bumps, many at once."""

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn


@final
class RBFPolicies(nn.Module):
    """One policy for each member: a weighted sum of K Gaussian bumps, squashed to ±limit.

    PILCO's policy (Deisenroth & Rasmussen 2011, section 2.3), without the uncertain inputs:

        u = limit · (9 sin a + sin 3a)/8,   a = Σ_k w_k exp(−½ Σ_d ((f_d/σ_d − c_kd)/λ_d)²)

    with units σ that are given, and weights w, centres c and widths λ that are learned. Unlike a
    hyperbolic tangent, PILCO's sine does not flatten out for good.

    Args:
        generators: One for each member: where its first weights come from.
        units: σ, what differences of each feature are measured in.  # (D,)
        bumps: K.
        width: λ at first. Centres are N(0, 1) at first, so narrower bumps tell more states apart.
        limit: The largest action.
    """

    def __init__(
        self,
        generators: list[torch.Generator],
        units: tuple[float, ...],
        *,
        bumps: int = 50,
        width: float = 1.0,
        limit: float = 10.0,
    ) -> None:
        super().__init__()
        if bumps < 1:
            raise ValueError(f"bumps: expected at least 1, got {bumps}.")
        for name, number in (("width", width), ("limit", limit)):
            if not 0 < number < math.inf:
                raise ValueError(f"{name}: expected a positive number, got {number}.")
        if not units or not all(0 < unit < math.inf for unit in units):
            raise ValueError(f"units: expected positive numbers, one a feature, got {units}.")
        self.limit = limit
        self.units: Tensor
        self.register_buffer("units", torch.tensor(units))
        centres = [torch.randn(bumps, len(units), generator=own) for own in generators]
        weights = [torch.randn(bumps, generator=own) for own in generators]
        self.centres = nn.Parameter(torch.stack(centres))  # (M, K, D), in units
        self.weights = nn.Parameter(torch.stack(weights)[..., None])  # (M, K, 1)
        log_widths = torch.full((len(generators), 1, len(units)), math.log(width))
        self.log_widths = nn.Parameter(log_widths)  # (M, 1, D)

    def forward(self, features: Tensor) -> Tensor:  # (M, P, D) -> (M, P)
        """The actions of all members."""
        return self.prepared()(features)

    def prepared(self, weights: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """The same function of features, with all that does not depend on them computed once.

        Args:
            weights: Of S policies a member instead of its own; P particles of features are then
                taken S times, those of the first policy first.  # (M, S, K)
        """
        members, count, inputs = self.centres.shape
        columns = (self.weights.mT if weights is None else weights)[..., None]  # (M, S, K, 1)
        narrowness = (-self.log_widths).exp()  # (M, 1, D)
        scale = narrowness / self.units
        centres = self.centres * narrowness  # (M, K, D)
        lengths = -0.5 * centres.square().sum(-1)[:, None]  # (M, 1, K)
        across = centres.mT  # (M, D, K)

        def act(features: Tensor) -> Tensor:
            if features.dim() != 3 or (features.shape[0], features.shape[2]) != (members, inputs):
                raise ValueError(
                    f"features: expected ({members} members, particles, {inputs} features), got "
                    f"{tuple(features.shape)}; make the policy with as many units as features."
                )
            scaled = features * scale
            own = scaled.square().sum(-1, keepdim=True)  # (M, P, 1)
            # −½‖f − c‖² = f·c − ½‖f‖² − ½‖c‖²
            bumps = torch.baddbmm(lengths, scaled, across).add(own, alpha=-0.5).exp()  # (M, P, K)
            each = bumps.view(members, columns.shape[1], -1, count)  # (M, S, P, K)
            total = (each @ columns).view(members, -1)
            return self.limit / 8 * (9 * total.sin() + (3 * total).sin())

        return act
