"""What the pages of all studies of CamVid say about their networks."""

from dubio_studies.framework.study import Piece
from dubio_studies.scenes.names import Kind
from dubio_studies.scenes.networks import Forks

NETWORKS = (
    "One network is trained on CamVid without dropout. Its encoder is EfficientNet-Lite0 "
    "with ImageNet weights; then come the 15 layers of FC-DenseNet-103's middle block, at a "
    "16th of the resolution, and a decoder of 7, 5 and 4 layers. From this network several "
    "forks are made for each kind of dropout: the trunk is frozen, and middle block and "
    "decoder are trained for some more epochs with dropout in the 15 middle layers. All "
    "kinds drop input channels of these convolutions, with one rate per layer: none; fixed "
    "at 0.2; Concrete (temperature 0.1); learnable Bernoulli (LBD); Gaussian with a learned "
    "variance. Learned rates start from 0.2. The loss is the ELBO over images: the "
    "log-likelihood of an image is the sum over its labelled pixels, and the KL is divided "
    "by 367. The prior's length scale, 0.6, is a weight decay of 10⁻⁸ per pixel, as in Gal "
    "et al. 2017. AdamW has one cycle of learning rates, with larger ones for the logits of "
    "rates. BatchNorm predicts with its running statistics. Scores are for all 233 test "
    "images; void pixels never count."
)
DEVIATIONS = (
    "Images have 240 × 180 pixels, half of the paper's in each direction, if the originals "
    "are not available.",
    "The network is smaller than FC-DenseNet-103 and pretrained on ImageNet; it trains for "
    "minutes, not days. At the paper scale it is FC-DenseNet-103, and every network is "
    "trained from scratch.",
    "In FC-DenseNet dropout follows the convolution and acts on single pixels. Here it "
    "precedes that of the 15 middle layers and drops whole channels, as the spatial Concrete "
    "dropout of Gal's code does, so that the KL applies to the weights that follow.",
    "Forks share their initial network, so they differ less than networks trained from "
    "scratch would.",
    "The trunk was trained on the same images, so its features are better for them than for "
    "new ones; this may lower the learned rates.",
)


def pieces(config: Forks, kinds: tuple[Kind, ...]) -> list[Piece]:
    """Forks of some kinds, one restart after the other."""
    return [
        {"kind": kind, "restart": restart}
        for restart in range(1, config.restarts + 1)
        for kind in kinds
    ]
