"""Every table and figure of the five papers, and comparisons of our own: what there is code for."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, final

from dubio.studies.study import SCALES, Scale, Study

PAPERS = {
    "000": "Learnable Bernoulli Dropout for Bayesian Deep Learning",
    "001": "Concrete Dropout",
    "002": "Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning",
    "003": "Bayesian Dropout",
    "004": "Weight Uncertainty in Neural Networks (Bayes by Backprop), a replication",
}
OWN = {"uncertainty": "Is the uncertainty any good? Comparisons of our own"}
FAMILIES = {**PAPERS, **OWN}
"""What the first part of an id stands for: a paper, or a question of our own."""

Status = Literal["implemented", "planned"]


class UnknownStudyError(LookupError):
    """A name that is no study's."""


@final
@dataclass(frozen=True)
class Entry:
    """A table or figure, or several that belong together; or a comparison of our own.

    Attributes:
        id: Family and name, as on the command line.
        title: A few words.
        about: What it shows, in one line.
        covers: The tables and figures of the paper that it stands for, or what it is.
        module: The module whose ``STUDY`` it is; without one it is planned.
        cost: About how long each scale takes on two cores.
        data: The data sets that it reads, as `dubio data` names them.
    """

    id: str
    title: str
    about: str
    covers: tuple[str, ...]
    module: str | None = None
    cost: Mapping[Scale, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The number of the paper, or the name of another family."""
        return self.id.partition("/")[0]

    @property
    def paper(self) -> str | None:
        """The number of the paper; None for a comparison of our own."""
        return None if self.family in OWN else self.family

    @property
    def status(self) -> Status:
        """Whether there is code for it."""
        return "implemented" if self.module else "planned"

    def load(self) -> Study[Any]:
        """The study's code."""
        if self.module is None:
            raise UnknownStudyError(
                f"{self.id} is planned: there is no code for it yet. 'dubio list' shows what "
                f"there is."
            )
        study: Study[Any] = import_module(self.module).STUDY
        return study

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "id": self.id,
            "family": self.family,
            "paper": self.paper,
            "title": self.title,
            "about": self.about,
            "covers": list(self.covers),
            "status": self.status,
            "scales": list(SCALES) if self.module else [],
            "cost": dict(self.cost),
            "data": list(self.data),
        }


UCI = tuple(
    f"uci-{name}"
    for name in (
        "bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant",
        "protein-tertiary-structure", "wine-quality-red", "yacht",
    )
)  # fmt: skip

ENTRIES = [
    Entry(
        "000/figure-1",
        "Gradients for dropout rates in a toy network",
        "Bias, deviation and error of gradient estimates against the truth; error against width.",
        ("figure 1",),
        "dubio.studies.paper_000.figure_1",
        {"smoke": "5 s", "small": "5 min", "paper": "12 min"},
    ),
    Entry(
        "000/figure-2",
        "PAvgPU against the uncertainty threshold",
        "Accurate-and-certain against inaccurate-and-uncertain, CIFAR-10 and CamVid.",
        ("figure 2",),
    ),
    Entry(
        "000/table-1",
        "Accuracy and uncertainty on CIFAR-10 and CamVid",
        "VGG19 and FC-DenseNet-103 with five kinds of dropout.",
        ("table 1",),
    ),
    Entry(
        "000/table-2",
        "Collaborative filtering",
        "Semi-implicit VAE with learned dropout on ML-20M, Netflix and MSD: recall and NDCG.",
        ("table 2",),
    ),
    Entry(
        "001/figure-1",
        "Uncertainty and rates against the number of data",
        "Epistemic, aleatoric and predictive deviation on y = 2x + 8 + ε, 10 to 10,000 points.",
        ("figure 1",),
        "dubio.studies.paper_001.figure_1",
        {"smoke": "2 s", "small": "10 min", "paper": "5 h"},
    ),
    Entry(
        "001/tables-3-4",
        "UCI regression with Concrete dropout",
        "Log-likelihood and RMSE of two hidden layers of 50, and the converged rates by split.",
        ("figure 2", "figure 3", "figure 4", "table 3", "table 4"),
        "dubio.studies.paper_001.tables_3_4",
        {"smoke": "10 s", "small": "20 min", "paper": "3 h"},
        UCI,
    ),
    Entry(
        "001/mnist",
        "Concrete dropout on MNIST",
        "Accuracy; converged rates against data and width; log-likelihood against length scale.",
        ("figure 5", "figure 6", "figure 11"),
        "dubio.studies.paper_001.mnist",
        {"smoke": "10 s", "small": "40 min", "paper": "5 days"},
        ("mnist",),
    ),
    Entry(
        "001/table-1",
        "Segmentation of CamVid with DenseNet",
        "IoU without dropout, with tuned dropout and with Concrete dropout; an example image.",
        ("table 1", "figure 7"),
    ),
    Entry(
        "001/table-2",
        "Calibration of segmentation",
        "Predicted uncertainty against accuracy; drawn as a plot although it is called a table.",
        ("table 2",),
    ),
    Entry(
        "001/figure-8",
        "Rates from many starting points",
        "Concrete rates in a segmentation network converge from p = 0.05 to 0.5 alike.",
        ("figure 8",),
    ),
    Entry(
        "001/figure-9",
        "Model-based reinforcement learning",
        "Rates and epistemic uncertainty of a cart-pole's dynamics model against episodes.",
        ("figure 9",),
    ),
    Entry(
        "001/figure-10",
        "The Concrete distribution",
        "A sketch: the relaxed mask as a function of uniform noise at temperature 0.1.",
        ("figure 10",),
    ),
    Entry(
        "002/figure-1",
        "Softmax input and output, a sketch",
        "Why a point far from the data needs function uncertainty: an idealised picture.",
        ("figure 1",),
    ),
    Entry(
        "002/figure-2",
        "CO2 extrapolated",
        "Standard dropout, a Gaussian process, MC dropout with ReLU and with TanH; 1000 draws.",
        ("figure 2",),
        "dubio.studies.paper_002.figure_2",
        {"smoke": "10 s", "small": "5 min", "paper": "2 days"},
        data=("co2",),
    ),
    Entry(
        "002/figure-3",
        "CO2 extrapolated with ten draws",
        "MC dropout with ReLU from ten draws instead of a thousand.",
        ("figure 3",),
        "dubio.studies.paper_002.figure_3",
        {"smoke": "5 s", "small": "2 min", "paper": "a day"},
        data=("co2",),
    ),
    Entry(
        "002/solar",
        "Solar irradiance interpolated",
        "Five held-out stretches of the reconstructed solar irradiance (appendix D.1).",
        ("appendix D.1",),
        "dubio.studies.paper_002.solar",
        {"smoke": "10 s", "small": "3 min", "paper": "2 days"},
        data=("solar",),
    ),
    Entry(
        "002/figure-4",
        "A digit 1, turned",
        "100 passes of the softmax input and output of a dropout LeNet on a rotated digit.",
        ("figure 4",),
        "dubio.studies.paper_002.figure_4",
        {"smoke": "5 s", "small": "10 min", "paper": "5 h"},
        ("mnist",),
    ),
    Entry(
        "002/table-1",
        "UCI regression with MC dropout",
        "RMSE and log-likelihood on ten data sets, 20 splits, against VI and PBP.",
        ("table 1",),
        "dubio.studies.paper_002.table_1",
        {"smoke": "5 s", "small": "20 min", "paper": "60 min"},
        UCI,
    ),
    Entry(
        "002/figure-6",
        "Reinforcement learning with Thompson sampling",
        "Average reward of dropout Thompson sampling and of ε-greedy in a 2-d world.",
        ("figure 5", "figure 6"),
    ),
    Entry(
        "003/figure-1a",
        "Regularisation paths on QSPR data",
        "Coefficients of dropout, ridge and lasso as regularisation grows.",
        ("figure 1a",),
        "dubio.studies.paper_003.figure_1a",
        {"smoke": "1 s", "small": "1 s", "paper": "1 s"},
        ("qspr",),
    ),
    Entry(
        "003/figure-1b",
        "Misspecified regression",
        "Dropout and ridge: default, junk features and covariate shift for p = 10, 20, 40.",
        ("figure 1b",),
        "dubio.studies.paper_003.figure_1b",
        {"smoke": "1 s", "small": "15 s", "paper": "1 min"},
    ),
    Entry(
        "003/figure-2",
        "Amazon reviews",
        "Test error against λ0 with and without dropout in four categories.",
        ("figure 2",),
        "dubio.studies.paper_003.figure_2",
        {"smoke": "5 s", "small": "1 min", "paper": "8 min"},
        tuple(
            f"{data}-{category}"
            for data in ("amazon", "amazon-selected")
            for category in ("books", "dvd", "electronics", "kitchen")
        ),
    ),
    Entry(
        "004/regression",
        "Regression on a curve",
        "Bayes by Backprop, its noise, priors and local reparameterisation, next to ensembles.",
        (
            "figure 1", *(f"figure {n}" for n in range(7, 16)), "table 1", "table 2",
        ),
        "dubio.studies.paper_004.regression",
        {"smoke": "5 s", "small": "3 min", "paper": "2 h"},
    ),
    Entry(
        "004/figure-2-3",
        "Priors",
        "Densities of the scale mixtures, and of Gaussian, mixture and Laplace side by side.",
        ("figure 2", "figure 3"),
    ),
    Entry(
        "004/figure-4",
        "An adversarial digit",
        "One MNIST image, the sign of its gradient and the perturbed images.",
        ("figure 4",),
    ),
    Entry(
        "004/figure-5",
        "Classes of the authors' code",
        "A diagram of inheritance; nothing to compute.",
        ("figure 5",),
    ),
    Entry(
        "004/figure-6",
        "The original authors' regression",
        "A copy of Blundell's figure 5, for comparison; nothing to compute.",
        ("figure 6",),
    ),
    Entry(
        "004/table-3",
        "Classification error on MNIST",
        "Bayes by Backprop, plain and dropout networks with 400, 800 and 1200 units.",
        ("table 3",),
        "dubio.studies.paper_004.table_3",
        {"smoke": "5 s", "small": "1 h", "paper": "12 h"},
        ("mnist",),
    ),
    Entry(
        "004/figure-16-17",
        "Distributions of trained weights",
        "Histograms by method and by prior.",
        ("figure 16", "figure 17"),
        "dubio.studies.paper_004.figure_16_17",
        {"smoke": "5 s", "small": "10 min", "paper": "14 h"},
        ("mnist",),
    ),
    Entry(
        "004/figure-18",
        "Learning curves on MNIST",
        "Test error by epoch: plain, dropout, Bayes by Backprop.",
        ("figure 18",),
        "dubio.studies.paper_004.figure_18",
        {"smoke": "5 s", "small": "6 min", "paper": "8 h"},
        ("mnist",),
    ),
    Entry(
        "004/figure-19",
        "Calibration on MNIST",
        "Reliability, ECE and scores of plain, dropout and Bayesian networks, by two losses.",
        ("figure 19",),
        "dubio.studies.paper_004.figure_19",
        {"smoke": "5 s", "small": "15 min", "paper": "1 d"},
        ("mnist",),
    ),
    Entry(
        "004/figure-20-21",
        "Pruning by signal-to-noise",
        "Test error against the pruned share, the share kept by layer, and the ratios themselves.",
        ("figure 20", "figure 21"),
        "dubio.studies.paper_004.figure_20_21",
        {"smoke": "3 s", "small": "15 min", "paper": "1 d"},
        ("mnist",),
    ),
    Entry(
        "004/figure-22",
        "Adversarial robustness",
        "Accuracy against the size of an adversarial change, transferred and white-box.",
        ("figure 22",),
        "dubio.studies.paper_004.figure_22",
        {"smoke": "5 s", "small": "15 min", "paper": "1 d"},
        ("mnist",),
    ),
    Entry(
        "004/figure-23-27",
        "Mushrooms: a contextual bandit",
        "Cumulative regret, eating rates and mistakes of Thompson sampling and ε-greedy agents.",
        tuple(f"figure {n}" for n in range(23, 28)),
    ),
    Entry(
        "uncertainty/digits-vs-shift",
        "Digits, and images that are none",
        "Six methods on MNIST: quality, calibration, cost, and Fashion-MNIST and notMNIST noticed.",
        ("a comparison of our own",),
        "dubio.studies.uncertainty.digits_vs_shift",
        {"smoke": "10 s", "small": "3 min", "paper": "4 h"},
        ("mnist", "fashion-mnist", "notmnist"),
    ),
]  # fmt: skip


def find(name: str) -> Entry:
    """The entry with this id; an unknown id is answered with the nearest ones."""
    by_id = {entry.id: entry for entry in ENTRIES}
    if name in by_id:
        return by_id[name]
    near = difflib.get_close_matches(name, by_id, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else "'dubio list' shows all of them."
    raise UnknownStudyError(f"there is no study {name!r}; {advice}")
