"""Graphs with noise as inputs against `dubio.predict` under the same noise, without ONNX."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import dubio
from dubio.exporting.graph import Graph
from dubio.masks import Bernoulli, Concrete, Gaussian, LearnableBernoulli
from snapshots import snapshot


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def served(exported: dubio.Exported, x: Any, draws: int) -> list[Tensor]:
    """Draws by the file alone, one run each."""
    module = torch.export.load(exported.file).module()
    tensors = [leaf for leaf in tree_leaves(x) if isinstance(leaf, Tensor)]
    noise = exported.noise(len(tensors[0]), 3, draws=draws)
    with torch.no_grad():
        runs = [
            module(*tensors, *(torch.from_numpy(each[k : k + 1]) for each in noise.values()))
            for k in range(draws)
        ]
    return [torch.cat(parts) for parts in zip(*runs, strict=True)]


def compare(net: nn.Module, x: Any, file: Path, **options: Any) -> dubio.Exported:
    """A file gives the draws of `predict`, on these rows and on others; nothing is left changed."""
    before = snapshot(net)
    exported = dubio.export(net, x, file, **options)
    assert snapshot(net) == before
    for batch in (x, torch.cat([x, x[:1]]), x[:1]):
        expected = dubio.predict(net, batch, draws=3, generator=seeded(), **options).draws
        (found,) = served(exported, batch, 3)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert not torch.equal(found[0], found[1])
    return exported


class Functional(nn.Module):
    """Dropout by functions, some behind a flag, one over rows and positions together."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, 4)
        h = F.dropout(self.first(x), 0.2, self.training).relu()
        if self.training:
            h = F.dropout(h, 0.5)
        h = F.dropout(h.reshape(-1, 8), 0.1, self.training)
        return self.last(h).reshape(x.shape[0], -1, 2)


def test_functions_gates_and_merged_rows(tmp_path: Path) -> None:
    exported = compare(Functional(), torch.randn(4, 3, 4), tmp_path / "net.pt2")
    names = [(each.name, each.shape, each.keep) for each in exported.noises]
    assert names == [
        ("noise.dropout", (-1, 3, 8), 0.8),
        ("noise.dropout#2", (-1, 3, 8), 0.5),
        ("noise.dropout#3", (-3, 8), 0.9),
    ]


def test_images(tmp_path: Path) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.Dropout2d(0.4),
        nn.AlphaDropout(0.2),
        nn.FeatureAlphaDropout(0.2),
        nn.Flatten(2),
        nn.Dropout1d(0.3),
    ).train()
    compare(net, torch.randn(4, 3, 8, 8), tmp_path / "net.pt2")


def test_own_layers(tmp_path: Path) -> None:
    net = nn.Sequential(
        dubio.Masked(nn.Linear(6, 5), Bernoulli()),
        dubio.Masked(nn.Linear(5, 5), Gaussian(5)),
        dubio.BayesLinear(5, 5, sampler="flipout", deviation=0.3),
        dubio.BayesLinear(5, 5, sampler="local", deviation=0.3),
        dubio.DropConnect(nn.Linear(5, 2), Bernoulli()),
    )
    exported = compare(net, torch.randn(4, 6), tmp_path / "net.pt2")
    assert {each.distribution for each in exported.noises} == {"uniform", "normal", "bernoulli"}


def test_only_some_sites(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5))
    exported = compare(net, torch.randn(5, 4), tmp_path / "net.pt2", where="0")
    assert [each.name for each in exported.noises] == ["noise.0"]


def test_half_precision(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), dubio.Masked(nn.Linear(8, 3), Concrete()))
    x = torch.randn(4, 6).half()
    exported = dubio.export(net.half(), x, tmp_path / "net.pt2")
    expected = dubio.predict(net, x, draws=3, generator=seeded()).draws
    torch.testing.assert_close(served(exported, x, 3)[0], expected, rtol=1e-2, atol=1e-2)
    assert [each.dtype for each in exported.noises] == [torch.float16, torch.float32]


def test_several_draws_at_once(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 2))
    x = torch.randn(3, 4)
    exported = dubio.export(net, x, tmp_path / "net.pt2", draws=4)
    noise = exported.noise(3, 3)
    module = torch.export.load(exported.file).module()
    (found,) = module(x, *map(torch.from_numpy, noise.values()))
    expected = dubio.predict(net, x, draws=4, generator=seeded()).draws
    torch.testing.assert_close(found, expected)


def test_the_file_says_what_its_noise_is(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Dropout(0.25), dubio.BayesLinear(4, 2))
    file = tmp_path / "net.pt2"
    dubio.export(net, torch.randn(3, 4), file)
    extra = {"dubio.json": ""}
    torch.export.load(file, extra_files=extra)
    card = json.loads(extra["dubio.json"])
    assert card["inputs"] == [{"name": "x", "shape": [-1, 4], "dtype": "float32"}]
    assert card["outputs"] == ["y"]
    assert card["noise"] == [
        {
            "name": "noise.0",
            "kind": "dropout",
            "distribution": "bernoulli",
            "keep": 0.75,
            "shape": [1, -1, 4],
            "dtype": "float32",
        },
        {
            "name": "noise.1",
            "kind": "BayesLinear",
            "distribution": "normal",
            "keep": None,
            "shape": [1, 10],
            "dtype": "float32",
        },
    ]


class TestErrors:
    """Networks that have no graph, or none with noise."""

    x = torch.randn(4, 6)

    def refuse(self, forward: Any, match: str, tmp_path: Path) -> None:
        class Network(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.drop = nn.Dropout(0.5)

            def forward(self, x: Tensor) -> Any:
                return forward(self, x)

        net, file = Network(), tmp_path / "net.pt2"
        before = snapshot(net)
        with pytest.raises(dubio.ExportError, match=match):
            dubio.export(net, self.x, file)
        assert snapshot(net) == before
        assert not file.exists()

    def test_a_course_by_values(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.refuse(
            lambda net, x: net.drop(x) if x.sum() > 0 else 2 * net.drop(x),
            "depends on values",
            tmp_path,
        )
        assert capfd.readouterr() == ("", "")

    def test_one_number_of_rows(self, tmp_path: Path) -> None:
        self.refuse(
            lambda net, x: net.drop(x).view(len(x), 3, 2), "one number of rows only", tmp_path
        )

    def test_random_numbers_of_its_own(self, tmp_path: Path) -> None:
        self.refuse(
            lambda net, x: net.drop(x) + torch.randn_like(x), "draws random numbers", tmp_path
        )

    def test_random_numbers_of_numpy(self, tmp_path: Path) -> None:
        self.refuse(
            lambda net, x: net.drop(x) * float(numpy.random.rand()), "would be constants", tmp_path
        )

    def test_outputs_that_are_no_tensors(self, tmp_path: Path) -> None:
        self.refuse(
            lambda net, x: (net.drop(x), "seen"), "got str among them; pass select=", tmp_path
        )

    def test_bfloat16(self, tmp_path: Path) -> None:
        net = nn.Sequential(nn.Linear(6, 2), nn.Dropout()).bfloat16()
        with pytest.raises(dubio.ExportError, match="got bfloat16"):
            dubio.export(net, self.x.bfloat16(), tmp_path / "net.pt2")

    def test_no_noise(self, tmp_path: Path) -> None:
        with pytest.raises(dubio.NoSitesError, match="no stochastic site was reached"):
            dubio.export(nn.Linear(6, 2), self.x, tmp_path / "net.pt2")
        with pytest.raises(dubio.NoSitesError, match="chose none of the 1 stochastic sites"):
            dubio.export(nn.Sequential(nn.Dropout()), self.x, tmp_path / "net.pt2", where="1")

    def test_noise_that_changes_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(dubio.ExportError, match="outputs that differ from draw to draw"):
            dubio.export(nn.Sequential(nn.Dropout(1.0)), self.x, tmp_path / "net.pt2")

    def test_no_rows(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="at least one row"):
            dubio.export(nn.Sequential(nn.Dropout()), self.x[:0], tmp_path / "net.pt2")

    def test_arguments(self, tmp_path: Path) -> None:
        net = nn.Sequential(nn.Dropout())
        with pytest.raises(ValueError, match=r"expected a name that ends in .onnx or .pt2"):
            dubio.export(net, self.x, tmp_path / "net.pt")
        with pytest.raises(ValueError, match="noise: expected 'input' or 'seed', got 'inside'"):
            dubio.export(net, self.x, tmp_path / "net.pt2", noise="inside")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="draws: expected a positive int, got 0"):
            dubio.export(net, self.x, tmp_path / "net.pt2", draws=0)
        with pytest.raises(TypeError, match=r"expected an nn.Module, got function"):
            dubio.export(lambda x: net(x), self.x, tmp_path / "net.pt2")  # type: ignore[arg-type]


def test_noise_that_vanishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that leaves out its second site, which has little to say, is not written."""
    monkeypatch.setattr(Graph, "_chosen", lambda self, site: site.index != 1)
    last = nn.Linear(6, 2)
    with torch.no_grad():
        last.weight.mul_(1e-7)
    net = nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 6), nn.Dropout(0.2), last)
    with pytest.raises(dubio.ExportError, match=r"the noise of site '2' \(dropout\) enters"):
        dubio.export(net, torch.randn(3, 4), tmp_path / "net.pt2")
    assert not any(tmp_path.iterdir())


def test_learned_rates_by_unit_are_in_the_graph(tmp_path: Path) -> None:
    """Noise is uniform: zeros and ones are made of it by the rates that were learned."""
    mask = LearnableBernoulli(4)
    mask.logit.data = torch.tensor([8.0, -1.0, 0.0, 2.0])
    net = nn.Sequential(dubio.Masked(nn.Linear(4, 4, bias=False), mask))
    net[0].layer.weight.data = torch.eye(4)
    exported = compare(net, torch.ones(5, 4), tmp_path / "net.pt2")
    (noise,) = exported.noise(2000, 0).values()
    module = torch.export.load(exported.file).module()
    (y,) = module(torch.ones(2000, 4), torch.from_numpy(noise))
    keep = torch.sigmoid(mask.logit.detach())
    expected = (torch.from_numpy(noise) < keep) / keep
    torch.testing.assert_close(y, expected)
