"""Digits, and images that are none: what six methods know about what they do not know."""

from dubio.studies.study import Study
from dubio.studies.uncertainty.digits_vs_shift.claims import CLAIMS
from dubio.studies.uncertainty.digits_vs_shift.computation import Config, pieces, run
from dubio.studies.uncertainty.digits_vs_shift.exhibits import exhibits

STUDY = Study(
    id="uncertainty/digits-vs-shift",
    protocol="Networks pixels–h–h–10 with ReLU learn the digits of MNIST by Adam, 10⁻³, batches of "
    "128, all for the same number of epochs, without early stopping. The plain network maximises "
    "the likelihood, and a deep ensemble is several of them. MC dropout masks pixels and hidden "
    "units at fixed rates; Concrete and learnable Bernoulli dropout learn a rate for each of the "
    "three layers, both from 0.1, and differ in the gradient for it. Bayes by Backprop has "
    "Gaussian weights, with local noise. Then all predict the same test digits, Fashion-MNIST and "
    "notMNIST, which they have never seen. Claims and rules were written before the run.",
    scales={
        "smoke": Config(
            restarts=1, images=200, test_images=100, width=16, epochs=1, draws=5, members=2
        ),
        "small": Config(
            restarts=1, images=10_000, test_images=2_000, width=200, epochs=20, draws=20
        ),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        "Settings are one choice for each method, and not tuned: rates of MC dropout are common "
        "ones. Only the prior of Bayes by Backprop was chosen: deviations of 0.1, 0.37, 1 and "
        "1/√inputs were compared on 2,000 training images, after 6 to 12 epochs with 10,000 "
        "others; 0.37 and 1 were level, and the narrow ones underfit.",
        "The noisy methods have no more steps to train than the plain network, though noise "
        "slows learning; the ensemble has as many for each member.",
        "Restarts share the images to learn from and to predict, and differ in start and noise.",
    ),
)
