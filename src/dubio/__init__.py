"""dubio: networks that know what they do not know."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dubio import attack, calibrate, data, decide, likelihoods, masks, priors
from dubio.conversion import rules
from dubio.conversion.convert import convert
from dubio.conversion.plan import Plan
from dubio.conversion.planning import plan
from dubio.draws.absence import NoSitesError
from dubio.exporting.errors import ExportError
from dubio.exporting.export import Exported, export
from dubio.layers.bayes import (
    BayesConv1d,
    BayesConv2d,
    BayesConv3d,
    BayesConvTranspose1d,
    BayesConvTranspose2d,
    BayesConvTranspose3d,
    BayesEmbedding,
    BayesGRU,
    BayesLinear,
    BayesLSTM,
    BayesMultiheadAttention,
    BayesRNN,
)
from dubio.layers.bayesian import Bayesian
from dubio.layers.drop_connect import DropConnect
from dubio.layers.freezing import freeze
from dubio.layers.masked import Masked
from dubio.layers.pruning import prune, sparse_weights
from dubio.native.library import Kernels, kernels
from dubio.noise.gates import GateError
from dubio.noise.noise import Noise
from dubio.noise.register import SiteNoise, register
from dubio.noise.sites import Site, Sites
from dubio.noise.stochastic import Stochastic, kl
from dubio.objectives import schedules
from dubio.objectives.elbo import ELBO
from dubio.objectives.m_step import m_step
from dubio.population import Population
from dubio.predict import Predictor, predict, sites
from dubio.predictive.predictive import Predictive
from dubio.training.checkpoint import CheckpointError
from dubio.training.fit import fit
from dubio.training.guard import NonFiniteError
from dubio.training.history import History

if TYPE_CHECKING:
    from dubio import metrics as metrics
    from dubio import recommend as recommend
    from dubio.estimators import DropoutClassifier as DropoutClassifier
    from dubio.estimators import DropoutRegressor as DropoutRegressor
    from dubio.regression import BayesianDropoutRegression as BayesianDropoutRegression
    from dubio.regression import BayesianDropoutRegressionCV as BayesianDropoutRegressionCV

__all__ = [
    "ELBO",
    "BayesConv1d",
    "BayesConv2d",
    "BayesConv3d",
    "BayesConvTranspose1d",
    "BayesConvTranspose2d",
    "BayesConvTranspose3d",
    "BayesEmbedding",
    "BayesGRU",
    "BayesLSTM",
    "BayesLinear",
    "BayesMultiheadAttention",
    "BayesRNN",
    "Bayesian",
    "CheckpointError",
    "DropConnect",
    "ExportError",
    "Exported",
    "GateError",
    "History",
    "Kernels",
    "Masked",
    "NoSitesError",
    "Noise",
    "NonFiniteError",
    "Plan",
    "Population",
    "Predictive",
    "Predictor",
    "Site",
    "SiteNoise",
    "Sites",
    "Stochastic",
    "attack",
    "calibrate",
    "convert",
    "data",
    "decide",
    "export",
    "fit",
    "freeze",
    "kernels",
    "kl",
    "likelihoods",
    "m_step",
    "masks",
    "plan",
    "predict",
    "priors",
    "prune",
    "register",
    "rules",
    "schedules",
    "sites",
    "sparse_weights",
]

__version__ = "0.2.0"

_EXTRAS = {  # where they are; need the extras regression and sklearn
    "BayesianDropoutRegression": "dubio.regression",
    "BayesianDropoutRegressionCV": "dubio.regression",
    "DropoutClassifier": "dubio.estimators",
    "DropoutRegressor": "dubio.estimators",
}
_EXTRA_MODULES = ("metrics", "recommend")  # need the extra of their name


def __getattr__(name: str) -> Any:
    if name in _EXTRAS:
        return getattr(import_module(_EXTRAS[name]), name)
    if name in _EXTRA_MODULES:
        return import_module(f"dubio.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_EXTRAS, *_EXTRA_MODULES]
