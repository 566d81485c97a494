"""A contextual bandit: an agent that chooses actions and learns from rewards."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, Self, final

import torch
from torch import Tensor, nn

from dubio.decide import folder as folders
from dubio.decide import rules
from dubio.decide.action_values import ActionValues
from dubio.decide.answers import Answers
from dubio.decide.arguments import (
    ArrayLike,
    action_features_of,
    check_likelihood,
    check_number_of_actions,
    members_of,
    read_actions,
    read_allowed,
    read_ids,
    read_numbers,
)
from dubio.decide.choosing import Choice, RulePolicy
from dubio.decide.contexts import Contexts
from dubio.decide.journal import Event
from dubio.decide.keeping import KeptAgent, WeightVersions
from dubio.decide.learner import Learner, OptimizerFactory, RateSchedule
from dubio.decide.log import Log
from dubio.decide.pending import Chosen, Pending
from dubio.decide.rules import ActionRule
from dubio.decide.settings import Settings, whole_number
from dubio.decide.turns import in_turn
from dubio.likelihoods import Likelihood
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.numbers import mix
from dubio.training.errors import CheckpointError

_CHOOSING, _TRAINING, _ASKING = range(3)  # streams of random numbers
_TRIED = 64  # contexts, to see whether networks can take them
_ALL = torch.ones((), dtype=torch.bool)


@final
class Bandit(KeptAgent):
    """A contextual bandit agent: it chooses actions with networks and learns from rewards.

    ``choose`` draws functions from the network, turns their expected rewards into action
    probabilities by a rule, and draws an action. ``update`` stores rewards, which may arrive late,
    in any order and in part, and continues to train the network in place. The same seed and the
    same calls give the same bits; torch's global generator is not used.

    Clark et al. 2022, sections 2.7 and 4.3, is ``action_features="one-hot", average=2, steps=64``.

    Args:
        net: A network with noise (dropout, masks, `dubio.BayesLinear`, …), or several: an ensemble,
            one function each if they have no noise. A single network without noise works with the
            rules greedy and epsilon only. An `ExactLinear` as last layer, or as the whole network,
            is conditioned in closed form after the gradient steps of an update.
        actions: A, the number of actions.
        likelihood: The distribution of a reward given the outputs.
        rule: ``"thompson"``: the share of functions in which an action is the best. ``"greedy"``:
            the best mean over functions. ``"epsilon"``: greedy, with a share ``epsilon`` of random
            actions. ``"upper"``: the best mean + ``bonus`` · standard deviation over functions.
            Ties are split evenly.
        action_features: None if the network maps a context to one reward per action, `(B, A)`.
            ``"one-hot"`` or a tensor `(A, F)` if it maps [context, features of an action] to one
            reward.
        memory: Number of most recent rewards to learn from.
        steps: Gradient steps per update.
        batch_size: Rows per step, drawn with replacement from the memory.
        learning_rate: Learning rate of Adam.
        optimizer: Another optimiser: a function of the parameters, such as
            ``partial(torch.optim.SGD, lr=0.01)``.
        schedule: Function from the number of updates so far to a factor on the learning rate.
        kl_weight: Weight of the KL in the ELBO.
        functions: Number of functions drawn for a choice.
        average: Number of draws averaged into one function.
        floor: Smallest probability of each allowed action.
        epsilon: Share of random actions, for the rule ``"epsilon"``.
        bonus: Factor on the standard deviation, for the rule ``"upper"``.
        keep_log: Whether to keep all answered choices, as ``agent.log``.
        seed: Seed of choices and training.
        condition_every: Number of updates after which an `ExactLinear` is conditioned on the memory
            from scratch.
    """

    def __init__(
        self,
        net: nn.Module | Sequence[nn.Module],
        actions: int,
        *,
        likelihood: Likelihood,
        rule: ActionRule = "thompson",
        action_features: Literal["one-hot"] | Tensor | None = None,
        memory: int = 4096,
        steps: int = 1,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        optimizer: OptimizerFactory | None = None,
        schedule: RateSchedule | None = None,
        kl_weight: float = 1.0,
        functions: int = 64,
        average: int = 1,
        floor: float = 0.0,
        epsilon: float = 0.05,
        bonus: float = 1.0,
        keep_log: bool = False,
        seed: int = 0,
        condition_every: int = 1,
    ) -> None:
        super().__init__()
        self._settings = Settings(
            actions, rule, memory, steps, batch_size, learning_rate, kl_weight, functions,
            average, floor, epsilon, bonus, keep_log, seed, condition_every,
        )  # fmt: skip
        check_likelihood(likelihood)
        actions, seed = self._settings.actions, self._settings.seed
        nets = members_of(net)
        self._like = next(
            (p.detach() for one in nets for p in one.parameters() if p.is_floating_point()),
            torch.empty(()),
        )
        check_number_of_actions(actions, self._like)
        self._features = action_features_of(action_features, actions, self._like)
        self._parts = {
            "net": nets, "likelihood": likelihood, "optimizer": optimizer, "schedule": schedule,
        }  # fmt: skip
        self._choosing = torch.Generator().manual_seed(_stream(seed, _CHOOSING))
        self._training = torch.Generator().manual_seed(_stream(seed, _TRAINING))
        self._values = ActionValues(nets, actions, self._features, likelihood, average)
        self._policy = RulePolicy(self._values, self._settings)
        reward = RewardOfAction(likelihood, actions if self._features is None else None)
        self._likelihood = likelihood
        self._learner = Learner(nets, reward, self._settings, optimizer, schedule, self._training)
        self._pending = Pending()
        self._answers = Answers()
        self._contexts = Contexts(self._like, flat=self._features is not None)

    def __repr__(self) -> str:
        return (
            f"Bandit({self._settings.actions} actions, {self._settings.rule}, "
            f"{self.interactions} updates, {len(self._learner.experience)} of "
            f"{self._settings.memory} remembered, {len(self._pending)} pending)"
        )

    @property
    def interactions(self) -> int:
        """Number of updates that trained the network."""
        return self._learner.interactions

    @property
    def choices(self) -> int:
        """Number of choices so far, one per context; also the next id."""
        return self._pending.count

    @property
    def remembered(self) -> int:
        """Number of rewards in memory: ``num_data`` of the ELBO."""
        return len(self._learner.experience)

    @property
    def pending(self) -> Tensor:
        """Ids of choices that wait for a reward, oldest first."""
        return self._pending.ids

    @property
    def log(self) -> Log:
        """All answered choices, in the order of the answers."""
        if not self._settings.keep_log:
            raise ValueError("log: expected an agent that keeps one; pass keep_log=True to Bandit")
        with self._turn:
            return self._answers.log()

    @in_turn
    def choose(self, contexts: ArrayLike, allowed: ArrayLike | None = None) -> Choice:
        """Choose an action for each context.

        All rows see the same functions. Given these, the probabilities are exact; averaged over
        functions they are those of the rule.

        Args:
            contexts: `(B, D)`, or whatever the network takes.
            allowed: Which actions are allowed, `(A,)` or `(B, A)` bool; all if None.

        Returns:
            The actions, their probabilities and their ids.

        Raises:
            FloatingPointError: If the network expects rewards that are NaN or infinite.
        """
        rows = self._contexts.read(contexts)
        mask = self._read_allowed(allowed, len(rows))
        before = self._choosing.get_state()
        try:
            odds = self._policy.probabilities(rows, mask, self._settings.functions, self._choosing)
            action = rules.drawn(odds, self._choosing)  # (B,)
        except BaseException:
            self._choosing.set_state(before)
            raise
        probability = odds.gather(1, action[:, None]).squeeze(1)
        self._contexts.accept(rows)
        could = _ALL.expand(odds.shape) if mask is None else mask.cpu()
        with self._keeping({"call": "choose", "contexts": rows, "allowed": mask, "action": action}):
            ids = self._pending.enter(Chosen(rows, action, odds, could))
        return Choice(action.clone(), probability, odds.clone(), ids)

    @in_turn
    def update(
        self,
        ids: ArrayLike,
        /,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        *,
        steps: int | None = None,
    ) -> None:
        """Learn from rewards: ``update(ids, rewards)`` or ``update(contexts, actions, rewards)``.

        The first form answers choices of this agent, all at once or some of them, in any order. The
        second form learns from actions taken elsewhere. Invalid input leaves the agent unchanged.

        Args:
            ids: Ids of choices, or contexts `(B, D)`.
            actions: The rewards `(B,)` of these choices; or the actions `(B,)` that were taken.
            rewards: The rewards `(B,)` of these actions.
            weight: Weight of each row in the likelihood, `(B,)`; one if None. Second form only.
            steps: Gradient steps, in place of the agent's. With 0 the rewards are only stored, and
                it does not count as an interaction.
        """
        steps = self._settings.steps if steps is None else whole_number("steps", steps, 0)
        if actions is not None and rewards is not None:
            self._take(ids, actions, rewards, weight, steps)
            return
        if weight is not None:
            raise TypeError(
                "weight: expected None with ids, got weights; pass contexts, actions too"
            )
        gains = rewards if actions is None else actions
        if gains is None:
            raise TypeError("rewards: expected numbers, got none; call update(choice.id, rewards)")
        self._answer(read_ids(ids), gains, steps)

    @in_turn
    def train(self, steps: int) -> None:
        """Run more gradient steps on the memory."""
        steps = whole_number("steps", steps, 0)
        with self._keeping({"call": "train", "steps": steps}):
            self._learner.train(steps)

    @in_turn
    def forget(self, ids: ArrayLike) -> None:
        """Stop waiting for the rewards of some choices."""
        gone = read_ids(ids)
        self._pending.check(gone)
        with self._keeping({"call": "forget", "ids": gone}):
            self._pending.remove(gone)

    @in_turn
    def expected(self, contexts: ArrayLike, draws: int | None = None) -> Tensor:  # (B, A)
        """Return the mean reward of every action over functions, the same functions in every call.

        Args:
            contexts: `(B, D)`, or whatever the network takes.
            draws: Number of functions; by default ``functions``.
        """
        rows = self._contexts.read(contexts)
        count = self._settings.functions if draws is None else whole_number("draws", draws, 1)
        return self._policy.scores(rows, count, self._asking()).cpu().double().mean(0)

    @in_turn
    def probabilities(
        self, contexts: ArrayLike, draws: int | None = None, allowed: ArrayLike | None = None
    ) -> Tensor:  # (B, A)
        """Return the rule's probability of every action, with the same functions in every call.

        The agent does not change. ``choose`` draws its own functions, so its probabilities scatter
        around these; use many draws for the average.

        Args:
            contexts: `(B, D)`, or whatever the network takes.
            draws: Number of functions; by default ``functions``.
            allowed: Which actions are allowed, as for `choose`.
        """
        rows = self._contexts.read(contexts)
        mask = self._read_allowed(allowed, len(rows))
        least = 2 if self._settings.rule == "upper" else 1
        count = self._settings.functions if draws is None else whole_number("draws", draws, least)
        return self._policy.probabilities(rows, mask, count, self._asking())

    def _answer(self, ids: list[int], values: ArrayLike, steps: int) -> None:
        rewards = read_numbers("rewards", values, len(ids))
        self._pending.check(ids)
        if not ids:
            return
        chosen = self._pending.get(ids)
        y = self._targets(chosen.actions, rewards, torch.ones_like(rewards))
        with self._keeping({"call": "answer", "ids": ids, "rewards": rewards, "steps": steps}):
            self._pending.remove(ids)
            if self._settings.keep_log:
                self._answers.add(chosen, rewards)
            self._learn(chosen.contexts, chosen.actions.to(self._like.device), y, steps)

    def _take(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        weight: ArrayLike | None,
        steps: int,
    ) -> None:
        rows = self._contexts.read(contexts)
        count, device = len(rows), self._like.device
        taken = read_actions(actions, count, self._settings.actions, device)
        gains = read_numbers("rewards", rewards, count)
        weights = (
            torch.ones_like(gains) if weight is None else read_numbers("weight", weight, count)
        )
        if bool((weights < 0).any()):
            raise ValueError(f"weight: expected numbers >= 0, got {float(weights.min())}")
        y = self._targets(taken, gains, weights)
        if self._contexts.are_new:  # can the networks take such contexts?
            self._policy.scores(rows[:_TRIED], 1, self._asking())
        self._contexts.accept(rows)
        event = {
            "call": "take", "contexts": rows, "actions": taken, "rewards": gains,
            "weight": weights, "steps": steps,
        }  # fmt: skip
        with self._keeping(event):
            self._learn(rows, taken, y, steps)

    def _learn(self, contexts: Tensor, actions: Tensor, y: Tensor, steps: int) -> None:
        self._learner.add(self._values.inputs(contexts, actions), y)
        if steps:
            self._learner.learn(steps)

    def _targets(self, actions: Tensor, rewards: Tensor, weights: Tensor) -> Tensor:  # (B, 3)
        """Return the rewards as targets of the likelihood, or raise an error."""
        y = torch.stack([actions.to("cpu", torch.float64), rewards, weights], 1).to(self._like)
        if not bool(y.isfinite().all()):
            raise ValueError(f"rewards: expected numbers that fit {y.dtype}, got larger ones")
        self._likelihood.check_targets(y[:, 1:2], y.new_zeros(1, len(y), 1))
        return y

    def _read_allowed(self, values: ArrayLike | None, rows: int) -> Tensor | None:
        if values is None:
            return None
        mask = read_allowed(values, rows, self._settings.actions, self._like.device)
        return None if bool(mask.all()) else mask

    def _asking(self) -> torch.Generator:
        return torch.Generator().manual_seed(_stream(self._settings.seed, _ASKING))

    def _weights(self) -> WeightVersions:
        return self._learner.weights()

    def _state(self) -> dict[str, Any]:
        return {
            "settings": asdict(self._settings),
            "features": self._features,
            "contexts": self._contexts.state(),
            "learner": self._learner.state(),
            "pending": self._pending.state(),
            "answered": self._answers.state(),
            "choosing": self._choosing.get_state(),
            "training": self._training.get_state(),
            "parts": folders.pickled(self._parts),
        }

    @classmethod
    def _restored(cls, parts: dict[str, Any], state: dict[str, Any]) -> Self:
        agent = cls(**parts, action_features=state["features"], **state["settings"])
        agent._contexts.load(state.get("contexts"))
        agent._learner.load(state["learner"])
        agent._pending.load(state["pending"])
        agent._answers.load(state["answered"])
        agent._choosing.set_state(state["choosing"])
        agent._training.set_state(state["training"])
        return agent

    def _again(self, event: Event) -> None:
        match event["call"]:
            case "choose":
                action = self.choose(event["contexts"], event["allowed"]).action
                if action.tolist() != event["action"].tolist():
                    raise CheckpointError(
                        "journal: expected the same choices as then, got others; load the agent on "
                        "the machine, with the versions and the number of threads that made them"
                    )
            case "answer":
                self._answer(event["ids"], event["rewards"], event["steps"])
            case "take":
                names = "contexts", "actions", "rewards", "weight", "steps"
                self._take(*(event[name] for name in names))
            case "train":
                self.train(event["steps"])
            case "forget":
                self.forget(event["ids"])


def _stream(seed: int, purpose: int) -> int:
    """Return a seed that no other agent or purpose has."""
    return mix(seed, purpose) >> 1
