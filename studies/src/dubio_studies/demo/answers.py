"""What dubio says about the two networks, as plain arrays for the figures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import dubio
from dubio.calibrate import PrecisionScaling
from dubio.likelihoods import Categorical, Gaussian, Likelihood
from dubio.predictive.predictive import Predictive
from dubio_studies.demo.train import OBSERVED, Curve, SmallDigits, true_curve

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

ANGLES = tuple(range(0, 96, 8))
"""Twelve clockwise turns in degrees, from upright to nearly lying down."""


@dataclass(frozen=True)
class CurveAnswer:
    """The regressor on a grid that reaches beyond its data."""

    x: Array  # (B,)
    truth: Array  # (B,)
    mean: Array  # (B,)
    epistemic: Array  # (B,) standard deviation of the functions
    aleatoric: Array  # (B,) standard deviation of the noise
    functions: Array  # (S, B) each row is one function

    @property
    def std(self) -> Array:
        """Standard deviation of the prediction, both parts together."""
        return np.hypot(self.epistemic, self.aleatoric)

    @property
    def at_data(self) -> NDArray[np.bool_]:
        """Where the grid lies within the observed stretches."""
        (left, gap_start), (gap_end, right) = OBSERVED
        return self.between(left, gap_start) | self.between(gap_end, right)

    @property
    def in_gap(self) -> NDArray[np.bool_]:
        """Where the grid lies between the observed stretches."""
        return self.between(OBSERVED[0][1], OBSERVED[1][0])

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Where the grid lies beyond the observed stretches on either side."""
        return ~self.between(OBSERVED[0][0], OBSERVED[1][1])

    def between(self, low: float, high: float) -> NDArray[np.bool_]:
        """Where the grid lies in [low, high]."""
        return (low <= self.x) & (self.x <= high)


@dataclass(frozen=True)
class RotationAnswer:
    """The classifier on one digit turned through ``ANGLES``."""

    images: Array  # (B, 8, 8)
    scores: Array  # (S, B, K) inputs of the softmax
    probabilities: Array  # (S, B, K) outputs of the softmax
    predicted: Labels  # (B,)
    mutual_information: Array  # (B,)
    variation_ratio: Array  # (B,)


@dataclass(frozen=True)
class DigitsAnswer:
    """The classifier on the test set, sorted from the most to the least certain digit."""

    images: Array  # (B, 8, 8)
    labels: Labels  # (B,)
    predicted: Labels  # (B,)
    votes: Labels  # (B, K) how many draws put each class first
    mutual_information: Array  # (B,)
    log_likelihood: float
    plain_accuracy: float  # of one pass without dropout
    plain_log_likelihood: float

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the prediction is right."""
        return np.equal(self.predicted, self.labels)

    @property
    def kept_accuracy(self) -> Array:
        """Accuracy on the k most certain digits, for k = 1 … B."""
        return np.cumsum(self.correct) / np.arange(1, len(self.correct) + 1)


def ask(net: nn.Module, x: Tensor, likelihood: Likelihood, **options: Any) -> Predictive:
    """The prediction; the same on every call."""
    generator = torch.Generator().manual_seed(0)
    return dubio.predict(net, x, likelihood=likelihood, generator=generator, **options)


def noise_precision(net: nn.Module, curve: Curve) -> float:
    """The precision of the noise under which the held-out points are the most likely."""
    p = ask(net, curve.held_out_x, Gaussian(1.0))
    return float(PrecisionScaling().fit(p, curve.held_out_y).factor)


def ask_about_curve(net: nn.Module, curve: Curve, draws: int = 1000) -> CurveAnswer:
    """Asks for the regressor's prediction from well left to well right of its data."""
    x = torch.linspace(-4.5, 4.5, 361).unsqueeze(1)
    p = ask(net, x, Gaussian(noise_precision(net, curve)), draws=draws, shared=True)
    return CurveAnswer(
        x=array(x.squeeze(1)),
        truth=array(true_curve(x).squeeze(1)),
        mean=array(p.mean.squeeze(1)),
        epistemic=array(p.epistemic.sqrt().squeeze(1)),
        aleatoric=array(p.aleatoric.sqrt().squeeze(1)),
        functions=array(p.draws.squeeze(2)),
    )


def ask_about_digits(net: nn.Module, digits: SmallDigits, draws: int = 100) -> DigitsAnswer:
    """Asks for the classifier's prediction on every test digit."""
    p = ask(net, digits.test_images, Categorical(), draws=draws)
    with torch.no_grad():
        plain_scores = net(digits.test_images)
    order = p.mutual_information.argsort(stable=True)
    return DigitsAnswer(
        images=array(digits.test_images.squeeze(1)[order]),
        labels=digits.test_labels[order].numpy(),
        predicted=p.mean.argmax(dim=-1)[order].numpy(),
        votes=p.summary.votes[order].numpy(),
        mutual_information=array(p.mutual_information[order]),
        log_likelihood=float(p.log_prob(digits.test_labels).mean()),
        plain_accuracy=float((plain_scores.argmax(dim=-1) == digits.test_labels).double().mean()),
        plain_log_likelihood=-float(F.cross_entropy(plain_scores, digits.test_labels)),
    )


def ask_about_rotation(net: nn.Module, image: Array, draws: int = 100) -> RotationAnswer:
    """Asks for the classifier's prediction on one image, turned through ``ANGLES``."""
    upright = torch.as_tensor(image, dtype=torch.float32)
    turned = torch.stack([rotate(upright, degrees) for degrees in ANGLES]).unsqueeze(1)
    p = ask(net, turned, Categorical(), draws=draws)
    return RotationAnswer(
        images=array(turned.squeeze(1)),
        scores=array(p.draws),
        probabilities=array(p.draws.softmax(dim=-1)),
        predicted=p.mean.argmax(dim=-1).numpy(),
        mutual_information=array(p.mutual_information),
        variation_ratio=array(p.variation_ratio),
    )


def most_certain(answer: DigitsAnswer, label: int) -> Array:
    """The image of the digit ``label`` about which the classifier is the most certain."""
    image: Array = answer.images[np.flatnonzero(answer.labels == label)[0]]
    return image


def rotate(image: Tensor, degrees: float) -> Tensor:
    """Turns an image clockwise; four times enlarged meanwhile, which keeps the stroke smooth."""
    angle = torch.deg2rad(torch.tensor(float(degrees)))
    cos, sin, zero = angle.cos(), angle.sin(), torch.tensor(0.0)
    large = F.interpolate(image[None, None], scale_factor=4.0, mode="bicubic").clamp(0, 1)
    turn = torch.stack([cos, sin, zero, -sin, cos, zero]).view(1, 2, 3)
    grid = F.affine_grid(turn, list(large.shape), align_corners=False)
    return F.avg_pool2d(F.grid_sample(large, grid, align_corners=False), 4)[0, 0]


def array(values: Tensor) -> Array:
    """The values as a float64 array."""
    return values.detach().double().numpy()
