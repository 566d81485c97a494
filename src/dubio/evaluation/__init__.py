"""Evaluate a saved network on a data set: metrics, plots and a page.

``dubio evaluate`` is the command; `evaluate` does the work. `factory` builds the network, `state`
reads its weights without running what is in the file, `datasets` reads data, `likelihoods` the
meaning of outputs, `predictors` asks the network with and without noise, `scores` holds all
metrics that fit, `exhibits` and `page` show them.
"""

from dubio.evaluation.datasets import Data, read_data
from dubio.evaluation.errors import EvaluationError
from dubio.evaluation.evaluate import Evaluation, evaluate
from dubio.evaluation.factory import build_network
from dubio.evaluation.likelihoods import parse_likelihood
from dubio.evaluation.state import load_state, read_state

__all__ = [
    "Data",
    "Evaluation",
    "EvaluationError",
    "build_network",
    "evaluate",
    "load_state",
    "parse_likelihood",
    "read_data",
    "read_state",
]
