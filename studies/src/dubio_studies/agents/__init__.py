"""Agents that learn by acting: Q-learning, where exploration is a rule. One file an algorithm."""
