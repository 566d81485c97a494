"""A network with noise as a model of BoTorch, for Bayesian optimisation.

The posterior is the equal mixture of T functions: masks or weights are drawn once, and are the same
for all points, so that samples are joint over any set of points and acquisition functions are
smooth deterministic functions of them.
"""

from collections.abc import Callable
from math import prod
from operator import index
from typing import Any, SupportsIndex, cast, final

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.index_sampler import IndexSampler
from torch import Tensor
from torch.autograd.function import once_differentiable

from dubio.likelihoods import Likelihood, Point
from dubio.noise.inputs import Network, Select, networks
from dubio.noise.seeds import Seed, as_generator
from dubio.noise.sites import Site, Where
from dubio.predict import Predictor


@final
class FunctionPosterior(EnsemblePosterior):
    """The values of T functions at q points, each as likely as the others.

    Args:
        values: What samples are taken from, `(*batch, T, q, m)`.
        mean: The values without observation noise, of the same shape; by default the values.
        noise_variance: The variance of the observation noise, of the same shape; None if there is
            none in the values.
    """

    def __init__(
        self, values: Tensor, mean: Tensor | None = None, noise_variance: Tensor | None = None
    ) -> None:
        super().__init__(values)
        self._functions = values if mean is None else mean
        self._noise_variance = noise_variance

    @property
    def mean(self) -> Tensor:  # (*batch, q, m)
        """The mean over functions."""
        return self._functions.mean(-3)

    @property
    def variance(self) -> Tensor:  # (*batch, q, m)
        """The variance over functions, over T as in `Predictive`, and that of the noise if any."""
        variance = self._functions.var(-3, correction=0)
        return (
            variance if self._noise_variance is None else variance + self._noise_variance.mean(-3)
        )


@final
class FunctionSampler(IndexSampler):
    """Takes every function as often as every other, and the same ones for all batches of points.

    The sampler of BoTorch draws functions with replacement, and others for each batch: the same
    points then have another value elsewhere in a batch. Here a multiple of T samples is an exact
    average over the posterior. Fewer samples are some of the functions, by the seed.
    """

    def _construct_base_samples(self, posterior: EnsemblePosterior) -> None:
        shape = self.sample_shape + posterior.batch_shape
        if self.base_samples is not None and self.base_samples.shape == shape:
            return
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(posterior.ensemble_size, generator=generator)  # (T,)
        chosen = order[torch.arange(prod(self.sample_shape)) % len(order)]
        chosen = chosen.reshape(*self.sample_shape, *[1] * len(posterior.batch_shape))
        self.register_buffer("base_samples", chosen.expand(shape).to(posterior.device))


@GetSampler.register(FunctionPosterior)
def _sampler(
    posterior: FunctionPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> FunctionSampler:
    return FunctionSampler(sample_shape=sample_shape, seed=seed)


class _ByPoints(torch.autograd.Function):
    """Draws that have gradients by the points alone: those of weights stay as they are."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.enable_grad():
            ctx.points = points.detach().requires_grad_()
            ctx.draws = compute(ctx.points)
        return cast(Tensor, ctx.draws.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = torch.autograd.grad(ctx.draws, ctx.points, slopes[0], retain_graph=True)
        return slope, None


@final
class NetworkModel(Model):
    """A network with noise in it as a model of BoTorch.

    Any acquisition function by samples (``qLogExpectedImprovement`` and the like) takes it, and
    ``optimize_acqf`` follows its gradients by the points::

        model = NetworkModel(network, draws=64, generator=0)
        acquisition = qLogExpectedImprovement(model, best_f=y.max())
        candidates, value = optimize_acqf(acquisition, bounds=bounds, q=2, …)

    The network is left as it is: modes, weights and gradients. It may have another precision than
    the points. Weights that change change the posterior; the noise of the functions stays.

    Args:
        network: Any network with noise, from points `(rows, d)` to outputs `(rows, …)`.
        draws: T, the number of functions.
        num_outputs: m, the number of targets.
        likelihood: How outputs become targets; by default they are the targets. The functions are
            its means, and its noise is for ``observation_noise=True``.
        generator: Source of the seed of the functions, or an int. None is the global one of torch.
        outcome_transform: How targets were transformed before training; undone here.
        where: Which sites are noisy, as for `dubio.predict`.
        select: Which part of the network's output is meant, as for `dubio.predict`.

    Attributes:
        seed: What ``generator`` of `dubio.predict` would be, with ``shared=True``, for the same
            functions.
    """

    def __init__(
        self,
        network: Network,
        *,
        draws: int = 64,
        num_outputs: int = 1,
        likelihood: Likelihood | None = None,
        generator: Seed = None,
        outcome_transform: OutcomeTransform | None = None,
        where: Where[Site] = None,
        select: Select = None,
    ) -> None:
        super().__init__()
        if (
            isinstance(num_outputs, bool)
            or not isinstance(num_outputs, SupportsIndex)
            or index(num_outputs) < 1
        ):
            raise ValueError(
                f"num_outputs: expected a positive int, got {num_outputs!r}; pass how many targets "
                "the network predicts"
            )
        # In a list, so that they are no part of this module, whose mode may be changed.
        self._likelihoods = [Point() if likelihood is None else likelihood]
        self._networks = networks(network)
        self._predictor = Predictor(
            network, draws=draws, likelihood=likelihood, shared=True, where=where, select=select
        )
        self._num_outputs = index(num_outputs)
        source = as_generator(generator)
        self.seed = int(torch.randint(2**62, (), generator=source))
        if outcome_transform is not None:
            self.outcome_transform = outcome_transform

    @property
    def num_outputs(self) -> int:
        """m, the number of targets."""
        return self._num_outputs

    @property
    def batch_shape(self) -> torch.Size:
        """There is one model, not a batch of them."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Any:
        """Return the values of all functions at points, differentiable by the points.

        Args:
            X: Points, `(*batch, q, d)`.
            output_indices: Which targets; all if None.
            observation_noise: Whether samples are observations: one by the likelihood for each
                function and point, from the same random numbers in every call of one shape.
            posterior_transform: What becomes of the posterior.

        Returns:
            A `FunctionPosterior`, unless it is transformed.
        """
        self._check(X, observation_noise)
        likelihood, draws = self._likelihoods[0].frozen(), self._draws(X)  # (T, rows, …)
        mean = self._by_point(likelihood.mean(draws), X)
        noise_variance, values = None, mean
        if observation_noise:
            generator = torch.Generator(X.device).manual_seed(self.seed)
            noise_variance = self._by_point(likelihood.variance(draws), X)
            values = self._by_point(likelihood.sample(draws, generator), X)
        if hasattr(self, "outcome_transform"):
            untransform, around = self.outcome_transform.untransform, X.unsqueeze(-3)
            if observation_noise:
                values, _ = untransform(values, X=around)
                mean, noise_variance = untransform(mean, noise_variance, X=around)
            else:
                mean = values = untransform(mean, X=around)[0]
        if output_indices is not None:
            values, mean = values[..., output_indices], mean[..., output_indices]
            if noise_variance is not None:
                noise_variance = noise_variance[..., output_indices]
        posterior = FunctionPosterior(values, mean, noise_variance)
        return posterior if posterior_transform is None else posterior_transform(posterior, X=X)

    def _draws(self, X: Tensor) -> Tensor:  # (T, rows, …)
        """Return the outputs of all functions at all points, one after the other."""
        points = X.reshape(-1, X.shape[-1])
        weights = [w for root in self._networks for w in root.parameters() if w.is_floating_point()]
        points = points.to(weights[0]) if weights else points
        rows = len(points)
        # Optimisers ask for ever fewer points. A predictor remembers few numbers of rows.
        filled = torch.arange(1 << (rows - 1).bit_length()).clamp(max=rows - 1)
        points = points[filled.to(points.device)]
        if torch.is_grad_enabled() and X.requires_grad:
            draws: Tensor = _ByPoints.apply(points, self._compute)  # type: ignore[no-untyped-call]
        else:
            draws = self._compute(points.detach())
        return draws[:, :rows]

    def _compute(self, points: Tensor) -> Tensor:
        return self._predictor(points, self.seed, gradients=points.requires_grad).draws

    def _by_point(self, values: Tensor, X: Tensor) -> Tensor:  # (*batch, T, q, m)
        """Return values `(T, rows, m)` as BoTorch lays them out."""
        wanted = (values.shape[0], X.shape[:-1].numel(), self._num_outputs)
        if values.shape != wanted:
            raise ValueError(
                f"network: expected values of {self._num_outputs} targets for each of {wanted[1]} "
                f"points, {wanted}, got {tuple(values.shape)}; pass num_outputs=, a likelihood if "
                "outputs are more than means, and let the network keep the axis of targets"
            )
        return values.reshape(-1, *X.shape[:-1], self._num_outputs).movedim(0, -3).to(X)

    def _check(self, X: Tensor, observation_noise: bool | Tensor) -> None:
        if not isinstance(X, Tensor) or X.dim() < 2 or not X.is_floating_point() or not X.numel():
            found = (X.dtype, tuple(X.shape)) if isinstance(X, Tensor) else type(X).__name__
            raise ValueError(
                f"X: expected at least one point, a floating-point tensor (…, q, d), got {found}; "
                "a single point is x[None, None], and points in rows are x[:, None]"
            )
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError(
                "observation_noise: expected True or False, got a tensor; the likelihood of the "
                "model says what noise observations have"
            )
        if observation_noise and not self._likelihoods[0].noisy:
            raise UnsupportedError(
                f"observation_noise: expected a likelihood with noise, got "
                f"{self._likelihoods[0]!r}; pass likelihood=dubio.likelihoods.Gaussian(precision)"
            )

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Model:
        """Not for a network: it would have to be trained."""
        raise UnsupportedError(
            "condition_on_observations: expected a model with a closed form, got a network; train "
            "it on the new observations as well, by dubio.fit, and make a NetworkModel of it. "
            "Acquisition functions that look ahead (knowledge gradients) need a Gaussian process."
        )
