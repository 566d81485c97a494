"""Studies of Boluki et al. 2020: Learnable Bernoulli Dropout for Bayesian Deep Learning."""
