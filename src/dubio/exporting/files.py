"""Write graphs to files, and run them to check them."""

import io
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.export import ExportedProgram

from dubio.exporting.errors import ExportError
from dubio.exporting.graph import quietly

# From the inputs of a graph, in order, to its outputs
Runner: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]

CARD = "dubio"  # where an ONNX file says what its noise is; dubio.json in a .pt2 file


def check_packages() -> None:
    """Raise an error if packages for ONNX files are not installed."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            import_module(package)
        except ImportError as error:
            raise ImportError(
                f"dubio.export: expected the package {package} for an ONNX file, got none; "
                f"pip install 'dubio[export]'"
            ) from error


def onnx_file(
    program: ExportedProgram, names: Sequence[str], outputs: Sequence[str], card: dict[str, Any]
) -> bytes:
    """Return the graph in ONNX, with the card in its metadata."""
    with quietly():
        try:
            made = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=list(names),
                output_names=list(outputs),
                external_data=False,
            )
        except Exception as error:
            raise ExportError(_unknown_to_onnx(error)) from error
        assert made is not None
        made.model.metadata_props[CARD] = json.dumps(card)
        model = made.model_proto
    rows = _symbol(model.graph)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = dim.dim_param.replace(rows, "rows")
    return bytes(model.SerializeToString())


def _symbol(graph: Any) -> str:
    """Return the symbol for the number of rows, the first axis of some input."""
    shapes = (value.type.tensor_type.shape.dim for value in graph.input)
    return str(next(dim[0].dim_param for dim in shapes if dim and dim[0].dim_param))


def onnx_runner(data: bytes) -> Runner:
    """Run a graph by onnxruntime, on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    except Exception as error:
        raise ExportError(
            f"model: expected a graph that onnxruntime can run, but it says: {error}; export to a "
            f".pt2 file, or convert the network with .float()"
        ) from error
    names = [value.name for value in session.get_inputs()]

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        feed = {name: x.numpy() for name, x in zip(names, tensors, strict=True)}
        return [torch.from_numpy(y) for y in session.run(None, feed)]

    return run


def pt2_file(program: ExportedProgram, card: dict[str, Any]) -> bytes:
    """Return the graph in torch's own format, with the card as an extra file."""
    buffer = io.BytesIO()
    with quietly():
        torch.export.save(program, buffer, extra_files={f"{CARD}.json": json.dumps(card)})
    return buffer.getvalue()


def pt2_runner(data: bytes) -> Runner:
    """Run a graph by torch."""
    with quietly():
        module = torch.export.load(io.BytesIO(data)).module()

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return list(module(*tensors))

    return run


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def _unknown_to_onnx(error: Exception) -> str:
    """Return the operation without a counterpart, if known."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "No ONNX function" in line or "No decompositions" in line]
    return (
        f"model: expected operations that ONNX has, got others; export to a .pt2 file, or write "
        f"them otherwise; torch says: {(told or lines or [type(error).__name__])[0]}"
    )
