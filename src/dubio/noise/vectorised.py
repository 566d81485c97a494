"""Whether a function is being carried out for many at once by `torch.func`."""

import torch


def vectorised() -> bool:
    """Whether `torch.vmap` or another transform of `torch.func` is at work.

    Then a tensor stands for many, so that no decision can hang on its values, and gradients must
    come from differentiable formulas, not from functions with a derivative of their own.
    """
    return torch._C._are_functorch_transforms_active()
