"""Noise as a value, and where it enters a network."""

from dubio.noise import handlers as handlers  # which enter themselves into the interceptor's table
