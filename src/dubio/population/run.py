"""A population in training: active members, and results of the others."""

from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from torch import Tensor

from dubio.objectives.elbo import ELBO
from dubio.population.feed import MemberFeed, taken
from dubio.population.learning import Learning
from dubio.population.stack import Stack


@final
@dataclass(frozen=True)
class Outcome:
    """The result of training a population.

    Attributes:
        steps: How many steps each member has done.  # (M,)
        loss: Mean loss of each member over its last steps, as many as between reports; it can be
            NaN if the member has failed.  # (M,)
        validation: The lowest validation of each member, minus the log predictive density or a
            loss; NaN if there was none.  # (M,)
        best_step: After how many steps that was; that of the weights which are kept.  # (M,)
        failed: Whether a loss or step was not finite. Such a member has the weights from before,
            or its best ones.  # (M,)
    """

    steps: Tensor
    loss: Tensor
    validation: Tensor
    best_step: Tensor
    failed: Tensor


@final
class PopulationRun:
    """Members in training.

    Those that have ended stay in the computation, with a learning rate of zero, until they are a
    quarter of it; then the rest goes on without them. One that is not finite leaves at once.

    Args:
        stack: All members; what they end with is written over their tensors.
        feed: Their rows and noise.
        x: Inputs of all data.
        y: Targets of all data.
        learning_rate: That of each member.  # (M,)
        budget: Steps that each member is to do, at most.  # (M,)
        patience: Validations without a better one after which a member ends; None for no end.
    """

    def __init__(
        self,
        stack: Stack,
        feed: MemberFeed,
        x: Tensor,
        y: Tensor,
        learning_rate: Tensor,
        budget: Tensor,
        patience: int | None,
    ) -> None:
        count = len(stack)
        self._all = stack
        self._feed = feed
        self._x, self._y = x, y
        self._budget = budget
        self._patience = patience
        self.members = torch.arange(count)  # that are computed
        self._active = torch.ones(count, dtype=torch.bool)  # and still learn
        self._learning = Learning(stack.take(self.members), learning_rate.clone())
        self._since = torch.zeros(count, dtype=torch.long)  # validations since the best
        self._sums = torch.zeros(count)
        self._summed = 0
        self._spoiled = False  # by one that is not finite any more
        self.done = 0
        nan = torch.full((count,), torch.nan)
        zeros = torch.zeros(count, dtype=torch.long)
        self.outcome = Outcome(zeros, nan, nan.clone(), zeros.clone(), zeros.bool())

    @property
    def stack(self) -> Stack:
        """The members that are computed."""
        return self._learning.stack

    @property
    def finished(self) -> bool:
        """Whether no member learns any more."""
        return not bool(self._active.any())

    def step(self) -> None:
        """Let every member do a step."""
        if self._spoiled or self._active.sum() <= 0.75 * len(self._active):
            self._leave_out_ended()
        rows, noise = self._feed.next()
        loss, finite = self._learning.step(taken(self._x, rows), taken(self._y, rows), noise)
        finite = finite.cpu()
        self._sums += loss.cpu()
        self._summed += 1
        self.done += 1
        if not bool(finite.all()):
            failed = self._active & ~finite
            self.outcome.failed[self.members[failed]] = True
            self.end(failed)
            self._spoiled = True

    @property
    def spent(self) -> Tensor:  # (A,) bool, of the members that are computed
        """Which of the members that still learn have done all their steps."""
        return self._active & (self._budget[self.members] <= self.done)

    @property
    def learning(self) -> Tensor:  # (A,) bool
        """Which of the members that are computed still learn."""
        return self._active

    def validated(self, which: Tensor, scores: Tensor) -> None:
        """Record validations (lower is better), and stop members without patience."""
        out, best = self.outcome, self.outcome.validation[self.members]
        found = torch.full_like(best, torch.nan)
        found[which] = scores
        better = which & ((found < best) | (best.isnan() & ~found.isnan()))
        out.validation[self.members[better]] = found[better]
        out.best_step[self.members[better]] = self.done
        self._keep(better)
        self._since += which
        self._since[better] = 0
        if self._patience is not None:
            self.end(self._since >= self._patience)

    def report(self) -> None:
        """Close the period that losses are averaged over."""
        learning = self.members[self._active]
        self.outcome.loss[learning] = self._sums[self._active] / self._summed
        self._sums.zero_()
        self._summed = 0

    def end(self, members: Tensor) -> None:
        """Let some of the members that are computed learn no more."""
        ended = self._active & members
        if not bool(ended.any()):
            return
        out, which = self.outcome, self.members[ended]
        out.steps[which] = self.done
        if self._summed:  # since the last report
            out.loss[which] = self._sums[ended] / self._summed
        unwatched = out.validation[self.members].isnan()
        out.best_step[self.members[ended & unwatched]] = self.done
        self._keep(ended & unwatched)
        self._active = self._active & ~members
        self._learning.descent.halt(ended)

    def state_dict(self) -> dict[str, Any]:
        """Everything, in types that ``torch.load(weights_only=True)`` takes."""
        return {
            "kept": self._all.learned,
            "learned": {name: t.detach() for name, t in self.stack.learned.items()},
            "members": self.members,
            "active": self._active,
            "since": self._since,
            "sums": self._sums,
            "summed": self._summed,
            "spoiled": self._spoiled,
            "done": self.done,
            "outcome": asdict(self.outcome),
            "descent": self._learning.descent.state_dict(),
            "feed": self._feed.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there: of a run that has just begun."""
        self._all.learned.update(state["kept"])
        self.members = state["members"]
        stack = self._all.take(self.members)
        stack.learned.update(state["learned"])
        self._learning = Learning(stack, state["descent"]["rate"])
        self._learning.descent.load_state_dict(state["descent"])
        self._feed.take(self.members)
        self._feed.load_state_dict(state["feed"])
        self._active, self._since = state["active"], state["since"]
        self._sums, self._summed = state["sums"], state["summed"]
        self._spoiled, self.done = state["spoiled"], state["done"]
        self.outcome = Outcome(**state["outcome"])
        for module in self.stack.skeleton.modules():
            if isinstance(module, ELBO):
                module.step += self.done

    def _keep(self, which: Tensor) -> None:
        """Write the parameters of some members to where all are kept."""
        members = self.members[which]
        for name, tensor in self.stack.learned.items():
            self._all.learned[name][members] = tensor.detach()[which]

    def _leave_out_ended(self) -> None:
        """Go on without the members that learn no more."""
        rest = self._active.nonzero().flatten()
        self._learning = self._learning.take(rest)
        self._feed.take(rest)
        self.members, self._active = self.members[rest], self._active[rest]
        self._since, self._sums = self._since[rest], self._sums[rest]
        self._spoiled = False
