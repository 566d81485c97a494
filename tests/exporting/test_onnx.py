"""ONNX files, run by onnxruntime and nothing else, against `dubio.predict`.

Making one takes torch some seconds, so that few networks have much in them.
"""

import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy
import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.masks import Concrete, Gaussian, LearnableBernoulli

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def open_file(file: Path) -> Any:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


class Images(nn.Module):
    """Every mask, dropout of channels, and weights with a distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Conv2d(1, 3, 3)
        self.channels = nn.Dropout2d(0.3)
        self.alpha = nn.AlphaDropout(0.2)
        self.concrete = dubio.Masked(nn.Linear(12, 6), Concrete(drop=0.3))
        self.bernoulli = dubio.Masked(nn.Linear(6, 6), LearnableBernoulli(6, drop=0.3))
        self.gaussian = dubio.Masked(nn.Linear(6, 6), Gaussian(drop=0.3))
        self.bayes = dubio.BayesLinear(6, 4, deviation=0.2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.alpha(self.channels(self.see(x)).relu()).flatten(1)
        h = self.bernoulli(self.concrete(h).tanh()).tanh()
        return self.bayes(nn.functional.dropout(self.gaussian(h), 0.1, self.training))


def test_every_kind_of_noise(tmp_path: Path) -> None:
    net, x = Images(), torch.randn(5, 1, 4, 4)
    exported = dubio.export(net, x, tmp_path / "net.onnx")
    session = open_file(exported.file)
    names = ["channels", "alpha", "concrete.mask", "bernoulli.mask", "gaussian.mask"]
    names = [f"noise.{name}" for name in (*names, "dropout", "bayes")]
    assert [value.name for value in session.get_inputs()] == ["x", *names]
    assert [value.shape for value in session.get_inputs()][:2] == [
        ["rows", 1, 4, 4],
        [1, "rows", 3, 1, 1],
    ]
    assert [each.name for each in exported.noises] == names

    def run(rows: Tensor, noise: dict[str, Any]) -> Any:
        return session.run(["y"], {"x": rows.numpy(), **noise})[0]

    for rows in (x, x[:1], torch.cat([x, x])):
        noise = exported.noise(len(rows), 3, draws=4)
        found = [
            run(rows, {name: each[k : k + 1] for name, each in noise.items()}) for k in range(4)
        ]
        expected = dubio.predict(net, rows, draws=4, generator=seeded()).draws.numpy()
        assert numpy.abs(numpy.concatenate(found) - expected).max() < 1e-5
    assert run(x[:0], exported.noise(0)).shape == (1, 0, 4)

    noise = exported.noise(5)
    before = run(x, noise)
    for name, each in noise.items():  # every one of them matters
        assert numpy.abs(run(x, {**noise, name: numpy.roll(each, 1) * 0.9}) - before).max() > 1e-3

    card = json.loads(session.get_modelmeta().custom_metadata_map["dubio"])
    assert [each["name"] for each in card["noise"]] == names
    assert card["noise"][0]["keep"] == 0.7
    assert card["noise"][6]["distribution"] == "normal"


class Sequences(nn.Module):
    """Two inputs by name, a constant, two outputs; a Transformer and a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.2, batch_first=True)
        self.read = nn.LSTM(4, 3, num_layers=2, dropout=0.3)

    def forward(self, steps: Tensor, offset: Tensor, scale: float) -> dict[str, Tensor]:
        h = self.attend(steps)
        states, _ = self.read(h.transpose(0, 1))  # (T, B, 3)
        return {"last": states[-1] * scale + offset, "attended": h}


def test_sequences_in_train_mode(tmp_path: Path) -> None:
    net = Sequences().train()
    x = {"steps": torch.randn(4, 3, 4), "offset": torch.randn(4, 3), "scale": 2.0}
    exported = dubio.export(net, x, tmp_path / "net.onnx")
    assert exported.inputs == ("x.steps", "x.offset")
    assert exported.outputs == ("y.last", "y.attended")
    session = open_file(exported.file)
    noise = exported.noise(4, 3, draws=2)
    given = {"x.steps": x["steps"].numpy(), "x.offset": x["offset"].numpy()}
    for k in range(2):
        run = {name: each[k : k + 1] for name, each in noise.items()}
        for key in ("last", "attended"):
            (found,) = session.run([f"y.{key}"], given | run)
            expected = dubio.predict(net, x, draws=2, select=key, generator=seeded()).draws
            assert numpy.abs(found[0] - expected[k].numpy()).max() < 1e-5


def test_a_seed_in_place_of_noise(tmp_path: Path) -> None:
    """The noise in the graph is that of `Exported.noise`, and so `Predictor` gives its draws."""
    net = nn.Sequential(
        nn.Dropout(0.3), dubio.BayesLinear(4, 5), dubio.Masked(nn.Linear(5, 2), Concrete())
    )
    x = torch.randn(3, 4)
    exported = dubio.export(net, x, tmp_path / "net.onnx", noise="seed", draws=2)
    session = open_file(exported.file)
    assert [value.name for value in session.get_inputs()] == ["x", "seed"]
    found = {}
    for seed in (0, 7, 2**62 + 5, -3):
        (found[seed],) = session.run(None, {"x": x.numpy(), "seed": numpy.array(seed)})
        noise = {
            name.removeprefix("noise."): torch.from_numpy(each)
            for name, each in exported.noise(3, seed).items()
        }
        expected = dubio.Predictor(net, draws=2)(x, noise=noise).draws.numpy()
        assert numpy.abs(found[seed] - expected).max() < 1e-5
    assert not numpy.allclose(found[0], found[7])
    assert not numpy.allclose(found[0][0], found[0][1])


def test_what_onnx_does_not_have(tmp_path: Path) -> None:
    class Spectrum(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = nn.functional.dropout(x, 0.5, self.training)
            return torch.linalg.eigvalsh(x @ x.mT)

    with pytest.raises(dubio.ExportError, match=r"operations that ONNX has.*_linalg_eigh"):
        dubio.export(Spectrum(), torch.randn(3, 2, 2), tmp_path / "net.onnx")
    assert not any(tmp_path.iterdir())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"package onnxscript .* pip install 'dubio\[export\]'"):
        dubio.export(nn.Sequential(nn.Dropout()), torch.randn(3, 2), tmp_path / "net.onnx")


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_a_file_names_no_folder_of_the_machine_that_made_it(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"net.{ending}"
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), dubio.BayesLinear(8, 3))
    dubio.export(net, torch.randn(3, 4), file)
    parts = [file.read_bytes()]
    if ending == "pt2":
        with ZipFile(file) as archive:
            parts = [archive.read(name) for name in archive.namelist()]
    folders = [str(Path(module.__file__).parent) for module in (dubio, torch) if module.__file__]
    assert not any(folder.encode() in part for part in parts for folder in folders)
