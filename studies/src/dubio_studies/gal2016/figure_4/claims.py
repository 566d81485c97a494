"""What Gal & Ghahramani 2016 says of its figure 4."""

from statistics import fmean

from dubio_studies.framework.claims import Claim, Finding
from dubio_studies.framework.rows import Rows

NAMES = {
    "mc": "MC dropout, last layer",
    "mc-all": "MC dropout, all layers",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli",
    "bayes": "Bayes by Backprop",
    "ensemble": "ensemble",
    "plain": "plain softmax",
}
PAPERS_METHOD = "mc"
PUBLISHED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7, 7)
SHOWN = (1, 3, 5, 7)
"""Classes whose scores are shown."""

NUMBER, STEP = 18, 6.0
"""The test image that turns, and by how many degrees at a time."""

MIDDLE = (6, 7)  # images that the paper's network takes for a 5
ALIKE = 9  # classes of twelve that are to be the published ones
SPAN = 0.5  # of the probabilities of draws, in the middle


def classes(rows: Rows, method: str) -> list[int]:
    """The predicted classes of the twelve images."""
    found = rows.where(method=method, metric="class")
    return [int(row["value"]) for row in sorted(found, key=lambda row: int(row["image"]))]


def envelope(rows: Rows, kind: str, shown: int, image: int) -> tuple[float, float]:
    """Least and greatest softmax input or output of a class over the draws of an image."""
    own = rows.where(method=PAPERS_METHOD, metric="draw", image=image)
    found = own.values(f"{kind} {shown}")
    return min(found), max(found)


def others_reach(rows: Rows, shown: int, image: int) -> float:
    """The greatest softmax input of another class that is shown."""
    return max(envelope(rows, "input", other, image)[1] for other in SHOWN if other != shown)


def turns_into_a_seven(rows: Rows) -> Finding:
    """The list of classes, by the paper's method."""
    found = classes(rows, PAPERS_METHOD)
    alike = sum(ours == theirs for ours, theirs in zip(found, PUBLISHED, strict=True))
    good = alike >= ALIKE and found[0] == 1 and found[-1] == 7
    text = f"[{' '.join(map(str, found))}], {alike} of {len(found)} alike"
    return Finding(text, good)


def is_sure_of_the_upright(rows: Rows) -> Finding:
    """Envelopes of the first image."""
    low, high = envelope(rows, "input", 1, 1)
    others = others_reach(rows, 1, 1)
    text = (
        f"softmax inputs of class 1 from {low:.1f} to {high:.1f}, of the others up to {others:.1f}"
    )
    return Finding(text.replace("-", "−"), low > others)


def is_unsure_in_the_middle(rows: Rows) -> Finding:
    """Envelopes of the images that the paper's network takes for a 5."""
    texts, good = [], []
    found = classes(rows, PAPERS_METHOD)
    for image in MIDDLE:
        shown = max(SHOWN, key=lambda c: envelope(rows, "output", c, image)[1])
        low, high = envelope(rows, "output", shown, image)
        overlap = envelope(rows, "input", shown, image)[0] < others_reach(rows, shown, image)
        texts.append(
            f"image {image}, taken for a {found[image - 1]}: softmax outputs of class {shown} from "
            f"{low:.2f} to {high:.2f}, envelopes {'intersect' if overlap else 'are apart'}"
        )
        good.append(overlap and high - low > SPAN)
    return Finding("; ".join(texts), all(good))


def ratio_tells(rows: Rows) -> Finding:
    """The variation ratio upright and in the middle."""
    own = rows.where(method=PAPERS_METHOD, metric="variation ratio")
    upright = own.value(image=1)
    middle = fmean(own.value(image=image) for image in MIDDLE)
    return Finding(
        f"upright {upright:.2f}, images {' and '.join(map(str, MIDDLE))} {middle:.2f}",
        middle > upright,
    )


def all_disagree_more(rows: Rows) -> Finding:
    """Mutual information of every method that has it, upright and in the middle."""
    texts, failures = [], []
    for method, name in NAMES.items():
        if method == "plain":
            continue
        own = rows.where(method=method, metric="mutual information")
        upright = own.value(image=1)
        middle = fmean(own.value(image=image) for image in MIDDLE)
        texts.append(f"{name} {upright:.3f} and {middle:.3f}")
        failures += [] if middle > upright else [name]
    text = "; ".join(texts)
    if failures:
        return Finding(f"{text}. Not so: {', '.join(failures)}.", agrees=False)
    return Finding(f"{text}.", agrees=True)


CLAIMS = (
    Claim(
        "A rotating 1 is classified as a 1, then as a 5, then as a 7.",
        f"[{' '.join(map(str, PUBLISHED))}]; printed with one 1 too few",
        f"With MC dropout in the last layer, at least {ALIKE} of the 12 classes are the "
        "published ones, the first is 1 and the last is 7.",
        turns_into_a_seven,
    ),
    Claim(
        "Upright, the envelope of its class is far from those of the others: high confidence.",
        "figure 4a, the left-most image",
        "The smallest softmax input of class 1 over the draws is above the largest of the "
        "other classes shown.",
        is_sure_of_the_upright,
    ),
    Claim(
        "In the middle images envelopes intersect, and the softmax output can be anything.",
        "figure 4b, images 6 and 7",
        "In both images the softmax inputs of the class with the largest output overlap "
        f"those of another class shown, and its outputs span more than {SPAN:g}.",
        is_unsure_in_the_middle,
    ),
    Claim(
        "The variation ratio shows it: large dispersion indicates model uncertainty.",
        "section 5.2, in words",
        "It is larger on average in images 6 and 7 than in the first.",
        ratio_tells,
    ),
    Claim(
        "The draws of every method disagree more about the rotated digit than about the "
        "upright one.",
        "our own expectation",
        "The mutual information is larger on average in images 6 and 7 than in the first, for "
        "every method that has it.",
        all_disagree_more,
        ours=True,
    ),
)
