"""Studies of Herlau et al. 2022: Bayesian Dropout."""
