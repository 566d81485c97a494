"""Linear regression with dropout integrated out: the exact posterior of Herlau et al. 2022.

Data flow one way: rows become a `design`, a `solver` or a `factor` gives the mean, the `posterior`
holds what is known about the weights, and `evidence` and `cross_validation` choose the two numbers
of its `prior`. The estimators follow the conventions of scikit-learn.
"""

try:
    import scipy  # noqa: F401
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dubio.regression: expected scikit-learn and scipy, got neither or one of them; "
        "pip install 'dubio[regression]'"
    ) from error

from dubio.regression.cross_validation import BayesianDropoutRegressionCV
from dubio.regression.estimator import BayesianDropoutRegression
from dubio.regression.evidence import Evidence
from dubio.regression.posterior import DropoutPosterior, WeightDraws
from dubio.regression.predictive import StudentTMixture
from dubio.regression.prior import DropoutPrior

__all__ = [
    "BayesianDropoutRegression",
    "BayesianDropoutRegressionCV",
    "DropoutPosterior",
    "DropoutPrior",
    "Evidence",
    "StudentTMixture",
    "WeightDraws",
]
