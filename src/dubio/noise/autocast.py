"""Mixed precision: `torch.autocast` of any kind of device, remembered and entered again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self, final

import torch

_KINDS = ("cpu", "cuda", "mps", "xpu")


def _kinds() -> tuple[str, ...]:
    own = torch._C._get_privateuse1_backend_name()
    return (*_KINDS, own) if hasattr(torch, own) else _KINDS


@final
@dataclass(frozen=True)
class Autocast:
    """Which kinds of devices compute in which precision: (kind, type) where it is on.

    Attributes:
        casts: By kind of device; those that are not named have it switched off.
    """

    casts: tuple[tuple[str, torch.dtype], ...] = ()

    @classmethod
    def now(cls) -> Self:
        """As it is around the caller."""
        if not torch._C._is_any_autocast_enabled():
            return cls()
        return cls(
            tuple(
                (kind, torch.get_autocast_dtype(kind))
                for kind in _kinds()
                if torch.is_autocast_enabled(kind)
            )
        )

    @contextmanager
    def again(self) -> Iterator[None]:
        """Have it so in the block."""
        now = type(self).now()
        if now == self:
            yield
            return
        with ExitStack() as around:
            for kind, _ in now.casts:
                around.enter_context(torch.autocast(kind, enabled=False))
            for kind, dtype in self.casts:
                around.enter_context(torch.autocast(kind, dtype))
            yield


NO_AUTOCAST = Autocast()
