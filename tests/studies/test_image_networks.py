"""Networks for images: shapes, counts of parameters, and weights from ImageNet."""

import pytest
import torch
from PIL import Image
from torch import nn

from dubio import data
from dubio.data.inventory import DATASETS
from dubio_studies.networks.efficientnet_lite import SCALES, EfficientNetLite0, SameConv2d
from dubio_studies.networks.vgg import VGG


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize(
    ("depth", "count"), [(16, 138_357_544), (19, 143_667_240)], ids=["16", "19"]
)
def test_vgg_has_the_parameters_of_the_paper(depth: int, count: int) -> None:
    with torch.device("meta"):
        net = VGG(depth, 1000)  # type: ignore[arg-type]
        assert net(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
    assert parameters(net) == count
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in net.modules()) == depth


def test_efficientnet_has_the_parameters_of_its_file() -> None:
    with torch.device("meta"):
        net = EfficientNetLite0()
        images = torch.empty(2, 3, 97, 131)
        assert net(images).shape == (2, 1000)
        shapes = [tuple(scale.shape) for scale in net.eval().scales(images)]
    assert parameters(net) == 4_652_008
    sizes = [(49, 66), (25, 33), (13, 17), (7, 9), (4, 5)]
    assert shapes == [(2, k, *size) for k, size in zip(SCALES, sizes, strict=True)]


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("kernel", [3, 5])
def test_padding_is_that_of_tensorflow(size: int, kernel: int) -> None:
    """The window of the first output starts before the image by half of what is to be padded."""
    layer = SameConv2d(1, 1, kernel, stride=2, bias=False)
    places = -(-size // 2)
    before = max((places - 1) * 2 + kernel - size, 0) // 2
    image = torch.randn(1, 1, size, size)
    found = layer(image)
    assert found.shape[-2:] == (places, places)
    wide = nn.functional.pad(image, (before, kernel, before, kernel))
    assert torch.allclose(
        found[0, 0, 0, 0], (wide[0, 0, :kernel, :kernel] * layer.weight[0, 0]).sum()
    )


def weights(name: str) -> data.Weights:
    if DATASETS[f"imagenet-{name}"].here() is None:
        pytest.skip("the weights are not here")
    return data.imagenet_weights(name)  # type: ignore[arg-type]


def test_efficientnet_knows_what_it_sees() -> None:
    """Class 652 is a military uniform: Grace Hopper's, a picture that comes with matplotlib."""
    matplotlib_data = pytest.importorskip("matplotlib.cbook")
    given = weights("efficientnet-lite0")
    net = EfficientNetLite0().eval()
    given.load_into(net)
    with matplotlib_data.get_sample_data("grace_hopper.jpg") as file:
        picture = Image.open(file).convert("RGB").resize((224, 224))
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    images = pixels.reshape(1, 224, 224, 3).permute(0, 3, 1, 2)
    with torch.no_grad():
        logits = net(given.prepare(images))
    assert int(logits.argmax()) == 652


def test_features_of_vgg16() -> None:
    given = weights("vgg16")
    net = VGG(16, 10, hidden=8)
    given.load_into(net.features)
    assert parameters(net.features) == 14_714_688
    assert torch.equal(net.features[28].weight, given.tensors["features.28.weight"])
    gray = given.prepare(torch.full((1, 3, 32, 32), 124, dtype=torch.uint8))
    assert gray.abs().max() < 0.4


def test_weights_of_another_network() -> None:
    given = weights("vgg16")
    with pytest.raises(ValueError, match=r"expected features.17.weight .* got 16.weight of shape"):
        given.load_into(VGG(19, 10, hidden=8).features)
    with pytest.raises(ValueError, match="expected 26 tensors, got 32"):
        given.load_into(VGG(16, 10, hidden=8))
    with pytest.raises(ValueError, match="images: expected uint8"):
        given.prepare(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize("net", [VGG(16, 10, hidden=8), EfficientNetLite0(10)])
def test_images_that_are_none(net: nn.Module) -> None:
    with pytest.raises(ValueError, match="images: expected shape"):
        net(torch.zeros(3, 224, 224))
