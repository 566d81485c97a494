"""Calibration on validation data: of probabilities, variances, sets and intervals.

Everything here is fitted on a prediction and its targets, called on another prediction, and saved
by its `state_dict`. A prediction is a `Predictive`, or plain tensors.
"""

from dubio.calibrate.intervals import Intervals, QuantileIntervals, StandardisedIntervals
from dubio.calibrate.scaling import PrecisionScaling, VarianceScaling
from dubio.calibrate.sets import AdaptiveSets, LabelSets, LeastAmbiguousSets
from dubio.calibrate.temperature import TemperatureScaling

__all__ = [
    "AdaptiveSets",
    "Intervals",
    "LabelSets",
    "LeastAmbiguousSets",
    "PrecisionScaling",
    "QuantileIntervals",
    "StandardisedIntervals",
    "TemperatureScaling",
    "VarianceScaling",
]
