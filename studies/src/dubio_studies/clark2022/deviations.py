"""Where the networks of section 4.2 depart from the paper, at every scale."""

from dubio_studies.clark2022.digits import Networks
from dubio_studies.mnist.images import Scaled

DEVIATIONS = (
    "The paper trains for 600 epochs with Adam and a learning rate of 10⁻⁴. Here Bayes by "
    f"Backprop has {Networks.epochs} epochs and the other networks {Networks.point_epochs}, unless "
    "the settings say otherwise.",
    "The learning rate falls along half a cosine to zero: from "
    f"{Networks.learning_rate:g} for Bayes by Backprop, with {Networks.batch_size} images per "
    "step, and from 10⁻³ for the others, with 128 as in the paper. The deviations of Bayesian "
    f"weights start at {Networks.deviation:g}.",
    f"The prior scales are ours: N(0, {Networks.prior_sigma:g}²); deviations of "
    f"{Networks.slab_sigma:g} and {Networks.spike_sigma:g} in the mixture, with equal "
    f"probability; b = {Networks.laplace_scale:g} for Laplace. In the paper they are N(0, 1), "
    "exp(0) and exp(−7), and b = 0.15.",
    "With N(0, 1) deviations grow until most weights are noise, if training lasts "
    f"long enough. The variant called slow has the prior N(0, {Networks.slow_sigma:g}²) and "
    f"the full KL, but its deviations start at {Networks.slow_deviation:g} and have "
    f"{Networks.slow:g} times the learning rate of the means: training ends long before they "
    "have settled, as its KL shows.",
    "The KL has the weight 1/M in each of M minibatches, without tempering; the paper's "
    "weights, 2^(M−i)/(2^M−1), leave almost none of it after the first ten of 469. The variant "
    f"called cold imitates this: its KL is multiplied by {Networks.cold:g}.",
    "The KL is in closed form for the Gaussian and the Laplace prior; for the mixture it is "
    "log q(w) − log p(w) at the sampled weights. The paper estimates it from two draws.",
    f"Dropout leaves out {Networks.drop_pixels:.0%} of the pixels and "
    f"{Networks.drop_units:.0%} of the hidden units. The paper's rate is one half; with that "
    "rate, a fifth of the pixels dropped as usual, 400 units and 40 epochs, the error was "
    "1.37 %.",
    f"Pixels are divided by {Scaled.DIVISOR:g}, as in Blundell et al.; an earlier version of "
    "the authors' code divides by 255.",
    "Outputs go through one softmax, unless a row says double. In that earlier version "
    "networks end in a softmax and the loss takes another; it is unknown which published "
    "numbers come from it.",
    "The paper has one network of each kind; our restarts differ in initial weights and noise.",
)
