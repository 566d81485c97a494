"""Studies of paper 004: Weight Uncertainty in Neural Networks, a replication."""
