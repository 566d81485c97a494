"""Gal et al. 2017, section 4.3: rates against data and width, and the prior, on MNIST."""

from dubio.studies.paper_001.mnist.claims import CLAIMS
from dubio.studies.paper_001.mnist.computation import Config, pieces, run
from dubio.studies.paper_001.mnist.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="001/mnist",
    protocol="Networks with three hidden layers of rectifiers learn the digits of MNIST, with a "
    "mask before each of the four weight layers. Concrete dropout (temperature 0.1) and learnable "
    "Bernoulli dropout (by the trapezoid rule) learn one rate for each layer. MC dropout has rates "
    "of 0.2 for pixels and 0.5 for units; these are chosen by hand, not tuned. The prior length "
    "scale of a layer is l times the root of the number of its inputs. Adam has two learning rates "
    "that fall to zero along half a cosine: one for weights, and a larger one for the logits of "
    "dropout rates. Training takes as many steps with few images as with many. Rates start from "
    "two or more values, and the page says how far apart they end. Predictions are averages over "
    "draws. Claims and rules were written before the first run. After it two rules were made "
    "stricter: rates must fall with images, and rise with width, by more than the gap between "
    "starts; and rates by hand are no longer called tuned. Which layers' rates vanish is judged by "
    "the widest network, since the paper's has 512 units; before, by that of the sweep over sizes.",
    scales={
        "smoke": Config(
            source="digits", restarts=1, sizes=(100, 300), widths=(8, 16), width=8,
            length_scales=(1e-2, 1.0), steps=8, test_images=100, draws=5,
        ),
        "small": Config(
            restarts=1, sizes=(1_000, 10_000, 50_000), widths=(64, 128, 512), width=128,
            length_scales=(1e-3, 1e-2, 1e-1, 1.0), steps=8_000, drop_learning_rate=3e-2, draws=20,
        ),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    revision=2,
    deviations=(
        "The paper gives 10,000 of the 60,000 training images to the choice of l; here they are "
        "left out, so the largest number is 50,000 as well. Our grid of l is evaluated on test "
        "images, to draw figure 11, and nothing is chosen by it.",
        "The paper compares with hand-tuned dropout and does not give its rates. Ours, 0.2 and "
        "0.5, are common values that were not tuned; for narrow networks they are too strong.",
        "The paper does not give its optimiser. With Adam at 10⁻³ a logit moves by at most 10⁻³ a "
        "step; here logits have a learning rate of their own.",
        "Pixels are divided by 126, so that they lie between 0 and 2 as in Clark et al. 2022.",
        "The sizes and widths of figures 5 and 6 can only be read off them; ours are rounded.",
        "The paper says that the ELBO tells the best l. Its KL leaves out a term, −log l for each "
        "weight, without which values at different l cannot be compared; that is not tested here.",
    ),
)  # fmt: skip
