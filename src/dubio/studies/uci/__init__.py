"""UCI regression as Gal et al. 2017 and Gal & Ghahramani 2016 compare on it."""
