"""Names that rows of scenes have. Nothing here computes."""

from typing import Literal

Kind = Literal["none", "fixed", "concrete", "bernoulli", "gaussian"]
"""No dropout; dropout at a fixed rate; Concrete dropout; learnable Bernoulli dropout (LBD);
Gaussian dropout with a learned variance (Kingma et al. 2015)."""

KINDS: tuple[Kind, ...] = ("none", "fixed", "concrete", "bernoulli", "gaussian")

Sampling = Literal["one pass", "draws"]
"""One pass without noise, by mean masks; or an average over passes with noise."""

MAPS = ("predicted", "entropy", "information")
BINS = 10  # of calibration
TOP_BINS = 15  # of the ECE
