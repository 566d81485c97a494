"""What Gal et al. 2017 says of its figure 1."""

from itertools import pairwise
from statistics import fmean

from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

CONVERGED = 0.05  # what rates may differ by between starts
LAYERS = ("input", "hidden 1", "hidden 2", "mean head", "variance head")


def by_size(rows: Rows, metric: str, **fields: float) -> dict[int, float]:
    """Means over repeats and starts, by the number of data."""
    chosen = rows.where(metric=metric, **fields)
    return {size: fmean(chosen.where(size=size).values()) for size in chosen.distinct("size")}


def listed(values: dict[int, float]) -> str:
    """Values with the numbers of data that they belong to."""
    return ", ".join(f"{value:.3f} (N = {size:,})" for size, value in values.items())


def epistemic_falls(rows: Rows) -> Finding:
    """Epistemic deviation against N."""
    values = by_size(rows, "epistemic")
    falls = all(later < earlier for earlier, later in pairwise(values.values()))
    return Finding(listed(values), "reproduces" if falls else "worse")


def aleatoric_tends_to_one(rows: Rows) -> Finding:
    """Aleatoric deviation against N."""
    values = by_size(rows, "aleatoric")
    first, *_, last = values.values()
    near = abs(last - 1) < 0.05 and abs(last - 1) <= abs(first - 1)
    return Finding(listed(values), "reproduces" if near else "worse")


def rates_fall(rows: Rows) -> Finding:
    """The mean rate of the masks behind hidden units against N."""
    values = {
        size: fmean(by_size(rows, "drop", layer=layer)[size] for layer in range(1, len(LAYERS)))
        for size in by_size(rows, "drop", layer=1)
    }
    falls = all(later < earlier + 0.01 for earlier, later in pairwise(values.values()))
    first, *_, last = values.values()
    return Finding(
        f"mean over layers behind hidden units: {listed(values)}",
        "reproduces" if falls and last < first else "worse",
    )


def has_converged(rows: Rows) -> Finding:
    """The largest difference of a rate between starts, over sizes, layers and repeats."""
    widest = 0.0
    for size in rows.distinct("size"):
        for layer in range(len(LAYERS)):
            for repeat in rows.distinct("repeat"):
                found = rows.where(metric="drop", size=size, layer=layer, repeat=repeat).values()
                widest = max(widest, max(found) - min(found))
    drift = max(abs(value) for value in rows.where(metric="drift").values())
    return Finding(
        f"largest difference between starts {widest:.3f}; largest change in the last fifth of the "
        f"steps {drift:.3f}",
        "reproduces" if widest < CONVERGED else "worse",
    )


CLAIMS = (
    Claim(
        "Epistemic uncertainty decreases as the amount of data increases.",
        "figure 1a",
        "Its mean over repeats is lower for every larger number of data.",
        epistemic_falls,
    ),
    Claim(
        "Aleatoric uncertainty tends to 1, the true standard deviation.",
        "figure 1b",
        "With the most data it is within 0.05 of 1, and no further from it than with the fewest.",
        aleatoric_tends_to_one,
    ),
    Claim(
        "Dropout probabilities decrease with more data.",
        "figure 1d: from near 0.5 to between 0.2 and 0.4",
        "The mean rate behind hidden units does not rise by more than 0.01 from one number of data "
        "to the next, and falls in all.",
        rates_fall,
    ),
    Claim(
        "The rates have converged (the paper's had not: they still moved at the optimiser's full "
        "speed).",
        "the authors' notebook: 1000 to 2000 steps",
        "Runs from different starts end with rates that differ by less than 0.05 everywhere.",
        has_converged,
    ),
)
