"""float64, which not every device has."""

import torch
from torch import Tensor

_WITHOUT = frozenset({"mps"})  # kinds of devices that refuse float64


def has_float64(device: torch.device) -> bool:
    """Return whether tensors of that device can be float64; Apple's MPS has none."""
    return device.type not in _WITHOUT


def with_float64(x: Tensor) -> Tensor:
    """Return the numbers on a device with float64: unchanged, or a copy on the CPU."""
    return x if has_float64(x.device) else x.cpu()


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Return the numbers on another device; in float32 if it has no float64."""
    wide = x.dtype == torch.float64 and not has_float64(device)
    return (x.float() if wide else x).to(device)


def in_float64(x: Tensor) -> Tensor:
    """In float64: on the device of the tensor, or on the CPU if that device has none."""
    return with_float64(x).double()
