"""Q-learning with replay (Mnih et al. 2015) for many agents at once, without a target network.

    Q(s, a) ← r + γ max_a' Q(s', a')

The details are those of ConvNetJS (`deepqlearn.js`), as Gal and Ghahramani (2016, section 5.4) use
it: one step of gradient descent a tick on a batch from the replay, on ½(Q(s, a) − target)² of the
chosen action alone. The target is of one stochastic pass over s', the trained pass has fresh
masks, and so has the pass that chooses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Gaussian
from dubio.likelihoods.reward import RewardOfAction
from dubio.masks import Mask
from dubio_studies.agents.exploration import Exploration
from dubio_studies.agents.replay import Replay, Transitions

Actions = NDArray[np.int64]
Which = NDArray[np.bool_]
Optimizer = Literal["adam", "sgd"]


@dataclass(frozen=True)
class QLearningSettings:
    """How agents learn; the defaults are those of Gal and Ghahramani (2016, appendix E.2).

    Attributes:
        discount: γ.
        memory: Transitions kept.
        start: Number of transitions after which learning starts.
        every: Ticks between optimiser steps.
        batch_size: Transitions per step and network.
        learning_rate: Of the optimiser.
        optimizer: Plain gradient descent, or Adam.
        weight_decay: λ of a loss ½(Q − target)² + ½λ‖w‖²; ConvNetJS divides it by the batch size,
            and so do we. Of gradient descent only.
        precision: τ of the likelihood N(target | Q, 1/τ): it weighs the loss against the prior
            of learned rates, and scales steps of gradient descent.
    """

    discount: float = 0.7
    memory: int = 30_000
    start: int = 1000
    every: int = 1
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimizer: Optimizer = "sgd"
    weight_decay: float = 1e-3
    precision: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what teaches nothing."""
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount: expected a number from 0 to 1, got {self.discount}.")
        for name, least in (("memory", 1), ("start", 0), ("every", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}.")
        if self.start >= self.memory:
            raise ValueError(
                f"start: expected less than the memory of {self.memory} transitions, got "
                f"{self.start}; learning would never start."
            )
        for name in ("learning_rate", "precision"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}.")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"weight_decay: expected 0 or more, got {self.weight_decay}.")
        if self.optimizer not in get_args(Optimizer):
            raise ValueError(f"optimizer: expected 'adam' or 'sgd', got {self.optimizer!r}.")


@final
class QLearners:
    """M agents that act and learn side by side; each has random numbers of its own.

    Their networks are one `dubio.Population`: an agent becomes what it would have become alone, up
    to the rounding of sums.

    Args:
        nets: The networks of each agent: one, or the members of an ensemble, as many for each. A
            network gives one value for each action. They are trained in place by `write`.
        actions: A, how many actions there are.
        explore: By which rule they choose.
        learning: How they learn.
        seeds: Of each agent; without seeds no run could be repeated, so there is no default.
    """

    def __init__(
        self,
        nets: Sequence[Sequence[nn.Module]],
        actions: int,
        explore: Exploration,
        learning: QLearningSettings,
        seeds: Sequence[int],
    ) -> None:
        sizes = {len(own) for own in nets}
        if len(sizes) != 1 or not min(sizes):
            raise ValueError(
                f"nets: expected a list of networks for each agent, as many for each, got lists of "
                f"{sorted(sizes)}; an agent without an ensemble has a list of one."
            )
        if len(seeds) != len(nets):
            raise ValueError(f"seeds: expected {len(nets)}, one an agent, got {len(seeds)}.")
        (self._members,) = sizes
        self._nets = nets
        likelihood = RewardOfAction(Gaussian(learning.precision), actions)
        elbos = [dubio.ELBO(net, likelihood, num_data=1) for own in nets for net in own]
        own_seeds = [seed * self._members + k for seed in seeds for k in range(self._members)]
        sgd = learning.optimizer == "sgd"
        self._session = dubio.Population(elbos, own_seeds).session(
            learning.learning_rate,
            optimizer=learning.optimizer,
            weight_decay=learning.weight_decay / learning.batch_size if sgd else 0.0,
        )
        self.actions = actions
        self._explore = explore
        self._learning = learning
        self._dtype = next(nets[0][0].parameters()).dtype
        self._sources = [np.random.default_rng((seed, 0)) for seed in seeds]
        self._replay = Replay(seeds, learning.memory, self._dtype)
        self._x = torch.empty(0)  # (M, D), what was seen at the last tick
        self._done: Actions = np.empty(0, dtype=np.int64)  # (M,), and what was done then
        self._ticks = 0  # of which something is remembered
        self._learned = 0  # at which of them networks last learned
        self.age = 0
        self._functions = np.zeros(len(seeds), dtype=np.int64)  # numbers of those believed in
        self._member = np.zeros(len(seeds), dtype=np.int64)  # of the ensemble
        self._held = np.zeros(len(seeds), dtype=np.int64)  # ticks
        self.start_episodes(np.ones(len(seeds), dtype=np.bool_))

    def __len__(self) -> int:
        return len(self._sources)

    def act(self, x: NDArray[np.floating]) -> Actions:  # (M, D) -> (M,)
        """Choose, and learn a step from the past if there is enough of it.

        Both look at the networks as they are before the step, as in ConvNetJS.
        """
        self._x = torch.from_numpy(np.asarray(x)).to(self._dtype).flatten(1)
        if len(self._x) != len(self):
            raise ValueError(f"x: expected a row for each of {len(self)} agents, got {len(x)}.")
        enough = self._replay.counts.min() > self._learning.start
        due = self._ticks - self._learned >= self._learning.every
        learns = enough and due
        batch = self._replay.sample(self._members, self._learning.batch_size) if learns else None
        own, values = self._values(None if batch is None else batch.next_x)
        self._done = self._chosen(own)
        if batch is not None and values is not None:
            self.learn(batch, values)
            self._learned = self._ticks
        self.age += 1
        self._hold()
        return self._done

    def observe(
        self,
        rewards: NDArray[np.float64],  # (M,)
        ended: Which,  # (M,)
        next_x: NDArray[np.floating],  # (M, D)
        which: Which | None = None,  # (M,)
        cut: Which | None = None,  # (M,)
    ) -> None:
        """Remember what came of the last actions. Where an episode is over, another one starts.

        Args:
            rewards: Of the actions.
            ended: Where the episode ended, so that nothing follows. Not where it was cut off.
            next_x: What is seen then.
            which: The agents that did a step; all unless given.
            cut: Where the episode was cut off; nowhere unless given.
        """
        if not len(self._done):
            raise RuntimeError("observe: expected actions before, got none; call act(x) first.")
        which = np.ones(len(self), dtype=np.bool_) if which is None else which
        cut = np.zeros(len(self), dtype=np.bool_) if cut is None else cut
        for name, given in (("ended", ended), ("which", which), ("cut", cut)):
            if given.dtype != np.bool_ or given.shape != (len(self),):
                raise ValueError(
                    f"{name}: expected {len(self)} truth values, one an agent, got {given.dtype} "
                    f"of shape {given.shape}."
                )
        if not np.isfinite(rewards[which]).all():
            raise ValueError(
                f"rewards: expected finite numbers, got {rewards[which]}; mend the world, since "
                "networks that have learned from these are lost."
            )
        seen = torch.from_numpy(np.asarray(next_x)).to(self._dtype).flatten(1)
        if seen.shape != self._x.shape or not bool(seen[torch.from_numpy(which)].isfinite().all()):
            raise ValueError(
                f"next_x: expected finite numbers of shape {tuple(self._x.shape)}, as x was, got "
                f"shape {tuple(seen.shape)} or others; mend the world."
            )
        self._replay.add(self._x, self._done, rewards, ended, seen, which)
        self._ticks += bool(which.any())
        self._done = np.empty(0, dtype=np.int64)
        self.start_episodes(ended | cut)

    def start_episodes(self, which: Which) -> None:
        """Some agents start anew, and believe in other functions; `observe` sees to it."""
        for agent in np.flatnonzero(which):
            self._functions[agent] += 1
            self._member[agent] = self._sources[agent].integers(self._members)
            self._held[agent] = 0

    def learn(self, batch: Transitions, next_values: Tensor) -> Tensor:  # (M · K, B, A) -> (M · K,)
        """A step of the optimiser; the loss of each network before it.

        Args:
            batch: What happened.
            next_values: Q(s', ·) of one stochastic pass.
        """
        later = self._learning.discount * next_values.amax(-1) * (1 - batch.ended)
        y = torch.stack([batch.actions, batch.rewards + later, torch.ones_like(later)], -1)
        counts = np.repeat(np.maximum(self._replay.counts, 1), self._members)
        if bool(later.isfinite().all()):
            loss = self._session.step(batch.x, y, num_data=torch.from_numpy(counts))
            if not bool(self._session.failed.any()):
                return loss
        raise FloatingPointError(
            "values: expected finite numbers, got others; use a smaller learning rate, or scale "
            "the rewards."
        )

    def values(self, x: Tensor) -> Tensor:  # (M · K, B, D) -> (M · K, B, A)
        """Q(s, ·) of one stochastic pass of every network, with masks of its own for each row."""
        return self._one_pass(x, [2 * self.age] * len(x), shared=False)

    def spread(self, x: Tensor, draws: int) -> Tensor:  # (B, D) -> (M, B)
        """How much the functions that an agent could believe in differ about states.

        The standard deviation of Q(s, a), averaged over actions: over masks of a network and over
        the networks of an ensemble.

        Args:
            x: States.
            draws: Masks; networks without noise have one.
        """
        seeds = [2 * self.age + 1] * (len(self) * self._members)
        passed = self._session.outputs(x, draws=draws, shared=True, noise_seeds=seeds)
        functions = passed.unflatten(0, (len(self), self._members)).flatten(1, 2)  # (M, F, B, A)
        spread: Tensor = functions.std(1, unbiased=False).mean(-1)
        return spread

    def write(self) -> None:
        """Give the networks that agents were made with what was learned."""
        self._session.write()

    def drop_rates(self) -> list[list[float]]:  # of each agent's networks
        """The rates of dubio's masks, layer by layer; nothing where there are none."""
        self.write()
        parts = [[part for net in own for part in net.modules()] for own in self._nets]
        return [[float(p.drop.mean()) for p in own if isinstance(p, Mask)] for own in parts]

    def _values(self, next_x: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Q(s, ·) of the functions believed in, (M, A), and of other passes for the batch."""
        now = self._x.repeat_interleave(self._members, 0)[:, None]  # (M · K, 1, D)
        if self._explore.hold == 1:  # all passes have masks of their own: one call
            passed = self.values(now if next_x is None else torch.cat([now, next_x], 1))
            own, others = passed[:, 0], None if next_x is None else passed[:, 1:]
        else:
            seeds = np.repeat(2 * self._functions + 1, self._members).tolist()
            own = self._one_pass(now, seeds, shared=True)[:, 0]
            others = None if next_x is None else self.values(next_x)
        believed = own.unflatten(0, (len(self), self._members))
        return believed[torch.arange(len(self)), torch.from_numpy(self._member)], others

    def _one_pass(self, x: Tensor, seeds: list[int], *, shared: bool) -> Tensor:
        passed = self._session.outputs(x, own_rows=True, draws=1, shared=shared, noise_seeds=seeds)[
            :, 0
        ]
        if passed.shape[2:] != (self.actions,):
            raise ValueError(
                f"nets: expected one value for each of {self.actions} actions, got outputs of "
                f"shape {tuple(passed.shape[2:])}; change the last layer."
            )
        return passed

    def _chosen(self, values: Tensor) -> Actions:  # (M, A) -> (M,)
        best = values.argmax(-1).numpy()
        share = self._explore.share_of_random_actions(self.age)
        if not share:
            return best
        drawn = [(source.random(), source.integers(self.actions)) for source in self._sources]
        chance, random = map(np.array, zip(*drawn, strict=True))
        return np.where(chance < share, random, best)

    def _hold(self) -> None:
        self._held += 1
        if self._explore.hold is not None:
            self.start_episodes(self._held >= self._explore.hold)
