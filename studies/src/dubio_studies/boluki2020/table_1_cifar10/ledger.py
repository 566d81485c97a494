"""Every number of CIFAR-10 in table 1, and one of the text, with ours."""

import math
from statistics import fmean

from dubio_studies.boluki2020.table_1_cifar10.reading import NAMES, PUBLISHED, Variant, values
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.standard_errors import share_error

STUDY = "boluki2020/table-1-cifar10"
ALL_LAYERS = "boluki2020/cifar10-features"  # trains the network below some of the heads
TRUNKS = ("vgg19", "vgg16", "efficientnet-lite0")  # the nearest to the paper's first
PAVGPU = ("pavgpu, image", "pavgpu, batch")  # by photograph, and as the authors' code sums it
FROZEN = Cause(
    "Only the head was trained, on frozen features. Training all layers of VGG16, for one epoch, "
    "gains 8.7 points with MC dropout and 9.7 with LBD per layer; it was not run for this kind.",
    ALL_LAYERS,
)
SHORT = Cause(
    "One network of VGG16, trained for one epoch with 64 × 64 pixels; the paper trains VGG19 for "
    "300 with 224 × 224. With all layers trained neither was varied.",
)
SUMMED = Cause(
    "The authors' code sums entropies over batches of photographs, so that their order counts: "
    "1,000 orders give one VGG16 with LBD 37 to 71 %, and 95 % of them 45 to 62. The published "
    "value would be among the highest.",
    ALL_LAYERS,
)


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """In percent, of heads on the trunk that is nearest to the paper's."""
    rows = rows_of(STUDY)
    below = rows_of(ALL_LAYERS).where(trunk="vgg16")
    run = rows.distinct("trunk")
    trunk = next((name for name in TRUNKS if name in run), "")
    return [cell for variant in PUBLISHED for cell in of_variant(rows, trunk, below, variant)]


def of_variant(rows: Rows, trunk: str, below: Rows, variant: Variant) -> list[Cell]:
    """Accuracy, and mean PAvgPU if it is printed.

    The authors train all layers, which we do for some kinds; and their code sums entropies.
    """
    published = PUBLISHED[variant]
    name = f"CIFAR-10, {NAMES[variant]}"

    def found(metric: str) -> Number | None:
        return Number.of(values(rows, trunk, variant, metric), 100)

    all_layers = accuracy_of_all_layers(below, variant)
    listed = [
        Cell(
            "table 1" if published.pavgpu is not None else "text",
            f"{name}, accuracy",
            Number(100 * published.accuracy),
            higher=True,
            ours=found("accuracy"),
            authors=all_layers,
            cause=FROZEN if all_layers is None else SHORT,
        )
    ]
    if published.pavgpu is not None:
        by_photograph, by_batch = map(found, PAVGPU)
        listed.append(
            Cell(
                "table 1",
                f"{name}, mean PAvgPU",
                Number(100 * published.pavgpu),
                higher=True,
                ours=by_photograph,
                authors=by_batch and with_error_of_order(by_batch, below),
                cause=SUMMED,
            )
        )
    return listed


def accuracy_of_all_layers(below: Rows, variant: Variant) -> Number | None:
    """Of networks whose layers all learn; the error of one is that of its test photographs."""
    own = below.where(trained=True, method=variant.method, prediction=variant.prediction)
    accuracy = own.where(metric="accuracy")
    found = Number.of(accuracy.values(), 100)
    if found is None or found.error is not None:
        return found
    error = share_error(found.mean / 100, accuracy[0]["cases"])
    return found._replace(error=100 * error)


def with_error_of_order(summed: Number, below: Rows) -> Number:
    """All networks are tested in one order of the photographs, whose choice adds an error."""
    frozen = below.where(trained=False, metric="pavgpu by order", level="deviation")
    largest = max(frozen.distinct("pixels"), default=0)
    orders = frozen.where(pixels=largest).values()
    order = 100 * fmean(orders) if orders else 0.0
    return summed._replace(error=math.hypot(summed.error or 0.0, order))
