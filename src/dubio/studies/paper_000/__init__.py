"""Studies of paper 000: Learnable Bernoulli Dropout for Bayesian Deep Learning."""
