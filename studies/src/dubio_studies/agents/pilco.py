"""Deep PILCO: learn the dynamics, imagine, search, follow the gradient, act; many agents at once.

Gal, McAllister & Rasmussen 2016, with the dynamics network of Gal et al. 2017 (section 4.5). Every
agent of a group has seeds of its own, and learns the same whoever learns beside it; a group costs
far less than its agents one by one, since a step of imagination is small.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dubio_studies.agents import swing_up
from dubio_studies.agents.cross_entropy import cross_entropy
from dubio_studies.agents.dynamics import Dynamics, MaskName, falling
from dubio_studies.agents.episode import Episode
from dubio_studies.agents.imagination import Functions, imagine, standardised
from dubio_studies.agents.rbf_policy import RBFPolicies

HELD_OUT = 5  # every fifth transition is for validation


@dataclass(frozen=True)
class Settings:
    """Of a group of agents.

    Attributes:
        drop: The fixed dropout rate, or that to start from.
        hidden: Units of each hidden layer of the dynamics network.
        length_scale: ℓ of the prior N(0, 1/ℓ²) of its weights.
        dynamics_steps: Steps of Adam after each episode.
        batch_size: Transitions of a step.
        dynamics_rate: Learning rate of the dynamics at first; it falls along half a cosine to a
            twentieth, anew in every episode. That of the policy does, too.
        bumps: Basis functions of the policy.
        width: Of each of them at first, in `swing_up.UNITS`.
        rounds: Of the search for weights before the gradient is followed, after each episode; see
            `cross_entropy`.
        samples: Policies of a round.
        elites: Those of them that the next round starts from.
        spread: Standard deviation of weights around the present ones, in the first round.
        searchers: Functions of the dynamics that each policy of a round is imagined with.
        updates: Of the policy, after each episode.
        policy_rate: Learning rate of the policy at first.
        max_norm: Of the gradient that a policy follows.
        particles: Functions of the dynamics that are imagined at once.
        redraw_every: Updates with the same particles, starts and noise.
        moment_matching: Whether particles are drawn anew from a Gaussian after each imagined step.
        horizon: Steps that are imagined.
        widths: Of the imagined reward, in m; see `swing_up.rewards`.
        length: Of the pole, in m: that of the world, as the reward depends on it.
    """

    drop: float = 0.1
    hidden: int = 200
    length_scale: float = 1e-2
    dynamics_steps: int = 5000
    batch_size: int = 100
    dynamics_rate: float = 1e-3
    bumps: int = 100
    width: float = 0.6
    rounds: int = 40
    samples: int = 300
    elites: int = 10
    spread: float = 0.3
    searchers: int = 10
    updates: int = 1000
    policy_rate: float = 1e-3
    max_norm: float = 1.0
    particles: int = 100
    redraw_every: int = 500
    moment_matching: bool = True
    horizon: int = 25
    widths: tuple[float, ...] = (0.25, 0.5, 1.0)
    length: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what cannot be computed."""
        counts = ("hidden", "dynamics_steps", "batch_size", "bumps", "updates", "particles",
                  "redraw_every", "horizon", "rounds", "searchers")  # fmt: skip
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}.")
        if not 2 <= self.elites < self.samples:
            raise ValueError(
                f"elites: expected at least 2 and fewer than the {self.samples} samples, got "
                f"{self.elites}."
            )
        for name in ("length_scale", "dynamics_rate", "policy_rate", "max_norm", "spread", "width",
                     "length"):  # fmt: skip
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}.")
        if not self.widths or not all(0 < width < float("inf") for width in self.widths):
            raise ValueError(f"widths: expected positive numbers, got {self.widths}.")
        if not 0 < self.drop < 1:
            raise ValueError(f"drop: expected a rate between 0 and 1, got {self.drop}.")
        if self.moment_matching and self.particles <= swing_up.STATE_SIZE:
            raise ValueError(
                f"particles: expected more than {swing_up.STATE_SIZE} for moment matching, got "
                f"{self.particles}."
            )


@final
class PILCO:
    """Agents that swing a pole up, one for each seed.

    ::

        agents = PILCO("concrete", seeds=[0, 1, 2])
        agents.remember(play(worlds, agents.explore))
        for _ in range(40):
            agents.learn()
            agents.improve()
            agents.remember(play(worlds, agents.act))

    Args:
        masks: Of the dynamics networks.
        seeds: One for each agent. All its random numbers come from it.
        settings: How they learn.

    Attributes:
        dynamics: What they know of the world.
        policies: How they act.
        held_out: Transitions that the dynamics do not learn from: states, forces, states after.
    """

    def __init__(
        self, masks: MaskName, seeds: Sequence[int], settings: Settings | None = None
    ) -> None:
        self.settings = s = Settings() if settings is None else settings
        self._generators = _generators(seeds)
        self.policies = RBFPolicies(
            self._generators, swing_up.UNITS, bumps=s.bumps, width=s.width,
            limit=swing_up.MAX_FORCE,
        )  # fmt: skip
        self.dynamics = Dynamics(
            masks,
            [int(torch.randint(2**62, (), generator=own)) for own in self._generators],
            swing_up.features,
            state_size=swing_up.STATE_SIZE,
            feature_size=swing_up.FEATURE_SIZE,
            hidden=s.hidden,
            drop=s.drop,
            length_scale=s.length_scale,
            learning_rate=s.dynamics_rate,
        )
        self.held_out: tuple[Tensor, Tensor, Tensor] = (
            torch.empty(len(seeds), 0, swing_up.STATE_SIZE),
            torch.empty(len(seeds), 0),
            torch.empty(len(seeds), 0, swing_up.STATE_SIZE),
        )
        self._knows = False

    def __len__(self) -> int:
        return len(self._generators)

    def explore(self, observations: Tensor) -> Tensor:  # (M, P, 4) -> (M, P)
        """Random forces, as in the first episode."""
        drawn = [torch.rand(observations.shape[1], generator=own) for own in self._generators]
        return swing_up.MAX_FORCE * (2 * torch.stack(drawn) - 1)

    @torch.no_grad()
    def act(self, observations: Tensor) -> Tensor:  # (M, P, 4) -> (M, P)
        """The forces of the policies; rounding must not carry them beyond the limit."""
        forces: Tensor = self.policies(swing_up.features(observations))
        return forces.clamp(-swing_up.MAX_FORCE, swing_up.MAX_FORCE)

    def world_seeds(self) -> list[int]:
        """New seeds for the worlds of an episode, from those of the agents."""
        return [int(torch.randint(2**31, (), generator=own)) for own in self._generators]

    def remember(self, episode: Episode) -> None:
        """Keep the transitions of an episode; every fifth is held out for validation."""
        before, forces, after = episode.transitions()
        chosen = torch.arange(forces.shape[1]) % HELD_OUT == HELD_OUT // 2
        self.dynamics.add(before[:, ~chosen], forces[:, ~chosen], after[:, ~chosen])
        parts = (before[:, chosen], forces[:, chosen], after[:, chosen])
        pairs = zip(self.held_out, parts, strict=True)
        before, forces, after = (torch.cat(pair, dim=1) for pair in pairs)
        self.held_out = (before, forces, after)

    def learn(self) -> None:
        """Train the dynamics on all transitions so far, from where they are."""
        self.dynamics.learn(self.settings.dynamics_steps, self.settings.batch_size)
        self._knows = True

    def improve(self) -> Tensor:  # (M,)
        """Search, follow the gradient, and keep what imagines most; returns how much that is.

        Gradients alone get stuck: a swing-up is chaotic, and its return has many local optima. So
        a search without gradients finds weights first (`cross_entropy`); from them, weights,
        centres and widths follow the gradient. The policies before, between and after both then
        imagine with the same particles, which neither has seen, and each agent keeps the one with
        the most imagined reward of all widths. What is returned is that of the world's width.
        """
        if not self._knows:
            raise RuntimeError(
                "improve: expected dynamics, got untrained ones; call learn() first."
            )
        candidates = [copy.deepcopy(self.policies)]
        self.search()
        candidates.append(copy.deepcopy(self.policies))
        self.follow()
        candidates.append(copy.deepcopy(self.policies))
        functions, start, _ = self._redrawn()
        with torch.no_grad():
            imagined = [
                imagine(functions, each.prepared(), swing_up.features, start, self.settings.horizon)
                for each in candidates
            ]
            scores = torch.stack(
                [self._expected(states, self.settings.widths) for states in imagined]
            )
            best = scores.nan_to_num(nan=-torch.inf).argmax(0)  # (M,)
            for kept, *choices in zip(
                self.policies.parameters(), *(c.parameters() for c in candidates), strict=True
            ):
                kept.copy_(torch.stack(choices)[best, torch.arange(len(self))])
        returns = torch.stack([self._expected(states) for states in imagined])  # (C, M)
        return returns.gather(0, best[None])[0]

    def search(self) -> None:
        """Move to weights that imagine more, with centres and widths as they are."""
        s, size = self.settings, swing_up.STATE_SIZE

        def score(weights: Tensor) -> Tensor:  # (M, S, K) -> (M, S)
            functions = self.dynamics.functions(s.searchers).repeated(s.samples)
            start = swing_up.START_DEVIATION * self._normal(s.searchers, size)
            policy = self.policies.prepared(weights)
            states = imagine(
                functions, policy, swing_up.features, start.repeat(1, s.samples, 1), s.horizon
            )
            rewards = swing_up.rewards(states, s.widths, s.length).sum(0)  # (M, S · P)
            return rewards.view(len(self), s.samples, s.searchers).mean(-1)

        found = cross_entropy(
            score, self.policies.weights[..., 0].detach(), self._generators, spread=s.spread,
            samples=s.samples, elites=s.elites, rounds=s.rounds,
        )  # fmt: skip
        with torch.no_grad():
            self.policies.weights.copy_(found[..., None])

    def follow(self) -> None:
        """Follow the gradient of the imagined return, by Adam."""
        s = self.settings
        adam = torch.optim.Adam(self.policies.parameters(), lr=s.policy_rate)
        for update in range(s.updates):
            adam.param_groups[0]["lr"] = falling(s.policy_rate, update / s.updates)
            if update % s.redraw_every == 0:
                functions, start, noise = self._redrawn()
            policy = self.policies.prepared()
            states = imagine(functions, policy, swing_up.features, start, s.horizon, noise)
            adam.zero_grad()
            torch.autograd.backward(-self._expected(states, s.widths).sum())
            limit_gradients(list(self.policies.parameters()), s.max_norm)
            adam.step()

    def _redrawn(self) -> tuple[Functions, Tensor, Tensor | None]:
        """New common random numbers: functions, starts, and noise if moments are matched."""
        s, size = self.settings, swing_up.STATE_SIZE
        start = swing_up.START_DEVIATION * self._normal(s.particles, size)
        noise = None
        if s.moment_matching:
            noise = standardised(self._normal(s.horizon, s.particles, size)).transpose(0, 1)
        return self.dynamics.functions(s.particles), start, noise

    def _normal(self, *shape: int) -> Tensor:  # (M, *shape)
        return torch.stack([torch.randn(shape, generator=own) for own in self._generators])

    def _expected(
        self, states: Tensor, widths: Sequence[float] = (swing_up.COST_WIDTH,)
    ) -> Tensor:  # (T, M, P, D) -> (M,)
        """The mean return over particles."""
        return swing_up.rewards(states, widths, self.settings.length).mean(-1).sum(0)


@torch.no_grad()
def limit_gradients(parameters: Sequence[Tensor], max_norm: float) -> None:
    """Shorten the gradient of each member to a norm; one that is not finite becomes zero."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    norms = squares.sum(0).sqrt()  # (M,)
    factors = (max_norm / norms.clamp_min(1e-12)).clamp_max(1.0)
    for gradient in gradients:
        shape = (-1, *[1] * (gradient.dim() - 1))
        gradient.mul_(factors.view(shape))
        gradient.masked_fill_(~norms.isfinite().view(shape), 0.0)


def _generators(seeds: Sequence[int]) -> list[torch.Generator]:
    whole = all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    if not seeds or not whole or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"seeds: expected different whole numbers, one for each agent, got {seeds!r}; an agent "
            f"without a seed could not be repeated."
        )
    return [torch.Generator().manual_seed(seed) for seed in seeds]
