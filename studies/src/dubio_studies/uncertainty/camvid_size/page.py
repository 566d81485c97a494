"""What resolution, network and epochs are worth: rows in, a table out. Nothing here trains."""

from collections.abc import Callable, Sequence
from statistics import fmean

from dubio.report.exhibits import Table
from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import with_error
from dubio_studies.framework.study import Page

Kind = tuple[int, str, bool]
"""How many times shorter each side of an image is; the network; whether it has all epochs."""

USUAL: Kind = (1, "whole", True)
FEWER_PIXELS: Kind = (2, "whole", True)
THIN: Kind = (1, "thin", True)
FEWER_EPOCHS: Kind = (1, "whole", False)
KINDS = {
    USUAL: "whole network, all pixels",
    FEWER_PIXELS: "whole network, half the resolution",
    THIN: "thin network, all pixels",
    (2, "thin", True): "thin network, half the resolution",
    FEWER_EPOCHS: "whole network, all pixels, half the epochs",
}
PERCENT = ("accuracy", "mean IoU", "mean IoU with void in unions", "mean PAvgPU",
           "mean PAvgPU of bands", "ECE")  # fmt: skip
LEAST = 0.01  # of a score


def values(rows: Rows, kind: Kind, metric: str) -> list[float]:
    """A score of every restart."""
    shrunk, network, long = kind
    lengths = sorted(rows.distinct("epochs"))
    epochs = lengths[-1] if long else lengths[0]
    return rows.where(shrunk=shrunk, network=network, epochs=epochs, metric=metric).values()


def lost(kind: Kind, metrics: Sequence[str]) -> Callable[[Rows], Finding]:
    """A judge: whether every restart of a kind has less than the usual one by every score."""

    def judge(rows: Rows) -> Finding:
        texts, verdicts = [], []
        for metric in metrics:
            pairs = zip(values(rows, USUAL, metric), values(rows, kind, metric), strict=True)
            losses = [100 * (usual - other) for usual, other in pairs]
            texts.append(f"{metric} {with_error(losses)} points")
            verdicts.append(min(losses) >= 100 * LEAST)
        return Finding(f"Lost: {', '.join(texts)}.", all(verdicts))

    return judge


_RULE = "In every restart, the whole network with all pixels and epochs has a point more"

CLAIMS = (
    Claim(
        "Half the resolution costs mean IoU.",
        "the papers have 480 × 360 pixels, twice what we have in each direction",
        f"{_RULE}.",
        lost(FEWER_PIXELS, ["mean IoU"]),
        ours=True,
    ),
    Claim(
        "A smaller network costs a point of mean IoU.",
        "FC-DenseNet-103 has 9.4 million weights, ours 5.4 million",
        f"{_RULE} than the thin one.",
        lost(THIN, ["mean IoU"]),
        otherwise=Refuted(
            "Two fifths fewer weights cost 0.8 and 1.2 points, where half the resolution costs 8; "
            "at that resolution they cost 0.1 and 0.9. A network of more weights than ours was not "
            "run."
        ),
        ours=True,
    ),
    Claim(
        "Half the epochs cost mean IoU.",
        "the papers train for 700 epochs or more",
        f"{_RULE}.",
        lost(FEWER_EPOCHS, ["mean IoU"]),
        ours=True,
    ),
    Claim(
        "Half the resolution costs accuracy and mean PAvgPU.",
        "the papers have 480 × 360 pixels, twice what we have in each direction",
        f"{_RULE}, by both scores.",
        lost(FEWER_PIXELS, ["accuracy", "mean PAvgPU"]),
        ours=True,
    ),
)


def exhibits(rows: Rows) -> list[Table]:
    """What the page shows, in order."""
    return [scores_table(rows)]


def scores_table(rows: Rows) -> Table:
    """A row for every kind."""

    def cells(kind: Kind) -> list[str]:
        weights, pixels = (fmean(values(rows, kind, name)) for name in ("weights", "pixels"))
        return [
            KINDS[kind],
            f"{weights / 1e6:.1f}",
            f"{pixels / 1e3:.0f}",
            *(with_error([100 * value for value in values(rows, kind, name)]) for name in PERCENT),
            with_error(values(rows, kind, "nll"), 3),
        ]

    shown = [kind for kind in KINDS if values(rows, kind, "accuracy")]
    longest = max(rows.distinct("epochs"))
    return Table(
        "CamVid's test images by resolution, network and epochs",
        ("network", "weights, millions", "pixels, thousands", *PERCENT, "NLL"),
        [cells(kind) for kind in shown],
        f"Percent; the NLL is in nats per labelled pixel. {longest} epochs, or half of them, "
        f"without dropout; means over {len(values(rows, USUAL, 'accuracy'))} networks, ± standard "
        "errors over them. All are judged on the same labelled pixels, by one pass.",
    )


PAGE = Page(CLAIMS, exhibits, examined="small-884b3be6")
