"""What class probabilities are worth: the numbers of table 1 and figure 2, and surer ones."""

from collections.abc import Iterator

import torch
from torch import Tensor

from dubio import metrics
from dubio_studies.framework.study import Measurement

POINTS = 21  # of a curve of PAvgPU over t
AUTHORS_BATCH = 100  # test images over which the authors' code sums entropies


def entropy(probabilities: Tensor) -> Tensor:  # (N, K) -> (N,)
    """−Σ p log p, in nats."""
    by_class: Tensor = torch.special.entr(probabilities)
    return by_class.sum(-1)


def summed_over_batches(values: Tensor) -> Tensor:  # (N,) -> (N,)
    """What the authors' code takes for the entropy of a photograph.

    It sums over classes and over the batch, and gives all photographs of the batch this number.
    """
    batches = values.split(AUTHORS_BATCH)
    return torch.cat([batch.sum().expand(len(batch)) for batch in batches])


def scores(probabilities: Tensor, labels: Tensor, validation: Tensor) -> Iterator[Measurement]:
    """Rows of a prediction.

    Args:
        probabilities: Of the test photographs.  # (N, K)
        labels: Theirs.  # (N,)
        validation: Probabilities of photographs that bound the thresholds of PAvgPU.  # (M, K)
    """
    doubt, bounding = entropy(probabilities), entropy(validation)
    bounds = float(bounding.min()), float(bounding.max())
    by_entropy = {"image": doubt, "batch": summed_over_batches(doubt)}
    values = {
        "accuracy": metrics.accuracy(probabilities, labels),
        "nll": metrics.nll(probabilities, labels),
        "ece": metrics.ece(probabilities, labels),
        "pavgpu, validation": metrics.pavgpu(probabilities, labels, bounds=bounds).mean,
        "pavgpu, ranks": metrics.pavgpu(probabilities, labels, ranks=True).mean,
    }
    at_mean = metrics.certainty(probabilities, labels)
    values["accurate if certain"] = at_mean.accurate_given_certain
    values["uncertain if inaccurate"] = at_mean.uncertain_given_inaccurate
    for over, uncertainty in by_entropy.items():
        curve = metrics.pavgpu(probabilities, labels, uncertainty=uncertainty)
        values[f"pavgpu, {over}"] = curve.mean
        values[f"error auroc, {over}"] = metrics.error_detection(
            probabilities, labels, uncertainty=uncertainty
        ).auroc
        coarse = metrics.pavgpu(probabilities, labels, uncertainty=uncertainty, points=POINTS)
        for t, value in zip(coarse.t.tolist(), coarse.pavgpu.tolist(), strict=True):
            yield {"metric": "curve", "over": over, "t": t, "value": value}
    for metric, value in values.items():
        yield {"metric": metric, "value": float(value), "cases": len(labels)}
