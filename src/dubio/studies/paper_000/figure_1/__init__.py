"""Boluki et al. 2020, figure 1: gradients for dropout rates in a toy network and wider ones."""

from dubio.studies.paper_000.figure_1.claims import CLAIMS
from dubio.studies.paper_000.figure_1.computation import Config, pieces, run
from dubio.studies.paper_000.figure_1.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="000/figure-1",
    protocol="A network with one input, two hidden ReLU units and one output has fixed random "
    "weights; its 3000 data come from the same network without ReLU and dropout. For every pair of "
    "rates the true gradient of the expected squared error is the derivative of a sum over all "
    "masks. One-sample gradients, each from a mask for every one of the 3000 data, give bias, "
    "standard deviation and mean squared error. Then the estimates are followed along gradient "
    "descent with the true gradient. The sequel repeats the comparison at widths up to 2000, for "
    "all estimators of the library and with its masks z/keep.",
    scales={
        "smoke": Config(
            grid=(0.3, 0.7),
            samples=20,
            networks=2,
            trace_steps=4,
            trace_samples=5,
            widths=(2, 20),
            width_samples=20,
        ),
        "small": Config(grid=(0.1, 0.3, 0.5, 0.7, 0.9), networks=20, trace_every=4),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        "The authors' code for this figure is not public, and the paper gives neither the weights "
        "nor their distribution: ours are N(0, 1), those of the output divided by √width, and the "
        "inputs N(0, 1). Other networks are compared too, since the outcome depends on them.",
        "Grid, learning rate, start and length of the descent are ours; the paper gives none.",
        "The temperature of Concrete is not given: 0.1 as in Gal et al. 2017. The authors' code "
        "for classification has 0.67; try --temperature 0.67.",
        "The panels use bare masks z, as the paper's objective does; the library's masks z/keep "
        "are used in the sequel.",
        "Maps replace the paper's three-dimensional histograms.",
    ),
)
