"""Sampling: many draws from one recorded pass."""
