"""Graphs in files that a page can hold: weights in float16, computed with in float32."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dubio
from dubio.exporting.export import Exported

LARGE = 64  # numbers; fewer are left as they are


def export_small(network: nn.Module, example: Tensor, file: Path) -> Exported:
    """`dubio.export` in about half the bytes, for a network whose weights are numbers of float16.

    A cast behind each large constant makes it float32 again, so any runtime computes the same.
    """
    exported = dubio.export(network, example, file)
    import onnx

    model = onnx.load(file)
    shrink(model)
    onnx.checker.check_model(model)
    onnx.save(model, file)
    return exported


def shrink(model: Any) -> None:
    """Store large constants in float16, each with a cast behind it."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for constant in model.graph.initializer:
        numbers = numpy_helper.to_array(constant)
        if numbers.dtype != np.float32 or numbers.size < LARGE:
            continue
        half = numbers.astype(np.float16)
        if (half != numbers).any():
            continue
        name = constant.name
        constant.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def in_half_precision(network: nn.Module) -> nn.Module:
    """The network with weights that float16 can hold."""
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(weights.half().float())
    return network
