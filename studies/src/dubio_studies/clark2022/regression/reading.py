"""Rows of the regression by network, prior and region, and numbers in words."""

from collections.abc import Mapping
from statistics import fmean

from dubio_studies.framework.ledger import Number
from dubio_studies.framework.rows import Row, Rows, Scalar

Which = Mapping[str, Scalar]
BASE: Which = {
    "part": "network",
    "noise": 0.1,
    "sampler": "weights",
    "schedule": "constant",
}
GAUSSIAN: Which = {**BASE, "prior": "gaussian", "sigma": 1}
MIXTURE: Which = {**BASE, "prior": "mixture", "sigma": 1, "spike": 6}
CONVERGED = 0.99  # of the way that the objective goes down


def gaussian(sigma: int, sampler: str = "weights") -> Which:
    """Networks with a Gaussian prior with this −log σ."""
    return {**GAUSSIAN, "sigma": sigma, "sampler": sampler}


def noisy(noise: float) -> Which:
    """Networks with this σ_ε in their likelihood."""
    return {**GAUSSIAN, "noise": noise}


def stepped(which: Which) -> Which:
    """The same networks with the authors' learning rates."""
    return {**which, "schedule": "stepped"}


def starts(rows: Rows, metric: str, region: str, which: Which) -> Number:
    """A number of networks with the authors' learning rates: mean and standard error."""
    found = Number.of(rows.where(metric=metric, region=region, **stepped(which)).values())
    if found is None:
        raise LookupError(f"rows: expected some with {stepped(which)}, got none.")
    return found


def ensembles(rows: Rows) -> tuple[Rows, Rows]:
    """The rows of the ensemble without dropout, and of that with it."""
    found = rows.where(part="ensemble")
    plain, dropped = (found.where(drop=drop) for drop in sorted(found.distinct("drop")))
    return plain, dropped


def of(rows: Rows, metric: str, region: str, **which: Scalar) -> float:
    """A number of a network or an ensemble in a region."""
    return rows.value(metric=metric, region=region, **which)


def final(rows: Rows, name: str = "value") -> float:
    """The mean of the last fifth of a training curve."""
    curve = rows.where(metric="training").values(name)
    return fmean(curve[-max(1, len(curve) // 5) :])


def spread(rows: Rows, **which: Scalar) -> tuple[float, float]:
    """Width of the band inside and outside."""
    return of(rows, "width", "inside", **which), of(rows, "width", "outside", **which)


def epochs_to_converge(curve: Rows) -> float:
    """The first epoch at which the objective has gone most of its way down."""
    values = curve.values()
    goal = values[0] - CONVERGED * (values[0] - min(values))
    return next(e for e, v in zip(curve.values("epoch"), values, strict=True) if v <= goal)


def mixtures(rows: Rows) -> Rows:
    """Networks with mixtures as priors."""
    return rows.where(**BASE).where(prior="mixture")


def cell(row: Row) -> str:
    """The place of a mixture in table 2."""
    return f"({row['sigma']}, {row['spike']})"


def milliseconds(rows: Rows, sampler: str) -> float:
    """Per epoch: the best of several pieces, which do little else than train."""
    timed = rows.where(part="time", sampler=sampler)
    return min(1000 * float(row["seconds"]) / float(row["value"]) for row in timed)


def plain_milliseconds(rows: Rows, sampler: str, kl: str, units: int) -> float:
    """Per epoch of plain torch: the best of several."""
    timed = rows.where(part="plain torch", sampler=sampler, kl=kl, units=units)
    return min(1000 * float(row["cpu_seconds"]) / float(row["value"]) for row in timed)


def timed_units(rows: Rows) -> tuple[int, int]:
    """Units of the two networks of plain torch: those of the others, and a few."""
    units = rows.where(part="plain torch").distinct("units")
    return max(units), min(units)


def number(value: float, digits: int = 2) -> str:
    """With a true minus sign, and a comma between thousands."""
    return f"{value:,.{digits}f}".replace("-", "−")


def listed(values: Mapping[str, str]) -> str:
    """Names with their values."""
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def sigmas(rows: Rows) -> list[int]:
    """−log σ of the Gaussian priors."""
    return sorted(rows.where(**BASE).where(prior="gaussian").distinct("sigma"))


def spikes(rows: Rows) -> list[int]:
    """−log σ2 of the mixtures."""
    return sorted(mixtures(rows).distinct("spike"))


def noises(rows: Rows) -> list[float]:
    """σ_ε of the likelihoods."""
    return sorted(rows.where(part="network").distinct("noise"))
