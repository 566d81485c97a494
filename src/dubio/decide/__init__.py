"""Decisions that take the uncertainty of a prediction into account."""

from dubio.decide.deferral import Decision, Deferral

__all__ = ["Decision", "Deferral"]
