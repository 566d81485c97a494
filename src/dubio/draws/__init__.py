"""Many draws of a network from one recorded pass."""
