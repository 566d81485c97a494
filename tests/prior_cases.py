"""All priors: every test over priors reads this list. A new prior is one line in `PRIORS`."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.distributions import (
    Categorical,
    Distribution,
    Laplace,
    MixtureSameFamily,
    Normal,
    StudentT,
)

from dubio import priors
from dubio.priors import Prior
from newcomer import student_t


@dataclass(frozen=True)
class Case:
    """A prior of mean zero, by its scale, and the same density by torch. Call it to make one.

    Attributes:
        make: Makes the prior. Where it has other numbers, let some of them depend on the scale,
            too: members of a population then differ in them.
        density: The density, in float64.
    """

    make: Callable[[float], Prior]
    density: Callable[[float], Distribution]

    def __call__(self, scale: float) -> Prior:
        return self.make(scale)


def mixture(scale: float) -> Distribution:
    shares = torch.tensor([0.25, 0.75], dtype=torch.float64)
    deviations = torch.tensor([scale, 0.03], dtype=torch.float64)
    return MixtureSameFamily(Categorical(shares), Normal(torch.zeros_like(shares), deviations))


PRIORS: dict[str, Case] = {
    "gaussian": Case(priors.Gaussian, lambda s: Normal(0.0, s)),
    "laplace": Case(priors.Laplace, lambda s: Laplace(0.0, s)),
    "mixture": Case(lambda s: priors.ScaleMixture(0.25, s, 0.03), mixture),
    "student": Case(lambda s: student_t.StudentT(1 + s, s), lambda s: StudentT(1 + s, 0.0, s)),
}
EXACT = {name: case for name, case in PRIORS.items() if case(1.0).exact}
ESTIMATED = {name: case for name, case in PRIORS.items() if name not in EXACT}

every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=list(PRIORS))
every_exact_prior = pytest.mark.parametrize("prior", EXACT.values(), ids=list(EXACT))
every_estimated_prior = pytest.mark.parametrize("prior", ESTIMATED.values(), ids=list(ESTIMATED))
