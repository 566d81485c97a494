"""Herlau et al. 2022, figure 1b: dropout and ridge regression when the model is misspecified."""

from dubio.studies.paper_003.figure_1b.claims import CLAIMS
from dubio.studies.paper_003.figure_1b.computation import Config, pieces, run
from dubio.studies.paper_003.figure_1b.exhibits import exhibits
from dubio.studies.study import Study

STUDY = Study(
    id="003/figure-1b",
    protocol="A data set has 20 rows to train on and 20 to test, X = RL with standard normal R "
    "(20 × 10) and random L (10 × p) whose columns have length one, so that X has rank 10 however "
    "many features there are. Targets are Xw plus noise, both with variance one (λ0 = σ² = 1). "
    "Junk features: all weights but the first ten are zero. Covariate shift: after the targets are "
    "made, each feature is multiplied by a standard normal number, in training and test rows "
    "alike. Ridge regression has the true λ0 = 1, dropout the wrong λ0 = 0.001. Predictions are "
    "(1 − f)xᵀμ, and the squared error on test rows is averaged over data sets. The three "
    "conditions and all methods share their random numbers, so differences are paired.",
    scales={
        "smoke": Config(data_sets=200, other_drops=(0.0, 0.2)),
        "small": Config(data_sets=20_000),
        "paper": Config(),
    },
    pieces=pieces,
    run=run,
    exhibits=exhibits,
    claims=CLAIMS,
    deviations=(
        "The paper does not give the rate f. Ours is 0.05: a feature of length one has a sum of "
        "squares near n = 20, so dropout's penalty relative to the data, n·f/(1 − f), then equals "
        "ridge's true λ0 = 1. Dropout thus knows how much to regularise, as ridge does, but not in "
        "which units. Other rates are shown; --drop takes any.",
        "The paper does not say whether dropout's prediction is scaled by 1 − f. Ours is: "
        "(1 − f)Xw is what was fitted (eq. 13).",
        "The paper calls p = 10 underdetermined and p = 40 overdetermined; with n = 20 it is the "
        "other way round.",
        "With p = 10 there are no junk features, so that this cell equals the default one.",
    ),
)
