"""Whether a tensor stands for those of many networks."""

import torch
from torch import Tensor


def is_vectorised(tensor: Tensor) -> bool:
    """Whether `torch.vmap` is at work on a tensor: then no decision can hang on its values."""
    return torch._C._functorch.is_batchedtensor(tensor)
