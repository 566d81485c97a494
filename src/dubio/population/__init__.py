"""Populations: many small networks as one batched computation."""

from dubio.population.population import Population

__all__ = ["Population"]
