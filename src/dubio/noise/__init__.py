"""Noise: what it is, and where it enters a network."""

from dubio.noise import handlers as handlers  # which enter themselves into the interceptor's table
