"""Methods of the papers' tables, and what rows say of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean
from typing import final

from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import standard_error, with_error
from dubio_studies.scenes.names import Kind, Sampling


@final
@dataclass(frozen=True)
class SceneMethod:
    """A way to train and to predict.

    Attributes:
        name: In tables.
        kind: Of dropout.
        sampling: How it predicts.
    """

    name: str
    kind: Kind
    sampling: Sampling


NO_DROPOUT = SceneMethod("no dropout", "none", "one pass")
REGULAR = SceneMethod("dropout 0.2", "fixed", "one pass")
MC = SceneMethod("MC dropout 0.2", "fixed", "draws")
CONCRETE_ONCE = SceneMethod("Concrete, one pass", "concrete", "one pass")
CONCRETE = SceneMethod("Concrete", "concrete", "draws")
LBD = SceneMethod("LBD", "bernoulli", "draws")
GAUSSIAN = SceneMethod("Gaussian", "gaussian", "draws")


def of(rows: Rows, method: SceneMethod) -> Rows:
    """The rows of a method."""
    return rows.where(kind=method.kind, sampling=method.sampling)


def values(rows: Rows, method: SceneMethod, metric: str) -> list[float]:
    """A score of every fork of a method, in the order of restarts."""
    return of(rows, method).where(metric=metric).values()


def percent(rows: Rows, method: SceneMethod, metric: str) -> str:
    """A share in percent: the mean over forks and its standard error."""
    return with_error([100 * value for value in values(rows, method, metric)])


@final
@dataclass(frozen=True)
class MethodDifference:
    """How much higher one method scores than another.

    Attributes:
        mean: The difference of their means over forks.
        error: Its standard error; infinite with a single fork.
    """

    mean: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it is above zero by more than two standard errors."""
        return self.mean > 2 * self.error

    def __str__(self) -> str:
        """In points of percent."""
        error = "?" if math.isinf(self.error) else f"{100 * self.error:.2f}"
        return f"{100 * self.mean:+.2f} ± {error}".replace("-", "−")


def difference(rows: Rows, one: SceneMethod, other: SceneMethod, metric: str) -> MethodDifference:
    """Of two methods; in pairs if they are predictions of the same forks."""
    ours, theirs = (values(rows, method, metric) for method in (one, other))
    mean = fmean(ours) - fmean(theirs)
    if one.kind == other.kind:
        paired = standard_error([a - b for a, b in zip(ours, theirs, strict=True)])
        return MethodDifference(mean, math.inf if paired is None else paired)
    errors = [standard_error(own) for own in (ours, theirs)]
    if None in errors:
        return MethodDifference(mean, math.inf)
    return MethodDifference(mean, math.hypot(*(error for error in errors if error is not None)))


def curve(rows: Rows, method: SceneMethod, metric: str) -> tuple[list[float], list[list[float]]]:
    """Thresholds t, and at each of them the value of every fork that has one."""
    own = of(rows, method).where(metric=metric)
    places = sorted(own.distinct("t"))
    return places, [own.where(t=place).values() for place in places]


def reliability(rows: Rows, method: SceneMethod) -> tuple[list[float], list[float]]:
    """Mean probabilities and frequencies bin by bin, of all forks of a method together."""
    own = of(rows, method).where(metric="frequency")
    confidences, frequencies = [], []
    for place in sorted(own.distinct("bin")):
        here = own.where(bin=place)
        cases = sum(here.values("cases"))
        confidences.append(sum(map(mul, here.values("confidence"), here.values("cases"))) / cases)
        frequencies.append(sum(map(mul, here.values(), here.values("cases"))) / cases)
    return confidences, frequencies


def listed(rows: Rows, methods: Sequence[SceneMethod], metric: str) -> str:
    """A share of several methods, in words."""
    return ", ".join(f"{method.name} {percent(rows, method, metric)}" for method in methods)
