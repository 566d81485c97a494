"""Studies of Gal et al. 2017: Concrete Dropout."""
