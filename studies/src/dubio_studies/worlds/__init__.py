"""Worlds that agents act in. Gymnasium knows the environments among them, where it is installed."""

from importlib.util import find_spec

if find_spec("gymnasium") is not None:
    from dubio_studies.worlds.registration import register_worlds

    register_worlds()
