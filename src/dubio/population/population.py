"""`Population`: many small networks, trained and evaluated at once."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from dubio.noise.float64 import placed
from dubio.objectives.elbo import ELBO
from dubio.population.arguments import (
    MemberRows,
    budget_of_members,
    check_data,
    check_estimators,
    check_hooks,
    check_num_data,
    check_steps,
    counted,
    rates_of_members,
    rows_of_members,
    seeds_of_members,
)
from dubio.population.descent import Optimizer
from dubio.population.feed import MemberFeed
from dubio.population.identity import checksum, identity_of
from dubio.population.losses import noise_of_loss
from dubio.population.prediction import MemberDraws, outputs_of_members
from dubio.population.run import Outcome, PopulationRun
from dubio.population.scores import Scores, by_length, score
from dubio.population.session import Session
from dubio.population.stack import Stack
from dubio.population.streams import MemberStream, Streams, StreamUse, seeds_of_predictions
from dubio.predictive.predictive import Predictive, StoredDraws
from dubio.report.progress import Progress
from dubio.training.checkpoint import Checkpoint
from dubio.training.interrupt import Interrupt

_FORMAT = 2  # of checkpoints


@final
class Population:
    """Many networks of one structure, trained together as one batched computation.

    Members may differ in all parameters, buffers and numeric settings: noise precision, length
    scales, rates, sigmas of priors, ``num_data``, weight of the KL. Each has its own random numbers
    for data order and noise, and becomes the same network whatever is trained beside it::

        members = [dubio.ELBO(network(), likelihood, num_data=len(x)) for _ in range(100)]
        population = dubio.Population(members)
        population.fit(x, y, epochs=40)  # in place: members[0].model is a trained network
        predictive = population.ensemble(x_new)  # one mixture over all members

    Args:
        members: Objectives: `dubio.ELBO`, or any modules that are called as ``objective(x, y)`` and
            return a loss. They are trained in place.
        seeds: Seed of each member; by default drawn from torch's global generator.
    """

    def __init__(self, members: Sequence[nn.Module], seeds: Sequence[int] | None = None) -> None:
        self.members = list(members)
        if not self.members or not all(isinstance(m, nn.Module) for m in self.members):
            raise TypeError(
                f"members: expected at least one nn.Module that is called as objective(x, y), got "
                f"{[type(m).__name__ for m in self.members][:3]}; try dubio.ELBO"
            )
        if len(set(map(id, self.members))) < len(self.members):
            raise ValueError("members: expected each once, got one twice; make a copy of it")
        if seeds is None:
            seeds = torch.randint(2**63 - 1, (len(self.members),)).tolist()
        self.seeds = seeds_of_members(seeds, len(self.members))
        self._fits = 0
        check_estimators(self.members)
        Stack.of(self.members)  # complains about members that do not fit together

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"Population({len(self)} × {type(self.members[0]).__name__})"

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        *,
        rows: MemberRows = None,
        steps: int | None = None,
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float | Tensor | Sequence[float] = 1e-3,
        validation_rows: MemberRows = None,
        validation_draws: int = 10,
        validate_every: int | None = None,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        save_every: float = 60.0,
        progress: bool = True,
    ) -> Outcome:
        """Train all members with Adam, in place.

        A member goes through its rows in random order, again and again, in batches of equal size
        that may span two passes: every step sees ``batch_size`` rows.

        Args:
            x: Inputs of all data, rows first.
            y: Targets of all data.
            rows: Indices of the rows that each member learns from: a tensor (M, n), or a sequence
                of M tensors of any lengths. By default all rows.
            steps: Largest number of steps of every member.
            epochs: Instead of steps, the largest number of passes of each member over its rows.
            batch_size: Rows per step.
            learning_rate: One for all members, or one for each.
            validation_rows: Indices of the rows that each member is validated on. Members end with
                the weights of their best validation: the highest mean log predictive density or,
                for objectives other than `ELBO`, the lowest loss in eval mode.
            validation_draws: Draws per validation, with the same noise in all of them.
            validate_every: Steps between validations; by default an epoch of the largest member.
            patience: A member stops after this many validations without a better one.
            checkpoint: File to save the run to, and to resume from if it exists: a killed run that
                is called again in the same way ends with the same weights. Members must have the
                same structure, settings and buffers; their parameters may differ.
            save_every: Seconds between saves; the run is also saved at the end, and before a
                `KeyboardInterrupt` is passed on.
            progress: Whether to show a progress bar, on a terminal.

        Returns:
            Steps, losses and validations of each member, and which have failed.
        """
        check_data(next(self.members[0].parameters()), x=x, y=y)
        batch_size = counted("batch_size", batch_size)
        validation_draws = counted("validation_draws", validation_draws)
        own = rows_of_members("rows", rows, len(self), len(x))
        check_num_data(self.members, own)
        check_hooks(self.members)
        check_steps(self.members)
        held_out = None
        if validation_rows is not None:
            held_out = rows_of_members("validation_rows", validation_rows, len(self), len(x))
        elif patience is not None:
            raise ValueError("patience: expected together with validation_rows, got it alone")
        if validate_every is None:
            validate_every = -(-max(map(len, own)) // batch_size)
        validate_every = counted("validate_every", validate_every)
        patience = None if patience is None else counted("patience", patience)
        budget = budget_of_members(steps, epochs, own, batch_size)
        rates = placed(rates_of_members(learning_rate, len(self)), x.device)
        stack = Stack.of(self.members)
        first = torch.as_tensor(own[0][np.arange(batch_size) % len(own[0])], device=x.device)
        requests = noise_of_loss(stack, x[first], y[first])
        streams = Streams(
            [MemberStream(seed, StreamUse.TRAINING, self._fits) for seed in self.seeds]
        )
        feed = MemberFeed(streams, own, batch_size, requests, next(iter(stack.learned.values())))
        run = PopulationRun(stack, feed, x, y, rates, budget, patience)
        identity = {
            "format of populations": _FORMAT,
            "members": len(self),
            "batch_size": batch_size,
            "patience": patience,
            "validate_every": validate_every,
            "validation_draws": validation_draws,
            "number of earlier fits": self._fits,
            "checksum of x": checksum(x),
            "checksum of y": checksum(y),
            "checksum of rows": checksum(*own),
            "checksum of validation_rows": checksum(*(held_out or ())),
            "checksum of seeds": checksum(list(map(str, self.seeds))),
            "checksum of steps": checksum(budget),
            "checksum of learning rates": checksum(rates),
            **identity_of(stack),
        }
        store = Checkpoint(None if checkpoint is None else Path(checkpoint), save_every, identity)
        with store:
            if (state := store.load()) is not None:
                run.load_state_dict(state)
            with (
                Progress("population", int(budget.max()) - run.done) as bar,
                Interrupt(active=checkpoint is not None) as interrupt,
            ):
                while not run.finished:
                    run.step()
                    at_report = run.done % validate_every == 0
                    due = run.learning if at_report else run.spent
                    if held_out is not None and bool(due.any()):
                        run.validated(
                            due, self._validate(run, due, x, y, held_out, validation_draws)
                        )
                    if at_report:
                        run.report()
                    run.end(run.spent)
                    if progress:
                        bar.advance(note=f"{int(run.learning.sum())} members")
                    if run.finished or store.due or interrupt.noted:
                        store.save(run.state_dict)
                    interrupt.pass_on()
        stack.write(self.members)
        for member, done in zip(self.members, run.outcome.steps.tolist(), strict=True):
            if isinstance(member, ELBO):
                member.step += done
        self._fits += 1
        return run.outcome

    def session(
        self,
        learning_rate: float | Tensor | Sequence[float] = 1e-3,
        *,
        optimizer: Optimizer = "adam",
        weight_decay: float = 0.0,
    ) -> Session:
        """Return a session that trains all members batch by batch, on data that arrives over time.

        The session holds the weights until it writes them to the members::

            with population.session(learning_rate=1e-4) as session:
                for x, y in batches:  # (M, B, …): own rows of each member
                    losses = session.step(x, y)  # (M,)

        Args:
            learning_rate: One for all members, or one for each.
            optimizer: "adam", or "sgd" for plain gradient descent.
            weight_decay: For plain gradient descent; applies to weights, not to biases.
        """
        session = Session(
            self.members, self.seeds, self._fits, learning_rate, optimizer, weight_decay
        )
        self._fits += 1
        return session

    def predict(
        self,
        x: Tensor,
        *,
        rows: Tensor | None = None,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> list[Predictive]:
        """Return the predictive distribution of every member, as `dubio.predict` would.

        Args:
            x: Inputs.
            rows: Indices (M, B) of the rows to predict for each member; by default all.
            draws: Number of stochastic passes; networks without noise make one.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is combined with those of the members.

        Returns:
            One prediction per member; they share the memory of the draws.
        """
        outputs = self._draws(x, rows, draws, shared, generator)
        return [
            Predictive(_elbo(member).likelihood, StoredDraws(own))
            for member, own in zip(self.members, outputs, strict=True)
        ]

    def ensemble(
        self,
        x: Tensor,
        *,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> Predictive:
        """Return the predictive distribution of the ensemble: the equal mixture of all members.

        For networks without noise it is a deep ensemble (Lakshminarayanan et al. 2017), although
        that paper uses one Gaussian in place of the mixture.

        Args:
            x: Inputs.
            draws: Number of stochastic passes of each member; networks without noise make one.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is combined with those of the members.
        """
        outputs = self._draws(x, None, draws, shared, generator)  # (M, S, B, …)
        likelihoods = [_elbo(member).likelihood.frozen() for member in self.members]
        # every member has a precision of its own, so that the noise joins the outputs
        pairs = [own.with_noise(each) for own, each in zip(likelihoods, outputs, strict=True)]
        joined = torch.cat([each for _, each in pairs])  # (M·S, B, …)
        return Predictive(pairs[0][0], StoredDraws(joined))

    def evaluate(
        self,
        x: Tensor,
        y: Tensor,
        *,
        rows: MemberRows = None,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> Scores:
        """Evaluate every member on its rows, in memory that does not grow with the draws.

        Args:
            x: Inputs of all data.
            y: Targets of all data.
            rows: Indices of the rows of each member, as in `fit`; by default all.
            draws: Number of stochastic passes.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is combined with those of the members.

        Returns:
            Mean log predictive density and RMSE of each member.
        """
        check_data(next(self.members[0].parameters()), x=x, y=y)
        return score(
            Stack.of(self.members),
            seeds_of_predictions(self.seeds, generator),
            x,
            y,
            rows_of_members("rows", rows, len(self), len(x)),
            counted("draws", draws),
            shared=shared,
        )

    def _draws(
        self,
        x: Tensor,
        rows: Tensor | None,
        draws: int,
        shared: bool,
        generator: torch.Generator | None,
    ) -> Tensor:  # (M, S, B, …)
        check_data(next(self.members[0].parameters()), x=x)
        draws = counted("draws", draws)
        own = rows_of_members("rows", rows, len(self), len(x))
        if len({len(r) for r in own}) > 1:
            raise ValueError(
                "rows: expected as many for each member, got lists of different lengths; ask for "
                "them one population at a time, or score them with evaluate"
            )
        chosen = torch.from_numpy(np.stack(own)).to(x.device)
        member_draws = MemberDraws(Stack.of(self.members), shared=shared)
        seeds = seeds_of_predictions(self.seeds, generator)
        return outputs_of_members(member_draws, x, chosen, seeds, draws)

    def _validate(
        self,
        run: PopulationRun,
        which: Tensor,
        x: Tensor,
        y: Tensor,
        rows: list[np.ndarray[Any, Any]],
        draws: int,
    ) -> Tensor:
        """Return the validation of some of the members that are computed; low is good."""
        stack = run.stack.take(which.nonzero().flatten())
        members = run.members[which].tolist()
        chosen = [rows[m] for m in members]
        if isinstance(stack.skeleton, ELBO):
            seeds = [(self.seeds[m], StreamUse.VALIDATION, self._fits) for m in members]
            return -score(stack, seeds, x, y, chosen, draws, shared=False).log_prob
        stack.skeleton.eval()
        found = torch.empty(len(members))
        with torch.no_grad():
            for group, own in by_length(chosen, x.device):
                part = stack.take(group)
                part.skeleton.eval()
                found[group] = part.each(
                    lambda member, x, y: member(x, y), x[own], y[own], in_dims=(0, 0)
                ).cpu()
        return found


def _elbo(member: nn.Module) -> ELBO:
    if not isinstance(member, ELBO):
        raise TypeError(
            f"members: expected dubio.ELBO objectives, which know the network and the likelihood, "
            f"got {type(member).__name__}; predict with each network"
        )
    return member
