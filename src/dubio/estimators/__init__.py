"""Networks with uncertainty as scikit-learn estimators.

Data flow one way: a table is scaled (`scaling`) and split (`splitting`), a `method` makes
networks, `training` fits them, and the estimators turn their draws into predictions in the user's
units.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "dubio.estimators: expected scikit-learn, got none; pip install 'dubio[sklearn]'"
    ) from error

from dubio.estimators.classifier import DropoutClassifier
from dubio.estimators.regressor import DropoutRegressor

__all__ = ["DropoutClassifier", "DropoutRegressor"]
