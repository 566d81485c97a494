"""Studies of paper 003: Bayesian Dropout."""
