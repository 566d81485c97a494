"""Every way to make noise: the kernels at each level of instructions, and torch."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dubio.native import library, stream


@contextmanager
def at_level(name: str) -> Iterator[str]:
    """The kernels, forced to a level, if it can be had."""
    loaded = library.LOADED
    if loaded is None:
        pytest.skip(f"no compiled kernels: {library.kernels().reason}")
    wanted, before = library.LEVELS.index(name), loaded.dubio_level()
    try:
        if loaded.dubio_use_level(wanted) != wanted:
            pytest.skip(f"this processor has no {name}")
        yield name
    finally:
        loaded.dubio_use_level(before)


@pytest.fixture(params=library.LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each level of the kernels."""
    with at_level(request.param) as name:
        yield name


@pytest.fixture(params=[*library.LEVELS, "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each level of the kernels, and torch without them."""
    if request.param == "torch":
        monkeypatch.setattr(stream, "LOADED", None)
        yield "torch"
        return
    with at_level(request.param) as name:
        yield name
