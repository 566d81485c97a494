"""Functions with a derivative of their own, for one network or, by `torch.vmap`, for many."""

from typing import Any

import torch


class Derivative(torch.autograd.Function):
    """An autograd function that is called without a look at its signature.

    Torch inspects the signature of functions that have a vmap rule at every call, which takes
    longer than a small function itself. Here only calls under a transform go that way.
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call it, with all arguments."""
        if torch._C._are_functorch_transforms_active():
            return super().apply(*args)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]
