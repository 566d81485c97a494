"""What is expected of networks that know what they do not know, and rules that decide."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from dubio_studies.framework.claims import Claim, Finding, Refuted
from dubio_studies.framework.rows import Rows, Scalar

NAMES = {
    "plain": "plain network",
    "mc": "MC dropout",
    "concrete": "Concrete dropout",
    "bernoulli": "learnable Bernoulli",
    "bayes": "Bayes by Backprop",
    "ensemble": "deep ensemble",
}
ENTROPY, INFORMATION = "entropy", "mutual information"
OTHERS = [method for method in NAMES if method != "plain"]
TOLERATED = 0.005  # accuracy that may be lost


def foreign(rows: Rows) -> list[str]:
    """The sets of images that are no digits."""
    return rows.distinct("foreign")


def mean(rows: Rows, method: str, metric: str, **fields: Scalar) -> float:
    """A number of a method, averaged over restarts."""
    return fmean(rows.where(method=method, metric=metric, **fields).values())


def lower_than_plain(metric: str, factor: float, digits: int, rows: Rows) -> Finding:
    """Whether a metric of every method is below that of the plain network."""
    plain = mean(rows, "plain", metric)
    ours = {method: mean(rows, method, metric) for method in OTHERS}
    shown = {method: f"{factor * value:.{digits}f}" for method, value in ours.items()}
    return judged(
        f"plain {factor * plain:.{digits}f}; {listed(shown)}",
        [method for method, value in ours.items() if value >= plain],
    )


def keeps_accuracy(rows: Rows) -> Finding:
    """Whether the accuracy of every method is about that of the plain network, or better."""
    plain = mean(rows, "plain", "accuracy")
    ours = {method: mean(rows, method, "accuracy") for method in OTHERS}
    return judged(
        f"plain {plain:.2%}; {listed({m: f'{value:.2%}' for m, value in ours.items()})}",
        [method for method, value in ours.items() if value < plain - TOLERATED],
    )


def notices_foreign_images(rows: Rows) -> Finding:
    """Whether the entropy of every method separates better than that of the plain network."""
    texts, failures = [], []
    for name in foreign(rows):
        plain = mean(rows, "plain", "auroc", foreign=name, score=ENTROPY)
        ours = {m: mean(rows, m, "auroc", foreign=name, score=ENTROPY) for m in OTHERS}
        shown = {method: f"{value:.3f}" for method, value in ours.items()}
        texts.append(f"{name}: plain {plain:.3f}, {listed(shown)}")
        failures += [method for method, value in ours.items() if value <= plain]
    return judged("; ".join(texts), failures)


def information_is_better(rows: Rows) -> Finding:
    """Whether mutual information separates better than entropy, for every method that has it."""
    texts, failures = [], []
    for name in foreign(rows):
        shown = {}
        for method in OTHERS:
            entropy, information = (
                mean(rows, method, "auroc", foreign=name, score=score)
                for score in (ENTROPY, INFORMATION)
            )
            shown[method] = f"{entropy:.3f} and {information:.3f}"
            failures += [method] if information <= entropy else []
        texts.append(f"{name}: {listed(shown)}")
    return judged("; ".join(texts), failures)


def ensemble_is_best(rows: Rows) -> Finding:
    """Whether the ensemble has the lowest negative log-likelihood."""
    ours = {method: mean(rows, method, "nll") for method in NAMES}
    better = [m for m in ours if m != "ensemble" and ours[m] <= ours["ensemble"]]
    return judged(
        listed({method: f"{value:.3f}" for method, value in ours.items()}),
        better,
        "as good or better",
    )


def judged(ours: str, failures: Sequence[str], word: str = "not so") -> Finding:
    """Our numbers, and for which methods the rule does not hold."""
    if not failures:
        return Finding(f"{ours}.", agrees=True)
    names = ", ".join(NAMES[method] for method in dict.fromkeys(failures))
    return Finding(f"{ours}. {word.capitalize()}: {names}.", agrees=False)


def listed(values: Mapping[str, str]) -> str:
    """Methods with their values."""
    return ", ".join(f"{NAMES[method]} {value}" for method, value in values.items())


CLAIMS = (
    Claim(
        "Predictions averaged over networks have a better likelihood than those of one.",
        "Gal and Ghahramani 2016 (regression); Lakshminarayanan et al. 2017; Ovadia et al. 2019",
        "Each of the other methods has a lower NLL on test digits than the plain network.",
        partial(lower_than_plain, "nll", 1.0, 3),
    ),
    Claim(
        "They are better calibrated.",
        "Lakshminarayanan et al. 2017; Ovadia et al. 2019",
        "Each has a lower ECE, in percent, than the plain network.",
        partial(lower_than_plain, "ece", 100.0, 2),
        otherwise=Refuted(
            "MC dropout at fixed rates is underconfident: its mean confidence is 91.8 % at an "
            "accuracy of 95.8 %. Rates are the cause: with learned ones the ECE is 0.5 to 0.6 %."
        ),
    ),
    Claim(
        "They are more accurate where they are certain, so deferring uncertain digits pays.",
        "Lakshminarayanan et al. 2017",
        "Each has a lower AURC by entropy, in thousandths, than the plain network.",
        partial(lower_than_plain, "aurc", 1000.0, 2),
    ),
    Claim(
        "This costs no accuracy.",
        "Lakshminarayanan et al. 2017, for ensembles; for the others our own expectation",
        "Each has an accuracy that is at most half a point below that of the plain network.",
        keeps_accuracy,
    ),
    Claim(
        "Their entropy separates digits from other images.",
        "Lakshminarayanan et al. 2017; Ovadia et al. 2019, for MNIST and notMNIST",
        "For each method and both sets of foreign images, the AUROC of the entropy is above "
        "that of the plain network.",
        notices_foreign_images,
    ),
    Claim(
        "Mutual information, the disagreement between draws, separates them better than entropy.",
        "Smith and Gal 2018, for adversarial images",
        "For each method and both sets of foreign images, its AUROC is above that of the entropy.",
        information_is_better,
        otherwise=Refuted(
            "On Fashion-MNIST entropy is better for MC dropout, by 0.011 ± 0.005, and as good for "
            "Bayes by Backprop; probably the entropy of single draws already tells these images "
            "apart. In the other eight comparisons mutual information is better, by 0.010 to 0.059."
        ),
    ),
    Claim(
        "Of all methods, deep ensembles have the best likelihood.",
        "Ovadia et al. 2019",
        "The ensemble has the lowest NLL on test digits.",
        ensemble_is_best,
        otherwise=Refuted(
            "Members are plain networks, which are overconfident: their mean confidence is 97.9 % "
            "at an accuracy of 95.6 %, and the ensemble's 97.5 % at 95.9 %. Four methods with "
            "noise in training are better, by 0.004 ± 0.001 to 0.033 ± 0.002 nats."
        ),
    ),
)
