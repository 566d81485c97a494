"""Studies of paper 002: Dropout as a Bayesian Approximation."""
