"""Agreement with torchmetrics where it is right, and why its own metrics are not used elsewhere."""

import pytest
import torch
import torchmetrics.functional as tm
from torch.distributions import Normal
from torchmetrics import MeanSquaredError, MetricCollection
from torchmetrics.classification import BinaryAUROC
from torchmetrics.functional.regression import continuous_ranked_probability_score

from dubio import metrics
from metric_references import LABELS, MAPS, MEAN, TARGET, VOID, seeded

LOGITS = torch.randn(500, 4, generator=seeded(30), dtype=torch.float64)
P, Y = LOGITS.softmax(1), torch.randint(4, (500,), generator=seeded(31))


@pytest.mark.parametrize(("norm", "ours"), [("l1", metrics.ece), ("max", metrics.mce)])
def test_calibration_errors(norm: str, ours: object) -> None:
    assert callable(ours)
    found = tm.calibration_error(P, Y, task="multiclass", num_classes=4, n_bins=15, norm=norm)
    assert float(ours(P, Y)) == pytest.approx(float(found), rel=1e-5)


def test_a_confidence_of_one_has_no_bin_of_its_own() -> None:
    p = torch.tensor([[1.0, 0.0], [0.99, 0.01]])
    y = torch.tensor([1, 0])  # the last bin: half right, sure at 0.995
    theirs = tm.calibration_error(p, y, task="multiclass", num_classes=2, n_bins=10)
    assert float(metrics.ece(p, y, bins=10)) == pytest.approx(0.495)
    assert float(theirs) == pytest.approx((1 + 0.01) / 2)


def test_scores_need_not_lie_between_0_and_1() -> None:
    inside, outside = torch.tensor([0.9, 0.8, 1.5]), torch.tensor([0.7, 3.0, 2.0])
    theirs = BinaryAUROC()
    theirs.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 0, 1]))
    theirs.update(torch.tensor([1.5, 3.0, 2.0]), torch.tensor([0, 1, 1]))  # takes these for logits
    ours = metrics.separation(inside, outside).auroc
    assert float(ours) == pytest.approx(6 / 9)
    assert float(theirs.compute()) != pytest.approx(6 / 9)


def test_the_rest() -> None:
    torch.testing.assert_close(
        metrics.accuracy(P, Y),
        tm.accuracy(P, Y, task="multiclass", num_classes=4).double(),
    )
    torch.testing.assert_close(
        metrics.crps(MEAN, TARGET),
        continuous_ranked_probability_score(MEAN.reshape(7, -1).T, TARGET.reshape(-1)),
    )
    theirs = MeanSquaredError(squared=False)(MEAN[0], TARGET)  # a sum in float32
    assert float(metrics.rmse(MEAN[0], TARGET)) == pytest.approx(float(theirs), rel=1e-6)
    torch.testing.assert_close(
        metrics.mean_iou(MAPS, LABELS, 3, void=VOID),
        tm.jaccard_index(
            MAPS, LABELS, task="multiclass", num_classes=3, ignore_index=VOID
        ).double(),
    )


def test_a_collection_shares_states() -> None:
    collection = MetricCollection([metrics.ECE(), metrics.MCE(), metrics.NLL(), metrics.Brier()])
    for piece in range(0, 500, 100):
        collection.update(P[piece : piece + 100], Y[piece : piece + 100])
    assert ["ECE", "MCE"] in collection.compute_groups.values()
    torch.testing.assert_close(
        collection.compute(),
        {
            "ECE": metrics.ece(P, Y),
            "MCE": metrics.mce(P, Y),
            "NLL": metrics.nll(P, Y),
            "Brier": metrics.brier(P, Y),
        },
    )


def test_states_do_not_grow_and_keep_their_precision() -> None:
    metric = metrics.RMSE()
    metric.half()
    metric.update(Normal(MEAN, 1.0), TARGET)
    assert metric.metric_state["total"].dtype == torch.float64
    assert all(state.numel() == 1 for state in metric.metric_state.values())
