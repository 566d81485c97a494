"""`ExactLinear`: Bayesian linear regression as a layer, conditioned in closed form."""

import math
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dubio.layers.inverse_gamma import inverse_gamma
from dubio.noise.float64 import in_float64
from dubio.noise.requests import Request
from dubio.noise.run import current_pass
from dubio.noise.stochastic import Stochastic, own_noise


@final
class ExactLinear(Stochastic):
    """A Bayesian linear regression of rewards for each action, in closed form, with unknown noise.

    On its own it is a linear agent; behind a trunk, ``nn.Sequential(trunk, ExactLinear(100, 5))``,
    it is NeuralLinear (Riquelme, Tucker and Snoek 2018). The model of action a is

        r = hᵀw + ε,   ε ~ N(0, σ²),   w | σ² ~ N(0, σ²/λ · I),   σ² ~ InvGamma(a₀, b₀)

    with features h (and a one, for the bias). Given rows (h, r) of weights v the posterior is

        Λ = λI + Σ v h hᵀ,   μ = Λ⁻¹ Σ v h r,   w | σ² ~ N(μ, σ²Λ⁻¹),
        σ² ~ InvGamma(a₀ + ½ Σ v,  b₀ + ½ (Σ v r² − μᵀΛμ))

    (Bishop 2006, section 3.3). A draw has one σ² and one w for every action, so w is multivariate
    t: σ² is the exact quantile of normal noise, see `inverse_gamma`, and w = μ + σ·Λ^(−½) ε. A draw
    is one function of the input, whatever ``shared`` is. In eval mode without noise the weights are
    μ. Before `condition` is called, the posterior is the prior.

    The posterior is conditioned, not trained. In a pass of `dubio.ELBO`, and in train mode without
    noise, this is a plain linear layer with its own trainable weights, ``linear``, from which the
    trunk learns. `dubio.decide.Bandit` conditions after its gradient steps; elsewhere call
    `condition`, again whenever the trunk has changed.

    Args:
        features: Number of features.
        actions: Number of actions, each with its own regression.
        prior_precision: λ.
        noise_shape: a₀ > 1, so that σ² has a mean, b₀/(a₀ − 1).
        noise_rate: b₀.
        bias: Whether there is a bias, with the same prior as the weights.

    Attributes:
        linear: The trainable weights, for the trunk to learn.
        mean: μ of every action, the bias last: a buffer, `(A, D)`.
        root: A triangular root of Λ⁻¹, R Rᵀ = Λ⁻¹: a buffer, `(A, D, D)`.
        shape: Shape of the inverse-gamma distribution of σ²: a buffer, `(A,)`.
        rate: Rate of that distribution: a buffer, `(A,)`.
    """

    mean: Tensor
    root: Tensor
    shape: Tensor
    rate: Tensor

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        prior_precision: float = 0.25,
        noise_shape: float = 6.0,
        noise_rate: float = 6.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, size in (("features", features), ("actions", actions)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {size!r}")
        for name, value, least in (
            ("prior_precision", prior_precision, 0), ("noise_shape", noise_shape, 1),
            ("noise_rate", noise_rate, 0),
        ):  # fmt: skip
            if not least < value < math.inf:
                raise ValueError(f"{name}: expected a number > {least}, got {value!r}")
        self.prior_precision = float(prior_precision)
        self.noise_shape = float(noise_shape)
        self.noise_rate = float(noise_rate)
        self.linear = nn.Linear(features, actions, bias)
        width = features + bias
        eye = torch.eye(width) / math.sqrt(prior_precision)
        self.register_buffer("mean", torch.zeros(actions, width))
        self.register_buffer("root", eye.repeat(actions, 1, 1))
        self.register_buffer("shape", torch.full((actions,), self.noise_shape))
        self.register_buffer("rate", torch.full((actions,), self.noise_rate))

    def forward(self, h: Tensor, /) -> Tensor:  # (..., features) -> (..., A)
        """Return rewards for the weights of this draw, their mean, or the trainable weights."""
        running = current_pass()
        trains = self.training if running is None else running.trains
        if trains:
            rewards: Tensor = self.linear(h)
            return rewards
        weights = self._weights()
        if self.linear.bias is None:
            return F.linear(h, weights)
        return F.linear(h, weights[:, :-1], weights[:, -1])

    @torch.no_grad()
    def condition(
        self, h: Tensor, actions: Tensor, rewards: Tensor, weight: Tensor | None = None
    ) -> None:
        """Replace the posterior by that of the prior and these rows, computed in float64.

        Args:
            h: Features, `(N, features)`.
            actions: The actions taken, `(N,)` whole numbers.
            rewards: Their rewards, `(N,)`.
            weight: Weight of each row, `(N,)` numbers >= 0; one if None.
        """
        self._check_rows(h, actions, rewards, weight)
        h, rewards = in_float64(h.detach()), in_float64(rewards.detach())
        actions = actions.to(h.device)
        if self.linear.bias is not None:
            h = torch.cat([h, h.new_ones(len(h), 1)], 1)  # (N, D)
        v = torch.ones_like(rewards) if weight is None else in_float64(weight.detach())
        posteriors = []
        for action in range(len(self.mean)):
            rows = actions == action
            mean, root, misfit = _regression(h[rows], rewards[rows], v[rows], self.prior_precision)
            shape = self.noise_shape + v[rows].sum() / 2
            posteriors.append((mean, root, shape, self.noise_rate + misfit / 2))
        buffers = self.mean, self.root, self.shape, self.rate
        stacks = [torch.stack(column) for column in zip(*posteriors, strict=True)]
        rounded = [stack.to(buffer) for stack, buffer in zip(stacks, buffers, strict=True)]
        if not all(bool(stack.isfinite().all()) for stack in rounded):
            raise FloatingPointError(
                f"rewards: expected a posterior that fits {self.mean.dtype}, got larger numbers; "
                "scale the rewards"
            )
        for buffer, stack in zip(buffers, rounded, strict=True):
            buffer.copy_(stack)

    def kl(self) -> Tensor:
        """Return the divergence of the posterior from the prior, in nats; nothing is trained.

        KL = Σ_a ½(λ tr Λ⁻¹ + λ μᵀμ·a/b − D − log det λΛ⁻¹) + KL(Gamma(a, b) ‖ Gamma(a₀, b₀)).
        """
        mean, root, a, b = map(in_float64, (self.mean, self.root, self.shape, self.rate))
        precision, a0, b0 = self.prior_precision, self.noise_shape, self.noise_rate
        logs = math.log(precision) + 2 * root.diagonal(dim1=1, dim2=2).log()
        squares = precision * (root.square().sum((1, 2)) + mean.square().sum(1) * a / b)
        of_weights = (squares - mean.shape[1] - logs.sum(1)) / 2
        of_noise = (
            (a - a0) * torch.digamma(a) - torch.lgamma(a) + math.lgamma(a0)
            + a0 * (b / b0).log() + a * (b0 - b) / b
        )  # fmt: skip
        return (of_weights + of_noise).sum().to(self.mean)

    def extra_repr(self) -> str:
        """Return the prior."""
        return (
            f"prior_precision={self.prior_precision:g}, noise_shape={self.noise_shape:g}, "
            f"noise_rate={self.noise_rate:g}"
        )

    def _weights(self) -> Tensor:  # (A, D)
        """Return the weights of this draw, or their mean."""
        with torch._C.DisableTorchFunction():  # nothing in here is for an interceptor to see
            requests = (
                Request("normal", self.mean.shape, None, 0),
                Request("normal", self.rate.shape, None, 0),
            )
            noises = own_noise(self, requests, self.mean)
            if noises is None:
                return self.mean
            deviations = inverse_gamma(noises[1], self.shape, self.rate).sqrt()  # (A,)
            normal = noises[0] * deviations.to(noises[0])[:, None]
            spread = torch.bmm(normal[:, None], self.root.to(normal.dtype).mT)[:, 0]
            return self.mean + spread.to(self.mean.dtype)

    def _check_rows(
        self, h: Tensor, actions: Tensor, rewards: Tensor, weight: Tensor | None
    ) -> None:
        width, count = self.linear.in_features, len(self.mean)
        if h.ndim != 2 or h.shape[1] != width:
            raise ValueError(f"h: expected features (N, {width}), got shape {tuple(h.shape)}")
        for name, column in (("actions", actions), ("rewards", rewards), ("weight", weight)):
            if column is not None and column.shape != (len(h),):
                raise ValueError(
                    f"{name}: expected one for each of {len(h)} rows, got shape "
                    f"{tuple(column.shape)}"
                )
        if actions.is_floating_point() or actions.dtype == torch.bool:
            raise TypeError(f"actions: expected whole numbers, got {actions.dtype}")
        if len(h) and not 0 <= int(actions.min()) <= int(actions.max()) < count:
            raise ValueError(
                f"actions: expected numbers from 0 to {count - 1}, got some from "
                f"{int(actions.min())} to {int(actions.max())}"
            )
        for name, numbers in (("h", h), ("rewards", rewards), ("weight", weight)):
            if numbers is not None and not bool(numbers.isfinite().all()):
                raise ValueError(
                    f"{name}: expected finite numbers, got NaN or infinite ones; leave out these "
                    "rows, or look at the weights of the trunk"
                )
        if weight is not None and bool((weight < 0).any()):
            raise ValueError(f"weight: expected numbers >= 0, got {float(weight.min())}")


def _regression(
    x: Tensor, y: Tensor, weight: Tensor, precision: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return μ `(D,)`, a root of Λ⁻¹ `(D, D)`, and Σ v r² − μᵀΛμ."""
    eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    scaled = x * weight[:, None]
    gram = scaled.T @ x
    if not gram.trace() * len(gram) * torch.finfo(gram.dtype).eps < precision:
        raise FloatingPointError(
            f"h: expected features beside which prior_precision={precision:g} is not lost in "
            f"rounding, got a sum of squares of {float(gram.trace()):.3g}; scale them"
        )
    factor = torch.linalg.cholesky(precision * eye + gram)  # Λ = L Lᵀ
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
    half = inverse @ (scaled.T @ y)  # L⁻¹ Σ v h r
    misfit = (weight * y.square()).sum() - half.square().sum()
    return inverse.T @ half, inverse.T, misfit.clamp(min=0.0)
