"""The small network for scenes: shapes, counts, where dropout goes, and a trunk that is frozen."""

import pytest
import torch
from torch import nn

import dubio
from dubio import data
from dubio.data.inventory import DATASETS
from dubio_studies.networks.tiramisu import Tiramisu, tiramisu103
from dubio_studies.networks.tiramisu_lite import TiramisuLite
from dubio_studies.scenes.kinds import drops, with_dropout


def small() -> TiramisuLite:
    torch.manual_seed(0)
    return TiramisuLite(3, middle=2, up=(1, 1, 1), growth=4).eval()


@pytest.mark.parametrize("size", [(180, 240), (35, 49), (33, 64), (1, 1)])
def test_the_output_has_the_resolution_of_the_input(size: tuple[int, int]) -> None:
    with torch.no_grad():
        assert small()(torch.randint(256, (2, 3, *size)).byte()).shape == (2, 3, *size)


def test_parameters_are_counted_by_hand() -> None:
    """The trunk without its head, 15 dense layers, 3 transitions and blocks, the last layer."""
    with torch.device("meta"):
        net = TiramisuLite(11)

    def block(channels: int, layers: int) -> int:  # BatchNorm, 3 × 3 weights, biases
        inputs = [channels + 16 * k for k in range(layers)]
        return sum(2 * c + 9 * 16 * c + 16 for c in inputs)

    trunk = 4_652_008 - 1280 * 1000 - 1000 - (320 * 1280 + 2 * 1280)
    up = sum(9 * c * c + c for c in (240, 112, 80))
    blocks = block(112 + 320, 15) + block(240 + 40, 7) + block(112 + 24, 5) + block(80 + 16, 4)
    last = 11 * (80 + 16 + 64) + 11
    assert sum(p.numel() for p in net.parameters()) == trunk + blocks + up + last


def test_dropout_goes_to_the_layers_of_the_middle_block_only() -> None:
    with torch.device("meta"):
        nets: list[TiramisuLite | Tiramisu] = [TiramisuLite(11), tiramisu103(11, drop=0.0)]
    for net in nets:
        noisy = with_dropout(net, "fixed", 0.2, 0.6)
        masked = [name for name, m in noisy.named_modules() if isinstance(m, dubio.Masked)]
        assert masked == [f"middle.layers.{k}.2" for k in range(15)]
        assert len(drops(noisy)) == 15
        assert with_dropout(net, "none", 0.2, 0.6) is net


def test_a_pass_without_noise_is_that_of_the_network() -> None:
    net, images = small(), torch.randint(256, (2, 3, 40, 48))
    noisy = with_dropout(net, "concrete", 0.3, 0.6).eval()
    with torch.no_grad():
        assert torch.equal(noisy(images), net(images))


def test_a_frozen_trunk_does_not_learn_and_keeps_its_statistics() -> None:
    net = small().freeze_trunk().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    net(torch.rand(2, 3, 64, 64) * 255).sum().backward()
    assert not any(module.training for module in net.trunk.modules())
    assert all(p.grad is None for p in net.trunk.parameters())
    assert all(p.grad is not None for p in net.middle.parameters())
    after = net.state_dict()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith("trunk.")} <= same
    assert "middle.layers.0.0.running_mean" not in same


def test_the_trunk_takes_weights_of_imagenet_and_no_others() -> None:
    if DATASETS["imagenet-efficientnet-lite0"].here() is None:
        pytest.skip("the weights are not here")
    net, given = small(), data.imagenet_weights("efficientnet-lite0")
    net.load_trunk(given)
    stem = net.trunk.stem[0]
    assert isinstance(stem, nn.Conv2d)
    assert torch.equal(stem.weight, next(iter(given.tensors.values())))
    if DATASETS["imagenet-vgg16"].here() is None:
        pytest.skip("other weights are not here")
    with pytest.raises(ValueError, match="these are the weights of another network"):
        net.load_trunk(data.imagenet_weights("vgg16"))


def test_images_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"images: expected shape \(B, 3, H, W\)"):
        small()(torch.zeros(3, 32, 32))
    with pytest.raises(ValueError, match=r"images: expected shape \(B, 3, H, W\)"):
        small()(torch.zeros(1, 1, 32, 32))


@pytest.mark.parametrize(("classes", "up"), [(0, (7, 5, 4)), (11, (7, 5)), (11, (7, 0, 4))])
def test_what_cannot_be_built_is_refused(classes: int, up: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="classes, middle, up, growth: expected whole numbers"):
        TiramisuLite(classes, up=up)  # type: ignore[arg-type]
