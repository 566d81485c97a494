"""Register noise modules that are not torch's."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from dubio.noise.perturbations import Draw
from dubio.noise.run import Pass, current_pass
from dubio.noise.sites import Site

ModuleT = TypeVar("ModuleT", bound=nn.Module)

_Rate = Callable[[Any], float] | None
_registered: dict[type[nn.Module], tuple[Callable[..., Tensor], _Rate]] = {}


class SiteNoise:
    """The source of noise for a registered module.

    Shapes are those of one draw, with the rows of the batch first. With shared noise the same
    numbers are used for every row.
    """

    def __init__(self, running: Pass, site: Site, like: Tensor) -> None:
        self._running = running
        self._site = site
        self._like = like
        self._calls = 0

    def bernoulli(self, keep: float, *shape: int) -> Tensor:
        """Return zeros and ones with ``P(1) = keep``."""
        if not 0.0 <= keep <= 1.0:
            raise ValueError(f"keep: expected a probability in [0, 1], got {keep}")
        return self._draw("bernoulli", shape, keep)

    def uniform(self, *shape: int) -> Tensor:
        """Return uniform numbers in [0, 1)."""
        return self._draw("uniform", shape)

    def normal(self, *shape: int) -> Tensor:
        """Return standard normal numbers."""
        return self._draw("normal", shape)

    def _draw(
        self,
        distribution: Literal["bernoulli", "uniform", "normal"],
        shape: tuple[int, ...],
        keep: float = 1.0,
    ) -> Tensor:
        layout = self._running.layout(self._site, torch.Size(shape), self._like)
        self._calls += 1
        draw = Draw(self._site.index, self._calls, distribution, layout, keep)
        noise = self._running.perturb(draw, self._like)
        return noise.expand(shape)


def anything_registered() -> bool:
    """Return whether there is a class that was registered."""
    return bool(_registered)


def is_registered(module: nn.Module) -> bool:
    """Return whether the module's class was registered."""
    return type(module) in _registered


def runs_registered(module: nn.Module) -> bool:
    """Return whether the module's class, or one that it has its forward from, was registered."""
    return isinstance(module, tuple(_registered))


def register(
    module_type: type[ModuleT],
    sample: Callable[..., Tensor],
    *,
    rate: Callable[[ModuleT], float] | None = None,
) -> None:
    """Register a user's own noise module as a stochastic site.

    While dubio samples, ``sample(module, noise, *inputs)`` replaces the module's forward; at all
    other times the module is unchanged. Example, stochastic depth::

        def drop_path(module, noise, x):
            keep = 1 - module.drop_prob
            return x * noise.bernoulli(keep, x.shape[0], *[1] * (x.dim() - 1)) / keep

        dubio.register(DropPath, drop_path, rate=lambda module: module.drop_prob)

    Args:
        module_type: The class. Its ``forward`` is wrapped once; subclasses that define their own
            are not covered.
        sample: Computes the output from the module, a `SiteNoise` and the inputs, the first of
            which is a tensor.
        rate: Returns the dropout rate of a module, for the table of sites.
    """
    own_class = isinstance(module_type, type) and issubclass(module_type, nn.Module)
    if not own_class or module_type is nn.Module:
        raise TypeError(f"module_type: expected a subclass of nn.Module, got {module_type!r}")
    if not callable(sample):
        raise TypeError(f"sample: expected a function of (module, noise, *inputs), got {sample!r}")
    known = module_type in _registered
    _registered[module_type] = (sample, rate)
    if known:
        return
    original = module_type.forward

    @wraps(original)
    def forward(self: ModuleT, *inputs: Any, **named: Any) -> Any:
        running = current_pass()
        if running is None:
            return original(self, *inputs, **named)
        if not inputs or not isinstance(inputs[0], Tensor):
            raise TypeError(
                f"{module_type.__name__}: expected a tensor as first input of a registered module, "
                f"got {type(inputs[0]).__name__ if inputs else 'none'}"
            )
        own_sample, own_rate = _registered[module_type]
        shown = None if own_rate is None else own_rate(self)
        site = running.reach(module_type.__name__, inputs[0], shown)
        if site is None:
            return original(self, *inputs, **named)
        noise = SiteNoise(running, site, inputs[0])
        return own_sample(self, noise, *inputs, **named)

    module_type.forward = forward
