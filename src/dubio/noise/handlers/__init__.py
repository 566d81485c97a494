"""What noise does at the functions of torch: importing this enters the handlers."""

from dubio.noise.handlers import attention, dropout, randomness, recurrent  # noqa: F401
