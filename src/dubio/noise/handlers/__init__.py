"""Handlers of torch's noisy functions; importing this registers them."""

from dubio.noise.handlers import attention, dropout, randomness, recurrent  # noqa: F401
