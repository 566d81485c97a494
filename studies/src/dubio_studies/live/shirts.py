"""A few shirts of Fashion-MNIST (Xiao et al. 2017, MIT licence) for a page about digits."""

import base64

from dubio.data import fashion_mnist

SHIRT = 6  # the label
COUNT = 4


def shirts() -> list[str]:
    """The first shirts among the test images: 28 × 28 bytes each, in base64."""
    images = fashion_mnist("test")
    chosen = images.images[images.labels == SHIRT][:COUNT]
    return [base64.b64encode(image.numpy().tobytes()).decode() for image in chosen]
