"""What Boluki et al. 2020 says of CamVid, in table 1 and figure 2."""

from collections.abc import Callable
from functools import partial
from statistics import fmean

from dubio_studies.framework.claims import Behind, Claim, Finding, Refuted, Undecided
from dubio_studies.framework.rows import Rows
from dubio_studies.scenes.reading import (
    CONCRETE,
    GAUSSIAN,
    LBD,
    MC,
    REGULAR,
    SceneMethod,
    curve,
    difference,
    listed,
    values,
)

PUBLISHED: dict[SceneMethod, tuple[float, float, float]] = {
    LBD: (89.18, 60.42, 85.16),
    CONCRETE: (88.64, 55.95, 83.81),
    GAUSSIAN: (88.04, 54.85, 85.02),
    MC: (87.80, 54.40, 84.39),
    REGULAR: (86.65, 53.62, 81.17),
}
METRICS = ("accuracy", "mean IoU", "mean PAvgPU")
METHODS = tuple(PUBLISHED)
TOLERATED = 0.01  # of a share
MOST = 0.9  # of thresholds at which LBD is to be the best
CODE = ("mean PAvgPU of bands", "mean PAvgPU of sums")


def is_as_good(metric: str, rows: Rows) -> Finding:
    """LBD's score against the published one."""
    published = PUBLISHED[LBD][METRICS.index(metric)] / 100
    found = fmean(values(rows, LBD, metric))
    text = f"{listed(rows, [LBD], metric)} %."
    return Finding(text, found >= published - TOLERATED, found > published + TOLERATED)


def is_best(metric: str, rows: Rows) -> Finding:
    """LBD's score against that of every other method."""
    gains = {other: difference(rows, LBD, other, metric) for other in METHODS if other != LBD}
    compared = ", ".join(f"{other.name} {gain}" for other, gain in gains.items())
    text = f"{listed(rows, METHODS, metric)}; LBD minus each: {compared}."
    return Finding(text, all(gain.is_clear for gain in gains.values()))


def is_best_at_most_thresholds(rows: Rows) -> Finding:
    """At how many thresholds LBD's curve is the highest."""
    means = {
        method: [fmean(own) for own in curve(rows, method, "PAvgPU")[1][1:-1]]  # without the ends
        for method in METHODS
    }
    wins = [max(means[method][k] for method in METHODS) == own for k, own in enumerate(means[LBD])]
    return Finding(f"at {fmean(wins):.0%} of {len(wins)} thresholds.", fmean(wins) >= MOST)


def learning_helps(rows: Rows) -> Finding:
    """Methods with learned rates against those without, by PAvgPU."""
    learned = fmean(fmean(values(rows, method, METRICS[2])) for method in (LBD, CONCRETE, GAUSSIAN))
    fixed = max(fmean(values(rows, method, METRICS[2])) for method in (MC, REGULAR))
    text = f"mean of the learned {100 * learned:.2f}, better of the fixed {100 * fixed:.2f}."
    return Finding(text, learned > fixed)


def ranks_agree(rows: Rows) -> Finding:
    """The order of methods by mean PAvgPU, by that of ranks, and by detection of errors."""
    orders = {
        name: sorted(METHODS, key=lambda method: -fmean(values(rows, method, name)))
        for name in (METRICS[2], "mean rank PAvgPU", "error AUROC")
    }
    text = "; ".join(
        f"{name}: {' > '.join(method.name for method in order)}" for name, order in orders.items()
    )
    return Finding(f"{text}.", len({tuple(order) for order in orders.values()}) == 1)


def code_matters(rows: Rows) -> Finding:
    """How far the published code's mean PAvgPU is from ours, next to what methods differ by."""
    own = [fmean(values(rows, method, METRICS[2])) for method in METHODS]
    span = max(own) - min(own)
    texts, shifts = [], []
    for metric in CODE:
        theirs = [fmean(values(rows, method, metric)) for method in METHODS]
        shift = fmean(their - our for their, our in zip(theirs, own, strict=True))
        texts.append(f"{metric.removeprefix('mean PAvgPU of ')} {100 * shift:+.1f}")
        shifts.append(abs(shift))
    text = f"{', '.join(texts)} points; methods differ by up to {100 * span:.1f}."
    return Finding(text.replace("-", "−"), max(shifts) > span)


def compared(metric: str, text: str, best: Callable[[Rows], Finding]) -> Claim:
    """The claim that LBD has the best score."""
    place = METRICS.index(metric)
    published = ", ".join(f"{m.name} {numbers[place]:.2f}" for m, numbers in PUBLISHED.items())
    return Claim(
        text,
        f"{published} (table 1)",
        "LBD's value is higher than that of every other method, by more than two standard "
        "errors of the difference over forks.",
        best,
        otherwise=UNCLEAR[metric],
    )


_FORKS = "Three forks of each kind, which share all training before the fork, differ too little"
DENSENET = 4_400  # hours: three FC-DenseNet-103 of each kind, 106 PFLOP each, at 100 GFLOP/s
UNCLEAR = {
    "accuracy": Undecided(
        f"{_FORKS}. LBD is above Concrete, MC and regular dropout by less than two standard "
        "errors, and below Gaussian noise, which is third in the paper.",
        cpu_hours=DENSENET,
    ),
    "mean IoU": Undecided(
        f"{_FORKS}: LBD has the highest mean IoU, but only its lead over Gaussian noise exceeds "
        "two standard errors. The published lead of 4.5 points over Concrete dropout is ruled out "
        "for these forks.",
        cpu_hours=DENSENET,
    ),
    "mean PAvgPU": Undecided(
        f"{_FORKS}: LBD has the highest mean PAvgPU, but only its lead over Gaussian noise exceeds "
        "two standard errors. This does not make it better: Gaussian noise has the best "
        "calibration and NLL of all.",
        cpu_hours=DENSENET,
    ),
}
_RESOLUTION = "Halving our resolution, which is half the paper's, costs a network without dropout"
SHORT = {
    "accuracy": Behind(
        "Other kinds are at most 0.9 points below the published ones, LBD is 1.3 below. "
        f"{_RESOLUTION} 3.5 ± 0.2 points (uncertainty/camvid-size)."
    ),
    "mean IoU": Behind(
        "By the authors' scoring, which averages over images, LBD is behind by 9.7 points and the "
        f"others by 3.3 to 5.5. {_RESOLUTION} 5.8 ± 0.2 points so scored "
        "(uncertainty/camvid-size); why LBD does not lead, it does not show."
    ),
    "mean PAvgPU": Behind(
        "It is 1.9 points lower, while others differ by −2.4 to +1.9. "
        f"{_RESOLUTION} 4.6 ± 0.2 points (uncertainty/camvid-size)."
    ),
}

CLAIMS = (
    *(
        compared(metric, f"LBD has the highest {metric}.", partial(is_best, metric))
        for metric in METRICS
    ),
    *(
        Claim(
            f"LBD has {article} {metric} of {PUBLISHED[LBD][place]:.2f} %.",
            f"{PUBLISHED[LBD][place]:.2f} (table 1)",
            "Ours is at most 1 point lower.",
            partial(is_as_good, metric),
            otherwise=SHORT[metric],
        )
        for place, (metric, article) in enumerate(zip(METRICS, ("an", "a", "a"), strict=True))
    ),
    Claim(
        "LBD consistently achieves better uncertainty estimates.",
        "figure 2, right",
        "Its PAvgPU curve, averaged over forks, is the highest at 90 % or more of the "
        "thresholds, excluding the two ends.",
        is_best_at_most_thresholds,
        otherwise=Undecided(
            "The curves cross. Which one is highest depends on the threshold, and forks of one "
            "kind differ as much as kinds do.",
            cpu_hours=DENSENET,
        ),
    ),
    Claim(
        "Methods that learn rates generally have a better PAvgPU than MC and regular dropout.",
        "83.81 to 85.16 against 84.39 and 81.17: not for Concrete dropout (table 1)",
        "The mean of the three methods that learn rates is higher than each of the other two.",
        learning_helps,
        otherwise=Undecided(
            "The difference, −0.10 ± 0.13 points, is within chance; without Gaussian noise it is "
            "+0.10. Gaussian noise has the lowest mean PAvgPU, but the best NLL and calibration.",
            cpu_hours=DENSENET,
        ),
    ),
    Claim(
        "Mean PAvgPU ranks methods in the same order as other measures of uncertainty.",
        "the paper has no other measure",
        "Mean PAvgPU, the same on ranks of entropies, and the AUROC of errors give the same order.",
        ranks_agree,
        otherwise=Refuted(
            "The three orders differ. Mean PAvgPU puts Gaussian noise last, and the AUROC of "
            "errors puts it first."
        ),
        ours=True,
    ),
    Claim(
        "How patches and entropies are computed matters more than the method.",
        "the authors' public code: bands of rows for patches, and entropies summed",
        "One of the two changes mean PAvgPU, on average over methods, by more than the "
        "methods differ.",
        code_matters,
        ours=True,
    ),
)
