"""State files: hostile ones are refused and nothing in them is run; others must fit."""

import io
import os
import pickle
import sys
import tarfile
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dubio import cli
from dubio.evaluation import EvaluationError, load_state, read_data, read_state


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))


def write_pickle(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(Attack(mark)))


def write_zip(path: Path, mark: Path) -> None:
    torch.save(Attack(mark), path)


def write_legacy(path: Path, mark: Path) -> None:
    torch.save(Attack(mark), path, _use_new_zipfile_serialization=False)


def write_hidden(path: Path, mark: Path) -> None:
    torch.save({**network().state_dict(), "0.weight": Attack(mark)}, path)


def write_key(path: Path, mark: Path) -> None:
    torch.save(OrderedDict([(Attack(mark), torch.zeros(2))]), path)


def write_tar(path: Path, mark: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickle.dumps(Attack(mark), protocol=2)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_script(path: Path, mark: Path) -> None:
    """A TorchScript archive whose data are an attack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        whole = io.BytesIO()
        torch.jit.save(torch.jit.script(nn.Linear(3, 4)), whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            attack = name.endswith(("data.pkl", "constants.pkl"))
            target.writestr(name, pickle.dumps(Attack(mark)) if attack else source.read(name))


HOSTILE = [
    write_pickle, write_zip, write_legacy, write_hidden, write_key, write_tar, write_script,
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".pt", ".pkl", ".safetensors"])
@pytest.mark.parametrize("write", HOSTILE)
def test_hostile_files_are_refused_and_not_run(
    write: Callable[[Path, Path], None],
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    path, mark = tmp_path / f"state{suffix}", tmp_path / "attacked"
    write(path, mark)
    with pytest.raises(EvaluationError, match=r"state: expected .*(refused and not run|cannot be)"):
        read_state(path)
    assert not mark.exists()


def test_the_attack_works_where_pickles_are_run(tmp_path: Path) -> None:
    path, mark = tmp_path / "state.pt", tmp_path / "attacked"
    write_zip(path, mark)
    torch.load(path, weights_only=False)
    assert mark.exists()


def test_the_command_refuses_before_any_code_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even code that would vouch for the attack."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    path, mark, ran = tmp_path / "state.pt", tmp_path / "attacked", tmp_path / "ran"
    write_zip(path, mark)
    model = tmp_path / "model.py"
    model.write_text(
        f"import os, torch; os.mkdir({str(ran)!r})\n"
        "torch.serialization.add_safe_globals([os.mkdir])\n"
    )
    words = ["--state", str(path), "--data", "digits", "--likelihood", "categorical"]
    output = tmp_path / "out"
    assert cli.main(["evaluate", "--model", f"{model}:f", *words, "--output", str(output)]) == 1
    captured = capsys.readouterr()
    assert f"refused and not run (it asks for {os.mkdir.__module__}.mkdir)" in captured.err
    assert not captured.out
    assert not mark.exists()
    assert not ran.exists()
    assert not output.exists()


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_hostile_data_are_refused_and_not_run(suffix: str, tmp_path: Path) -> None:
    path, mark = tmp_path / f"data{suffix}", tmp_path / "attacked"
    if suffix == ".npz":
        np.savez(path, x=np.array([Attack(mark)], dtype=object), y=np.zeros(1))
    else:
        torch.save({"x": Attack(mark), "y": torch.zeros(1)}, path)
    with pytest.raises(EvaluationError, match="data: expected"):
        read_data(str(path))
    assert not mark.exists()


def test_a_pickle_named_npz_is_refused_and_not_run(tmp_path: Path) -> None:
    path, mark = tmp_path / "data.npz", tmp_path / "attacked"
    write_pickle(path, mark)
    with pytest.raises(EvaluationError, match="refused and not run"):
        read_data(str(path))
    assert not mark.exists()


def test_a_whole_network_and_a_script_are_refused(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "whole.pt")
    with pytest.raises(EvaluationError, match=r"save with torch\.save\(network\.state_dict"):
        read_state(tmp_path / "whole.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(nn.Linear(3, 4)), tmp_path / "script.pt")
    with pytest.raises(EvaluationError, match="TorchScript"):
        read_state(tmp_path / "script.pt")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".bin"])
@pytest.mark.parametrize("zipped", [True, False])
def test_states_go_round(suffix: str, zipped: bool, tmp_path: Path) -> None:
    saved, other, path = network(), network(), tmp_path / f"state{suffix}"
    if suffix == ".safetensors":
        save_file(saved.state_dict(), path)
    else:
        torch.save(saved.state_dict(), path, _use_new_zipfile_serialization=zipped)
    load_state(other, read_state(path))
    for one, two in zip(saved.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_checkpoint_is_not_a_state(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "model": network().state_dict()}, tmp_path / "checkpoint.pt")
    with pytest.raises(EvaluationError, match=r"epoch \(int\), model \(OrderedDict\)"):
        read_state(tmp_path / "checkpoint.pt")
    torch.save(torch.zeros(3), tmp_path / "tensor.pt")
    with pytest.raises(EvaluationError, match="got a Tensor"):
        read_state(tmp_path / "tensor.pt")
    with pytest.raises(EvaluationError, match="which does not exist"):
        read_state(tmp_path / "nowhere.pt")


def test_names_that_do_not_fit_are_listed() -> None:
    state = network().state_dict()
    state["head.weight"] = state.pop("2.weight")
    with pytest.raises(
        EvaluationError, match=r"missing: 2\.weight; unexpected: head\.weight\. Build"
    ):
        load_state(network(), state)


def test_shapes_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    wide = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    save_file(wide.state_dict(), tmp_path / "wide.safetensors")
    with pytest.raises(EvaluationError, match=r"0\.weight.*\[4, 5\].*\[4, 3\]"):
        load_state(network(), read_state(tmp_path / "wide.safetensors"))


def test_many_names_are_cut_short() -> None:
    state = {f"extra.{k}": torch.zeros(1) for k in range(20)}
    with pytest.raises(EvaluationError, match=r"extra\.7 and 12 more"):
        load_state(network(), {**network().state_dict(), **state})


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_damaged_files_are_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"state{suffix}"
    path.write_bytes(content)
    with pytest.raises(EvaluationError, match="state: expected"):
        read_state(path)


def unusual_tensors() -> dict[str, torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
        quantized = torch.quantize_per_tensor(torch.zeros(4, 3), 0.1, 0, torch.qint8)
        compressed = torch.eye(4).to_sparse_csr()
    return {
        "nested": nested,
        "sparse": torch.eye(4).to_sparse(),
        "compressed": compressed,
        "quantized": quantized,
        "complex": torch.zeros(4, 3, dtype=torch.complex64),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["x", "y"])
@pytest.mark.parametrize("kind", ["nested", "sparse", "compressed", "quantized", "complex"])
def test_tensors_that_are_not_dense_are_refused_as_data(
    kind: str, place: str, tmp_path: Path
) -> None:
    tensors = {"x": torch.zeros(4, 3), "y": torch.zeros(4), place: unusual_tensors()[kind]}
    torch.save(tensors, tmp_path / "data.pt")
    with pytest.raises(EvaluationError, match="expected"):
        read_data(str(tmp_path / "data.pt"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["nested", "sparse", "compressed", "quantized"])
def test_tensors_that_are_not_dense_are_refused_as_state(kind: str, tmp_path: Path) -> None:
    torch.save({"weight": unusual_tensors()[kind]}, tmp_path / "state.pt")
    with pytest.raises(EvaluationError, match="expected"):
        read_state(tmp_path / "state.pt")
