"""Rows of the table, found and compared."""

import math
from dataclasses import dataclass
from statistics import fmean, variance
from typing import NamedTuple, final

from scipy import stats

from dubio_studies.framework.rows import Rows

LEVEL = 0.95  # of intervals for differences


@final
class Variant(NamedTuple):
    """A row of the table: networks of a kind, and how they predict.

    Attributes:
        method: The kind of dropout.
        prediction: draws, or mean for one pass without noise.
        loss: cross-entropy, or the authors' double softmax.
    """

    method: str
    prediction: str = "draws"
    loss: str = "cross-entropy"


REGULAR = Variant("dropout", "mean")
MC = Variant("dropout")
GAUSSIAN = Variant("gaussian")
CONCRETE = Variant("concrete")
LBD_LAYER = Variant("lbd-layer")
LBD_UNIT = Variant("lbd-unit")
LBD_SHARED = Variant("lbd-shared")

NAMES = {
    LBD_UNIT: "LBD per unit",
    LBD_LAYER: "LBD per layer",
    LBD_SHARED: "LBD with one rate",
    CONCRETE: "Concrete",
    GAUSSIAN: "learned Gaussian",
    MC: "MC dropout",
    REGULAR: "regular dropout",
}
AUTHORS = {
    variant._replace(loss="double softmax"): f"{NAMES[variant]} with a double softmax"
    for variant in (LBD_LAYER, MC, REGULAR)
}
TRUNKS = {"efficientnet-lite0": "EfficientNet-Lite0", "vgg16": "VGG16", "vgg19": "VGG19"}


@final
class PublishedAccuracies(NamedTuple):
    """Table 1 of the paper, in shares; the accuracy of one rate for all layers is in the text."""

    accuracy: float
    pavgpu: float | None


PUBLISHED = {
    LBD_LAYER: PublishedAccuracies(0.9347, 0.6452),
    LBD_SHARED: PublishedAccuracies(0.9211, None),
    CONCRETE: PublishedAccuracies(0.9272, 0.5997),
    GAUSSIAN: PublishedAccuracies(0.9116, 0.5271),
    MC: PublishedAccuracies(0.9157, 0.5208),
    REGULAR: PublishedAccuracies(0.9161, 0.5681),
}


@final
@dataclass(frozen=True)
class MeanDifference:
    """A mean over networks less another.

    Attributes:
        mean: The difference.
        margin: Half of its 95 % interval by Welch's t, over starts and noise of networks; None if
            there is only one network of a kind.
    """

    mean: float
    margin: float | None

    @property
    def clear(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.margin is not None and self.mean > self.margin

    def shown(self) -> str:
        """In points of a percent."""
        text = f"{100 * self.mean:+.2f}".replace("-", "−")
        return text if self.margin is None else f"{text} ± {100 * self.margin:.2f}"


def values(rows: Rows, trunk: str, variant: Variant, metric: str) -> list[float]:
    """A number of every network of a row."""
    method, prediction, loss = variant
    own = rows.where(trunk=trunk, method=method, loss=loss, metric=metric)
    return own.where(prediction=prediction).values()


def mean(rows: Rows, trunk: str, variant: Variant, metric: str) -> float:
    """A number of the table."""
    return fmean(values(rows, trunk, variant, metric))


def shown(rows: Rows, variants: dict[Variant, str]) -> dict[Variant, str]:
    """The rows that were run, of the first trunk; all trunks have the same."""
    trunk = rows.distinct("trunk")[0]
    return {v: name for v, name in variants.items() if values(rows, trunk, v, "accuracy")}


def difference(
    rows: Rows, trunk: str, first: Variant, second: Variant, metric: str
) -> MeanDifference:
    """A row of the table less another."""
    a, b = (values(rows, trunk, variant, metric) for variant in (first, second))
    gap = fmean(a) - fmean(b)
    if min(len(a), len(b)) < 2:
        return MeanDifference(gap, None)
    parts = [variance(own) / len(own) for own in (a, b)]
    if sum(parts) == 0:
        return MeanDifference(gap, 0.0)
    weighed = (part**2 / (len(own) - 1) for part, own in zip(parts, (a, b), strict=True))
    freedom = sum(parts) ** 2 / sum(weighed)
    quantile = float(stats.t.ppf(0.5 + LEVEL / 2, freedom))
    return MeanDifference(gap, quantile * math.sqrt(sum(parts)))
