"""Files of tensors: read as written, and refused if they are damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from dubio import data
from dubio.data.errors import DataError
from dubio.data.weights import read_safetensors


def written(path: Path, header: object, body: bytes, length: int | None = None) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + body)
    return path


def entry(kind: str, shape: list[int], start: int, stop: int) -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


def test_tensors_in_the_order_of_the_header(tmp_path: Path) -> None:
    second = np.arange(6, dtype=np.float16).tobytes()
    first = np.array([0.5, -2], dtype=np.float32).tobytes()
    header = {
        "__metadata__": {"a": "b"},
        "z": entry("F32", [2], 12, 20),
        "a": entry("F16", [2, 3], 0, 12),
    }
    found = read_safetensors(written(tmp_path / "w", header, second + first))
    assert list(found) == ["z", "a"]
    assert found["z"].tolist() == [0.5, -2]
    assert torch.equal(found["a"], torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("fault", ["short", "type", "length", "list", "fields", "empty"])
def test_damaged_files(fault: str, tmp_path: Path) -> None:
    header: object = {"w": entry("F16", [4], 0, 8)}
    body, length = bytes(8), None
    if fault == "short":
        body = bytes(6)
    elif fault == "type":
        header = {"w": entry("BF16", [4], 0, 8)}
    elif fault == "length":
        length = 2**60
    elif fault == "list":
        header = [1, 2]
    elif fault == "fields":
        header = {"w": {"dtype": "F16"}}
    path = written(tmp_path / "w", header, body, length)
    if fault == "empty":
        path.write_bytes(b"")
    with pytest.raises(DataError, match="expected tensors in the form of safetensors"):
        read_safetensors(path)


def test_a_trunk_that_there_is_not() -> None:
    with pytest.raises(
        ValueError, match="expected efficientnet-lite0 or vgg16 or vgg19, got 'resnet'"
    ):
        data.imagenet_weights("resnet")  # type: ignore[arg-type]
