"""Predictive distributions from many draws of a network."""
