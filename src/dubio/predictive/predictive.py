"""The predictive distribution: an equal mixture over draws of p(y | x, omega_t).

q(y | x) = 1/S sum_t p(y | x, omega_t) is Gal & Ghahramani 2016, eq. 10, by Monte Carlo.
`Predictive` is what `predict` returns; the draws come from a `DrawSource`, kept in memory or played
again.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import index, itemgetter
from typing import NamedTuple, SupportsIndex, final

import torch
from torch import Tensor

from dubio.likelihoods import Likelihood
from dubio.likelihoods.quantiles import check_probability
from dubio.noise.protocols import DrawSource
from dubio.noise.seeds import Seed, as_generator
from dubio.predictive import storage
from dubio.predictive.rows import RowIndex, chosen_rows
from dubio.predictive.settings import is_same_likelihood
from dubio.predictive.summary import Summary


class Interval(NamedTuple):
    """A prediction interval for each target.

    Attributes:
        low: Its lower end, `(B, *E)`.
        high: Its upper end, `(B, *E)`.
    """

    low: Tensor
    high: Tensor


@final
class StoredDraws:
    """Draws that are kept in memory, `(S, B, ...)`.

    Args:
        draws: The raw network outputs.
        chunk_bytes: The size of the pieces to work on; a few MiB stay in a processor's cache.
    """

    def __init__(self, draws: Tensor, chunk_bytes: int = 4 * 2**20) -> None:
        if draws.ndim < 2 or draws.numel() == 0:
            raise ValueError(
                f"draws: expected a non-empty tensor (draws, batch, ...), got shape "
                f"{tuple(draws.shape)}; put the draws in front, with draws.unsqueeze(0) if one"
            )
        if chunk_bytes < 1:
            raise ValueError(
                f"chunk_bytes: expected at least 1, got {chunk_bytes}; leave it to its default"
            )
        self.draws = draws
        self.chunk_bytes = chunk_bytes

    @property
    def num_draws(self) -> int:
        """S, the number of draws of every row."""
        return self.draws.shape[0]

    @property
    def num_rows(self) -> int:
        """B, the number of rows."""
        return self.draws.shape[1]

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield some draws of all rows at a time."""
        step = max(1, self.chunk_bytes // self.draws[0].nbytes)
        for start in range(0, self.num_draws, step):
            yield slice(0, self.num_rows), self.draws[start : start + step]

    def columns(self) -> Iterator[Tensor]:
        """Yield all draws of some rows at a time, `(S, B, ...)`."""
        step = max(1, self.chunk_bytes // self.draws[:, 0].nbytes)
        for start in range(0, self.num_rows, step):
            yield self.draws[:, start : start + step]


@final
class Predictive:
    """The predictive distribution of a stochastic network: an equal mixture over its draws.

    Shapes: `B` rows; `*E` the dimensions of one target, including the class dimension for
    `Categorical`, whose targets are treated as one-hot vectors. Entropies and the variation ratio
    lack that dimension. Statistics are computed on first use, in one pass over the draws.

    Args:
        likelihood: The distribution of targets given the outputs of one draw. A learned one is
            frozen as it is now.
        source: The draws.
        summary: The statistics, if the source has been read already.
    """

    def __init__(
        self, likelihood: Likelihood, source: DrawSource, summary: Summary | None = None
    ) -> None:
        self.likelihood = likelihood.frozen()
        self.source = source
        self._summary = summary

    @classmethod
    def from_draws(cls, likelihood: Likelihood, draws: Tensor) -> "Predictive":
        """Make a prediction from draws of any origin: another library, a file, a formula.

        Args:
            likelihood: The distribution of targets given one draw; `Point()` if the draws are the
                targets.
            draws: The raw outputs `(S, B, ...)`, draws first. They are not copied.

        Warns:
            RuntimeWarning: If some rows have NaN or infinite outputs, as with `predict`.
        """
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                "likelihood: expected an instance from dubio.likelihoods such as Categorical(), "
                f"got {likelihood!r}; Point() takes the outputs themselves for targets"
            )
        if not isinstance(draws, Tensor):
            raise TypeError(
                f"draws: expected a tensor (draws, batch, ...), got {type(draws).__name__}; make "
                "one with torch.as_tensor, or torch.stack for a list of outputs"
            )
        likelihood.check(draws)
        broken = int(likelihood.broken(draws).sum())
        if broken:
            warnings.warn(
                f"draws: expected finite outputs, got NaN or infinite ones in {broken} of "
                f"{draws.shape[1]} rows; these have no sensible prediction: remove them",
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(likelihood, StoredDraws(draws))

    @classmethod
    def concatenate(cls, predictives: Sequence["Predictive"]) -> "Predictive":
        """Concatenate the rows of several predictions.

        All must have the same likelihood, number of draws and output shape. The s-th draws of all
        become one draw. That is one function of x only if it was one before: with ``shared=True``
        and the same seed.
        """
        parts = list(predictives)
        if not parts or not all(isinstance(part, Predictive) for part in parts):
            found = [type(part).__name__ for part in parts]
            raise TypeError(
                f"predictives: expected a sequence of at least one Predictive, got {found}; call "
                "Predictive.concatenate([p, q])"
            )
        first, *others = parts
        for number, other in enumerate(others, 1):
            if not is_same_likelihood(first.likelihood, other.likelihood):
                raise ValueError(
                    f"predictives: expected one likelihood, got {first.likelihood!r} in the first "
                    f"and {other.likelihood!r} in number {number}; predict with the same one"
                )
        draws = [part._stored("concatenate").draws for part in parts]
        forms = [(len(d), tuple(d.shape[2:]), d.dtype, d.device) for d in draws]
        for number, form in enumerate(forms):
            if form != forms[0]:
                raise ValueError(
                    "predictives: expected one number of draws, shape of outputs, dtype and "
                    f"device, got {forms[0]} in the first and {form} in number {number}; predict "
                    "with the same draws=, or move one with p.to(device)"
                )
        return cls(first.likelihood, StoredDraws(torch.cat(draws, dim=1)))

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> "Predictive":
        """Load a prediction that `save` has written, to the CPU. Files are plain data, never code.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If `save` did not write it, or it is damaged, or from a later version.
        """
        likelihood, draws = storage.read(file)
        return cls(likelihood, StoredDraws(draws))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Save likelihood and draws to a file for `load`, replacing the file if it exists.

        A learned likelihood is saved as it was when the prediction was made.
        """
        storage.write(file, self.likelihood, self._stored("save").draws)

    def to(self, device: torch.device | str | int) -> "Predictive":
        """Return the prediction on another device; itself if it is already there."""
        if isinstance(device, torch.dtype):
            raise TypeError(
                f"device: expected a device such as 'cpu', got {device}; a prediction keeps the "
                "precision of its network: Predictive.from_draws(p.likelihood, p.draws.double())"
            )
        stored = self._stored("to")
        moved = stored.draws.to(torch.device(device))
        if moved is stored.draws:
            return self
        return Predictive(self.likelihood, StoredDraws(moved, stored.chunk_bytes))

    def __len__(self) -> int:
        return self.source.num_rows

    def __getitem__(self, rows: RowIndex) -> "Predictive":
        """Return the prediction of some rows: a slice, a mask, or indices, as numpy has them.

        The axis of rows stays, so that a single row is ``p[i : i + 1]``, and ``p[i]`` an error.
        """
        stored = self._stored("p[rows]")
        chosen = chosen_rows(rows, stored.num_rows, stored.draws.device)
        return Predictive(self.likelihood, StoredDraws(stored.draws[:, chosen], stored.chunk_bytes))

    def __repr__(self) -> str:
        return (
            f"Predictive(likelihood={self.likelihood!r}, draws={self.num_draws}, "
            f"rows={self.source.num_rows}, mean={tuple(self.mean.shape)})"
        )

    @property
    def num_draws(self) -> int:
        """S, the number of draws per row."""
        return self.source.num_draws

    @property
    def summary(self) -> Summary:
        """The statistics over draws that the properties below are derived from."""
        if self._summary is None:
            blocks = []
            for _, chunks in self.blocks():
                block = Summary(self.likelihood)
                for outputs in chunks:
                    block.update(outputs)
                blocks.append(block)
            self._summary = Summary.concatenate(blocks)
        return self._summary

    def blocks(self) -> Iterator[tuple[slice, Iterator[Tensor]]]:
        """Yield rows in blocks, each with its draws `(S, B, ...)` in chunks."""
        for rows, chunks in groupby(self.source.chunks(), key=itemgetter(0)):
            yield rows, (outputs for _, outputs in chunks)

    @property
    def mean(self) -> Tensor:
        """E[y | x], `(B, *E)`: class probabilities for discrete likelihoods."""
        return self.summary.mean

    @property
    def epistemic(self) -> Tensor:
        """The epistemic variance `(B, *E)`: the spread of the means of the draws."""
        return self.summary.epistemic

    @property
    def aleatoric(self) -> Tensor:
        """The aleatoric variance `(B, *E)`: the noise in the targets, averaged over draws."""
        return self.summary.aleatoric

    @property
    def variance(self) -> Tensor:
        """Var[y | x], `(B, *E)`, by the law of total variance: epistemic + aleatoric.

        For a Gaussian likelihood this is the diagonal of the predictive variance in section 4 of
        Gal & Ghahramani 2016. Without a likelihood it is the epistemic variance alone.
        """
        return self.epistemic + self.aleatoric if self.likelihood.noisy else self.epistemic

    @property
    def std(self) -> Tensor:
        """The square root of `variance`, `(B, *E)`."""
        return self.variance.sqrt()

    @property
    def entropy(self) -> Tensor:
        """H[y | x] in nats, of the averaged probabilities: `(B, ...)`."""
        return self.likelihood.marginal_entropy(self.mean)

    @property
    def expected_entropy(self) -> Tensor:
        """The mean over draws of H[y | x, omega] in nats: `(B, ...)`.

        For numeric targets it is the differential entropy of every element. It is at most the
        entropy of the prediction, which has no closed form: mixing adds the disagreement among
        draws.
        """
        if self.likelihood.discrete:
            return self.summary.expected_entropy
        return self._mean_over_draws(self.likelihood.entropy)

    @property
    def mutual_information(self) -> Tensor:
        """I[y, omega | x] = entropy - expected_entropy in nats: `(B, ...)`, never negative."""
        if not self.likelihood.discrete:
            raise self.likelihood.undefined("mutual_information")
        return (self.entropy - self.expected_entropy).clamp(min=0)

    @property
    def variation_ratio(self) -> Tensor:
        """1 - the share of draws that prefer the modal class: `(B, ...)`.

        Gal & Ghahramani 2016, section 5.2, sample a label from every draw instead of taking the
        likeliest one; with many draws their ratio tends to 1 - max(mean).
        """
        modal = self.summary.votes.amax(-1)
        return 1 - modal.to(self.mean.dtype) / self.num_draws

    @property
    def draws(self) -> Tensor:
        """The raw network outputs, `(S, B, ...)`."""
        return self._stored("draws").draws

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """Return quantiles of every element of the target; for classes, of their probabilities.

        Args:
            q: One level, which gives `(B, *E)`, or Q of them, which give `(Q, B, *E)`.
        """
        levels = torch.as_tensor(q, dtype=torch.float64)
        if levels.ndim > 1 or levels.numel() == 0:
            raise ValueError(
                f"q: expected a number or a sequence of them, got shape {tuple(levels.shape)}; "
                "flatten it"
            )
        stored = self._stored("quantile")
        quantiles = [
            torch.cat([self.likelihood.quantile(outputs, level) for outputs in stored.columns()])
            for level in levels.reshape(-1).tolist()
        ]
        return torch.stack(quantiles).reshape(*levels.shape, *quantiles[0].shape)

    def interval(self, level: float = 0.95) -> Interval:
        """Return the central interval of probability `level`: low and high, `(B, *E)` each."""
        check_probability("level", level, "0.95 is a common choice")
        low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return Interval(low, high)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(Y <= y | x) of every element, for numeric targets: `(B, *E)`."""
        self.check_targets(y)
        blocks = []
        for rows, chunks in self.blocks():
            parts = [self.likelihood.cdf(outputs, y[rows]).sum(0) for outputs in chunks]
            blocks.append(torch.stack(parts).sum(0))
        return torch.cat(blocks) / self.num_draws

    def log_prob(self, y: Tensor) -> Tensor:
        """Return the log density of every row, joint over its event dimensions: `(B,)`.

        log 1/S sum_t p(y | x, omega_t) = logsumexp_t log p(y | x, omega_t) - log S. For a Gaussian
        likelihood this is Gal & Ghahramani 2016, eq. 13.

        Args:
            y: One target per row, `(B, *E)`; integer class labels for `Categorical`.
        """
        self._check_rows(y)
        blocks = []
        for rows, chunks in self.blocks():
            total = torch.tensor(-math.inf)
            for outputs in chunks:
                logs = self.likelihood.log_prob(outputs, y[rows])  # (S, B)
                total = torch.logaddexp(total.to(logs), logs.logsumexp(0))
            blocks.append(total)
        return torch.cat(blocks) - math.log(self.num_draws)

    def check_targets(self, y: Tensor) -> None:
        """Raise an error unless `log_prob` accepts these as the targets of the rows."""
        self._check_rows(y)
        self.likelihood.check_targets(y, self.mean.unsqueeze(0))

    def sample(self, n: int = 1, generator: Seed = None) -> Tensor:
        """Sample n targets per row, `(n, B, ...)`, each from the likelihood of a random draw.

        Args:
            n: Number of samples.
            generator: Source of randomness; an int seeds a new one.
        """
        if isinstance(n, bool) or not isinstance(n, SupportsIndex) or index(n) < 1:
            raise ValueError(f"n: expected a positive int, got {n!r}; try n=100")
        draws = self._stored("sample").draws
        generator = as_generator(generator, draws.device)
        rows = torch.arange(draws.shape[1], device=draws.device)
        picks = torch.randint(
            len(draws), (n, len(rows)), generator=generator, device=draws.device
        )  # (n, B)
        return self.likelihood.sample(draws[picks, rows], generator)

    def _mean_over_draws(self, quantity: Callable[[Tensor], Tensor]) -> Tensor:
        """Average a function of outputs `(S, B, ...)` over draws, chunk by chunk."""
        blocks = []
        for _, chunks in self.blocks():
            blocks.append(torch.stack([quantity(outputs).sum(0) for outputs in chunks]).sum(0))
        return torch.cat(blocks) / self.num_draws

    def _check_rows(self, y: Tensor) -> None:
        rows = self.source.num_rows
        if isinstance(y, Tensor) and y.shape[:1] != (rows,):
            raise ValueError(
                f"y: expected one target for each of {rows} rows, got shape {tuple(y.shape)}; "
                "pass the targets of the very rows that were predicted"
            )

    def _stored(self, quantity: str) -> StoredDraws:
        if isinstance(self.source, StoredDraws):
            return self.source
        raise ValueError(
            f"{quantity}: expected stored draws, got {type(self.source).__name__}, which keeps "
            "none; call predict with keep_draws=True"
        )
