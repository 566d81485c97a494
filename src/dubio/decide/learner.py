"""Continued training: networks, their objectives and an optimiser with its state."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Adam, Optimizer

from dubio.decide.experience import Experience
from dubio.decide.last_layer import LastLayer
from dubio.decide.settings import Settings
from dubio.likelihoods.reward import RewardOfAction
from dubio.objectives.elbo import ELBO

OptimizerFactory: TypeAlias = Callable[[Sequence[nn.Parameter]], Optimizer]
RateSchedule: TypeAlias = Callable[[int], float]


@final
class Learner:
    """Trains networks on the last interactions; the optimiser lives as long as it does.

    Each member of an ensemble has its own ELBO and its own minibatches, drawn with replacement.
    ``num_data`` is the number of rows that are remembered. An `ExactLinear` at the end of a member
    is conditioned after the gradient steps on all that is remembered. Where nothing else is to be
    trained there are no gradient steps.

    Args:
        nets: The members.
        likelihood: Of the reward of the chosen action.
        settings: Of the agent.
        optimizer: Makes the optimiser from parameters; None is Adam.
        schedule: From the number of interactions to a factor of the learning rate.
        generator: Source of minibatches and of training noise.

    Attributes:
        experience: What is remembered.
        interactions: How many updates there were.
    """

    def __init__(
        self,
        nets: Sequence[nn.Module],
        likelihood: RewardOfAction,
        settings: Settings,
        optimizer: OptimizerFactory | None,
        schedule: RateSchedule | None,
        generator: torch.Generator,
    ) -> None:
        self.experience = Experience(settings.memory)
        self.interactions = 0
        self._likelihood = likelihood
        self._batch_size = settings.batch_size
        self._condition_every = settings.condition_every
        self._schedule = schedule
        self._generator = generator
        self._elbos = [
            ELBO(net, likelihood, 1, kl_weight=settings.kl_weight, generator=generator)
            for net in nets
        ]
        every = dict.fromkeys(p for elbo in self._elbos for p in elbo.parameters())
        parameters = [p for p in every if p.requires_grad]
        self._trained = set(parameters)
        if not parameters:
            raise ValueError("net: expected parameters that can be trained, got none")
        ends = [LastLayer.of(net, likelihood) for net in nets]
        self._last_layers = [end for end in ends if end is not None]
        exact = {p for end in self._last_layers for p in end.layer.parameters()}
        self._descends = any(p not in exact for p in parameters)
        if optimizer is None:
            fused = all(p.is_floating_point() for p in parameters)
            self._optimizer: Optimizer = Adam(parameters, lr=settings.learning_rate, fused=fused)
        else:
            self._optimizer = optimizer(parameters)
        if not isinstance(self._optimizer, Optimizer):
            raise TypeError(
                f"optimizer: expected a function from parameters to an optimiser, got one that "
                f"returns {type(self._optimizer).__name__}; pass partial(torch.optim.SGD, "
                "lr=0.01), for example"
            )
        if isinstance(self._optimizer, LBFGS):
            raise TypeError("optimizer: expected one that needs no closure, got LBFGS; use Adam")
        self._rates = [float(group["lr"]) for group in self._optimizer.param_groups]

    def add(self, x: Tensor, y: Tensor) -> None:
        """Remember further rows; y has action, reward and weight, `(B, 3)`."""
        self.experience.add(x, y)
        self._likelihood.weighted |= bool((y[:, 2] != 1).any())

    def learn(self, steps: int) -> None:
        """Run the gradient steps of one more interaction."""
        if self._schedule is not None:
            factor = float(self._schedule(self.interactions))
            if not 0 <= factor < math.inf:
                raise ValueError(f"schedule: expected a factor >= 0, got {factor}")
            for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate * factor
        self.interactions += 1
        self._descend(steps)
        if self.interactions % self._condition_every == 0:
            self._condition()

    def train(self, steps: int) -> None:
        """Run some gradient steps, and what follows them."""
        if len(self.experience) and steps:
            self._descend(steps)
            self._condition()

    def _condition(self) -> None:
        for end in self._last_layers:
            end.condition(self.experience)

    def _descend(self, steps: int) -> None:
        if not self._descends:
            return
        if any(
            p.requires_grad and p not in self._trained for e in self._elbos for p in e.parameters()
        ):
            raise ValueError(
                "net: expected the parameters that the agent was made with, got others that its "
                "optimiser does not know; change values in place, or make a new Bandit"
            )
        rows = len(self.experience)
        device = self._generator.device
        shape = (steps, len(self._elbos), self._batch_size)
        places = torch.randint(rows, shape, generator=self._generator, device=device)
        for elbo in self._elbos:
            elbo.num_data = rows
        with torch.enable_grad():
            for step in range(steps):
                self._step([places[step, member] for member in range(len(self._elbos))])

    def _step(self, places: list[Tensor]) -> None:
        self._optimizer.zero_grad()
        for elbo, rows in zip(self._elbos, places, strict=True):
            loss = elbo(*self.experience.take(rows))
            if not math.isfinite(loss.detach()):
                raise FloatingPointError(
                    f"loss: expected a finite one, got {float(loss.detach())}; the weights are "
                    "those before the step: use a smaller learning rate, or scale contexts and "
                    "rewards"
                )
            loss.backward()
        self._optimizer.step()

    def weights(self) -> tuple[tuple[int, int], ...]:
        """Return which tensors there are, and how often each was written to."""
        return tuple(
            (id(tensor), tensor._version)
            for elbo in self._elbos
            for tensor in (*elbo.parameters(), *elbo.buffers())
        )

    def state(self) -> dict[str, Any]:
        """Return what to save."""
        return {
            "objectives": [elbo.state_dict() for elbo in self._elbos],
            "optimizer": self._optimizer.state_dict(),
            "rates": self._rates,
            "weighted": self._likelihood.weighted,
            "interactions": self.interactions,
            "experience": self.experience.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        for elbo, kept in zip(self._elbos, state["objectives"], strict=True):
            elbo.load_state_dict(kept)
        self._optimizer.load_state_dict(state["optimizer"])
        self._rates = state["rates"]
        self._likelihood.weighted = state["weighted"]
        self.interactions = state["interactions"]
        device = self._optimizer.param_groups[0]["params"][0].device
        self.experience.load(state["experience"], device)
