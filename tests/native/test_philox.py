"""Philox4x32 with 7 rounds against the vectors that its authors published (Random123)."""

import ctypes

import pytest
import torch

from dubio.native import library, philox

# Random123, tests/kat_vectors: counter, key, words.
VECTORS = {
    "zeros": ("00000000 00000000 00000000 00000000", "00000000 00000000",
              "5f6fb709 0d893f64 4f121f81 4f730a48"),
    "ones": ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
             "5207ddc2 45165e59 4d8ee751 8c52f662"),
    "pi": ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
           "4dfccaba 190a87f0 c47362ba b6b5242a"),
}  # fmt: skip


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize("name", VECTORS)
def test_the_kernels_give_the_published_words(name: str, level: str) -> None:
    counter, (low, high), expected = (words(text) for text in VECTORS[name])
    out = (ctypes.c_uint32 * 4)()
    assert library.LOADED is not None
    library.LOADED.dubio_philox((ctypes.c_uint32 * 4)(*counter), high << 32 | low, out)
    assert list(out) == expected


@pytest.mark.parametrize("name", VECTORS)
def test_torch_gives_the_published_words(name: str) -> None:
    counter, (low, high), expected = (words(text) for text in VECTORS[name])
    a, b, c, d = (torch.tensor(word) for word in counter)
    assert [int(word) for word in philox.philox((a, b, c, d), high << 32 | low)] == expected


def test_entries_lie_as_the_kernels_say() -> None:
    """Words of a tile one by one: 0 and 1 of its 16 blocks, then 2 and 3; halves, low one first."""
    key, draw, size = 2**63 + 77, 2**32 + 9, 2 * philox.HALVES
    bits = philox.bits(key, draw, 1, size, torch.device("cpu"))[0]
    for entry in (0, 1, 2, 3, 5, 63, 64, 127, 128, 200, 255):
        tile, place = divmod(entry, philox.HALVES)
        pair, within = divmod(place // 2, 2 * philox.BLOCKS)
        block, word = divmod(within, 2)
        expected = 0
        for purpose in (philox.HIGH_HALVES, philox.LOW_HALVES):
            counter = (tile * philox.BLOCKS + block, 0, draw & 0xFFFFFFFF, purpose + (1 << 2))
            a, b, c, d = (torch.tensor(number) for number in counter)
            own = int(philox.philox((a, b, c, d), key)[2 * pair + word])
            expected = expected << 16 | own >> 16 * (place % 2) & 0xFFFF
        assert int(bits[entry]) == expected
