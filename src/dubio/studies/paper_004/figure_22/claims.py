"""What Clark et al. 2022 says of adversarial images."""

from statistics import fmean

from dubio.studies.paper_004.legend import (
    BAYESIAN,
    COLD_GAUSSIAN,
    DROPOUT,
    GAUSSIAN,
    PLAIN,
    SLOW_GAUSSIAN,
    WAY_NAMES,
    Way,
)
from dubio.studies.rows import Rows
from dubio.studies.study import Claim, Finding

TRANSFERRED, WHITE_BOX = "transferred", "white-box"
PAPERS = {PLAIN: 12, DROPOUT: 6, GAUSSIAN: 2}  # points lost at ε = 0.05
REMAINS = 0.84  # of the Bayesian network's accuracy at ε = 0.1
NEAR = 0.02  # of it


def accuracy(rows: Rows, way: Way, attack: str, epsilon: float) -> float:
    """Averaged over restarts."""
    method, reading = way
    return fmean(
        rows.where(
            metric="accuracy", method=method, reading=reading, attack=attack, epsilon=epsilon
        ).values()
    )


def error(rows: Rows, way: Way, attack: str, epsilon: float) -> float:
    """The standard error of a network's accuracy from the choice of images."""
    method, reading = way
    found = rows.where(method=method, reading=reading, attack=attack, epsilon=epsilon)
    return fmean(found.where(metric="accuracy").values("error"))


def lost(rows: Rows, way: Way, attack: str, epsilon: float) -> float:
    """What a change of this size costs."""
    return accuracy(rows, way, attack, 0.0) - accuracy(rows, way, attack, epsilon)


def is_more_robust(rows: Rows) -> Finding:
    """Sizes at which Bayesian networks are above both others, of transferred attacks."""
    sizes = [epsilon for epsilon in rows.distinct("epsilon") if epsilon]
    to_beat = {
        epsilon: max(accuracy(rows, way, TRANSFERRED, epsilon) for way in (PLAIN, DROPOUT))
        for epsilon in sizes
    }
    won = {
        way: [e for e in sizes if accuracy(rows, way, TRANSFERRED, e) > to_beat[e]]
        for way in (GAUSSIAN, SLOW_GAUSSIAN, COLD_GAUSSIAN)
    }
    shown = "; ".join(
        f"{WAY_NAMES[way]} above both at ε = {', '.join(f'{e:g}' for e in found) or 'none'}"
        for way, found in won.items()
    )
    return Finding(
        f"{shown}; of {len(sizes)} sizes",
        "reproduces" if len(won[GAUSSIAN]) > len(sizes) / 2 else "worse",
    )


def loses_little(rows: Rows) -> Finding:
    """What ε = 0.05 costs."""
    ways = (*PAPERS, SLOW_GAUSSIAN, COLD_GAUSSIAN)
    ours = {way: lost(rows, way, TRANSFERRED, 0.05) for way in ways}
    clear = 2 * max(error(rows, way, TRANSFERRED, 0.05) for way in PAPERS)
    shown = "; ".join(f"{WAY_NAMES[way]} {100 * value:.1f} points" for way, value in ours.items())
    agrees = (
        ours[GAUSSIAN] + clear < ours[DROPOUT]
        and ours[DROPOUT] + clear < ours[PLAIN]
        and ours[GAUSSIAN] <= 0.03
    )
    return Finding(
        f"{shown}; differences count above {100 * clear:.1f}", "reproduces" if agrees else "worse"
    )


def remains(rows: Rows) -> Finding:
    """Accuracy at ε = 0.1."""
    ours = {way: accuracy(rows, way, TRANSFERRED, 0.1) for way in (*BAYESIAN, PLAIN, DROPOUT)}
    clear = 2 * max(error(rows, way, TRANSFERRED, 0.1) for way in ours)
    others = max(ours[PLAIN], ours[DROPOUT])
    agrees = ours[GAUSSIAN] >= REMAINS - NEAR and ours[GAUSSIAN] > others + clear
    return Finding(
        "; ".join(f"{WAY_NAMES[way]} {v:.1%}" for way, v in ours.items()),
        "reproduces" if agrees else "worse",
    )


def withstands_its_own_gradient(rows: Rows) -> Finding:
    """White-box accuracy of the Bayesian and the plain network."""
    shown, agrees = [], True
    for epsilon in (0.05, 0.1):
        ours = {w: accuracy(rows, w, WHITE_BOX, epsilon) for w in (PLAIN, *BAYESIAN)}
        agrees &= ours[GAUSSIAN] > ours[PLAIN]
        parts = ", ".join(f"{WAY_NAMES[way]} {value:.1%}" for way, value in ours.items())
        shown.append(f"ε = {epsilon:g}: {parts}")
    return Finding("; ".join(shown), "reproduces" if agrees else "worse")


CLAIMS = (
    Claim(
        "The Bayesian network is more robust than the plain network and dropout for a wide range "
        "of ε.",
        "Figure 22; images transferred from another network",
        "Transferred, Bayes by Backprop (Gaussian prior) is more accurate than the plain network "
        "and standard dropout at more than half of the sizes.",
        is_more_robust,
    ),
    Claim(
        "At ε = 0.05 the Bayesian network hardly loses accuracy, and dropout less than the plain "
        "network.",
        "; ".join(f"{WAY_NAMES[way]} {points} points" for way, points in PAPERS.items()),
        "Transferred, they lose in this order, each less than the next by more than two standard "
        "errors of an accuracy, and the Bayesian network (Gaussian prior) at most 3 points.",
        loses_little,
    ),
    Claim(
        "At ε = 0.1 the Bayesian network still recognises most images.",
        "84 % (Bayesian); the others are severely impacted",
        "Transferred, its accuracy (Gaussian prior) is at least 82 %, and above those of the plain "
        "network and standard dropout by more than two standard errors.",
        remains,
    ),
    Claim(
        "Bayesian networks are significantly more robust to adversarial inputs than plain ones.",
        "A conclusion of the paper, from transferred images alone",
        "White-box, Bayes by Backprop (Gaussian prior) is more accurate than the plain network at "
        "ε = 0.05 and 0.1.",
        withstands_its_own_gradient,
    ),
)
