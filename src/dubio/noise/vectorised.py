"""Whether a tensor is batched by `torch.vmap`, or tracked by a derivative."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_vectorised(tensor: Tensor) -> bool:
    """Return whether `torch.vmap` is at work on a tensor, so that its values are unknown."""
    return torch._C._functorch.is_batchedtensor(tensor)


def is_followed(tensor: Tensor) -> bool:
    """Return whether `torch.func` or forward-mode differentiation is at work on it."""
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return wrapped or forward_ad._current_level >= 0
