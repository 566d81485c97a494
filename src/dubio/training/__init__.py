"""Training: one loop for every objective, with checkpoints that resume to the same numbers."""
