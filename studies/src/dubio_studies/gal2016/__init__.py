"""Studies of Gal & Ghahramani 2016: Dropout as a Bayesian Approximation."""
