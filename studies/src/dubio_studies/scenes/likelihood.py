"""What outputs say about label maps."""

from dubio.likelihoods import Categorical
from dubio_studies.scenes.images import VOID

LIKELIHOOD = Categorical(dim=1, void=VOID)
"""A class for every pixel; unlabelled pixels do not count."""
