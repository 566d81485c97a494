"""Where the networks of section 4.2 depart from the paper, at every scale."""

from dubio_studies.clark2022.digits import Networks
from dubio_studies.mnist.images import Scaled

DEVIATIONS = (
    f"The recipe is ours. The paper trains for 600 epochs by Adam with a rate of 10⁻⁴; here Bayes "
    f"by Backprop has {Networks.epochs} epochs and the other networks {Networks.point_epochs}, or "
    f"as many as the settings say. The rate falls along half a cosine to zero, from "
    f"{Networks.learning_rate:g} for Bayes by Backprop, with {Networks.batch_size} images a step, "
    f"and from 10⁻³ for the others, with 128 as in the paper. The deviation of Bayesian weights "
    f"starts at {Networks.deviation:g}.",
    f"The scales of the priors are ours: N(0, {Networks.prior_sigma:g}²); deviations of "
    f"{Networks.slab_sigma:g} and {Networks.spike_sigma:g} in the mixture, with equal "
    f"probability; b = {Networks.laplace_scale:g} for Laplace. In the paper they are N(0, 1), "
    f"exp(0) and exp(−7), and b = 0.15.",
    f"With so wide a prior deviations grow until most weights are noise, if training lasts long "
    f"enough. The variant that is called slow has the prior N(0, {Networks.slow_sigma:g}²) and the "
    f"KL in full, but its deviations start at {Networks.slow_deviation:g} and learn at "
    f"{Networks.slow:g} times the rate of the means: training ends long before they have settled, "
    f"as its KL shows.",
    f"The KL has the weight 1/M in each of M minibatches, and nothing is tempered. The paper's "
    f"weights, 2^(M−i)/(2^M−1), leave next to none of it after the first ten of 468 minibatches: "
    f"Adam, which does not notice the scale of a gradient, then gives the KL a small part of its "
    f"due. The variant that is called cold stands for that: its KL is multiplied by "
    f"{Networks.cold:g}.",
    "The KL is in closed form where there is one, for the Gaussian prior and Laplace's; else it "
    "is log q(w) − log p(w) at the weights of the pass. The paper estimates it from two draws.",
    f"Dropout leaves out {Networks.drop_pixels:.0%} of the pixels and {Networks.drop_units:.0%} of "
    f"the hidden units. The paper's rate is a half; with a fifth of the pixels, as is usual, 400 "
    f"units and 40 epochs, that made 1.37 % of errors.",
    f"Pixels are divided by {Scaled.DIVISOR:g}, as by Blundell et al.; by 255 in an earlier state "
    f"of the authors' code.",
    "Outputs go through one softmax, unless rows say double. In that earlier state networks end in "
    "a softmax and the loss takes another; which published numbers come from it is unknown.",
    "The paper has one network of each kind; restarts here differ in start and noise.",
)
