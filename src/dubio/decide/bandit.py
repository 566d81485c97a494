"""A contextual bandit: an agent that chooses, and learns from what comes of it."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, final

import torch
from torch import Tensor, nn

from dubio.decide import folder as folders
from dubio.decide import rules
from dubio.decide.action_values import ActionValues
from dubio.decide.arguments import (
    Array,
    action_features_of,
    all_finite,
    members_of,
    read_actions,
    read_allowed,
    read_contexts,
    read_ids,
    read_numbers,
)
from dubio.decide.folder import KeptFolder
from dubio.decide.journal import Event
from dubio.decide.learner import Learner, OptimizerFactory, Schedule
from dubio.decide.log import Log
from dubio.decide.pending import Chosen, Pending
from dubio.decide.rules import Rule
from dubio.decide.settings import Settings, whole_number
from dubio.likelihoods import Likelihood
from dubio.likelihoods.reward import RewardOfAction
from dubio.noise.numbers import mix
from dubio.training.errors import CheckpointError

_CHOOSING, _TRAINING, _ASKING = range(3)  # streams of random numbers
_ALL = torch.ones((), dtype=torch.bool)


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """What an agent has chosen, a row for each context.

    Attributes:
        action: `(B,)` int64.
        probability: Of that action, `(B,)` float64: exactly the one it was drawn with.
        probabilities: Of all actions, `(B, A)` float64.
        id: What to answer with: `(B,)` int64.
    """

    action: Tensor
    probability: Tensor
    probabilities: Tensor
    id: Tensor

    def __len__(self) -> int:
        return len(self.action)


@final
class Bandit:
    """An agent around networks: it meets contexts, chooses actions and learns from rewards.

    ``choose`` draws some functions from the network, turns the rewards that they expect into
    probabilities of actions by a rule, and draws an action. ``update`` remembers rewards, which may
    come late, in any order and in part, and trains the network from where it was. The network is
    trained in place. The same seed and the same calls give the same bits; torch's global generator
    is left alone.

    Clark et al. 2022, sections 2.7 and 4.3, is ``action_features="one-hot", average=2, steps=64``.

    Args:
        net: A network with noise (dropout, masks, `dubio.BayesLinear`, …), or several: an ensemble,
            one function each if they have no noise. A single network without noise is for the
            rules greedy and epsilon.
        actions: A, how many actions there are.
        likelihood: What outputs say about a reward: its mean and its density.
        rule: ``"thompson"``: the share of functions in which an action is the best. ``"greedy"``:
            the best mean over functions. ``"epsilon"``: the same, with a share ``epsilon`` for
            random actions. ``"upper"``: the best mean + ``bonus`` · standard deviation over
            functions. Ties are split evenly.
        action_features: None if the network maps a context to one reward per action, `(B, A)`.
            ``"one-hot"`` or a tensor `(A, F)` if it maps [context, features of an action] to one
            reward.
        memory: How many of the last rewards are learnt from.
        steps: Gradient steps of an update.
        batch_size: Rows of a step, drawn with replacement from the memory.
        learning_rate: Of Adam.
        optimizer: Another optimiser: a function of the parameters, such as
            ``partial(torch.optim.SGD, lr=0.01)``.
        schedule: From the number of updates so far to a factor of the learning rate.
        kl_weight: Weight of the KL in the ELBO.
        functions: How many functions are drawn for a choice.
        average: How many draws of the network are averaged to one function.
        floor: The least probability of each allowed action.
        epsilon: For the rule of that name.
        bonus: For the rule ``"upper"``.
        keep_log: Whether all answered choices are kept, as ``agent.log``.
        seed: Of choices and of training.
    """

    def __init__(
        self,
        net: nn.Module | Sequence[nn.Module],
        actions: int,
        *,
        likelihood: Likelihood,
        rule: Rule = "thompson",
        action_features: Literal["one-hot"] | Tensor | None = None,
        memory: int = 4096,
        steps: int = 1,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        optimizer: OptimizerFactory | None = None,
        schedule: Schedule | None = None,
        kl_weight: float = 1.0,
        functions: int = 64,
        average: int = 1,
        floor: float = 0.0,
        epsilon: float = 0.05,
        bonus: float = 1.0,
        keep_log: bool = False,
        seed: int = 0,
    ) -> None:
        self._settings = Settings(
            actions, rule, memory, steps, batch_size, learning_rate, kl_weight, functions,
            average, floor, epsilon, bonus, keep_log, seed,
        )  # fmt: skip
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihood: expected an instance from dubio.likelihoods, such as Gaussian(1.0) "
                f"or Bernoulli(), got {likelihood!r}"
            )
        nets = members_of(net)
        self._like = next(
            (p.detach() for one in nets for p in one.parameters() if p.is_floating_point()),
            torch.empty(()),
        )
        self._features = action_features_of(action_features, actions, self._like)
        self._parts = {
            "net": nets, "likelihood": likelihood, "optimizer": optimizer, "schedule": schedule,
        }  # fmt: skip
        self._choosing = torch.Generator().manual_seed(_stream(seed, _CHOOSING))
        self._training = torch.Generator().manual_seed(_stream(seed, _TRAINING))
        self._values = ActionValues(nets, actions, self._features, likelihood, average)
        reward = RewardOfAction(likelihood, actions if self._features is None else None)
        self._likelihood = likelihood
        self._learner = Learner(nets, reward, self._settings, optimizer, schedule, self._training)
        self._pending = Pending()
        self._answered: list[tuple[Chosen, Tensor]] = []
        self._shape: torch.Size | None = None  # of one context
        self._kept: KeptFolder | None = None
        self._home: Path | None = None

    def __repr__(self) -> str:
        return (
            f"Bandit({self._settings.actions} actions, {self._settings.rule}, "
            f"{self.interactions} updates, {len(self._learner.experience)} of "
            f"{self._settings.memory} remembered, {len(self._pending)} pending)"
        )

    @property
    def interactions(self) -> int:
        """How many updates there were that trained."""
        return self._learner.interactions

    @property
    def choices(self) -> int:
        """How many choices there were, one a context: the next has this id."""
        return self._pending.count

    @property
    def remembered(self) -> int:
        """How many rewards are learnt from: ``num_data`` of the ELBO."""
        return len(self._learner.experience)

    @property
    def pending(self) -> Tensor:
        """The ids of choices that wait for a reward, the oldest first."""
        return self._pending.ids

    @property
    def log(self) -> Log:
        """All answered choices, in the order of the answers."""
        if not self._settings.keep_log:
            raise ValueError("log: expected an agent that keeps one; pass keep_log=True to Bandit")
        if not self._answered:
            raise ValueError("log: expected answered choices, got none yet; call update first")
        if len(self._answered) > 1:
            self._answered = [_joined(self._answered)]
        chosen, rewards = self._answered[0]
        return Log(chosen.contexts, chosen.actions, rewards, chosen.probabilities, chosen.allowed)

    @torch.inference_mode(False)
    def choose(self, contexts: Array, allowed: Array | None = None) -> Choice:
        """Choose an action for each context.

        All rows see the same functions. Given these, the probabilities are exact; on average over
        functions they are those of the rule.

        Args:
            contexts: `(B, D)`, or what the network takes.
            allowed: Which actions may be taken, `(A,)` or `(B, A)` bool; all if None.

        Raises:
            FloatingPointError: If the network expects rewards that are NaN or infinite.
        """
        rows = self._read_contexts(contexts)
        mask = self._read_allowed(allowed, len(rows))
        before = self._choosing.get_state()
        try:
            odds = self._probabilities(rows, mask, self._settings.functions, self._choosing)
            action = rules.drawn(odds, self._choosing)  # (B,)
        except BaseException:
            self._choosing.set_state(before)
            raise
        probability = odds.gather(1, action[:, None]).squeeze(1)
        self._shape = rows.shape[1:]
        could = _ALL.expand(odds.shape) if mask is None else mask.cpu()
        ids = self._pending.enter(Chosen(rows, action, odds, could))
        if self._kept is not None:
            event = {"call": "choose", "contexts": rows, "allowed": mask, "action": action}
            self._kept.append(event, self._state)
        return Choice(action.clone(), probability, odds.clone(), ids)

    @torch.inference_mode(False)
    def update(
        self,
        ids: Array,
        /,
        actions: Array | None = None,
        rewards: Array | None = None,
        weight: Array | None = None,
        *,
        steps: int | None = None,
    ) -> None:
        """Learn from rewards: ``update(ids, rewards)`` or ``update(contexts, actions, rewards)``.

        The first form answers choices of this agent, all at once or some of them, in any order. The
        second takes what others have done. Input errors leave the agent as it was.

        Args:
            ids: Ids of choices, or contexts `(B, D)`.
            actions: The rewards `(B,)` of these choices; or the actions `(B,)` that were taken.
            rewards: The rewards `(B,)` of these actions.
            weight: How much each row counts in the likelihood, `(B,)`; one if None. For the second
                form.
            steps: Gradient steps, in place of those of the agent; with 0 rewards are remembered
                only, and it does not count as an interaction.
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

    @torch.inference_mode(False)
    def train(self, steps: int) -> None:
        """Some more gradient steps on what is remembered."""
        steps = whole_number("steps", steps, 0)
        with self._keeping({"call": "train", "steps": steps}):
            self._learner.train(steps)

    def forget(self, ids: Array) -> None:
        """Give up waiting for the rewards of some choices."""
        gone = read_ids(ids)
        self._pending.check(gone)
        with self._keeping({"call": "forget", "ids": gone}):
            self._pending.remove(gone)

    def expected(self, contexts: Array, draws: int | None = None) -> Tensor:  # (B, A)
        """The mean reward of every action over functions, the same ones at every call.

        Args:
            contexts: `(B, D)`, or what the network takes.
            draws: How many functions, if not ``functions``.
        """
        rows = self._read_contexts(contexts)
        count = self._settings.functions if draws is None else whole_number("draws", draws, 1)
        return self._scores(rows, count, self._asking()).double().mean(0).cpu()

    def probabilities(
        self, contexts: Array, draws: int | None = None, allowed: Array | None = None
    ) -> Tensor:  # (B, A)
        """The probability of every action by the rule, with the same functions at every call.

        Nothing in the agent moves. ``choose`` draws functions of its own, so its probabilities
        scatter around these; many draws tell the average.

        Args:
            contexts: `(B, D)`, or what the network takes.
            draws: How many functions, if not ``functions``.
            allowed: Which actions may be taken, as for `choose`.
        """
        rows = self._read_contexts(contexts)
        mask = self._read_allowed(allowed, len(rows))
        count = self._settings.functions if draws is None else whole_number("draws", draws, 1)
        return self._probabilities(rows, mask, count, self._asking())

    def save(self, folder: str | Path) -> None:
        """Save everything to a folder, in one go: a crash leaves the former state or the new one.

        Networks, likelihood, optimiser and schedule are pickled with their state. What cannot be
        pickled is to be passed to `load`.
        """
        place = Path(folder)
        if self._kept is not None and self._home == place.resolve():
            self._kept.snapshot(self._state())
        else:
            folders.write(place, self._state())

    def keep_in(self, folder: str | Path, save_every: float = 60.0) -> Self:
        """From now on, be safe in a folder: nothing is lost that a call has returned.

        Every call that changes the agent is written to a journal before it returns. `load` takes
        the last snapshot and makes these calls again, so that the agent goes on to the same choices
        and weights, also if the process was killed at any moment. After a power cut the last calls
        may be missing.

        Args:
            folder: For this agent alone. If an agent was saved there, it must be this one.
            save_every: Seconds between snapshots.
        """
        place = Path(folder)
        if folders.holds_agent(place) and self._home != place.resolve():
            raise CheckpointError(
                f"folder: expected an empty one, got {folder} with another agent in it; go on with "
                "that one by Bandit.load(folder), or pass another folder"
            )
        self.close()
        self._kept = KeptFolder(place, self._state(), save_every)
        weakref.finalize(self, self._kept.close)
        self._home = place.resolve()
        return self

    def close(self) -> None:
        """End `keep_in`, with a last snapshot."""
        if self._kept is not None:
            self._kept.snapshot(self._state())
            self._kept.close()
            self._kept = None

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        net: nn.Module | Sequence[nn.Module] | None = None,
        likelihood: Likelihood | None = None,
        optimizer: OptimizerFactory | None = None,
        schedule: Schedule | None = None,
    ) -> Self:
        """The agent of a folder, which goes on bit for bit on the same machine.

        Pickles run code: load only what you trust. A part that is passed is not unpickled.

        Args:
            folder: That of `save` or `keep_in`.
            net: The network, if it could not be pickled; it gets the saved weights.
            likelihood: The likelihood, likewise.
            optimizer: The function that makes the optimiser, likewise.
            schedule: The schedule, likewise.
        """
        place = Path(folder)
        state, events = folders.read(place)
        given = {"net": net, "likelihood": likelihood, "optimizer": optimizer, "schedule": schedule}
        parts: dict[str, Any] = {
            name: folders.unpickled(name, state["parts"][name]) if part is None else part
            for name, part in given.items()
        }
        agent = cls(**parts, action_features=state["features"], **state["settings"])
        agent._restore(state)
        for event in events:
            agent._again(event)
        agent._home = place.resolve()
        return agent

    def _answer(self, ids: list[int], values: Array, steps: int) -> None:
        rewards = read_numbers("rewards", values, len(ids))
        self._pending.check(ids)
        if not ids:
            return
        chosen = self._pending.get(ids)
        y = self._targets(chosen.actions, rewards, torch.ones_like(rewards))
        with self._keeping({"call": "answer", "ids": ids, "rewards": rewards, "steps": steps}):
            self._pending.remove(ids)
            if self._settings.keep_log:
                self._answered.append((chosen, rewards))
            self._learn(chosen.contexts, chosen.actions.to(self._like.device), y, steps)

    def _take(
        self, contexts: Array, actions: Array, rewards: Array, weight: Array | None, steps: int
    ) -> None:
        rows = self._read_contexts(contexts)
        count, device = len(rows), self._like.device
        taken = read_actions(actions, count, self._settings.actions, device)
        gains = read_numbers("rewards", rewards, count)
        weights = (
            torch.ones_like(gains) if weight is None else read_numbers("weight", weight, count)
        )
        if bool((weights < 0).any()):
            raise ValueError(f"weight: expected numbers >= 0, got {float(weights.min())}")
        y = self._targets(taken, gains, weights)
        self._shape = rows.shape[1:]
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
        """What the likelihood takes, if it can."""
        y = torch.stack([actions.to("cpu", torch.float64), rewards, weights], 1).to(self._like)
        if not bool(y.isfinite().all()):
            raise ValueError(f"rewards: expected numbers that fit {y.dtype}, got larger ones")
        self._likelihood.check_targets(y[:, 1:2], y.new_zeros(1, len(y), 1))
        return y

    def _read_contexts(self, values: Array) -> Tensor:
        flat = self._features is not None
        return read_contexts(values, self._like, self._shape, flat=flat)

    def _read_allowed(self, values: Array | None, rows: int) -> Tensor | None:
        if values is None:
            return None
        mask = read_allowed(values, rows, self._settings.actions, self._like.device)
        return None if bool(mask.all()) else mask

    def _scores(self, contexts: Tensor, functions: int, generator: torch.Generator) -> Tensor:
        scores = self._values(contexts, functions, generator)  # (S, B, A)
        if not all_finite(scores):
            raise FloatingPointError(
                "net: expected finite rewards, got NaN or infinite ones; look at its weights: "
                "use a smaller learning rate, or scale contexts and rewards"
            )
        return scores

    def _probabilities(
        self, contexts: Tensor, allowed: Tensor | None, functions: int, generator: torch.Generator
    ) -> Tensor:  # (B, A)
        settings = self._settings
        scores = self._scores(contexts, functions, generator)
        if settings.rule in ("thompson", "upper") and self._values.is_one_function:
            raise ValueError(
                f"net: expected noise, or several networks, for the rule {settings.rule}, got one "
                "network without noise; give it dropout or dubio.BayesLinear, pass an ensemble, or "
                "use rule='epsilon'"
            )
        return settings.probabilities(scores, allowed).cpu()

    def _asking(self) -> torch.Generator:
        return torch.Generator().manual_seed(_stream(self._settings.seed, _ASKING))

    @contextmanager
    def _keeping(self, event: Event) -> Iterator[None]:
        """Keep the event that the block makes happen; if it fails, the state that it leaves."""
        try:
            yield
        except BaseException:
            if self._kept is not None:
                self._kept.snapshot(self._state())
            raise
        if self._kept is not None:
            self._kept.append(event, self._state)

    def _state(self) -> dict[str, Any]:
        answered = None
        if self._answered:
            self._answered = [_joined(self._answered)]
            answered = {**vars(self._answered[0][0]), "rewards": self._answered[0][1]}
        return {
            "settings": asdict(self._settings),
            "features": self._features,
            "shape": None if self._shape is None else list(self._shape),
            "learner": self._learner.state(),
            "pending": self._pending.state(),
            "answered": answered,
            "choosing": self._choosing.get_state(),
            "training": self._training.get_state(),
            "parts": folders.pickled(self._parts),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._shape = None if state["shape"] is None else torch.Size(state["shape"])
        self._learner.load(state["learner"])
        self._pending.load(state["pending"])
        if state["answered"] is not None:
            kept = dict(state["answered"])
            rewards = kept.pop("rewards")
            self._answered = [(Chosen(**kept), rewards)]
        self._choosing.set_state(state["choosing"])
        self._training.set_state(state["training"])

    def _again(self, event: Event) -> None:
        """Make a call of the journal once more."""
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


def _joined(answered: list[tuple[Chosen, Tensor]]) -> tuple[Chosen, Tensor]:
    """All answers as one."""
    columns = zip(*(vars(chosen).values() for chosen, _ in answered), strict=True)
    return Chosen(*map(torch.cat, columns)), torch.cat([rewards for _, rewards in answered])


def _stream(seed: int, purpose: int) -> int:
    """A seed that no other agent or purpose has."""
    return mix(seed, purpose) >> 1
