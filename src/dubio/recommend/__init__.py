"""Recommenders with an uncertainty for each recommendation.

Histories of users go in as a sparse matrix, users × items, and items come out with a score and
its spread between draws::

    model = recommend.EASE().fit(user_items)
    found = model.recommend(histories, n=10)
    found.ids, found.scores, found.spread  # (B, 10) each

Users at prediction need not be those of the training: a history is all that a model asks for.

One concept a file: `histories` checks matrices, `recommender` says what every model can do,
`keyed_noise` gives a user the same noise in every batch, `catalogue` keeps external ids, `frames`
reads tables, `split` holds out users or interactions, `evaluate` measures rankings.
"""

try:
    import safetensors  # noqa: F401
    import scipy  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dubio.recommend: expected scipy and safetensors, got neither or one of them; "
        "pip install 'dubio[recommend]'"
    ) from error

from dubio.recommend.catalogue import Catalogue, Ids, Interactions
from dubio.recommend.cdae import CDAE
from dubio.recommend.dae import DAE
from dubio.recommend.ease import EASE
from dubio.recommend.evaluate import RankingEvaluation, UserMean, evaluate
from dubio.recommend.frames import from_frame
from dubio.recommend.histories import histories
from dubio.recommend.hit_calibration import HitCalibration
from dubio.recommend.popular import Popular
from dubio.recommend.recommendations import Recommendations
from dubio.recommend.recommender import Recommender
from dubio.recommend.split import Parts, by_ratio, by_time, by_users
from dubio.recommend.vae import VAE

__all__ = [
    "CDAE",
    "DAE",
    "EASE",
    "VAE",
    "Catalogue",
    "HitCalibration",
    "Ids",
    "Interactions",
    "Parts",
    "Popular",
    "RankingEvaluation",
    "Recommendations",
    "Recommender",
    "UserMean",
    "by_ratio",
    "by_time",
    "by_users",
    "evaluate",
    "from_frame",
    "histories",
]
