"""Decisions that take the uncertainty of a prediction into account."""

from dubio.decide.bandit import Bandit, Choice
from dubio.decide.deferral import Decision, Deferral
from dubio.decide.log import Log
from dubio.decide.off_policy import Estimate, doubly_robust, ips, replay, snips
from dubio.decide.population import BanditPopulation, Choices
from dubio.decide.prior_function import PriorFunction

__all__ = [
    "Bandit",
    "BanditPopulation",
    "Choice",
    "Choices",
    "Decision",
    "Deferral",
    "Estimate",
    "Log",
    "PriorFunction",
    "doubly_robust",
    "ips",
    "replay",
    "snips",
]
