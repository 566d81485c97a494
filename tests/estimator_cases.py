"""All estimators of gradients for rates: every test over estimators reads this list.

A new estimator is one line in `CASES`.
"""

from dataclasses import dataclass

import pytest

from dubio.objectives.estimators import ESTIMATORS
from newcomer.reinforce_mean import reinforce_mean

ESTIMATORS["reinforce_mean"] = reinforce_mean  # in the place of lines in estimators.py


@dataclass(frozen=True)
class Case:
    """What is known about an estimator.

    Attributes:
        passes: How often it runs the network behind the first learnable mask.
        unbiased: Whether its gradient is exact on average, for every loss.
        first_pass: Whether loss and gradient of the weights are those of the first pass alone.
    """

    passes: int = 2
    unbiased: bool = True
    first_pass: bool = True


CASES: dict[str, Case] = {
    "trapezoid": Case(unbiased=False, first_pass=False),
    "trapezoid_once": Case(passes=1, unbiased=False),
    "corrected": Case(passes=3, first_pass=False),
    "disarm_cv": Case(passes=3),
    "disarm": Case(),
    "arm": Case(),
    "reinforce_loo": Case(),
    "reinforce_mean": Case(),
}
assert set(CASES) == set(ESTIMATORS), "every estimator has a line, and every line an estimator"
UNBIASED = [name for name, case in CASES.items() if case.unbiased]
FIRST_PASS = [name for name, case in CASES.items() if case.first_pass]

every_estimator = pytest.mark.parametrize("estimator", CASES)
every_unbiased_estimator = pytest.mark.parametrize("estimator", UNBIASED)
