"""The state of a network from a file, as plain tensors: nothing in the file is run.

A state file may come from anywhere. Files of ``torch.save`` are read by torch's unpickler for
weights alone, which makes tensors and plain containers and refuses everything else; what a pickle
asks to be called is never called. Safetensors have no code in them.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dubio.evaluation.errors import EvaluationError, first_sentence

State = dict[str, Any]
SHOWN = 8  # names in a message


def read_tensors(path: Path, what: str) -> Any:
    """Read a file of `torch.save` or safetensors; tensors stay on disk until used.

    Args:
        path: A file; safetensors if its name ends so.
        what: It is for, in messages.
    """
    if not path.is_file():
        raise EvaluationError(f"{what}: expected a file, got {path}, which does not exist")
    if path.suffix == ".safetensors":
        return _read_safetensors(path, what)
    try:
        mapped = zipfile.is_zipfile(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # whatever bytes may bring about
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = f"it asks for {wanted[1]}" if wanted else first_sentence(error)
        raise EvaluationError(
            f"{what}: expected a file of tensors only, got {path}, which was refused and not run "
            f"({reason}); save with torch.save(network.state_dict(), path) or with "
            "safetensors. Pickled networks and TorchScript archives are not accepted."
        ) from error


def dense(value: object) -> bool:
    """Return whether it is a tensor with a number for each index, in this process's memory."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and not value.is_nested
        and not value.is_quantized
        and value.device.type == "cpu"
    )


def read_state(path: Path) -> State:
    """Read the tensors of a state file by name."""
    state = read_tensors(path, "state")
    if not isinstance(state, Mapping):
        raise EvaluationError(
            f"state: expected tensors by name, got a {type(state).__name__} in {path}; save "
            "network.state_dict()"
        )
    others = [
        f"{name} ({type(value).__name__})"
        for name, value in state.items()
        if not dense(value) and not str(name).endswith("_extra_state")
    ]
    if others or not all(isinstance(name, str) for name in state):
        raise EvaluationError(
            f"state: expected dense tensors by name, got others in {path}: {_listed(others)}; if "
            "it is a checkpoint of a training run, save only network.state_dict()"
        )
    return dict(state)


def load_state(network: nn.Module, state: State) -> None:
    """Load a state into a network; report every name and shape that does not fit."""
    try:
        found = network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        sizes = [line.strip() for line in str(error).splitlines() if "size mismatch" in line]
        raise EvaluationError(
            f"state: expected the shapes of the network, got others: "
            f"{_listed(sizes or [first_sentence(error)])} Build the network that was saved"
        ) from error
    problems = [
        f"{kind}: {_listed(names)}"
        for kind, names in (("missing", found.missing_keys), ("unexpected", found.unexpected_keys))
        if names
    ]
    if problems:
        raise EvaluationError(
            f"state: expected the tensors of the network, got others; {'; '.join(problems)}. Build "
            "the network that was saved."
        )


def _read_safetensors(path: Path, what: str) -> State:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise EvaluationError(
            f"{what}: expected the package safetensors to read {path}, got none; pip install "
            "'dubio[evaluate]'"
        ) from error
    try:
        return dict(load_file(path))
    except Exception as error:  # whatever bytes may bring about
        raise EvaluationError(
            f"{what}: expected safetensors, got {path}, which cannot be read as such "
            f"({first_sentence(error)}); save with safetensors.torch.save_file"
        ) from error


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
