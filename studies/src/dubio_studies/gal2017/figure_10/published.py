"""What Gal et al. 2017 has in its figure 10."""

TEMPERATURE = 0.1
