"""A digit, turned step by step."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from dubio_studies.mnist.images import Digits

DIGIT = 1
IMAGES = 12  # of the figure


def turned_digit(digits: Digits, number: int, step: float) -> Tensor:  # (12, 28, 28)
    """The turned copies of one of the test images of the digit, counted from 0."""
    found = digits.test[digits.test_labels == DIGIT]
    if number >= len(found):
        raise ValueError(
            f"number: expected less than {len(found)}, the test images of the digit {DIGIT}, got "
            f"{number}; raise test_images."
        )
    return turned(found[number], step)


def turned(image: Tensor, step: float) -> Tensor:  # (28, 28) -> (12, 28, 28), bytes
    """Twelve copies, the first upright, each turned so many degrees further anticlockwise."""
    angles = torch.arange(IMAGES, dtype=torch.float64) * (step * math.pi / 180)
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    where_from = torch.stack([cos, -sin, zero, sin, cos, zero], -1).view(-1, 2, 3)
    shape = (IMAGES, 1, *image.shape)
    grid = F.affine_grid(where_from, list(shape), align_corners=False)
    copies = F.grid_sample(image.double().expand(shape), grid, align_corners=False)
    return copies[:, 0].round().byte()
