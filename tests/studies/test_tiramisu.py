"""FC-DenseNet against the counts of its authors, and shapes that are not multiples of 32."""

import pytest
import torch
from torch import nn

from dubio_studies.networks.tiramisu import Tiramisu, tiramisu56, tiramisu67, tiramisu103


def small(**options: object) -> Tiramisu:
    return Tiramisu(3, layers=[1, 2, 3, 2, 1], growth=4, first=6, **options).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "convolutions", "trainable", "with_statistics"),
    [
        (tiramisu56, 56, 1_376_795, 1_397_963),
        (tiramisu67, 67, 3_463_243, 3_502_923),
        (tiramisu103, 103, 9_322_091, 9_425_163),
    ],
)
def test_parameters_are_as_many_as_published(
    build: type[Tiramisu], convolutions: int, trainable: int, with_statistics: int
) -> None:
    with torch.device("meta"):
        network = build(11)  # type: ignore[call-arg]
    modules = list(network.modules())
    assert sum(isinstance(m, nn.Conv2d | nn.ConvTranspose2d) for m in modules) == convolutions
    assert sum(p.numel() for p in network.parameters()) == trainable
    statistics = (b.numel() for b in network.buffers() if b.dim())
    assert trainable + sum(statistics) == with_statistics


@pytest.mark.parametrize("size", [(4, 4), (8, 12), (13, 7), (30, 23)])
def test_the_output_has_the_resolution_of_the_input(size: tuple[int, int]) -> None:
    with torch.no_grad():
        assert small()(torch.randn(2, 3, *size)).shape == (2, 3, *size)


def test_dropout_is_in_the_middle_layers_or_everywhere() -> None:
    with torch.device("meta"):
        middle, everywhere = (
            [name for name, m in tiramisu103(11, dropout=where).named_modules() if _drops(m)]
            for where in ("middle", "everywhere")
        )
    assert len(middle) == 15
    assert all(name.startswith("middle.") for name in middle)
    assert len(everywhere) == 2 * 38 + 15 + 5  # a layer each, and the five transitions down


def _drops(module: nn.Module) -> bool:
    return isinstance(module, nn.Dropout) and module.p == 0.2


def test_a_block_reads_all_that_came_before_and_hands_on_what_it_added() -> None:
    network = small()
    block = network.up[0]
    x = torch.randn(1, block.layers[0][0].num_features, 5, 5)  # type: ignore[index,union-attr]
    with torch.no_grad():
        everything, added = block(x)
        first = block.layers[0](x)  # type: ignore[index,operator]
        second = block.layers[1](torch.cat([x, first], 1))  # type: ignore[index,operator]
    torch.testing.assert_close(added, torch.cat([first, second], 1))
    torch.testing.assert_close(everything, torch.cat([x, added], 1))


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match="at least 32, got"), torch.device("meta"):
        tiramisu56(11)(torch.empty(1, 3, 31, 64))
    with pytest.raises(ValueError, match=r"\(B, 3, H, W\)"):
        small()(torch.randn(3, 8, 8))
    with pytest.raises(ValueError, match=r"\(B, 3, H, W\).*got \(1, 1, 8, 8\)"):
        small()(torch.randn(1, 1, 8, 8))
    with pytest.raises(ValueError, match="odd number"):
        Tiramisu(3, layers=[1, 1], growth=4)
    with pytest.raises(ValueError, match="'middle' or 'everywhere'"):
        small(dropout="none")
