"""Interception: noise enters networks that were not written for it.

``numbers`` and ``bernoulli`` make random numbers; ``layout`` and ``perturbations`` say what noise
does to a tensor; ``sites`` names the places; ``interceptor`` finds them, with the functions listed
in ``catalogue``, ``attention``, ``recurrent`` and ``randomness`` and the modules entered by
``register``.
"""

from dubio.interception import attention, catalogue, randomness, recurrent  # noqa: F401  (enter their handlers)
