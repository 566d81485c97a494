"""Many agents at once: they meet the same contexts, and train as one batched computation."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from dubio.decide import rules
from dubio.decide.action_values import all_pairs, values_of_actions
from dubio.decide.arguments import (
    ArrayLike,
    action_features_of,
    all_finite,
    as_tensor,
    check_likelihood,
    check_number_of_actions,
    members_of,
)
from dubio.decide.contexts import Contexts
from dubio.decide.experience import Experience
from dubio.decide.learner import RateSchedule
from dubio.decide.per_agent import actions_of_agents, one_each, rewards_of_agents
from dubio.decide.rules import ActionRule
from dubio.decide.settings import Settings, whole_number
from dubio.decide.turns import Turn, in_turn
from dubio.layers.exact_linear import ExactLinear
from dubio.likelihoods import Likelihood
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.numbers import mix
from dubio.objectives.elbo import ELBO
from dubio.population import Population

_CHOOSING, _TRAINING, _NOISE = range(3)  # streams of random numbers
_TRIED = 64  # contexts, to see whether networks can take them


@final
@dataclass(frozen=True, eq=False)
class Choices:
    """The actions chosen by each of M agents, one column per context.

    Attributes:
        action: `(M, B)` int64.
        probability: Probabilities of these actions, `(M, B)` float64.
        probabilities: Probabilities of all actions, `(M, B, A)` float64.
    """

    action: Tensor
    probability: Tensor
    probabilities: Tensor


@final
class BanditPopulation:
    """Many bandit agents with networks of one structure, trained together.

    They see the same contexts at the same time. Each is a `Bandit` with its own seed, settings and
    rule, and becomes the same agent whatever is trained beside it. The networks train as one
    batched computation (`dubio.Population`); the state of Adam continues from update to update::

        agents = decide.BanditPopulation([network() for _ in range(16)], actions=2, likelihood=…)
        choices = agents.choose(contexts)  # choices.action is (16, B)
        agents.update(contexts, choices.action, rewards)  # (16, B)

    Settings that may differ are given once for all agents, or as a sequence with one for each.

    Args:
        nets: The network of each agent, or the members of its ensemble; all ensembles have the same
            size. `write` copies the trained weights into them.
        actions: A, the number of actions.
        likelihood: The distribution of a reward given the outputs. Its numbers may differ. Each
            agent learns the parameters of a copy, which `write` leaves inside.
        rule: As for `Bandit`. May differ.
        action_features: As for `Bandit`.
        memory: Number of most recent rewards to learn from.
        steps: Gradient steps per update.
        batch_size: Rows per step, drawn with replacement from the memory.
        learning_rate: Learning rate of Adam. May differ.
        schedule: Function from the number of updates so far to a factor on the learning rates.
        kl_weight: Weight of the KL in the ELBO. May differ.
        functions: Number of functions drawn for a choice.
        average: Number of draws averaged into one function.
        floor: Smallest probability of each action. May differ.
        epsilon: Share of random actions, for the rule ``"epsilon"``. May differ.
        bonus: Factor on the standard deviation, for the rule ``"upper"``. May differ.
        seeds: Seeds of choices and training, one for each agent; 0, 1, 2, … if None.
        own_contexts: Whether each agent has its own contexts, `(M, B, D)`.
    """

    def __init__(
        self,
        nets: Sequence[nn.Module | Sequence[nn.Module]],
        actions: int,
        *,
        likelihood: Likelihood | Sequence[Likelihood],
        rule: ActionRule | Sequence[ActionRule] = "thompson",
        action_features: Literal["one-hot"] | Tensor | None = None,
        memory: int = 4096,
        steps: int = 1,
        batch_size: int = 64,
        learning_rate: float | Sequence[float] = 1e-3,
        schedule: RateSchedule | None = None,
        kl_weight: float | Sequence[float] = 1.0,
        functions: int = 64,
        average: int = 1,
        floor: float | Sequence[float] = 0.0,
        epsilon: float | Sequence[float] = 0.05,
        bonus: float | Sequence[float] = 1.0,
        seeds: Sequence[int] | None = None,
        own_contexts: bool = False,
    ) -> None:
        ensembles = [members_of(one) for one in nets]
        count = len(ensembles)
        if not count or len({len(members) for members in ensembles}) != 1:
            raise ValueError(
                "nets: expected one for each agent, or ensembles of one size, got sizes "
                f"{[len(members) for members in ensembles]}"
            )
        self._turn = Turn()
        self._members = len(ensembles[0])
        if any(isinstance(m, ExactLinear) for nets in ensembles for n in nets for m in n.modules()):
            raise NotImplementedError(
                "nets: expected networks that are trained by gradients only, got ExactLinear, "
                "which is conditioned on the memory; use a Bandit for each, or dubio.BayesLinear"
            )
        own_rules: list[ActionRule] = one_each("rule", rule, count)
        own_seeds: list[int] = one_each(
            "seeds", list(range(count) if seeds is None else seeds), count
        )
        each = zip(
            own_rules, one_each("learning_rate", learning_rate, count),
            one_each("kl_weight", kl_weight, count), one_each("floor", floor, count),
            one_each("epsilon", epsilon, count), one_each("bonus", bonus, count),
            own_seeds, strict=True,
        )  # fmt: skip
        self._settings = [
            Settings(
                actions, own_rule, memory, steps, batch_size, rate, weight, functions, average,
                least, share, own_bonus, False, seed,
            )
            for own_rule, rate, weight, least, share, own_bonus, seed in each
        ]  # fmt: skip
        like = next(p.detach() for p in ensembles[0][0].parameters() if p.is_floating_point())
        self._like = like
        check_number_of_actions(self._settings[0].actions, like)
        self._features = action_features_of(action_features, actions, like)
        self._likelihoods = [
            copy.deepcopy(own) for own in one_each("likelihood", likelihood, count)
        ]
        for own in self._likelihoods:
            check_likelihood(own)
        given = None if self._features is not None else actions
        elbos = [
            ELBO(net, RewardOfAction(copy.deepcopy(own), given), 1, kl_weight=settings.kl_weight)
            for members, own, settings in zip(
                ensembles, self._likelihoods, self._settings, strict=True
            )
            for net in members
        ]
        noise = [
            mix(settings.seed, _NOISE, member) >> 1
            for settings in self._settings
            for member in range(self._members)
        ]
        self._rates = torch.tensor(
            [s.learning_rate for s in self._settings for _ in range(self._members)]
        )
        self._schedule, self._factor = schedule, 1.0
        self._session = Population(elbos, seeds=noise).session(learning_rate=self._rates)
        self._experience = Experience(memory)  # contexts, then actions and rewards of all agents
        self._choosing = [_generator(s.seed, _CHOOSING) for s in self._settings]
        self._training = [_generator(s.seed, _TRAINING) for s in self._settings]
        self._own = own_contexts
        self._contexts = Contexts(like, flat=self._features is not None)
        self._choices = 0
        self._checked = False  # whether the rules suit the networks
        self.interactions = 0

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return (
            f"BanditPopulation({len(self)} agents, {self._settings[0].actions} actions, "
            f"{self.interactions} updates)"
        )

    @property
    def failed(self) -> Tensor:  # (M,) bool
        """Which agents had a non-finite loss; they have stopped learning."""
        return self._session.failed.view(len(self), -1).any(1)

    @in_turn
    def choose(self, contexts: ArrayLike) -> Choices:
        """Choose an action for each agent and context.

        Args:
            contexts: `(B, D)`, or whatever the networks take; `(M, B, D)` with ``own_contexts``.
        """
        rows = self._read_contexts(contexts)
        scores = self._scores(rows, self._choices)
        odds = torch.stack(
            [s.probabilities(own, None) for s, own in zip(self._settings, scores, strict=True)]
        ).cpu()  # (M, B, A)
        drawn = [rules.drawn(*pair) for pair in zip(odds, self._choosing, strict=True)]
        self._choices += 1
        self._contexts.accept(rows[0] if self._own else rows)
        action = torch.stack(drawn)  # (M, B)
        return Choices(action, odds.gather(-1, action[..., None]).squeeze(-1), odds)

    @in_turn
    def update(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        steps: int | None = None,
    ) -> None:
        """Train each agent on the rewards of its actions.

        Args:
            contexts: `(B, D)`, or whatever the networks take.
            actions: Actions of each agent, `(M, B)`.
            rewards: Rewards of these actions, `(M, B)`.
            steps: Gradient steps, in place of the agents'. With 0 the rewards are only stored, and
                it does not count as an interaction.
        """
        steps = self._settings[0].steps if steps is None else whole_number("steps", steps, 0)
        x = self._read_contexts(contexts)
        count = x.shape[1] if self._own else len(x)
        taken = actions_of_agents(actions, len(self), count, self._settings[0].actions)
        gains = rewards_of_agents(rewards, len(self), count, self._like)
        for likelihood, own in zip(self._likelihoods, gains, strict=True):
            likelihood.check_targets(own[:, None], own.new_zeros(1, len(own), 1))
        if self._contexts.are_new:  # can the networks take such contexts?
            self._scores(x[:, :_TRIED] if self._own else x[:_TRIED], -1)
        self._contexts.accept(x[0] if self._own else x)
        results = torch.stack([taken.to(gains), gains], -1).transpose(0, 1)  # (B, M, 2)
        self._experience.add(x.transpose(0, 1) if self._own else x, results)
        if steps:
            self._learn(steps)

    @in_turn
    def expected(self, contexts: ArrayLike) -> Tensor:  # (M, B, A)
        """Return the mean reward of every action over functions, the same in every call."""
        scores = self._scores(self._read_contexts(contexts), -1)
        return torch.stack([own.cpu().double().mean(0) for own in scores])

    @in_turn
    def write(self) -> None:
        """Copy the trained weights into the networks that were passed."""
        self._session.write()

    @in_turn
    def state_dict(self) -> dict[str, Any]:
        """Return the state, in types that ``torch.load(weights_only=True)`` accepts."""
        return {
            "session": self._session.state_dict(),
            "experience": self._experience.state(),
            "choosing": [generator.get_state() for generator in self._choosing],
            "training": [generator.get_state() for generator in self._training],
            "factor": self._factor,
            "choices": self._choices,
            "interactions": self.interactions,
            "contexts": self._contexts.state(),
        }

    @in_turn
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, bit for bit, with agents made in the same way."""
        self._session.load_state_dict(state["session"])
        self._experience.load(state["experience"], self._like.device)
        for name, generators in (("choosing", self._choosing), ("training", self._training)):
            for generator, kept in zip(generators, state[name], strict=True):
                generator.set_state(kept)
        self._factor, self._choices = state["factor"], state["choices"]
        self.interactions = state["interactions"]
        self._contexts.load(state.get("contexts"))

    def _learn(self, steps: int) -> None:
        """Run the gradient steps of one more interaction."""
        if self._schedule is not None:
            factor = float(self._schedule(self.interactions))
            if factor != self._factor:
                self._session.learning_rate = self._rates * factor
                self._factor = factor
        rows, size = len(self._experience), self._settings[0].batch_size
        places = torch.stack(
            [
                torch.randint(rows, (steps, self._members, size), generator=generator)
                for generator in self._training
            ],
            dim=1,
        )  # (K, M, members, B)
        agents = torch.arange(len(self))[:, None, None].expand(places.shape[1:])
        for own in places:
            self._session.step(*self._batch(own, agents), num_data=rows)
        self.interactions += 1

    def _batch(self, places: Tensor, agents: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of each network."""
        x, results = self._experience.take(places.flatten())
        each, own = torch.arange(len(results)), agents.flatten()
        results = results[each, own]  # (M · members · B, 2)
        x = x[each, own] if self._own else x
        y = torch.cat([results, torch.ones_like(results[:, :1])], 1)  # action, reward, weight
        if self._features is not None:
            x = torch.cat([x, self._features[results[:, 0].long()]], 1)
        shape = (len(self) * self._members, places.shape[-1])
        return x.unflatten(0, shape), y.unflatten(0, shape)

    def _scores(self, contexts: Tensor, number: int) -> list[Tensor]:  # (S, B, A) of each agent
        settings = self._settings[0]
        each = -(-settings.functions // self._members)
        x = contexts
        if self._features is not None:
            x = all_pairs(x.flatten(0, -2), self._features)
            x = x.unflatten(0, (len(self), -1)) if self._own else x
        if self._own:
            x = x.repeat_interleave(self._members, 0)  # members of an ensemble have the same
        self._check_rules(x)
        outputs = self._session.outputs(
            x,
            own_rows=self._own,
            draws=each * settings.average,
            shared=True,
            generator=torch.Generator().manual_seed(number + 1),
        )  # (M · members, S · average, B, …), or one draw of networks without noise
        if not all_finite(outputs):
            raise FloatingPointError(
                "nets: expected finite rewards, got NaN or infinite ones; look at their weights: "
                "use a smaller learning rate, or scale contexts and rewards"
            )
        found = []
        for agent, likelihood in enumerate(self._likelihoods):
            own = outputs[agent * self._members : (agent + 1) * self._members]
            means = values_of_actions(
                likelihood.mean(own.flatten(0, 1)), x.shape[1] if self._own else len(x),
                settings.actions,
                joint=self._features is not None,
            )  # fmt: skip
            if outputs.shape[1] > 1:
                means = means.unflatten(0, (-1, settings.average)).mean(1)
            found.append(means.detach())
        return found

    def _check_rules(self, x: Tensor) -> None:
        """Raise an error if a rule needs several functions and has one."""
        needing = [s.rule for s in self._settings if s.rule in ("thompson", "upper")]
        if self._checked or not needing or self._members > 1:
            return
        source = torch.Generator().manual_seed(0)
        drawn = self._session.outputs(
            x, own_rows=self._own, draws=2, shared=True, generator=source
        )  # one draw of networks without noise
        if drawn.shape[1] == 1:
            raise ValueError(
                f"nets: expected noise, or ensembles, for the rule {needing[0]}, got networks "
                "without noise; give them dropout or dubio.BayesLinear, or use rule='epsilon'"
            )
        self._checked = True

    def _read_contexts(self, values: ArrayLike) -> Tensor:
        if not self._own:
            return self._contexts.read(values)
        given = as_tensor("contexts", values)
        if given.dim() < 3 or len(given) != len(self):
            raise ValueError(
                f"contexts: expected shape ({len(self)}, B, D), rows of its own for each agent, "
                f"got {tuple(given.shape)}"
            )
        rows = self._contexts.read(given.flatten(0, 1))
        return rows.view(len(self), -1, *rows.shape[1:])


def _generator(seed: int, purpose: int) -> torch.Generator:
    return torch.Generator().manual_seed(mix(seed, purpose) >> 1)
