"""The same numbers from the kernels at every level and from torch, for any threads and draws.

Zeros, ones and uniform numbers agree bit for bit, normal numbers up to rounding.
"""

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from dubio.native import library, philox
from dubio.native.dropping import drop
from dubio.native.library import MaskDescription
from dubio.native.stream import Stream

CPU = torch.device("cpu")
PLACES = [(0, 0), (12345, 2**31 - 1), (2**63 + 1, 2**32 - 2), (2**64 - 1, 2**40)]  # key, draw
SIZES = [0, 1, 2, 15, 17, 63, 65, 127, 129, 1023, 1024, 1025, 4099]
KEEPS = [0.5, 0.9, 1e-6, 1 - 1e-6, 3 / 256, 3 / 256 + 2.0**-32, 1.5 / 65536, 1 / 3]
THREADS = [2, 3, 64]
LIKE = torch.empty(0)
NORMALS = {"rtol": 2e-6, "atol": 1e-6}  # |ε| < 6.7


@pytest.fixture(params=THREADS)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def masked(key: int, first: int, draws: int, keep: float, size: int) -> Tensor:
    """Zeros and ones by their definition."""
    limit = philox.limit(torch.tensor(keep, dtype=torch.float64))
    return (philox.bits(key, first, draws, size, CPU) <= limit).float()


@pytest.mark.parametrize("size", SIZES)
def test_numbers_are_those_of_torch(way: str, size: int) -> None:
    shape = torch.Size([size])
    for key, first in PLACES:
        stream = Stream(key, first, 3)
        uniform = philox.uniform(key, first, 3, size, torch.float32, CPU)
        assert torch.equal(stream.uniform(shape, LIKE), uniform)
        normal = philox.normal(key, first, 3, size, torch.float32, CPU)
        torch.testing.assert_close(stream.normal(shape, LIKE), normal, **NORMALS)
        for keep in KEEPS:
            assert torch.equal(
                stream.bernoulli(keep, shape, LIKE), masked(key, first, 3, keep, size)
            )


def test_ties_of_the_high_halves_are_decided(way: str) -> None:
    """Rates whose limits share the high half of an entry, on either side of it."""
    size = 20_001
    bits = philox.bits(3, 0, 1, size, CPU)[0]
    for entry in (0, 1, 999, 1024, size - 1):
        for change in (-1, 0, 1):
            keep = (int(bits[entry]) + 1 + change) * 2.0**-32
            mask = Stream(3, 0, 1).bernoulli(keep, torch.Size([size]), LIKE)[0]
            assert torch.equal(mask, (bits <= int(bits[entry]) + change).float())
            assert mask[entry] == float(change >= 0)


@pytest.mark.parametrize("size", [1025, 150_001])
def test_threads_do_not_matter(level: str, threads: int, size: int) -> None:
    """The longest needs 147 runs a draw, enough for several threads."""
    stream, shape = Stream(9, 2, 2), torch.Size([size])
    x = torch.linspace(-1, 1, size)
    made: dict[str, Callable[[], Tensor]] = {
        "uniform": lambda: stream.uniform(shape, LIKE),
        "normal": lambda: stream.normal(shape, LIKE),
        "drop": lambda: stream.drop(0.7, 1 / 0.7, x, apart=False),
    }
    now = {name: make() for name, make in made.items()}
    torch.set_num_threads(1)
    assert all(torch.equal(now[name], make()) for name, make in made.items())


@pytest.mark.parametrize("size", [1, 33, 1024, 5000])
def test_any_part_of_the_draws_has_the_same_numbers(way: str, size: int) -> None:
    shape, whole = torch.Size([size]), Stream(2**63 + 5, 2**31 - 4, 9)
    for name in ("uniform", "normal"):
        everything = getattr(whole, name)(shape, LIKE)
        for start, stop in [(0, 1), (3, 9), (8, 9), (4, 4)]:
            part = Stream(whole.key, whole.first + start, stop - start)
            assert torch.equal(getattr(part, name)(shape, LIKE), everything[start:stop])
        assert len(everything.unique(dim=0)) == 9


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_a_longer_tensor_begins_with_the_numbers_of_a_shorter(way: str, kind: str) -> None:
    stream = Stream(4, 0, 2)
    longest = getattr(stream, kind)(torch.Size([3, 1700]), LIKE).flatten(1)
    for size in (1, 64, 100, 1024, 1030, 4000):
        own = getattr(stream, kind)(torch.Size([size]), LIKE)
        # the last entries of a run may be made by other instructions than those of a whole run
        torch.testing.assert_close(own, longest[:, :size], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_have_the_same_numbers(way: str, dtype: torch.dtype) -> None:
    stream, shape, like = Stream(8, 1, 2), torch.Size([9000]), torch.empty(0, dtype=dtype)
    for keep in KEEPS:
        mask = stream.bernoulli(keep, shape, like)
        assert mask.dtype == dtype
        assert torch.equal(mask.float(), stream.bernoulli(keep, shape, LIKE))
    uniform, narrow = stream.uniform(shape, like), stream.uniform(shape, LIKE)
    assert uniform.dtype == dtype
    assert uniform.min() >= 0
    assert uniform.max() < 1
    step = 2.0**-24 if dtype == torch.float64 else torch.finfo(dtype).eps
    assert (uniform.double() - narrow.double()).abs().max() < step
    normal = stream.normal(shape, like)
    assert normal.dtype == dtype
    # near one a float32 u has steps of 2⁻²⁴, so r² = −2 log u has steps of 2⁻²³
    torch.testing.assert_close(
        normal.double(), stream.normal(shape, LIKE).double(), rtol=torch.finfo(dtype).eps, atol=4e-4
    )


def layouts() -> dict[str, Tensor]:
    base = torch.arange(-60.0, 60.0)
    return {
        "contiguous": base.view(2, 60),
        "transposed": base.view(60, 2).t(),
        "strided": base[::2].view(2, 30),
        "askew": torch.cat([torch.zeros(1), base])[1:].view(2, 60),
        "expanded": base[:60].expand(2, 60),
        "empty": base[:0].view(2, 0),
        "imaginary": torch.view_as_complex(base.view(-1, 2)).conj().imag,
        "double": base.double(),
        "half": base.half(),
        "parameter": torch.nn.Parameter(base, requires_grad=False),
    }


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", layouts())
def test_drop_is_a_product_with_the_mask(way: str, name: str, inference: bool) -> None:
    x, stream = layouts()[name], Stream(2**64 - 3, 7, 2)
    with torch.inference_mode(inference):
        for keep in (0.0, 0.3, 1.0):
            mask = stream.bernoulli(keep, x.shape, x)
            both = stream.drop(keep, 2.5, x, apart=False)
            assert torch.equal(both, mask * 2.5 * x)
            apart = torch.stack([x, -x])
            assert torch.equal(stream.drop(keep, 2.5, apart, apart=True), mask * 2.5 * apart)


def test_nothing_is_lost_on_what_is_dropped(way: str) -> None:
    x = torch.full((4000,), torch.nan)
    assert Stream(0, 0, 1).drop(0.5, 2.0, x, apart=False).isnan().all()  # as F.dropout does


@pytest.mark.parametrize("apart", [False, True])
def test_the_gradient_has_the_mask_of_the_pass(way: str, apart: bool) -> None:
    stream = Stream(1, 0, 3)
    x = torch.randn(3, 50, requires_grad=True) if apart else torch.randn(50, requires_grad=True)
    mask = stream.bernoulli(0.6, torch.Size([50]), LIKE) / 0.6
    weights = torch.randn(3, 50)
    made = drop(stream, 0.6, 1 / 0.6, x, apart=apart)
    (slope,) = torch.autograd.grad((made**2 * weights).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    expected = 2 * x * mask**2 * weights
    torch.testing.assert_close(slope, expected if apart else expected.sum(0))
    curved = 2 * mask**2 * weights
    torch.testing.assert_close(second, curved if apart else curved.sum(0))


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def test_rates_by_unit_are_those_of_their_units(level: str) -> None:
    assert library.LOADED is not None
    for units in (1, 3, 400, 1024, 1500):
        rows = 5000 // units + 2
        keep = torch.linspace(0, 1, units) if units > 1 else torch.tensor([0.25])
        out = torch.empty(rows * units)
        description = MaskDescription(keep.data_ptr(), 0.0, 0.0, units, 0.0, 0, 0, 0)
        library.LOADED.dubio_masked(description, 6, 0, 1, out.numel(), None, 0, out.data_ptr(), 2)
        bits = philox.bits(6, 0, 1, out.numel(), CPU).view(rows, units)
        kept = bits <= philox.limit(keep.double())
        expected = torch.where(kept, 1 / keep.clamp(min=1e-30), 0.0)
        assert torch.equal(out.view(rows, units), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are our own elsewhere")
def test_threads_are_those_of_torch_but_in_a_forked_process() -> None:
    """In which torch has none, and would wait for ever; the kernels make their own there."""
    loaded = library.LOADED
    if loaded is None:
        pytest.skip("there are no kernels")
    assert loaded.dubio_has_openmp()
    like, size = torch.empty(()), torch.Size([300_000])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = Stream(5, 0, 1).uniform(size, like).numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
            child = os.fork()
        if child == 0:
            signal.alarm(30)
            same = (Stream(5, 0, 1).uniform(size, like).numpy() == expected).all()
            os._exit(0 if same and not loaded.dubio_has_openmp() else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(before)


def test_training_does_not_depend_on_threads(level: str) -> None:
    """All kernels with sums: bit for bit for one, two, three and 64 threads."""
    loaded = library.LOADED
    assert loaded is not None
    units, rows = 300, 700
    size = units * rows
    x, g, rates = torch.randn(size), torch.randn(size), torch.randn(units)
    variance = g.square()
    results = []
    for threads in (1, 2, 3, 64):
        made: list[Tensor] = []
        for kind in (0, 1, 2):
            of_x, of_rates = torch.empty(size), torch.empty(units)
            keep = rates.sigmoid() if kind == 0 else rates
            mask = MaskDescription(keep.data_ptr(), 0.0, 0.0, units, 0.1, kind, 0, 1)
            loaded.dubio_masked_backward(
                mask, 5, 1, size, address(x), address(g), address(of_x), address(of_rates), threads
            )
            made += [of_x, of_rates]
        out, divergence = torch.empty(size), ctypes.c_double()
        loaded.dubio_sample(
            0, 5, 0, 77, size, address(x), address(g), None, 0.0, 1.0, address(out),
            divergence, threads,
        )  # fmt: skip
        of_mean, of_rho = torch.empty(size), torch.empty(size)
        loaded.dubio_sample_backward(
            0, 5, 0, 77, size, address(x), address(g), None, 0.0, 1.0, 0.5, address(x), None,
            address(of_mean), address(of_rho), threads,
        )  # fmt: skip
        local, slope = torch.empty(size), torch.empty(size)
        loaded.dubio_local(
            5, 0, size, address(x), address(variance), address(local), address(slope), threads
        )
        made += [out, of_mean, of_rho, local, slope, torch.tensor(divergence.value)]
        results.append(made)
    for made in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], made, strict=True))


def test_no_memory_is_an_error(level: str) -> None:
    mask = MaskDescription(None, 0.5, 2.0, 2**60, 0.0, 0, 0, 0)
    assert library.LOADED is not None
    with pytest.raises(
        MemoryError, match="expected memory for a table of rates or units, got none"
    ):
        library.LOADED.dubio_masked(mask, 0, 0, 1, 0, None, 0, None, 1)
