"""Scores as the public code of Boluki et al. 2020 computes them, beside ours.

Three things there differ from the paper. Windows of w × w pixels are cut by ``map[a:b][c:d]``,
which takes rows twice: what is left are bands of w whole rows. In their classification the entropy
is summed over a batch, and every image of it has the sum; for scenes that is one number an image.
And the union in an image's IoU counts predictions where nothing is labelled.
"""

import torch
from torch import Tensor

from dubio import metrics
from dubio_studies.scenes.images import CLASSES, VOID


class PublishedCode:
    """These scores over batches of scenes.

    Args:
        window: Rows of a band.
    """

    def __init__(self, window: int = 2) -> None:
        self._window = window
        self._bands, self._sums = metrics.PAvgPU(), metrics.PAvgPU(window=window, void=VOID)
        self._shares: list[Tensor] = []

    def update(self, probabilities: Tensor, labels: Tensor) -> None:  # (B, K, H, W), (B, H, W)
        """Adds a batch."""
        entropy = torch.special.entr(probabilities.double()).sum(1)  # (B, H, W)
        predicted, known = probabilities.argmax(1), labels != VOID
        self._add_bands(entropy, predicted == labels, known)
        whole = (entropy * known).sum((1, 2), keepdim=True).expand_as(entropy)
        self._sums.update(probabilities, labels, whole)
        labelled = known.flatten(1).any(1)
        pairs = zip(predicted[labelled], labels[labelled], strict=True)
        self._shares += [image_iou(*pair) for pair in pairs]

    def compute(self) -> dict[str, float]:
        """The mean PAvgPU of bands and of sums, and the mean over images of their IoU."""
        return {
            "mean PAvgPU of bands": float(self._bands.compute().mean),
            "mean PAvgPU of sums": float(self._sums.compute().mean),
            "mean IoU with void in unions": float(torch.stack(self._shares).mean()),
        }

    def _add_bands(self, entropy: Tensor, accurate: Tensor, known: Tensor) -> None:
        high = entropy.shape[1] // self._window * self._window  # rows beyond are left out

        def summed(values: Tensor) -> Tensor:  # (B, H, W) -> (B · bands,)
            rows = (values * known)[:, :high].double().sum(2)  # (B, rows)
            return rows.reshape(len(rows), -1, self._window).sum(2).flatten()

        count = summed(torch.ones_like(entropy))
        full = count > 0
        right = summed(accurate)[full] / count[full] > 0.5
        as_classes = torch.stack([right, ~right], 1).double()  # the first class is right
        doubt = summed(entropy)[full] / count[full]
        if len(doubt):
            self._bands.update(as_classes, torch.zeros_like(right, dtype=torch.long), doubt)


def image_iou(predicted: Tensor, labels: Tensor) -> Tensor:  # (H, W) each -> ()
    """The mean over the classes of an image's labels, with predictions of void pixels in unions."""
    shares = []
    for label in range(len(CLASSES)):
        ours, true = predicted == label, labels == label
        if true.any():
            shares.append((ours & true).sum() / (ours | true).sum().double())
    return torch.stack(shares).mean()
