"""Two models on the same test users: by how much one is better, and the standard error of it."""

import math
from statistics import fmean, variance
from typing import NamedTuple, final

from dubio_studies.framework.rows import Rows


@final
class Gain(NamedTuple):
    """A difference of means over users, with its standard error over users and restarts."""

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is above zero by more than two standard errors."""
        return self.mean > 2 * self.error

    def shown(self, factor: float = 100.0) -> str:
        """As it stands in a table, in percent unless told otherwise."""
        return f"{factor * self.mean:+.2f} ± {factor * self.error:.2f}".replace("-", "−")


def gain(ours: Rows, theirs: Rows) -> Gain:
    """How much better a model is than another on the same users.

    Restarts are averaged. The standard error over users is that of the differences of groups of
    users; to its square that of the restarts of both models is added.

    Args:
        ours: A row for each restart, whose value is a text of means over groups of users.
        theirs: The same of the other model.
    """
    both = _groups(ours), _groups(theirs)
    means = [[fmean(group) for group in zip(*of, strict=True)] for of in both]
    differences = [a - b for a, b in zip(*means, strict=True)]
    of_users = variance(differences) / len(differences)
    of_restarts = [
        variance([fmean(restart) for restart in of]) / len(of) if len(of) > 1 else 0.0
        for of in both
    ]
    return Gain(fmean(differences), math.sqrt(of_users + sum(of_restarts)))


def _groups(rows: Rows) -> list[list[float]]:
    return [[float(mean) for mean in str(row["value"]).split()] for row in rows]
