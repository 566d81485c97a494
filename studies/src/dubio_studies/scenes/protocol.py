"""What the pages of all studies of CamVid say about their networks."""

from dubio_studies.framework.study import Piece
from dubio_studies.scenes.names import Kind
from dubio_studies.scenes.networks import Forks

NETWORKS = (
    "One network learns CamVid without dropout: EfficientNet-Lite0 with weights from ImageNet is "
    "the way down; the 15 layers of FC-DenseNet-103's middle block stand behind it, at a 16th of "
    "the resolution, and a way up of 7, 5 and 4 layers. Then it forks: its trunk is frozen, and "
    "middle and way up learn on for some epochs with one kind of dropout in the 15 middle layers, "
    "several forks of each kind. All kinds drop input channels of these convolutions, with one "
    "rate a layer: none; fixed at 0.2; Concrete (temperature 0.1); learnable Bernoulli (LBD); "
    "Gaussian with a learned variance. Learned rates start from 0.2. The loss is the ELBO of "
    "images, so that the KL is divided by 367: the log-likelihood of an image is the sum over its "
    "labelled pixels. The prior's length scale, 0.6, is a weight decay of 10⁻⁸ a pixel, as in Gal "
    "et al. 2017. AdamW has one cycle of learning rates, with larger ones for the logits of "
    "rates. BatchNorm predicts with its running statistics. Scores are of all 233 test images; "
    "void pixels count nowhere."
)
DEVIATIONS = (
    "Images have 240 × 180 pixels, half of the paper's in each direction, if the originals are not "
    "here.",
    "The network is smaller than FC-DenseNet-103 and knows ImageNet; it learns for minutes, not "
    "days. At the scale called paper it is FC-DenseNet-103, and every fork learns from nothing.",
    "In FC-DenseNet dropout follows the convolution, pixel by pixel; here it precedes it, and "
    "drops whole channels, as the spatial Concrete dropout of Gal's code does, so that the KL is "
    "that of the weights behind it. It is in the 15 middle layers only.",
    "Forks share what was learned before: they differ less than networks from nothing would.",
    "The trunk has seen the same images, so that its features of them are better than those of "
    "new ones; learned rates may be lower for it.",
)


def pieces(config: Forks, kinds: tuple[Kind, ...]) -> list[Piece]:
    """Forks of some kinds, one restart after the other."""
    return [
        {"kind": kind, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for kind in kinds
    ]
