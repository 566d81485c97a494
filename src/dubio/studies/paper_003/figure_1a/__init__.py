"""Herlau et al. 2022, figure 1a: paths of coefficients on the amino acids (QSPR)."""

from dubio.studies.paper_003.figure_1a.claims import CLAIMS
from dubio.studies.paper_003.figure_1a.computation import Config, pieces, run
from dubio.studies.paper_003.figure_1a.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="003/figure-1a",
    protocol="Nineteen amino acids with seven correlated features predict a free energy of "
    "unfolding. The sign of DGR is flipped, so that every feature is positively correlated with "
    "the target. Features and target are centred. Coefficients are followed as regularisation "
    "grows: dropout by f/(1 − f) without any prior (λ0 = 0), ridge regression by λ0 over the "
    "geometric mean of the features' sums of squares, lasso by its penalty over the one that "
    "leaves nothing. Dropout's coefficients are the paper's μ; predictions are (1 − f)Xμ. Once "
    "features have unit variance, once they keep their own units; coefficients are always those of "
    "unit variance.",
    scales={"smoke": Config(steps=8), "small": Config(steps=20), "paper": Config()},
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        "The paper says neither whether features were scaled nor what the axis is. Ours is the "
        "share of the target's variance that the fit explains in training, which falls as "
        "regularisation grows and means the same for all three methods.",
        "With features of unit variance (1 − f)μ is exactly ridge regression's solution with "
        "λ0 = n·f/(1 − f), so signs do not tell dropout from ridge: both become all positive at "
        "the same place. What differs is the size: μ stays, ridge's coefficients vanish. In the "
        "features' own units the signs differ, too, since dropout does not see units.",
    ),
)
