"""What the world does next, learned by networks with masks: many worlds at once."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, final, get_args

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import LearnedGaussian
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, Mask
from dubio_studies.agents.imagination import Functions

MaskName = Literal["fixed", "concrete", "bernoulli"]
"""Dropout at a fixed rate, Concrete dropout, learnable Bernoulli dropout."""

STEPS_AT_A_TIME = 50


@final
class Dynamics:
    """A network for each member that predicts the change of its world's state.

    Inputs are features of the state and the action, standardised by the transitions so far;
    targets are changes of the state, standardised too. There is a mask before each of the three
    weight layers, and a noise precision is learned for each output. Weights, rates and the moments
    of Adam go on from episode to episode (Gal et al. 2017, section 4.5).

    Args:
        masks: Which masks.
        seeds: One for each member: it becomes the same network whoever is trained beside it.
        features: From states (..., D) to what the network sees of them (..., F).
        state_size: D.
        feature_size: F.
        hidden: Units of each of the two hidden layers.
        drop: The fixed rate, or that to start from.
        length_scale: ℓ of the prior N(0, 1/ℓ²) of weights.
        learning_rate: Of Adam, at first.

    Attributes:
        members: The objectives, one for each member; their networks are `members[m].model`.
        inputs: What was seen before each change: features and action.  # (M, N, F + 1)
        changes: Of the states.  # (M, N, D)
    """

    def __init__(
        self,
        masks: MaskName,
        seeds: list[int],
        features: Callable[[Tensor], Tensor],
        *,
        state_size: int,
        feature_size: int,
        hidden: int = 200,
        drop: float = 0.1,
        length_scale: float = 1e-2,
        learning_rate: float = 1e-3,
    ) -> None:
        if masks not in get_args(MaskName):
            raise ValueError(f"masks: expected one of {get_args(MaskName)}, got {masks!r}.")
        self.features = features
        self._learning_rate = learning_rate
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.members: list[dubio.ELBO] = []
        self._likelihoods: list[LearnedGaussian] = []
        for generator in self._generators:
            network = _network(masks, (feature_size + 1, hidden, hidden, state_size), drop,
                               length_scale, generator)  # fmt: skip
            likelihood = LearnedGaussian(torch.full((state_size,), 10.0))
            self._likelihoods.append(likelihood)
            self.members.append(
                dubio.ELBO(network, likelihood, num_data=1, estimator="trapezoid_once")
            )
        population = dubio.Population(self.members, seeds=seeds)
        self.session = population.session(learning_rate=learning_rate)
        self.inputs = torch.empty(len(seeds), 0, feature_size + 1)  # (M, N, I)
        self.changes = torch.empty(len(seeds), 0, state_size)  # (M, N, D)

    def add(self, states: Tensor, actions: Tensor, after: Tensor) -> None:
        """Keep transitions: (M, T, D), (M, T) and (M, T, D)."""
        for name, values in (("states", states), ("actions", actions), ("after", after)):
            if not bool(values.isfinite().all()):
                raise ValueError(f"{name}: expected finite numbers, got NaN or infinity.")
        self.inputs = torch.cat([self.inputs, self._seen(states, actions)], dim=1)
        self.changes = torch.cat([self.changes, after - states], dim=1)

    def learn(self, steps: int, batch_size: int = 100) -> None:
        """Steps of Adam on random batches of all transitions so far.

        The learning rate falls along half a cosine to a twentieth, anew at every call.
        """
        members, count = self.inputs.shape[:2]
        if not count:
            raise RuntimeError("learn: expected transitions, got none; remember an episode first.")
        x = _scaled(self.inputs)
        y = _scaled(self.changes)
        member = torch.arange(members)[:, None]
        for start in range(0, steps, STEPS_AT_A_TIME):
            size = (min(STEPS_AT_A_TIME, steps - start), batch_size)
            chosen = [torch.randint(count, size, generator=own) for own in self._generators]
            rows = torch.stack(chosen, dim=1)  # (K, M, B)
            self.session.learning_rate = falling(self._learning_rate, start / steps)
            self.session.steps(x[member, rows], y[member, rows], num_data=count)
        if bool(self.session.failed.any()):
            raise FloatingPointError(
                f"learn: expected finite losses, got others in members "
                f"{self.session.failed.nonzero().flatten().tolist()}; lower learning_rate."
            )
        self.session.write()

    def rates(self) -> Tensor:  # (M, 3)
        """Dropout rates by layer."""
        return torch.stack(
            [torch.cat([mask.drop for mask in _masks(elbo)]) for elbo in self.members]
        )

    def rates_after(self, steps: int, batch_size: int = 100) -> Tensor:  # (M, 3)
        """What rates would become by further steps on the same data; nothing stays changed."""
        session = self.session.state_dict()
        generators = [own.get_state() for own in self._generators]
        self.learn(steps, batch_size)
        rates = self.rates()
        self.session.load_state_dict(session)
        self.session.write()
        for own, state in zip(self._generators, generators, strict=True):
            own.set_state(state)
        return rates

    def noise_deviations(self) -> Tensor:  # (M, D)
        """What is left unexplained of the change of each component, in its own unit."""
        precisions = [likelihood.noise_precision for likelihood in self._likelihoods]
        return torch.stack(precisions).rsqrt() * _moments(self.changes)[1][:, 0]

    def epistemic_deviations(
        self, states: Tensor, actions: Tensor, draws: int, generator: torch.Generator
    ) -> Tensor:  # (M, D)
        """How far functions disagree on the change of each component, in its own unit.

        The root of the mean variance over draws, as in the authors' code of figure 1.

        Args:
            states: Of each member.  # (M, T, D)
            actions: Of each member.  # (M, T)
            draws: Functions that are compared.
            generator: Where their masks come from.
        """
        centre, scale = _moments(self.inputs)
        x = (self._seen(states, actions) - centre) / scale
        outputs = self.session.outputs(x, own_rows=True, draws=draws, generator=generator)
        return outputs.var(1).mean(1).sqrt() * _moments(self.changes)[1][:, 0]

    def functions(self, particles: int) -> Functions:
        """New functions, one a particle, from the networks as they are now."""
        centre, scale = _moments(self.inputs)
        shift, stretch = _moments(self.changes)
        masks, weights, biases = [], [], []
        for elbo, generator in zip(self.members, self._generators, strict=True):
            masks.append(multipliers(elbo.model, particles, generator))
            layers = [module for module in elbo.model.modules() if isinstance(module, nn.Linear)]
            weights.append([layer.weight.detach().T for layer in layers])
            biases.append([layer.bias.detach()[None] for layer in layers])
        first, *gains = map(torch.stack, zip(*masks, strict=True))
        *inner, last = map(torch.stack, zip(*weights, strict=True))
        *lower, top = map(torch.stack, zip(*biases, strict=True))
        return Functions(
            centre,
            (first / scale, *gains),
            (*inner, last * stretch),
            (*lower, top * stretch + shift),
        )

    def _seen(self, states: Tensor, actions: Tensor) -> Tensor:  # (M, T, F + 1)
        return torch.cat([self.features(states), actions[..., None]], dim=-1)


def falling(learning_rate: float, progress: float) -> float:
    """A learning rate that falls along half a cosine to a twentieth, for progress from 0 to 1."""
    return learning_rate * (0.525 + 0.475 * math.cos(math.pi * progress))


def multipliers(
    network: nn.Module, particles: int, generator: torch.Generator
) -> list[Tensor]:  # (P, inputs) for each layer
    """What one draw of noise multiplies the inputs of each masked layer by, row by row.

    The masks see ones, so that what they return is what they multiply by. `dubio.Noise` gives them
    the same numbers as it gives `network` on as many rows.
    """
    found: list[Tensor] = []
    handles = []
    for mask in _masks(network):
        handles.append(mask.register_forward_pre_hook(lambda _, args: (torch.ones_like(args[0]),)))
        handles.append(mask.register_forward_hook(lambda _, args, output: found.append(output)))
    first = next(network.parameters())
    noise = dubio.Noise(generator=generator)
    try:
        with torch.no_grad(), noise[0]:
            network(torch.ones(particles, first.shape[-1]))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _network(
    masks: MaskName,
    sizes: tuple[int, ...],
    drop: float,
    length_scale: float,
    generator: torch.Generator,
) -> nn.Sequential:
    """Layers of rectifiers with a mask before each; He's initial weights."""
    layers: list[nn.Module] = []
    for ins, outs in pairwise(sizes):
        linear = nn.utils.skip_init(nn.Linear, ins, outs)
        with torch.no_grad():
            linear.weight.normal_(0.0, (2 / ins) ** 0.5, generator=generator)
            linear.bias.zero_()
        mask = {"fixed": Bernoulli, "concrete": Concrete, "bernoulli": LearnableBernoulli}[masks]
        layers += [dubio.Masked(linear, mask(drop=drop), length_scale=length_scale), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _masks(module: nn.Module) -> list[Mask]:
    return [part for part in module.modules() if isinstance(part, Mask)]


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:  # (M, N, D) -> (M, 1, D) each
    return values.mean(1, keepdim=True), values.std(1, keepdim=True, correction=0).clamp_min(1e-6)


def _scaled(values: Tensor) -> Tensor:
    centre, scale = _moments(values)
    return (values - centre) / scale
