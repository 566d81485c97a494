"""Photographs: trunks, features that are kept on disk, and the three parts of CIFAR-10."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dubio import data
from dubio.data.inventory import DATASETS
from dubio_studies.networks.vgg import VGG
from dubio_studies.photographs import features, images
from dubio_studies.photographs.features import cached_features, features_of
from dubio_studies.photographs.trunks import Trunk, trunk


class Pooled(nn.Module):
    """Means over quarters of a photograph; counts photographs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return nn.functional.adaptive_avg_pool2d(x, 2)


def made_up(weight: float = 1.0, size: int = 8) -> Trunk:
    weights = data.Weights(
        source="made up",
        tensors={"w": torch.full((2,), weight)},
        mean=(100.0, 110.0, 120.0),
        deviation=(50.0, 60.0, 70.0),
    )
    return Trunk(Pooled(), weights, size)


def counted(eye: Trunk) -> int:
    assert isinstance(eye.layers, Pooled)
    return eye.layers.seen


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path))
    monkeypatch.setattr(features, "_CHUNK", 4)
    return tmp_path / "features"


PHOTOGRAPHS = torch.randint(
    256, (10, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
)


def test_features_are_what_the_layers_see(cache: Path) -> None:
    """Means over quarters do not change when pixels are enlarged by nearest neighbours."""
    found = cached_features(made_up(size=4), PHOTOGRAPHS)
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ((100, 110, 120), (50, 60, 70)))
    quarters = ((PHOTOGRAPHS - mean) / deviation).reshape(10, 3, 2, 2, 2, 2).mean((3, 5))
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), quarters.flatten(1), atol=0.02, rtol=0.01)
    assert torch.equal(found, features_of(made_up(size=4), PHOTOGRAPHS))
    assert len(list(cache.glob("*.npy"))) == 3


def test_every_photograph_is_looked_at_once(cache: Path) -> None:
    eye = made_up()
    first = cached_features(eye, PHOTOGRAPHS[:8])
    again = cached_features(eye, PHOTOGRAPHS)
    assert torch.equal(again[:8], first)
    assert counted(eye) == 10


def test_other_weights_sizes_and_pixels_are_other_features(cache: Path) -> None:
    others = made_up(weight=2.0), made_up(size=16)
    for eye in (made_up(), *others):
        cached_features(eye, PHOTOGRAPHS)
        assert counted(eye) == 10
    eye = made_up()
    changed = PHOTOGRAPHS.clone()
    changed[9, 0, 0, 0] ^= 1
    cached_features(eye, changed)
    assert counted(eye) == 2  # those of the last file


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"not numbers"])
def test_a_damaged_file_is_made_anew(cache: Path, damage: bytes) -> None:
    first = cached_features(made_up(), PHOTOGRAPHS)
    for file in cache.glob("*.npy"):
        file.write_bytes(damage or file.read_bytes()[:-3])
    eye = made_up()
    assert torch.equal(cached_features(eye, PHOTOGRAPHS), first)
    assert counted(eye) == 10


def test_a_file_with_other_rows_is_made_anew(cache: Path) -> None:
    first = cached_features(made_up(), PHOTOGRAPHS)
    for file in cache.glob("*.npy"):
        np.save(file, np.load(file)[:1])
    assert torch.equal(cached_features(made_up(), PHOTOGRAPHS), first)


def test_work_that_was_stopped_goes_on(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eye = made_up()

    def stop(trunk: Trunk, images: Tensor) -> Tensor:
        if counted(eye) >= 8:
            raise KeyboardInterrupt
        return features_of(trunk, images)

    monkeypatch.setattr(features, "features_of", stop)
    with pytest.raises(KeyboardInterrupt):
        cached_features(eye, PHOTOGRAPHS)
    monkeypatch.undo()
    monkeypatch.setenv("DUBIO_CACHE", str(cache.parent))
    monkeypatch.setattr(features, "_CHUNK", 4)
    cached_features(eye, PHOTOGRAPHS)
    assert counted(eye) == 10
    assert not list(cache.glob("*.part"))


@pytest.mark.parametrize(
    ("name", "size", "count"), [("efficientnet-lite0", 64, 1280), ("vgg16", 64, 2048)]
)
def test_trunks(name: str, size: int, count: int) -> None:
    if DATASETS[f"imagenet-{name}"].here() is None:
        pytest.skip("the weights are not here")
    eye = trunk(name, size)  # type: ignore[arg-type]
    photographs = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    found = features_of(eye, photographs)
    assert found.shape == (2, count)
    assert not eye.training
    if name == "vgg16":  # by hand, in float32
        net = VGG(16, 10, hidden=8)
        eye.weights.load_into(net.features)
        large = nn.functional.interpolate(
            eye.weights.prepare(photographs), scale_factor=2, mode="bilinear"
        )
        with torch.no_grad():
            expected = net.features(large).flatten(1)
        assert (found.float() - expected).norm() < 0.03 * expected.norm()


def test_weights_that_are_not_here_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DUBIO_DATA", "DUBIO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(
        data.DataError, match=r"VGG19.*expected imagenet-weights/vgg19.*torchvision"
    ):
        trunk("vgg19", 224)


def test_weights_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    if DATASETS["imagenet-vgg16"].here() is None:
        pytest.skip("the weights are not here")
    sixteen = data.imagenet_weights("vgg16")
    monkeypatch.setattr("dubio_studies.photographs.trunks.imagenet_weights", lambda _: sixteen)
    with pytest.raises(ValueError, match="weights of another network"):
        trunk("vgg19", 224)


def test_the_parts_of_cifar10_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbered(split: str) -> data.Images:
        count = 50_000 if split == "train" else 10_000
        bytes_ = torch.arange(count).view(-1, 1).repeat(1, 1)
        return data.Images(
            source="a copy: its file", images=bytes_, labels=torch.arange(count), classes=()
        )

    monkeypatch.setattr(images, "cifar10", numbered)
    images.load.cache_clear()
    parts = images.load("cifar10", "vgg16", 64, 45_000, True)
    images.load.cache_clear()
    *tensors, copy = parts
    assert [len(part) for part in tensors] == [45_000] * 2 + [5_000] * 2 + [10_000] * 2
    assert copy == "a copy"
    together = torch.cat([parts.train_labels, parts.validation_labels])
    assert torch.equal(together.sort().values, torch.arange(50_000))
    assert torch.equal(parts.test_labels.sort().values, torch.arange(10_000))
    for seen, labels in zip(tensors[::2], tensors[1::2], strict=True):
        assert torch.equal(seen[:, 0], labels)
    fewer = images.load("cifar10", "vgg16", 64, 1_000, True)
    images.load.cache_clear()
    assert torch.equal(fewer.train_labels, parts.train_labels[:1_000])
    assert torch.equal(fewer.validation_labels, parts.validation_labels)


def test_batches_of_a_copy_sorted_by_class_are_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 100 of ten classes has all of them, except with probability 10 × 0.9¹⁰⁰."""

    def by_class(split: str) -> data.Images:
        labels = torch.arange(10).repeat_interleave(5_000 if split == "train" else 1_000)
        return data.Images(source="", images=labels[:, None], labels=labels, classes=())

    monkeypatch.setattr(images, "cifar10", by_class)
    images.load.cache_clear()
    labels = images.load("cifar10", "vgg16", 64, 10, True).test_labels
    images.load.cache_clear()
    assert all(len(batch.unique()) >= 8 for batch in labels.split(100))


def test_clusters_are_the_same_every_time() -> None:
    images.load.cache_clear()
    first = images.load("clusters", "vgg16", 64, 50, False)
    images.load.cache_clear()
    again = images.load("clusters", "vgg16", 64, 50, False)
    assert all(map(torch.equal, first[:-1], again[:-1]))
    assert first.copy == again.copy == "made up"
    assert first.train.dtype == torch.float16
