"""Every number of CIFAR-10 in table 1, and one of the text, with ours."""

from dubio_studies.boluki2020.table_1_cifar10.reading import NAMES, PUBLISHED, Variant, values
from dubio_studies.framework.ledger import Cause, Cell, Number, RowsOf
from dubio_studies.framework.rows import Rows

STUDY = "boluki2020/table-1-cifar10"
ALL_LAYERS = "boluki2020/cifar10-features"  # trains the network below some of the heads
TRUNKS = ("vgg19", "vgg16", "efficientnet-lite0")  # the nearest to the paper's first
PAVGPU = ("pavgpu, image", "pavgpu, batch")  # by photograph, and as the authors' code sums it
FROZEN = Cause(
    "Our heads stand on frozen features of VGG16 and have at most 82.5 %. With all its layers "
    "trained, for one epoch on 64 × 64 pixels, MC dropout has 91.2 % and LBD per layer 91.7 %; the "
    "paper's VGG19 has 300 epochs on 224 × 224.",
    ALL_LAYERS,
)
SUMMED = Cause(
    "The authors' code sums entropies over batches of photographs, so the value depends on their "
    "order. In 1,000 random orders one VGG16 with LBD has 37 to 71 %, a middle 95 % of 45 to 62.",
    ALL_LAYERS,
)


def printed_numbers(rows_of: RowsOf) -> list[Cell]:
    """In percent, of heads on the trunk that is nearest to the paper's."""
    rows = rows_of(STUDY)
    trained = rows_of(ALL_LAYERS).where(trained=True, trunk="vgg16")
    run = rows.distinct("trunk")
    trunk = next((name for name in TRUNKS if name in run), "")
    return [cell for variant in PUBLISHED for cell in of_variant(rows, trunk, trained, variant)]


def of_variant(rows: Rows, trunk: str, trained: Rows, variant: Variant) -> list[Cell]:
    """Accuracy, and mean PAvgPU if it is printed.

    The authors train all layers, which we do for some kinds; and their code sums entropies.
    """
    published = PUBLISHED[variant]
    name = f"CIFAR-10, {NAMES[variant]}"

    def found(metric: str) -> Number | None:
        return Number.of(values(rows, trunk, variant, metric), 100)

    all_layers = trained.where(
        method=variant.method, prediction=variant.prediction, metric="accuracy"
    )
    listed = [
        Cell(
            "table 1" if published.pavgpu is not None else "text",
            f"{name}, accuracy",
            Number(100 * published.accuracy),
            higher=True,
            ours=found("accuracy"),
            authors=Number.of(all_layers.values(), 100),
            cause=FROZEN,
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
                authors=by_batch,
                cause=SUMMED,
            )
        )
    return listed
