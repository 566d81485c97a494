"""What Boluki et al. 2020 says of CIFAR-10, what we ask beyond it, and rules that decide."""

from collections.abc import Callable, Sequence
from statistics import fmean

from dubio_studies.boluki2020.table_1_cifar10.reading import (
    CONCRETE,
    GAUSSIAN,
    LBD_LAYER,
    LBD_SHARED,
    LBD_UNIT,
    MC,
    NAMES,
    PUBLISHED,
    REGULAR,
    TRUNKS,
    Variant,
    difference,
    mean,
    shown,
)
from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted, Undecided
from dubio_studies.framework.rows import Rows

BY_HAND = (GAUSSIAN, MC, REGULAR)  # and Gaussian, whose published numbers are lowest
OTHERS = (CONCRETE, *BY_HAND)
NEAR = 0.01  # of a published accuracy
SUMMED = (0.45, 0.66)  # around the published mean PAvgPU, 0.52 to 0.65
PER_IMAGE = 0.70  # less than any curve over entropies of single photographs should have
SAME_RATE = 0.05  # between networks


def on_all_trunks(
    rows: Rows, needed: Sequence[Variant], judge: Callable[[str], tuple[str, bool]]
) -> Finding:
    """A rule that must hold on every trunk; rows that were not run do not meet it."""
    missing = [NAMES[variant] for variant in needed if variant not in shown(rows, NAMES)]
    if missing:
        return Finding(f"Not run: {', '.join(missing)}.", agrees=False)
    texts, verdicts = [], []
    for trunk in rows.distinct("trunk"):
        text, agrees = judge(trunk)
        texts.append(f"{TRUNKS[trunk]}: {text}")
        verdicts.append(agrees)
    return Finding(f"{'; '.join(texts)}.", all(verdicts))


def above(
    firsts: Sequence[Variant], seconds: Sequence[Variant], metric: str
) -> Callable[[Rows], Finding]:
    """A judge: whether one of the first, the best, is clearly above all of the second."""

    def judge(rows: Rows) -> Finding:
        def here(trunk: str) -> tuple[str, bool]:
            best = max(firsts, key=lambda variant: mean(rows, trunk, variant, metric))
            gaps = {v: difference(rows, trunk, best, v, metric) for v in seconds}
            told = ", ".join(f"{NAMES[v]} {gap.shown()}" for v, gap in gaps.items())
            start = f"{NAMES[best]} {mean(rows, trunk, best, metric):.2%}"
            return f"{start}, minus {told}", all(gap.clear for gap in gaps.values())

        return on_all_trunks(rows, [*firsts, *seconds], here)

    return judge


def is_as_accurate(rows: Rows) -> Finding:
    """The best accuracy of learnable Bernoulli dropout against the published one."""
    published = PUBLISHED[LBD_LAYER].accuracy
    found = {
        trunk: max(mean(rows, trunk, v, "accuracy") for v in (LBD_UNIT, LBD_LAYER))
        for trunk in rows.distinct("trunk")
    }
    best = max(found.values())
    text = ", ".join(f"{TRUNKS[trunk]} {value:.2%}" for trunk, value in found.items())
    return Finding(f"{text}.", best >= published - NEAR, further=best > published + NEAR)


def one_rate_is_between(rows: Rows) -> Finding:
    """One learned rate against the rate by hand and against a rate for each layer."""

    def here(trunk: str) -> tuple[str, bool]:
        gaps = {v: difference(rows, trunk, LBD_SHARED, v, "accuracy") for v in (MC, REGULAR)}
        more = difference(rows, trunk, LBD_LAYER, LBD_SHARED, "accuracy")
        told = ", ".join(f"minus {NAMES[v]} {gap.shown()}" for v, gap in gaps.items())
        agrees = more.clear and all(gap.clear for gap in gaps.values())
        return f"{told}; a rate for each layer adds {more.shown()}", agrees

    return on_all_trunks(rows, [LBD_SHARED, LBD_LAYER, MC, REGULAR], here)


def is_the_batch_sum(rows: Rows) -> Finding:
    """Mean PAvgPU by entropies of photographs, and by those summed over batches of 100."""

    def here(trunk: str) -> tuple[str, bool]:
        own = shown(rows, NAMES)
        images, batches = (
            [mean(rows, trunk, v, f"pavgpu, {over}") for v in own] for over in ("image", "batch")
        )
        low, high = SUMMED
        agrees = min(images) > PER_IMAGE and low <= min(batches) and max(batches) <= high
        return (
            f"by photographs {min(images):.1%} to {max(images):.1%}, summed over batches "
            f"{min(batches):.1%} to {max(batches):.1%}"
        ), agrees

    return on_all_trunks(rows, [], here)


def tells_who_knows(rows: Rows) -> Finding:
    """Whether the row with the highest mean PAvgPU also tells errors apart best."""

    def here(trunk: str) -> tuple[str, bool]:
        own = shown(rows, NAMES)
        by_pavgpu = max(own, key=lambda v: mean(rows, trunk, v, "pavgpu, image"))
        by_auroc = max(own, key=lambda v: mean(rows, trunk, v, "error auroc, image"))
        lead = difference(rows, trunk, by_auroc, by_pavgpu, "error auroc, image")
        told = f"PAvgPU prefers {NAMES[by_pavgpu]}, AUROC {NAMES[by_auroc]}"
        return f"{told} (by {lead.shown()})", not lead.clear

    return on_all_trunks(rows, [], here)


def rates_agree(rows: Rows) -> Finding:
    """How far apart the rates of a layer end in networks that differ in start and noise."""

    def here(trunk: str) -> tuple[str, bool]:
        told, widest = [], []
        for variant in (LBD_LAYER, LBD_UNIT, CONCRETE):
            own = rows.where(trunk=trunk, method=variant.method, loss=variant.loss, metric="drop")
            layers = [own.where(layer=layer).values() for layer in own.distinct("layer")]
            means = " and ".join(f"{fmean(layer):.3f}" for layer in layers)
            widest.append(max(max(layer) - min(layer) for layer in layers))
            told.append(f"{NAMES[variant]} {means}, up to {widest[-1]:.3f} apart")
        return ", ".join(told), max(widest) < SAME_RATE

    return on_all_trunks(rows, [LBD_LAYER, LBD_UNIT, CONCRETE], here)


def has_converged(rows: Rows) -> Finding:
    """Errors on the validation in the last epoch against those of two epochs before."""
    changes = []
    for trunk in rows.distinct("trunk"):
        for method in rows.distinct("method"):
            own = rows.where(trunk=trunk, method=method, loss="cross-entropy", metric="watched")
            last = max(own.distinct("epoch"))
            if last < 3:
                return Finding(f"Only {last} epochs.", agrees=False)
            earlier, final = (fmean(own.where(epoch=k).values()) for k in (last - 2, last))
            changes.append((earlier - final, f"{TRUNKS[trunk]}, {method}"))
    gain, where = max(changes)
    most = f"{100 * gain:.2f}".replace("-", "−")
    return Finding(
        f"The last two epochs gain at most {most} points of validation accuracy ({where}).",
        gain < NEAR / 4,
    )


_CLEARLY = (
    "Clearly above means: the 95 % interval of the difference of means (Welch's t over "
    "networks with different initial weights and noise) is above zero on every trunk."
)
VGG19 = 79_000  # hours: three of six kinds, 300 epochs of 45,000 images at 224², at 100 GFLOP/s

CLAIMS = (
    Claim(
        "LBD is the most accurate kind of dropout.",
        "93.47 % against 92.72 % (Concrete), 91.16 % (Gaussian), 91.57 % (MC) and 91.61 % "
        "(regular); table 1",
        "The better of LBD with a rate per layer and LBD with a rate per unit is clearly "
        f"above all four. {_CLEARLY}",
        above((LBD_UNIT, LBD_LAYER), OTHERS, "accuracy"),
        otherwise=Undecided(
            "Here only heads are trained, on frozen features; the paper trains all layers of "
            "VGG19. For heads the published leads, of 1.9 points over MC dropout and 0.75 over "
            "Concrete dropout, are ruled out.",
            cpu_hours=VGG19,
        ),
    ),
    Claim(
        "Concrete dropout is more accurate than Gaussian, MC and regular dropout.",
        "92.72 % against 91.16 %, 91.57 % and 91.61 %; table 1",
        f"It is clearly above all three. {_CLEARLY}",
        above((CONCRETE,), BY_HAND, "accuracy"),
        otherwise=Undecided(
            "It is above Gaussian noise, by 0.9 and 1.1 points. It is not above fixed dropout on "
            "either trunk, and a lead as large as the published 1.1 points is ruled out; but only "
            "heads are trained here.",
            cpu_hours=VGG19,
        ),
    ),
    Claim(
        "LBD has the best uncertainty estimates, by mean PAvgPU.",
        "64.52 % against 59.97 % (Concrete), 52.71 % (Gaussian), 52.08 % (MC) and 56.81 % "
        "(regular); table 1, figure 2",
        "The better of LBD with a rate per layer and LBD with a rate per unit is clearly "
        "above all four, with thresholds between the smallest and the largest entropy of the "
        f"test photographs. {_CLEARLY}",
        above((LBD_UNIT, LBD_LAYER), OTHERS, "pavgpu, image"),
        otherwise=Refuted(
            "LBD per layer is not clearly above Concrete dropout, and for heads the published lead "
            "of 4.6 points is ruled out (95 % intervals: −0.04 ± 0.34 and +0.11 ± 0.31). The "
            "metric seems to reward overconfidence: on both trunks the three rows that are highest "
            "have the worst NLL and calibration."
        ),
    ),
    Claim(
        "One learned rate is better than hand-tuned rates, and a rate per layer is better still.",
        "92.11 %, against 91.57 % (MC), 91.61 % (regular) and 93.47 % (LBD); section 3.2.1",
        "One rate is clearly above both, and a rate per layer is clearly above one rate. "
        f"{_CLEARLY}",
        one_rate_is_between,
        otherwise=Undecided(
            "Only heads are trained here. A single learned rate is within 0.1 points of fixed "
            "rates on EfficientNet-Lite0, and 0.4 to 0.7 below on VGG16; a rate per layer adds "
            "nothing that three networks could resolve.",
            cpu_hours=VGG19,
        ),
    ),
    Claim(
        "LBD has an accuracy of 93.47 %.",
        "93.47 %; table 1",
        "The better trunk and kind of rate is within one point of it, or better.",
        is_as_accurate,
        otherwise=Behind(
            "No kind of head exceeds 87.9 and 82.5 % on average. With all layers of VGG16 "
            "trained, for one epoch on 64 × 64 pixels, LBD per layer has 91.7 % "
            "(boluki2020/cifar10-features)."
        ),
    ),
    Claim(
        "Summing entropies over a batch of 100 photographs gives PAvgPU like the published ones.",
        "52 to 65 % at accuracies of 91 to 93 %; the authors' public code sums",
        "On every trunk mean PAvgPU is above 70 % for all rows with entropies of single "
        "photographs, and between 45 % and 66 % for all rows with entropies summed over "
        "batches.",
        is_the_batch_sum,
        ours=True,
    ),
    Claim(
        "The kind of dropout with the highest mean PAvgPU is best at detecting its own errors.",
        "how the paper uses PAvgPU",
        "On every trunk no other row has a clearly higher AUROC for detecting errors by entropy.",
        tells_who_knows,
        ours=True,
    ),
    Claim(
        "Learned rates do not depend on the initial weights.",
        "not in the paper",
        "On every trunk, the mean rates of a layer differ by less than 0.05 between "
        "networks, for Concrete and for LBD with a rate per layer and per unit.",
        rates_agree,
        ours=True,
    ),
    Claim(
        "Training has converged.",
        "300 epochs",
        "The last two epochs lower the validation error by less than a quarter of a point, for "
        "every kind of dropout, on every trunk.",
        has_converged,
        ours=True,
    ),
)
