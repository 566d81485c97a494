"""The history of training: a few numbers per epoch."""

from dataclasses import asdict, dataclass, field
from typing import Any, final

from dubio.report.tables import table


@final
@dataclass(frozen=True)
class Epoch:
    """One pass over the data; losses are means over its rows, each at the weights of its step.

    Attributes:
        epoch: Its number, from 1.
        loss: The minimised loss.
        nll: The negative log-likelihood, if the objective is an `ELBO`.
        kl: The unweighted divergence from the prior, if the objective is an `ELBO`.
        validation: The value that ``validate`` returned after the epoch.
        learning_rate: The learning rate of the last step, in the first parameter group.
        seconds: Duration including validation. Ignored when histories are compared.
    """

    epoch: int
    loss: float
    nll: float | None
    kl: float | None
    validation: float | None
    learning_rate: float
    seconds: float = field(compare=False)


@final
class History(list[Epoch]):
    """The epochs of a run, in order; prints as a table."""

    @property
    def best(self) -> Epoch | None:
        """The first epoch with the lowest validation; None without validation."""
        known = [e for e in self if e.validation is not None]
        return min(known, key=lambda epoch: epoch.validation or 0.0, default=None)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for every epoch, for a data frame or a JSON file."""
        return [asdict(epoch) for epoch in self]

    def __str__(self) -> str:
        if not self:
            return "no epochs"
        rows = self.rows()
        columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        return table(columns, [[_cell(row[name]) for name in columns] for row in rows])

    __repr__ = __str__


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
