"""dubio: networks that know what they do not know."""

from dubio import data, likelihoods, masks, rules
from dubio.conversion.convert import convert
from dubio.conversion.plan import Plan
from dubio.conversion.planning import plan
from dubio.interception.register import SiteNoise, register
from dubio.interception.sites import Site, Sites
from dubio.layers.drop_connect import DropConnect
from dubio.layers.masked import Masked
from dubio.noise import Noise
from dubio.objectives import schedules
from dubio.objectives.elbo import ELBO
from dubio.objectives.m_step import m_step
from dubio.predict import predict, sites
from dubio.predictive import Predictive
from dubio.sampling.absence import NoSitesError
from dubio.stochastic import Stochastic, kl

__all__ = [
    "ELBO",
    "DropConnect",
    "Masked",
    "NoSitesError",
    "Noise",
    "Plan",
    "Predictive",
    "Site",
    "SiteNoise",
    "Sites",
    "Stochastic",
    "convert",
    "data",
    "kl",
    "likelihoods",
    "m_step",
    "masks",
    "plan",
    "predict",
    "register",
    "rules",
    "schedules",
    "sites",
]

__version__ = "0.1.0"
