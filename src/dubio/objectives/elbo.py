"""The evidence lower bound: one objective for every method."""

from collections.abc import Callable
from operator import index
from typing import SupportsIndex, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from dubio.likelihoods import Likelihood
from dubio.likelihoods.likelihood import all_true
from dubio.masks.learnable import LearnableBernoulli
from dubio.noise import inputs
from dubio.noise.first_call import check_threads
from dubio.noise.foreign import may_be_noisy
from dubio.noise.gates import NO_GATES, find_gates
from dubio.noise.inputs import Inputs, Select
from dubio.noise.libraries import is_known
from dubio.noise.modes import all_modules
from dubio.noise.noise import Noise, noise_is_given
from dubio.noise.numbers import mix
from dubio.noise.stochastic import Stochastic, check_apart
from dubio.noise.vectorised import is_vectorised
from dubio.objectives.divergences import add_divergences
from dubio.objectives.estimators import ESTIMATORS, Estimator, trapezoid_once
from dubio.objectives.kept import StateBeforeStep
from dubio.objectives.meeting import Meetings
from dubio.objectives.passes import ObjectiveBatch, Passes
from dubio.objectives.rowwise import rows_stay_apart


@final
class ELBO(nn.Module):
    """The negative evidence lower bound per example, as a loss.

    Gal & Ghahramani 2016, eq. 9; Boluki et al. 2020, eq. 3.

        loss = −1/B Σ_b w_b log p(y_b | x_b, masks_b) + (kl_weight · KL − log p(τ)) / num_data

    The weights w are 1 by default. A row of weight 2 counts as if it were there twice, but B and
    ``num_data`` count it once: they are numbers of rows, and N times the loss is the same. log p(τ)
    is added if the likelihood has parameters τ with a prior: MAP for them. Rows whose targets are
    void (``Categorical(void=…)``) are not counted in B, so that ``num_data`` is the number of
    labelled rows. Length scales belong to the layers, the noise precision to the likelihood and
    ``num_data`` to the objective; nothing needs to be scaled by hand. ``loss.backward()`` gives
    gradients to weights and to learned rates alike. ``elbo.parameters()`` are all parameters to
    train: those of the network and of the likelihood. Noise is on in train and in eval mode.

    Args:
        model: A network with stochastic modules. Without any there is no KL: the loss is maximum
            likelihood, under the network's dropout.
        likelihood: The distribution of targets given outputs.
        num_data: Number of training examples; assign to it when there are more.
        draws: Number of passes to average over.
        estimator: The gradient estimator for rates of `LearnableBernoulli` masks. ``trapezoid`` has
            the lowest error for its cost, two passes that both train the weights; its bias is of
            third order in the masks. ``trapezoid_once`` needs one pass. ``corrected`` is exactly
            unbiased with a similar error, in three passes. ``disarm_cv``, ``disarm``, ``arm`` and
            ``reinforce_loo`` are exactly unbiased and noisier.
        kl_weight: Weight of the KL, or a schedule from the number of the step to a weight.
        shared: Whether all rows of a batch share their masks.
        generator: Source of the noise. By default torch's global generator, from which every
            process of `torch.distributed` draws its own noise, even from the same seed.
        select: Which part of the network's output to use.

    Attributes:
        estimator: The gradient estimator, as given.
        select: Which part of the output to use, as given.
        generator: Source of the noise, as given.
        step: Number of losses computed so far: the argument of a KL schedule.
        nll: The first term of the last loss, detached.
        kl: The last KL, detached and unweighted.
        log_prior: The last log p(τ), detached; zero if there is none.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        num_data: int,
        *,
        draws: int = 1,
        estimator: Estimator = "trapezoid",
        kl_weight: float | Callable[[int], float] = 1.0,
        shared: bool = False,
        generator: torch.Generator | None = None,
        select: Select = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"model: expected an nn.Module, got {type(model).__name__}")
        if not callable(kl_weight) and not (isinstance(kl_weight, float | int) and kl_weight >= 0):
            raise ValueError(
                f"kl_weight: expected a number >= 0 or a schedule from dubio.schedules, got "
                f"{kl_weight!r}"
            )
        if draws < 1:
            raise ValueError(f"draws: expected a positive int, got {draws}")
        if estimator not in ESTIMATORS:
            names = ", ".join(ESTIMATORS)
            raise ValueError(f"estimator: expected one of {names}, got {estimator!r}")
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood: expected an instance from dubio.likelihoods, got {likelihood!r}"
            )
        self.model = model
        self.likelihood = likelihood
        self.num_data = num_data
        self.nll = torch.tensor(float("nan"))
        self.kl = torch.tensor(float("nan"))
        self.log_prior = torch.tensor(float("nan"))
        self._draws = draws
        self.estimator: Estimator = estimator
        self._kl_weight = kl_weight
        self._shared = shared
        self.generator = generator
        self.select = select
        self._meetings = Meetings()
        self._kept = StateBeforeStep()
        self._parts = _Parts([])
        self._trunk = False  # whether the last batch had something to compute before its masks
        self.step = 0

    @property
    def num_data(self) -> int:
        """Number of training examples, N."""
        return self._num_data

    @num_data.setter
    def num_data(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex) or index(value) < 1:
            raise ValueError(
                f"num_data: expected the number of training rows, got {value!r}; try len(x)"
            )
        self._num_data = index(value)

    @property
    def scheduled(self) -> bool:
        """Whether the weight of the KL depends on the step."""
        return callable(self._kl_weight)

    def get_extra_state(self) -> Tensor:  # (3,)
        """Return what a checkpoint keeps besides parameters: the step and the number of examples.

        A tensor, since some formats, such as safetensors, keep nothing else.
        """
        return torch.tensor([self.step, self.num_data, self._trunk], dtype=torch.int64)

    def set_extra_state(self, state: Tensor | dict[str, int]) -> None:
        """Continue from a checkpoint; older ones hold a dict."""
        names = ("step", "num_data", "trunk")
        values = state.tolist() if isinstance(state, Tensor) else [state[name] for name in names]
        self.step, self.num_data, trunk = values
        self._trunk = bool(trunk)

    def forward(self, x: Inputs, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Args:
            x: Inputs.
            y: Targets.
            weight: Weight of each row, `(B,)`, at least 0.
        """
        if torch.compiler.is_dynamo_compiling():  # noise is not to be part of a graph
            loss: Tensor = torch.compiler.disable(self._loss)(x, y, weight)
            return loss
        return self._loss(x, y, weight)

    def _loss(self, x: Inputs, y: Tensor, weight: Tensor | None) -> Tensor:
        if not isinstance(y, Tensor):
            raise TypeError(
                f"y: expected a tensor, got {type(y).__name__}; make one with torch.as_tensor"
            )
        if weight is not None:
            _check_weight(weight, y)
        modules = all_modules([self.model])
        self._check_devices(x, y, modules)
        noise = Noise(self._draws, shared=self._shared, generator=self._source())
        if modules != self._parts.modules:
            self._parts, self._kept = _Parts(modules), StateBeforeStep()
            check_threads(self.model, *inputs.as_arguments(inputs.copied(x)))
        batch = self._batch(x, y, weight, modules)
        learns = torch.is_grad_enabled() and any(map(_learns, self._parts.masks))
        estimate = ESTIMATORS[self.estimator] if learns else trapezoid_once
        stochastic = self._parts.stochastic
        if self._draws > 1 or estimate is not trapezoid_once:  # there will be more than one pass
            self._kept.note(modules, batch.unknown)
        else:
            self._kept.forget()
        nlls, divergences = [], []
        for k in range(self._draws):
            again = k > 0 and all(module.kl_is_exact for module in stochastic)
            asked = bool(stochastic) and not again
            numbers = noise.numbers if self._draws == 1 else noise[k].numbers
            passes = Passes(batch, numbers, self._meetings, self._kept, learning=asked)
            nlls.append(estimate(passes))
            if asked:
                with passes.recalled():
                    divergences.append([module.kl() for module in stochastic])
            trunk = passes.has_trunk
        self._kept.forget()
        nll = _mean(nlls)
        if (known := self.likelihood.known(y)) is not None:
            nll = nll * _rows_per_known_row(known)
        given = self._kl_weight
        kl_weight = given(self.step) if callable(given) else given
        loss, kl = add_divergences(nll, kl_weight / self.num_data, divergences)
        log_prior = _ZERO
        if isinstance(self.likelihood, nn.Module):  # which may have parameters, and a prior on them
            log_prior = self.likelihood.log_prior().to(nll)
            loss = loss - log_prior / self.num_data
        self.__dict__.update(  # not one by one, which takes modules their time
            step=self.step + 1,
            nll=nll.detach(),
            kl=kl,
            log_prior=log_prior.detach(),
            _trunk=trunk,
        )
        return loss

    def _check_devices(self, x: Inputs, y: Tensor, modules: list[nn.Module]) -> None:
        """Raise an error for a batch on another device than the network, in a common case."""
        own = (p for module in modules for p in module._parameters.values() if p is not None)
        first = next(own, None)
        given = x if isinstance(x, Tensor) else y
        if first is None or given.device == first.device:
            return
        homes = {tensor.device for tensor in (*self.model.parameters(), *self.model.buffers())}
        if given.device not in homes:
            name = "x" if given is x else "y"
            raise ValueError(inputs.elsewhere(name, homes, given.device))

    def _source(self) -> torch.Generator | None:
        """Return where noise comes from; of several processes with one seed each has its own."""
        if self.generator is not None or not (dist.is_available() and dist.is_initialized()):
            return self.generator
        seed = int(torch.randint(2**63 - 1, ()))
        return torch.Generator().manual_seed(mix(seed, dist.get_rank()))

    def _batch(
        self, x: Inputs, y: Tensor, weight: Tensor | None, modules: list[nn.Module]
    ) -> ObjectiveBatch:
        """Return the network at work on a batch.

        Noise that is not dubio's is left to torch where nobody could tell the difference.
        """
        suspects = may_be_noisy(modules)
        unknown = self._parts.unknown
        if suspects:
            changed = [m for m in suspects if m not in unknown and not is_known(m)]
            unknown = [*unknown, *changed]
        own_losses = self.likelihood.rowwise
        evaluating = not all(module.training for module in suspects)
        gates = NO_GATES
        if evaluating:
            gates = find_gates(self.model, [self.model], x, self.select, as_it_is=True)
            gates.check()
        intercept = bool(suspects) and (
            self.generator is not None or self._shared or noise_is_given() or evaluating
        )
        return ObjectiveBatch(
            model=self.model,
            x=x,
            select=self.select,
            y=y,
            weight=weight,
            losses=self.likelihood.losses,
            rows=inputs.count_rows(x),
            modules=modules,
            unknown=unknown,
            intercept=intercept,
            foreign=bool(suspects),
            trunk=self._trunk,
            gates=gates,
            apart=(
                self._parts.apart
                and own_losses
                and not (suspects or self._shared or noise_is_given() or _has_any_global_hook())
                and self.select is None
                and isinstance(x, Tensor)
                and x.dim() == 2
            ),
            own_losses=own_losses,
            together={} if noise_is_given() else self._parts.together,
        )


def _check_weight(weight: Tensor, y: Tensor) -> None:
    rows = y.shape[:1]
    if not isinstance(weight, Tensor) or weight.shape != rows or weight.device != y.device:
        what = type(weight).__name__
        if isinstance(weight, Tensor):
            what = f"shape {tuple(weight.shape)} on {weight.device}"
        raise ValueError(
            f"weight: expected a tensor of shape {tuple(rows)} on {y.device}, one for each row, "
            f"got {what}; classes have theirs by Categorical(class_weights=…)"
        )
    if not all_true((weight >= 0) & weight.isfinite()):
        raise ValueError(
            f"weight: expected finite numbers >= 0, got {float(weight.min()):.4g} to "
            f"{float(weight.max()):.4g}; a weight of 0 leaves a row out"
        )


def _rows_per_known_row(known: Tensor) -> Tensor:  # (B, ...) -> ()
    """Return what makes a mean over all rows one over those with a target; 0/1 if there is none."""
    rows = known if known.dim() == 1 else known.flatten(1).any(1)
    return len(rows) / rows.sum().clamp(min=1)


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean()


def _learns(mask: LearnableBernoulli) -> bool:
    return mask.logit.requires_grad or is_vectorised(mask.logit)


def _kind(module: Stochastic) -> type[Stochastic]:
    """Return the class that draws noise for modules of this kind together."""
    return next(kind for kind in type(module).__mro__ if "draw_together" in vars(kind))


class _Parts:
    """What matters among the modules of a network."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        self.stochastic = [module for module in modules if isinstance(module, Stochastic)]
        self.masks = [module for module in modules if isinstance(module, LearnableBernoulli)]
        self.together: dict[type[Stochastic], list[Stochastic]] = {}
        for module in self.stochastic:
            self.together.setdefault(_kind(module), []).append(module)
        self.unknown = [module for module in modules if not is_known(module)]
        self.apart = rows_stay_apart(modules)
        check_apart(self.stochastic)


_ZERO = torch.zeros(())
