"""`Population`: many small networks that are trained, and asked, all at once."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from dubio.likelihoods import HeteroscedasticGaussian
from dubio.likelihoods.normal import Homoscedastic
from dubio.masks import LearnableBernoulli
from dubio.objectives.elbo import ELBO
from dubio.population.feed import Feed
from dubio.population.losses import watch
from dubio.population.prediction import Predictor
from dubio.population.run import Outcome, Run
from dubio.population.stack import Stack
from dubio.population.streams import Stream, Streams
from dubio.predictive import Predictive, StoredDraws
from dubio.progress import Progress

Rows = Tensor | Sequence[Tensor] | None
_VALIDATION, _PREDICTION = 1, 2  # tell streams of one seed apart; training has 0


class Scores(NamedTuple):
    """How well each member predicts its rows.

    Attributes:
        log_prob: Mean log predictive density of the targets.  # (M,)
        rmse: Root mean squared error of the predictive mean; NaN where targets are labels.  # (M,)
    """

    log_prob: Tensor
    rmse: Tensor


@final
class Population:
    """Many networks of one structure, trained together as one batched computation.

    Members may differ in all their parameters and buffers and in every setting that is a number:
    noise precision, length scales, rates, sigmas of priors, ``num_data``, weight of the KL. Each
    has random numbers of its own, which order its data and are its noise, so that it becomes the
    same network whoever is trained beside it::

        members = [dubio.ELBO(network(), likelihood, num_data=len(x)) for _ in range(100)]
        population = dubio.Population(members)
        population.fit(x, y, epochs=40)  # in place: members[0].model is a trained network
        predictive = population.ensemble(x_new)  # one mixture over all members

    Args:
        members: Objectives: `dubio.ELBO`, or any modules that are called as ``objective(x, y)`` and
            return a loss. They are trained in place.
        seeds: What each member's random numbers start from; drawn from torch's global generator
            unless given.
    """

    def __init__(self, members: Sequence[nn.Module], seeds: Sequence[int] | None = None) -> None:
        self.members = list(members)
        if not self.members or not all(isinstance(m, nn.Module) for m in self.members):
            raise TypeError(
                f"members: expected at least one nn.Module that is called as objective(x, y), got "
                f"{[type(m).__name__ for m in self.members][:3]}; try dubio.ELBO."
            )
        if len(set(map(id, self.members))) < len(self.members):
            raise ValueError("members: expected each once, got one twice; make a copy of it.")
        if seeds is None:
            seeds = torch.randint(2**63 - 1, (len(self.members),)).tolist()
        self.seeds = [int(seed) for seed in seeds]
        if len(self.seeds) != len(self.members):
            raise ValueError(
                f"seeds: expected {len(self.members)}, one a member, got {len(self.seeds)}."
            )
        self._fits = 0
        _check_estimators(self.members)
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
        rows: Rows = None,
        steps: int | None = None,
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float | Tensor | Sequence[float] = 1e-3,
        validation_rows: Rows = None,
        validation_draws: int = 10,
        validate_every: int | None = None,
        patience: int | None = None,
        progress: bool = True,
    ) -> Outcome:
        """Train all members, in place, by Adam.

        A member goes through its rows in one random order after the other, cut into batches of
        equal size, which may span two of them: a step sees ``batch_size`` rows whatever their
        number.

        Args:
            x: Inputs of all data, rows first.
            y: Targets of all data.
            rows: Indices of the rows that each member learns from: a tensor (M, n), or a sequence
                of M tensors of any lengths. All rows unless given.
            steps: How many steps every member does, at most.
            epochs: In place of steps, how often each member goes through its own rows, at most.
            batch_size: Rows of a step.
            learning_rate: One for all, or one for each member.
            validation_rows: Indices of the rows that each member is validated on. Members end
                with the weights of their best validation: the highest mean log predictive density,
                or for objectives other than `ELBO` the lowest loss in eval mode.
            validation_draws: Draws of a validation; their noise is the same in all of them.
            validate_every: Steps between validations: an epoch of the largest member unless given.
            patience: A member ends after so many validations without a better one.
            progress: Whether to show a bar, on a terminal.

        Returns:
            Steps, losses and validations of each member, and which have failed.
        """
        stack = Stack.of(self.members)
        _check_data(x, y, next(iter(stack.learned.values())))
        own = self._rows(rows, len(x), "rows")
        longest = -(-max(map(len, own)) // batch_size)
        validate_every = longest if validate_every is None else validate_every
        _check_counts(
            batch_size=batch_size,
            validate_every=validate_every,
            validation_draws=validation_draws,
            **({} if patience is None else {"patience": patience}),
        )
        if patience is not None and validation_rows is None:
            raise ValueError("patience: expected together with validation_rows, got it alone.")
        budget = self._budget(steps, epochs, own, batch_size)
        _check_num_data(self.members, own)
        rates = torch.as_tensor(learning_rate, dtype=torch.float64).expand(len(self)).to(x.device)
        held_out = (
            None
            if validation_rows is None
            else self._rows(validation_rows, len(x), "validation_rows")
        )
        first = torch.as_tensor(own[0][np.arange(batch_size) % len(own[0])], device=x.device)
        requests = watch(stack, x[first], y[first])
        streams = Streams([Stream(seed, 0, self._fits) for seed in self.seeds])
        feed = Feed(streams, own, batch_size, requests, next(iter(stack.learned.values())))
        run = Run(stack, feed, x, y, rates, budget, patience)
        with Progress("population", int(budget.max())) as bar:
            while not run.finished:
                run.step()
                at_report = run.done % validate_every == 0
                due = run.learning if at_report else run.spent
                if held_out is not None and bool(due.any()):
                    run.validated(due, self._validate(run, due, x, y, held_out, validation_draws))
                if at_report:
                    run.report()
                run.end(run.spent)
                if progress:
                    bar.advance(note=f"{int(run.learning.sum())} members")
        stack.write(self.members)
        for member, done in zip(self.members, run.outcome.steps.tolist(), strict=True):
            if isinstance(member, ELBO):
                member.step += done
        self._fits += 1
        return run.outcome

    def predict(
        self,
        x: Tensor,
        *,
        rows: Tensor | None = None,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> list[Predictive]:
        """The predictive distribution of every member, as `dubio.predict` would give it.

        Args:
            x: Inputs.
            rows: Indices (M, B) of the rows that each member is asked for; all unless given.
            draws: Number of stochastic passes; one is made by networks without noise.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is joined with those of the members.

        Returns:
            One for each member; only the memory of the draws is shared.
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
        """The predictive distribution of all members together: the equal mixture of theirs.

        Of networks without noise it is a deep ensemble (Lakshminarayanan et al. 2017), though that
        paper puts one Gaussian in the place of the mixture.

        Args:
            x: Inputs.
            draws: Number of stochastic passes of each member; one of networks without noise.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is joined with those of the members.
        """
        outputs = self._draws(x, None, draws, shared, generator)  # (M, S, B, …)
        likelihoods = [_elbo(member).likelihood.frozen() for member in self.members]
        if isinstance(likelihoods[0], Homoscedastic):
            # every member has a precision of its own: the variance joins the outputs
            log_variances = torch.stack(
                [
                    likelihood.variance(own).log()
                    for likelihood, own in zip(likelihoods, outputs, strict=True)
                ]
            )
            outputs = torch.cat([outputs, log_variances], dim=-1)
            return Predictive(HeteroscedasticGaussian(), StoredDraws(outputs.flatten(0, 1)))
        return Predictive(likelihoods[0], StoredDraws(outputs.flatten(0, 1)))

    def evaluate(
        self,
        x: Tensor,
        y: Tensor,
        *,
        rows: Rows = None,
        draws: int = 100,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> Scores:
        """How well every member predicts its rows, in memory that does not grow with the draws.

        Args:
            x: Inputs of all data.
            y: Targets of all data.
            rows: Indices of the rows of each member, as in `fit`; all unless given.
            draws: Number of stochastic passes.
            shared: One mask per draw for all rows, instead of one per row.
            generator: Source of a seed, which is joined with those of the members.
        """
        seed = _seed(generator)
        return _score(
            Stack.of(self.members),
            [(own, _PREDICTION, seed) for own in self.seeds],
            x,
            y,
            self._rows(rows, len(x), "rows"),
            draws,
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
        _check_counts(draws=draws)
        seed = _seed(generator)
        seeds = [(own, _PREDICTION, seed) for own in self.seeds]
        if rows is None:
            rows = torch.arange(len(x), device=x.device).expand(len(self), -1)
        predictor = Predictor(Stack.of(self.members), seeds, shared=shared)
        pieces = predictor.pieces(x, rows, draws, lambda elbo, outputs, y: outputs)
        found: dict[int, list[Tensor]] = {}
        for piece in pieces:
            found.setdefault(piece.members.start, []).append(piece.result)
        return torch.cat([torch.cat(own, dim=1) for own in found.values()])

    def _validate(
        self,
        run: Run,
        which: Tensor,
        x: Tensor,
        y: Tensor,
        rows: list[np.ndarray[Any, Any]],
        draws: int,
    ) -> Tensor:
        """The validation of some of the members that are computed; low is good."""
        stack = run.stack.take(which.nonzero().flatten())
        members = run.members[which].tolist()
        chosen = [rows[m] for m in members]
        if isinstance(stack.skeleton, ELBO):
            seeds = [(self.seeds[m], _VALIDATION, self._fits) for m in members]
            return -_score(stack, seeds, x, y, chosen, draws, shared=False).log_prob
        stack.skeleton.eval()
        found = torch.empty(len(members))
        with torch.no_grad():
            for group, own in _by_length(chosen, x.device):
                part = stack.take(group)
                part.skeleton.eval()
                found[group] = part.each(
                    lambda member, x, y: member(x, y), x[own], y[own], in_dims=(0, 0)
                ).cpu()
        return found

    def _rows(self, rows: Rows, count: int, name: str) -> list[np.ndarray[Any, Any]]:
        """The rows of each member."""
        if rows is None:
            return [np.arange(count)] * len(self)
        if len(rows) != len(self):
            raise ValueError(
                f"{name}: expected indices of rows for each of {len(self)} members, got "
                f"{len(rows)}; pass a tensor (members, rows), or a list of tensors."
            )
        own = [np.asarray(torch.as_tensor(r).cpu()) for r in rows]
        for index, r in enumerate(own):
            if (
                r.ndim != 1
                or not len(r)
                or r.dtype.kind not in "iu"
                or r.min() < 0
                or r.max() >= count
            ):
                raise ValueError(
                    f"{name}: expected whole numbers from 0 to {count - 1} for each member, got "
                    f"shape {r.shape}, {r.dtype} for member {index}."
                )
        return own

    def _budget(
        self,
        steps: int | None,
        epochs: int | None,
        rows: list[np.ndarray[Any, Any]],
        batch_size: int,
    ) -> Tensor:
        if (steps is None) == (epochs is None):
            raise ValueError(f"steps, epochs: expected one of them, got {steps} and {epochs}.")
        if steps is not None:
            _check_counts(steps=steps)
            return torch.full((len(self),), steps)
        assert epochs is not None
        _check_counts(epochs=epochs)
        return torch.tensor([-(-epochs * len(own) // batch_size) for own in rows])


def _score(
    stack: Stack,
    seeds: Sequence[tuple[int, ...]],
    x: Tensor,
    y: Tensor,
    rows: list[np.ndarray[Any, Any]],
    draws: int,
    *,
    shared: bool,
) -> Scores:
    _check_counts(draws=draws)
    scores = Scores(torch.full((len(stack),), torch.nan), torch.full((len(stack),), torch.nan))

    def summarise(elbo: ELBO, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return elbo.likelihood.log_prob(outputs, y).logsumexp(0), elbo.likelihood.mean(outputs).sum(
            0
        )

    for group, own in _by_length(rows, x.device):
        part = stack.take(group)
        predictor = Predictor(part, [seeds[m] for m in group.tolist()], shared=shared)
        logs = torch.full(own.shape, -math.inf, device=x.device)
        means: Tensor | None = None
        done = torch.zeros(len(group), dtype=torch.long)
        for members, count, (log, mean) in predictor.pieces(x, own, draws, summarise, y):
            logs[members] = torch.logaddexp(logs[members], log)
            if means is None:
                means = mean.new_zeros((len(group), *mean.shape[1:]))
            means[members] += mean
            done[members] += count
        assert means is not None
        logs -= done.log()[:, None].to(logs)
        scores.log_prob[group] = logs.mean(1).cpu()
        targets = y[own]
        if means.shape == targets.shape:
            means /= done.view(-1, *[1] * (means.dim() - 1)).to(means)
            scores.rmse[group] = (means - targets).square().flatten(1).mean(1).sqrt().cpu()
    return scores


def _by_length(
    rows: list[np.ndarray[Any, Any]], device: torch.device
) -> list[tuple[Tensor, Tensor]]:
    """Members with as many rows as each other, and their rows: (G,) and (G, B)."""
    groups: dict[int, list[int]] = {}
    for member, own in enumerate(rows):
        groups.setdefault(len(own), []).append(member)
    return [
        (torch.tensor(group), torch.from_numpy(np.stack([rows[m] for m in group])).to(device))
        for group in groups.values()
    ]


def _seed(generator: torch.Generator | None) -> int:
    device = None if generator is None else generator.device
    return int(torch.randint(2**63 - 1, (), generator=generator, device=device))


def _elbo(member: nn.Module) -> ELBO:
    if not isinstance(member, ELBO):
        raise TypeError(
            f"members: expected dubio.ELBO objectives, which know the network and the likelihood, "
            f"got {type(member).__name__}; predict with each network."
        )
    return member


def _check_estimators(members: Sequence[nn.Module]) -> None:
    """Complain about gradients that need passes of one network at a time."""
    for module in members[0].modules():
        if (
            isinstance(module, ELBO)
            and module.estimator not in ("trapezoid", "trapezoid_once")
            and any(isinstance(m, LearnableBernoulli) for m in module.modules())
        ):
            raise ValueError(
                f"members: expected the estimator 'trapezoid' or 'trapezoid_once', got "
                f"{module.estimator!r}, which cannot be computed for many networks at once; "
                f"choose one of those, or train them one by one with dubio.fit."
            )


def _check_num_data(members: Sequence[nn.Module], rows: list[np.ndarray[Any, Any]]) -> None:
    """A KL that is divided by another number than that of the data is a common mistake."""
    for index, (member, own) in enumerate(zip(members, rows, strict=True)):
        if isinstance(member, ELBO) and member.num_data != len(own):
            raise ValueError(
                f"members[{index}].num_data: expected {len(own)}, the rows that it learns from, "
                f"got {member.num_data}; assign to it, and weigh the KL on purpose by "
                f"kl_weight."
            )


def _check_data(x: Tensor, y: Tensor, like: Tensor) -> None:
    for name, data in (("x", x), ("y", y)):
        if not isinstance(data, Tensor) or data.dim() == 0:
            raise TypeError(
                f"{name}: expected a tensor with rows first, got {type(data).__name__}; make one "
                f"with torch.as_tensor."
            )
        if data.device != like.device:
            raise ValueError(
                f"{name}: expected a tensor on {like.device}, where the members are, got one on "
                f"{data.device}; move it with .to()."
            )
        if bool(data.isnan().any()):
            raise ValueError(f"{name}: expected numbers, got NaN; drop or impute these rows.")
    if len(x) != len(y):
        raise ValueError(f"y: expected {len(x)} rows, as x has, got {len(y)}.")


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            raise ValueError(f"{name}: expected a positive int, got {count!r}.")
