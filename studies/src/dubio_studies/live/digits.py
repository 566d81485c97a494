"""Networks that recognise digits, with the rule by which they ask a human."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

import dubio
from dubio.decide import Deferral
from dubio.likelihoods import Categorical
from dubio.masks import Mask
from dubio_studies.live.graphs import in_half_precision
from dubio_studies.uncertainty.digits_vs_shift.computation import Config, Method, trained
from dubio_studies.uncertainty.digits_vs_shift.images import Sets, load

METHODS: tuple[Method, ...] = ("mc", "concrete", "bernoulli", "bayes")
SETTINGS = Config(width=200, images=20_000, epochs=20)
DRAWS = 100
ERROR_RATE = 0.01
CONFIDENCE = 0.95
CALIBRATION = 5000  # test images that the rule is fitted to; it is tried on the others


@final
@dataclass(frozen=True)
class DigitReader:
    """A network that reads digits, and what is known of it.

    Attributes:
        method: Where its noise comes from.
        network: From pixels between 0 and 1 to logits; its weights are numbers of float16.
        drop: Its dropout rates, layer by layer; empty without dropout.
        deferral: When it asks a human.
        accuracy: The share of test images that it gets right, rule or no rule.
        answered: The share of those that the rule was not fitted to that it answers.
        wrong: The share of these answers that is wrong.
    """

    method: Method
    network: nn.Module
    drop: tuple[float, ...]
    deferral: Deferral
    accuracy: float
    answered: float
    wrong: float


def readers(settings: Config = SETTINGS, seed: int = 0) -> Iterator[DigitReader]:
    """Train a network by each method."""
    sets = load(settings.source, settings.images, settings.test_images, seed)
    for number, method in enumerate(METHODS):
        torch.manual_seed(seed + number)
        yield judged(method, in_half_precision(trained(settings, method, sets)), sets)


def judged(method: Method, network: nn.Module, sets: Sets) -> DigitReader:
    """Fit the rule to some test images, and try it on the others."""
    first, others = (_halves(sets.test), _halves(sets.test_labels))
    generator = torch.Generator().manual_seed(0)
    known, new = (
        dubio.predict(network, images, draws=DRAWS, likelihood=Categorical(), generator=generator)
        for images in first
    )
    deferral = Deferral(("entropy", "mutual_information"), confidence=CONFIDENCE)
    deferral.fit_error_rate(known, others[0], ERROR_RATE)
    decision = deferral(new)
    right = decision.answer == others[1]
    hits = [(p.mean.argmax(-1) == y).double() for p, y in zip((known, new), others, strict=True)]
    masks = [module for module in network.modules() if isinstance(module, Mask)]
    return DigitReader(
        method,
        network,
        tuple(float(mask.drop) for mask in masks),
        deferral,
        accuracy=float(torch.cat(hits).mean()),
        answered=decision.coverage,
        wrong=float(1 - right[decision.answered].double().mean()),
    )


def _halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    middle = min(CALIBRATION, len(rows) // 2)
    return rows[:middle], rows[middle:]
