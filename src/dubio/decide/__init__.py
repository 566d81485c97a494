"""Decisions that take the uncertainty of a prediction into account."""

from dubio.decide.acquisition import Acquisition, acquire
from dubio.decide.bandit import Bandit
from dubio.decide.choosing import Choice
from dubio.decide.deferral import Decision, Deferral
from dubio.decide.log import Log
from dubio.decide.off_policy import Estimate, doubly_robust, ips, replay, snips
from dubio.decide.population import BanditPopulation, Choices
from dubio.decide.prior_function import PriorFunction
from dubio.decide.rules import ActionRule
from dubio.layers.exact_linear import ExactLinear

__all__ = [
    "Acquisition",
    "ActionRule",
    "Bandit",
    "BanditPopulation",
    "Choice",
    "Choices",
    "Decision",
    "Deferral",
    "Estimate",
    "ExactLinear",
    "Log",
    "PriorFunction",
    "acquire",
    "doubly_robust",
    "ips",
    "replay",
    "snips",
]
