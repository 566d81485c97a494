"""What Clark et al. 2022 says about its regression: where the curve was seen, and its numbers."""

OBSERVED = (0.0, 0.5)
EVALUATED = (-0.5, 1.5)  # three quarters of it are extrapolation

TABLE_1 = {0: -120.34, 1: -16.21, 2: -9.69}
"""Mean log density per point (lppd, eq. 20) by −log σ of a Gaussian prior."""

TABLE_2 = {
    (0, 6): -32.40, (0, 7): -412.87, (0, 8): -184.17,
    (1, 6): -3.21, (1, 7): -22.46, (1, 8): -21.29,
    (2, 6): -21.58, (2, 7): -16.77, (2, 8): -16.20,
}  # fmt: skip
"""The same by −log σ1 and −log σ2 of a mixture of two Gaussians."""

LPPD = {"weights": TABLE_1[1], "local": -26.03}
"""By sampler, for the Gaussian prior with −log σ = 1. The paper sets −26.03 against −3.21, which
is the value of the mixture (1, 6)."""

DIFFERENCES = {"weights": 444.8, "local": 244.0}
"""Variance of the difference of consecutive "ELBO" values, by sampler."""

MILLISECONDS = {"weights": 317.8, "local": 211.7}
"""Per epoch, by sampler, on the authors' GPU."""
