"""What frozen features, pixels and the order of photographs do, and rules that decide."""

from itertools import pairwise

from dubio_studies.boluki2020.table_1_cifar10.reading import PUBLISHED, Variant
from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows

NAMES = {"vgg16": "VGG16", "efficientnet-lite0": "EfficientNet-Lite0"}
METHODS = {"dropout": "MC dropout", "lbd-layer": "LBD per layer"}
KEY = ("vgg16", 64)  # the network and pixels that are nearest to the paper's
PUBLISHED_LEAD = 0.0455  # of LBD over Concrete dropout, by mean PAvgPU
PIXELS_ADD = 0.01


def values(
    rows: Rows, trunk: str, pixels: int, trained: bool, method: str, metric: str, **more: str
) -> list[float]:
    """A number of every network of a kind."""
    own = rows.where(trunk=trunk, pixels=pixels, trained=trained, method=method, metric=metric)
    return own.where(**{"prediction": "draws", **more}).values()


def mean(rows: Rows, trunk: str, pixels: int, trained: bool, method: str) -> float | None:
    """An accuracy by draws; None if there is none."""
    found = values(rows, trunk, pixels, trained, method, "accuracy")
    return sum(found) / len(found) if found else None


def training_closes_the_gap(rows: Rows) -> Finding:
    """How much of what frozen features lack is gained by training them."""
    texts, verdicts = [], []
    for method, name in METHODS.items():
        frozen, trained = (mean(rows, *KEY, learns, method) for learns in (False, True))
        if frozen is None or trained is None:
            return Finding(f"Not run: {name}.", agrees=False)
        published = PUBLISHED[Variant(method)].accuracy
        share = (trained - frozen) / (published - frozen)
        texts.append(f"{name}: {frozen:.2%} frozen, {trained:.2%} trained, {share:.0%} of the gap")
        verdicts.append(share >= 0.5)
    return Finding(f"{'; '.join(texts)}.", all(verdicts))


def pixels_help(rows: Rows) -> Finding:
    """What every larger size adds to frozen features."""
    texts, gains = [], []
    for trunk, name in NAMES.items():
        sizes = sorted(rows.where(trunk=trunk, trained=False).distinct("pixels"))
        found = {size: mean(rows, trunk, size, False, "dropout") for size in sizes}
        shares = {size: share for size, share in found.items() if share is not None}
        steps = list(shares.values())
        gains += [later - earlier for earlier, later in pairwise(steps)]
        told = ", ".join(f"{share:.1%} with {size}" for size, share in shares.items())
        texts.append(f"{name} {told}")
    agrees = bool(gains) and min(gains) >= PIXELS_ADD
    return Finding(f"{'; '.join(texts)} pixels.", agrees)


def order_matters(rows: Rows) -> Finding:
    """How wide the middle 95 % of orders are, of networks with all layers trained."""
    texts, widths = [], []
    for method, name in METHODS.items():
        low, high = (
            values(rows, *KEY, True, method, "pavgpu by order", level=level)
            for level in ("0.025", "0.975")
        )
        if not low:
            return Finding(f"Not run: {name}.", agrees=False)
        widths += [above - below for below, above in zip(low, high, strict=True)]
        texts.append(f"{name} {min(low):.1%} to {max(high):.1%}")
    return Finding(f"{'; '.join(texts)}.", min(widths) > PUBLISHED_LEAD)


def published_are_in_range(rows: Rows) -> Finding:
    """Whether published values are among those of random orders."""
    texts, verdicts = [], []
    for method, name in METHODS.items():
        low, high = (
            values(rows, *KEY, True, method, "pavgpu by order", level=level) for level in "01"
        )
        published = PUBLISHED[Variant(method)].pavgpu
        if not low or published is None:
            return Finding(f"Not run: {name}.", agrees=False)
        texts.append(f"{name} {min(low):.1%} to {max(high):.1%}, published {published:.2%}")
        verdicts.append(min(low) <= published <= max(high))
    return Finding(f"{'; '.join(texts)}.", all(verdicts))


CLAIMS = (
    Claim(
        "Frozen layers are why heads on VGG16 are less accurate than the paper's networks.",
        "the paper trains all layers of VGG19: 91.57 % (MC dropout), 93.47 % (LBD)",
        "Training all layers of VGG16 with 64 × 64 pixels gains at least half of what its frozen "
        "features lack, for both kinds of dropout.",
        training_closes_the_gap,
        ours=True,
    ),
    Claim(
        "More pixels make frozen features better.",
        "the paper enlarges photographs to 224 × 224",
        "For both networks every larger size adds at least a point of accuracy, by MC dropout.",
        pixels_help,
        ours=True,
    ),
    Claim(
        "The order of the photographs changes the authors' PAvgPU by more than methods differ.",
        "LBD has 4.55 points more than Concrete dropout",
        "With entropies summed over batches of 100, the middle 95 % of random orders span more "
        "than that, for both kinds of dropout on a VGG16 with all layers trained.",
        order_matters,
        ours=True,
    ),
    Claim(
        "The published PAvgPU are among the values of random orders.",
        "52.08 % (MC dropout), 64.52 % (LBD)",
        "Each lies between the lowest and the highest of 1,000 orders, for that kind of dropout "
        "on a VGG16 with all layers trained.",
        published_are_in_range,
        ours=True,
    ),
)
