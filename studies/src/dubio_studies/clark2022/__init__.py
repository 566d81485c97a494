"""Studies of Clark et al. 2022: Weight Uncertainty in Neural Networks, a replication."""
