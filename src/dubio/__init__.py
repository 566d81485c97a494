"""dubio: networks that know what they do not know."""

from dubio import likelihoods
from dubio.interception.register import SiteNoise, register
from dubio.interception.sites import Site, Sites
from dubio.noise import Noise
from dubio.predict import predict, sites
from dubio.predictive import Predictive
from dubio.sampling.absence import NoSitesError

__all__ = [
    "NoSitesError",
    "Noise",
    "Predictive",
    "Site",
    "SiteNoise",
    "Sites",
    "likelihoods",
    "predict",
    "register",
    "sites",
]

__version__ = "0.1.0"
