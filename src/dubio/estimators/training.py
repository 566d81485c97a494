"""Training of the networks of an estimator."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import nn
from torch.optim import Adam

from dubio.estimators.seeds import SeedUse, stream
from dubio.estimators.splitting import LabelledRows
from dubio.layers.bayesian import Bayesian
from dubio.likelihoods import Likelihood
from dubio.masks.mask import LearnedRate
from dubio.objectives.elbo import ELBO
from dubio.predict import predict
from dubio.training.fit import fit
from dubio.training.history import History

_FASTER = 10  # how much faster rates and noise are learned: they are few, and have far to go
_VALIDATION_DRAWS = 20


@final
@dataclass(eq=False)
class Member:
    """A network of an estimator, and the state to continue its training.

    Attributes:
        network: The network; inputs and targets are in standard units.
        likelihood: What its outputs say about targets; it may learn their noise.
        optimizer: Adam, with its state.
        number: Which member of an ensemble it is, from 0.
        rounds: How often it was trained: each time has random numbers of its own.
        rows_seen: How many rows it was given in all.
        history: The epochs of the last time.
    """

    network: nn.Module
    likelihood: Likelihood
    optimizer: Adam
    number: int
    rounds: int = 0
    rows_seen: int = 0
    history: History = field(default_factory=History)


def new_member(
    network: nn.Module, likelihood: Likelihood, number: int, learning_rate: float
) -> Member:
    """Return a member before its training."""
    fast = [m.logit for m in network.modules() if isinstance(m, LearnedRate) and m.learn]
    if isinstance(likelihood, nn.Module):
        fast += likelihood.parameters()
    known = set(fast)
    weights = [p for p in network.parameters() if p.requires_grad and p not in known]
    groups: list[dict[str, Any]] = [{"params": weights}]
    if fast:
        groups.append({"params": fast, "lr": _FASTER * learning_rate})
    optimizer = Adam(groups, lr=learning_rate)
    return Member(network, likelihood, optimizer, number)


@final
@dataclass(frozen=True)
class TrainingBudget:
    """How long to train, and in which steps.

    Attributes:
        epochs: How often to go through the rows, at most.
        batch_size: Rows of a step.
        patience: After how many epochs without a lower loss on the rows held out training ends.
        seed: That of the estimator.
        report: What is called with a line about every epoch; None for silence.
    """

    epochs: int
    batch_size: int
    patience: int
    seed: int
    report: Callable[[str], None] | None = None

    def generator(self, use: SeedUse, member: Member) -> torch.Generator:
        """Return the random numbers of a member for one use, in this round of its training."""
        seed = stream(self.seed, use, member.number, member.rounds)
        return torch.Generator().manual_seed(seed)


def train(member: Member, rows: LabelledRows, held_out: LabelledRows, plan: TrainingBudget) -> None:
    """Train on some rows, and end with the weights that were best on those held out.

    If none were held out, training ends after all epochs.
    """
    elbo = _elbo(member, len(rows), plan)
    stops = len(held_out) > 0
    member.history = fit(
        elbo,
        rows.data,
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        optimizer=member.optimizer,
        validate=_HeldOutLoss(elbo, member, held_out, plan) if stops or plan.report else None,
        patience=plan.patience if stops else None,
        generator=plan.generator(SeedUse.ORDER, member),
        progress=False,
    )
    member.rounds, member.rows_seen = member.rounds + 1, len(rows) + len(held_out)


def train_further(member: Member, rows: LabelledRows, plan: TrainingBudget) -> None:
    """Go once through more rows; the prior counts as for all rows that the member has seen."""
    seen = member.rows_seen + len(rows)
    elbo = _elbo(member, seen, plan)
    order = torch.randperm(len(rows), generator=plan.generator(SeedUse.ORDER, member))
    batches = [rows[part.numpy()].data for part in order.split(plan.batch_size)]
    member.history = fit(elbo, batches, epochs=1, optimizer=member.optimizer, progress=False)
    member.rounds, member.rows_seen = member.rounds + 1, seen


def _elbo(member: Member, num_data: int, plan: TrainingBudget) -> ELBO:
    noise = plan.generator(SeedUse.NOISE, member)
    weight = _kl_weight(member.network, num_data)
    return ELBO(
        member.network, member.likelihood, num_data=num_data, generator=noise, kl_weight=weight
    )


def _kl_weight(network: nn.Module, num_data: int) -> float:
    """Return min(1, N / number of weights that have a distribution); 1 if there are none.

    With fewer rows than weights the divergence from the prior outweighs the data, and the optimum
    of the ELBO is to learn nothing. A smaller weight is a cold posterior (Wenzel et al. 2020).
    """
    layers = [module for module in network.modules() if isinstance(module, Bayesian)]
    return min(1.0, num_data / max(1, sum(len(layer.rho) for layer in layers)))


@final
class _HeldOutLoss:
    """The loss on rows held out, −Σ w log p(y | x) / Σ w, after every epoch; the noise is fixed.

    If none were held out it returns the last loss of training, for the report alone.
    """

    def __init__(
        self, elbo: ELBO, member: Member, rows: LabelledRows, plan: TrainingBudget
    ) -> None:
        self._elbo = elbo
        self._member = member
        self._rows = rows
        self._report = plan.report
        self._noise = stream(plan.seed, SeedUse.VALIDATION, member.number)
        self._epoch = 0

    def __call__(self) -> float:
        self._epoch += 1
        name = "held-out loss" if len(self._rows) else "loss"
        loss = self._held_out_loss() if len(self._rows) else float(self._elbo.nll)
        if self._report is not None:
            self._report(f"member {self._member.number}, epoch {self._epoch}: {name} {loss:.4g}")
        return loss

    def _held_out_loss(self) -> float:
        predictive = predict(
            [self._member.network],
            self._rows.x,
            draws=_VALIDATION_DRAWS,
            likelihood=self._member.likelihood,
            shared=True,
            generator=self._noise,
        )
        weights = self._rows.weights
        return -float(predictive.log_prob(self._rows.y) @ weights / weights.sum())
