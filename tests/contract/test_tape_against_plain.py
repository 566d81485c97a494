"""All draws at once give what plain passes give, whatever a network does to its tensors."""

import copy
import io
import logging
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from references import passes, seeded

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by torch
Function = Callable[[Tensor, Tensor], Tensor]  # the batch and its dropout -> the output
ALIASES: dict[str, Function] = {}
READS: dict[str, Function] = {}
ROWS, WIDTH = 5, 6


def _enter(cases: dict[str, Function]) -> Callable[[Function], Function]:
    def enter(function: Function) -> Function:
        cases[function.__name__.replace("_", " ").strip()] = function
        return function

    return enter


alias, read = _enter(ALIASES), _enter(READS)


# Two names for one memory


@alias
def strided_overlap(x: Tensor, h: Tensor) -> Tensor:
    return h.as_strided((ROWS, 3), (WIDTH, 1)) + h.as_strided((ROWS, 3), (WIDTH, 1), 2)


@alias
def write_through_strides(x: Tensor, h: Tensor) -> Tensor:
    h.as_strided((ROWS, 3), (WIDTH, 2)).mul_(3)
    return h


@alias
def strides_of_a_view(x: Tensor, h: Tensor) -> Tensor:
    part = h[:, 1:4]
    part.as_strided((ROWS, 2), (WIDTH, 1), 3).add_(1)
    return torch.cat([part, h], 1)


@alias
def strides_of_a_transpose(x: Tensor, h: Tensor) -> Tensor:
    return h.t().contiguous().as_strided((ROWS, 4), (1, ROWS)) * 2


@alias
def strides_of_a_computed_tensor(x: Tensor, h: Tensor) -> Tensor:
    y = torch.tanh(h @ torch.linspace(-1, 1, 36).view(6, 6))
    y.as_strided((ROWS,), (WIDTH,), 1).copy_(h[:, 0])
    return y


@alias
def view_of_a_view(x: Tensor, h: Tensor) -> Tensor:
    flat = h.view(-1)
    rows = flat.view(ROWS, 2, 3)
    rows[:, 0].add_(1)
    flat[3] = 7.0
    return torch.cat([h, rows.flatten(1)], 1)


@alias
def write_into_the_base_after_a_view(x: Tensor, h: Tensor) -> Tensor:
    part = h[:, ::2]
    h.mul_(2)
    return part


@alias
def write_into_the_base_of_a_reshape(x: Tensor, h: Tensor) -> Tensor:
    flat = h.reshape(-1)
    h.add_(1)
    return flat.view(ROWS, -1)


@alias
def reshape_of_a_transpose_is_a_copy(x: Tensor, h: Tensor) -> Tensor:
    flat = h.t().reshape(-1)
    h.add_(1)
    return flat.view(ROWS, -1)


@alias
def chunk_then_write(x: Tensor, h: Tensor) -> Tensor:
    a, b = h.chunk(2, 1)
    a.mul_(b)
    b.relu_()
    return h


@alias
def split_then_write(x: Tensor, h: Tensor) -> Tensor:
    for i, part in enumerate(h.split([1, 2, 3], 1)):
        part += i
    return h


@alias
def unbind_then_write(x: Tensor, h: Tensor) -> Tensor:
    for i, row in enumerate(h.unbind(0)):
        row.mul_(i)
    return h


@alias
def rows_then_write(x: Tensor, h: Tensor) -> Tensor:
    for i, row in enumerate(h):
        row[i] = row[i + 1] * 2
    return h


@alias
def expand_then_write(x: Tensor, h: Tensor) -> Tensor:
    wide = h.unsqueeze(1).expand(-1, 3, -1)
    h.add_(1)
    return wide.flatten(1)


@alias
def diagonal(x: Tensor, h: Tensor) -> Tensor:
    square = torch.einsum("bi,bj->bij", h, x)
    square.diagonal(dim1=1, dim2=2).zero_()
    return square


@alias
def fill_diagonal(x: Tensor, h: Tensor) -> Tensor:
    y = h[:, :5].contiguous()
    y.fill_diagonal_(3.0)
    return y


@alias
def unfold_then_write(x: Tensor, h: Tensor) -> Tensor:
    windows = h.unfold(1, 2, 2)
    windows[:, 0].neg_()
    return h


@alias
def real_and_imaginary(x: Tensor, h: Tensor) -> Tensor:
    z = torch.complex(h, x)
    torch.view_as_real(z)[..., 1].mul_(h)
    return z.abs()


@alias
def bits_as_another_type(x: Tensor, h: Tensor) -> Tensor:
    h.view(torch.int32).bitwise_and_(0x7FFFFFFF)
    return h


@alias
def swapped_axes_in_place(x: Tensor, h: Tensor) -> Tensor:
    y = h[:, :5].clone()
    y.t_()
    return y + x[:, :5]


@alias
def unsqueeze_in_place(x: Tensor, h: Tensor) -> Tensor:
    y = h.clone()
    y.unsqueeze_(1)
    return y.expand(-1, 2, -1).flatten(1)


@alias
def resize_in_place(x: Tensor, h: Tensor) -> Tensor:
    y = h.clone()
    y.resize_(ROWS, 4)
    return y


@alias
def set_to_another(x: Tensor, h: Tensor) -> Tensor:
    y = x.clone()
    y.set_(h)
    return y * 2


@alias
def set_the_data(x: Tensor, h: Tensor) -> Tensor:
    y = x.clone()
    y.data = h
    return y * 2


@alias
def write_into_the_data(x: Tensor, h: Tensor) -> Tensor:
    h.data.mul_(2)
    h.data[:, 0] = 1
    return h


@alias
def write_into_the_data_of_the_input(x: Tensor, h: Tensor) -> Tensor:
    y = h * x
    x.data.mul_(2)
    return y + x


@alias
def write_into_a_detached_input(x: Tensor, h: Tensor) -> Tensor:
    y = h * x
    x.detach().add_(1)
    return y + x


@alias
def write_into_the_input(x: Tensor, h: Tensor) -> Tensor:
    x.add_(1)
    y = h + x
    x[:, 0] = 0
    return y + x


@alias
def write_sampled_values_into_the_input(x: Tensor, h: Tensor) -> Tensor:
    first = x[:, 0]
    x[:, :3] = h[:, :3]
    return x + first[:, None]


@alias
def write_the_input_over_itself(x: Tensor, h: Tensor) -> Tensor:
    x.copy_(h)
    return x


@alias
def return_a_view_of_the_input(x: Tensor, h: Tensor) -> Tensor:
    x += h
    return x.view(ROWS, 2, 3)


@alias
def fill_a_plain_tensor_by_columns(x: Tensor, h: Tensor) -> Tensor:
    out = torch.zeros(ROWS, 4)
    for i in range(4):
        out[:, i] = h[:, i] * h[:, i + 1]
    return out


@alias
def fill_a_plain_tensor_with_memory(x: Tensor, h: Tensor) -> Tensor:
    out = x.clone()
    for i in range(1, WIDTH):
        out[:, i] = out[:, i - 1] * 0.5 + h[:, i]
    return out


@alias
def half_written(x: Tensor, h: Tensor) -> Tensor:
    out = x.clone()
    left, right = out[:, :3], out[:, 3:]
    left.copy_(h[:, :3])
    right.add_(1)
    return torch.cat([out, left, right], 1)


@alias
def index_put(x: Tensor, h: Tensor) -> Tensor:
    y = h * 1
    y.index_put_((torch.arange(ROWS), h.argmax(1)), torch.tensor(-2.0))
    y[y > 1] = 9
    return y


@alias
def index_put_that_accumulates(x: Tensor, h: Tensor) -> Tensor:
    y = torch.zeros(ROWS, 3)
    index = torch.arange(WIDTH) % 3
    y.index_put_((torch.arange(ROWS)[:, None], index[None]), h, accumulate=True)
    return y


@alias
def scatter_index_and_fill(x: Tensor, h: Tensor) -> Tensor:
    y = x.clone()
    y.scatter_(1, h.argsort(1), h)
    y.index_add_(1, torch.tensor([0, 2]), h[:, :2])
    y.index_copy_(1, torch.tensor([5]), h[:, :1])
    y.index_fill_(1, torch.tensor([1]), 0.5)
    y.masked_scatter_(torch.ones(ROWS, WIDTH, dtype=torch.bool).tril(), h)
    return y


@alias
def out_argument_of_a_view(x: Tensor, h: Tensor) -> Tensor:
    out = torch.zeros(ROWS, 2, WIDTH)
    torch.mul(h, 2, out=out[:, 0])
    torch.add(h, x, out=out[:, 1])
    return out


@alias
def out_argument_that_is_an_operand(x: Tensor, h: Tensor) -> Tensor:
    other = h.view(-1)
    torch.add(h, x, out=h)
    return h + other.view_as(h)


@alias
def out_argument_of_several(x: Tensor, h: Tensor) -> Tensor:
    values, indices = torch.empty(ROWS), torch.empty(ROWS, dtype=torch.long)
    torch.max(h, 1, out=(values, indices))
    return values[:, None] + indices[:, None]


@alias
def lists_in_place(x: Tensor, h: Tensor) -> Tensor:
    parts = [h[:, :3], h[:, 3:].clone()]
    torch._foreach_mul_(parts, 2.0)
    return torch.cat([h, parts[1]], 1)


@alias
def overwrite_with_itself_shifted(x: Tensor, h: Tensor) -> Tensor:
    h[:, 1:] = h[:, :-1].clone()
    return h


@alias
def copy_of_a_copy(x: Tensor, h: Tensor) -> Tensor:
    y = h.clone()
    z = y
    y += 1
    return torch.cat([h, y, z], 1)


@alias
def operation_that_gives_its_argument_back(x: Tensor, h: Tensor) -> Tensor:
    same = h.contiguous().to(torch.float32).view_as(h)
    same.mul_(2)
    return h


@alias
def constant_that_is_overwritten_after_its_use(x: Tensor, h: Tensor) -> Tensor:
    scale = torch.ones(WIDTH)
    y = h * scale
    scale.zero_()
    return y + scale


@alias
def numpy_memory_of_a_constant(x: Tensor, h: Tensor) -> Tensor:
    scale = torch.ones(WIDTH)
    y = h * scale
    scale.numpy()[:] = 5
    return y + h * scale


@alias
def numpy_memory_taken_before(x: Tensor, h: Tensor) -> Tensor:
    array = numpy.ones(WIDTH, dtype=numpy.float32)
    scale = torch.from_numpy(array)
    y = h * scale
    array[:] = 5
    return y + h * scale


@alias
def numpy_memory_of_the_input(x: Tensor, h: Tensor) -> Tensor:
    array = x.numpy()
    y = h * x
    array[:] = 2
    return y + h * x


@alias
def dlpack_memory_of_a_constant(x: Tensor, h: Tensor) -> Tensor:
    other = torch.from_dlpack(x)
    y = h * x
    other.fill_(2)
    return y + h * x


@alias
def memory_of_another_tensor(x: Tensor, h: Tensor) -> Tensor:
    y = torch.empty(0).set_(x.untyped_storage(), 0, (ROWS, WIDTH))
    z = h * x
    y.fill_(3)
    return z + x * h


@alias
def dropout_in_place_of_a_view(x: Tensor, h: Tensor) -> Tensor:
    F.dropout(h[:, :3], 0.5, inplace=True)
    y = x.clone()
    F.dropout(y[:, 3:], 0.5, inplace=True)
    return torch.cat([h, y], 1)


@alias
def dropout_in_place_of_a_computed_tensor(x: Tensor, h: Tensor) -> Tensor:
    y = torch.tanh(h)
    other = y.view(-1)
    F.dropout(y, 0.5, inplace=True)
    return y + other.view_as(y)


@alias
def activation_in_place_of_a_view(x: Tensor, h: Tensor) -> Tensor:
    F.relu(h.view(ROWS, 2, 3), inplace=True)
    F.leaky_relu_(h[:, 2:], 0.3)
    return h


@alias
def gates_of_a_cell(x: Tensor, h: Tensor) -> Tensor:
    gates = torch.cat([h, h + 1], 1).view(ROWS, 4, 3)
    i, f, g, o = gates.unbind(1)
    i.sigmoid_()
    f.sigmoid_()
    g.tanh_()
    o.sigmoid_()
    return (f * 0.5 + i * g).tanh() * o + gates.sum(1)


@alias
def a_number_in_place(x: Tensor, h: Tensor) -> Tensor:
    total = torch.zeros(())
    total += h.sum()
    best = torch.full((ROWS,), -1.0)
    torch.maximum(best, h[:, 0], out=best)
    return h * total + best[:, None]


@alias
def other_type_in_place(x: Tensor, h: Tensor) -> Tensor:
    y = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
    y += h
    counts = torch.zeros(ROWS, dtype=torch.long)
    counts += (h > 0).sum(1)
    return (y * counts[:, None]).float()


# Values that Python sees, and what it asks about a tensor


@read
def its_type(x: Tensor, h: Tensor) -> Tensor:
    return h * 2 if type(h) is Tensor else h * 3


@read
def its_class(x: Tensor, h: Tensor) -> Tensor:
    return h * 2 if h.__class__ is Tensor and h.__class__.__name__ == "Tensor" else h * 3


@read
def its_class_after_an_operation(x: Tensor, h: Tensor) -> Tensor:
    y = h + x
    return torch.stack([y if type(y) is torch.Tensor else -y])[0] if torch.is_tensor(y) else h


class Marked(Tensor):
    """A user's kind of tensor."""


@read
def a_subclass(x: Tensor, h: Tensor) -> Tensor:
    marked = h.as_subclass(Marked)
    y = marked * 2
    return (y + 1 if isinstance(y, Marked) else y - 1).as_subclass(Tensor)


@read
def a_parameter(x: Tensor, h: Tensor) -> Tensor:
    weight = nn.Parameter(h)
    del h
    return F.linear(x, weight.view(3, -1)[:, :WIDTH])


@read
def swallowed_error_of_numpy(x: Tensor, h: Tensor) -> Tensor:
    try:
        return h * float(h.numpy().sum())
    except (RuntimeError, TypeError):
        return h


@read
def swallowed_error_of_tolist(x: Tensor, h: Tensor) -> Tensor:
    try:
        return h * max(h[0].tolist())
    except (RuntimeError, TypeError):
        return h


@read
def swallowed_error_of_a_number(x: Tensor, h: Tensor) -> Tensor:
    try:
        return h * h.sum().item()
    except RuntimeError:
        return h


@read
def swallowed_error_of_an_array(x: Tensor, h: Tensor) -> Tensor:
    try:
        return torch.from_numpy(numpy.asarray(h) * 2)
    except (RuntimeError, TypeError):
        return h


@read
def its_text(x: Tensor, h: Tensor) -> Tensor:
    return h * float(repr(h[0, 0]).split("(")[1].rstrip(")"))


@read
def its_other_text(x: Tensor, h: Tensor) -> Tensor:
    return h * len(str(h)) + h * sum(map(ord, str(h)))


@read
def its_formatted_number(x: Tensor, h: Tensor) -> Tensor:
    return h * float(f"{h[0, 0]:.4f}") + float(f"{h.sum().item():.2f}")


@read
def its_printed_text(x: Tensor, h: Tensor) -> Tensor:
    stream = io.StringIO()
    print(h.sum(), file=stream)
    return h * len(stream.getvalue()) + h * sum(map(ord, stream.getvalue()))


@read
def a_pickled_tensor(x: Tensor, h: Tensor) -> Tensor:
    y: Tensor = pickle.loads(pickle.dumps(h))
    return y * 2


@read
def a_saved_tensor(x: Tensor, h: Tensor) -> Tensor:
    stream = io.BytesIO()
    torch.save(h, stream)
    stream.seek(0)
    y: Tensor = torch.load(stream)
    return y * 2


@read
def a_deep_copy(x: Tensor, h: Tensor) -> Tensor:
    return copy.deepcopy(h) * 2 + copy.copy(h)


@read
def a_deep_copy_in_a_dict(x: Tensor, h: Tensor) -> Tensor:
    state = copy.deepcopy({"h": [h]})
    state["h"][0].mul_(2)
    return state["h"][0] + h


@read
def its_hash_and_identity(x: Tensor, h: Tensor) -> Tensor:
    seen, names = {h: 2.0}, {id(x)}
    return h * seen[h] + (x if id(h) in names else h) * (hash(h) == id(h))


@read
def its_address(x: Tensor, h: Tensor) -> Tensor:
    y = h.view(-1)
    return h + 1 if y.data_ptr() == h.data_ptr() else h - 1


@read
def dlpack(x: Tensor, h: Tensor) -> Tensor:
    return torch.from_dlpack(h) * 2


@read
def a_capsule(x: Tensor, h: Tensor) -> Tensor:
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(h)) * 2


@read
def numpy_by_dlpack(x: Tensor, h: Tensor) -> Tensor:
    return h * float(numpy.from_dlpack(h).sum())


@read
def its_memory(x: Tensor, h: Tensor) -> Tensor:
    return torch.frombuffer(memoryview(h.numpy()), dtype=torch.float32).view(ROWS, WIDTH) * 2


@read
def its_storage(x: Tensor, h: Tensor) -> Tensor:
    return torch.tensor(list(h.untyped_storage())[:WIDTH]).float() + h


@read
def a_tensor_of_its_storage(x: Tensor, h: Tensor) -> Tensor:
    return torch.empty(0).set_(h.untyped_storage(), 0, (ROWS, WIDTH)) * 2


@read
def a_branch(x: Tensor, h: Tensor) -> Tensor:
    return h if h.sum() > 0 else -h


@read
def a_loop(x: Tensor, h: Tensor) -> Tensor:
    while h.abs().sum() > 5:
        h = h / 2
    return h


@read
def a_range(x: Tensor, h: Tensor) -> Tensor:
    for i in range(int(h.max() * 3)):
        h = h + i
    return h


@read
def an_index(x: Tensor, h: Tensor) -> Tensor:
    column = h[0].argmax()
    return h + h[:, column, None] + h[:, : column + 1].sum(1, keepdim=True)


@read
def a_comparison(x: Tensor, h: Tensor) -> Tensor:
    return h * (2 if torch.equal(h[:, :3], h[:, 3:]) or torch.allclose(h, x * 2) else 3)


@read
def membership(x: Tensor, h: Tensor) -> Tensor:
    return h + 1 if 0.0 in h[0] else h - 1


@read
def a_list_of_numbers(x: Tensor, h: Tensor) -> Tensor:
    numbers = [h[i, 0] for i in range(3)]
    return h + torch.tensor(numbers).sum() + torch.Tensor(numbers).sum()


@read
def a_scalar_argument(x: Tensor, h: Tensor) -> Tensor:
    return torch.full((WIDTH,), float(h[0, 0])) + torch.add(x, h, alpha=h.sum().item())


@read
def a_swallowed_assertion(x: Tensor, h: Tensor) -> Tensor:
    try:
        assert h.min() >= 0
        return h
    except AssertionError:
        return h.relu()


@read
def whether_it_is_traced(x: Tensor, h: Tensor) -> Tensor:
    traced = torch.jit.is_tracing() or torch.jit.is_scripting() or torch.compiler.is_compiling()
    return -h if traced else h


@read
def unique_values(x: Tensor, h: Tensor) -> Tensor:
    return h + len(h.unique())


@read
def a_swapped_tensor(x: Tensor, h: Tensor) -> Tensor:
    y, z = h * 2, x * 3
    torch.utils.swap_tensors(y, z)
    return y + 2 * z * z


@read
def an_attribute_of_a_tensor(x: Tensor, h: Tensor) -> Tensor:
    h.note = 3.0  # type: ignore[attr-defined]
    return h * h.note  # type: ignore[attr-defined,no-any-return]


# What networks do around operations


@read
def vmap_behind_a_dropout(x: Tensor, h: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, 36).view(WIDTH, WIDTH)
    out: Tensor = torch.vmap(lambda row: F.linear(row, weight).tanh())(h)
    return out


@read
def a_derivative_behind_a_dropout(x: Tensor, h: Tensor) -> Tensor:
    slope: Tensor = torch.func.grad(lambda y: (y * x).tanh().sum())(h)
    return slope


@read
def a_derivative_through_a_dropout(x: Tensor, h: Tensor) -> Tensor:
    slope: Tensor = torch.func.grad(lambda y: (F.dropout(y, 0.5) * y).sum())(x)
    return slope + h


@read
def a_directional_derivative_through_a_dropout(x: Tensor, h: Tensor) -> Tensor:
    through = torch.func.jvp(lambda y: F.dropout(y, 0.5) * y, (x,), (torch.ones_like(x),))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        out = torch.autograd.forward_ad.unpack_dual(F.dropout(dual, 0.5) * dual)
    slope: Tensor = through[1] + out.tangent
    return slope + h


@read
def attention_with_some_names(x: Tensor, h: Tensor) -> Tensor:
    q, k, v = (y.view(1, 1, ROWS, WIDTH) for y in (h, h, x))
    out = F.scaled_dot_product_attention(q, k, value=v)
    return (out + F.scaled_dot_product_attention(q, key=k, value=v, is_causal=True))[0, 0]


@read
def cell_with_some_names(x: Tensor, h: Tensor) -> Tensor:
    w, b = torch.linspace(-1, 1, 4 * WIDTH * WIDTH).view(-1, WIDTH), torch.ones(4 * WIDTH)
    return torch.lstm_cell(h, (x, x), w, w, b_ih=b, b_hh=b)[0]


class Behind(nn.Module):
    """An operation behind a dropout."""

    def __init__(self, function: Function, before: float = 1.0, behind: float = 1.0) -> None:
        super().__init__()
        self.function, self.drop = function, nn.Dropout(0.4)
        self.register_buffer("before", torch.tensor(before))
        self.register_buffer("behind", torch.tensor(behind))

    def forward(self, x: Tensor) -> Any:
        x = x * self.before
        return self.function(x, self.drop(x + 0.1 * self.before)) * self.behind


CASES = {**ALIASES, **READS}
BATCH = torch.randn(ROWS, WIDTH, generator=seeded(8))


def expected(network: nn.Module, x: Tensor, draws: int, *, shared: bool = False) -> Tensor:
    return passes(network, x, dubio.Noise(draws, shared=shared, generator=seeded(3)))


UNPLACED = {  # rows cannot be followed there by a context, which says so
    "a derivative through a dropout": "expected to find the 5 rows",
    "a directional derivative through a dropout": "expected to find the 5 rows",
    "a swapped tensor": "Cannot swap",
}


@pytest.mark.parametrize("name", UNPLACED)
def test_shared_contexts_that_cannot_place_their_noise(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=UNPLACED[name]):
        expected(Behind(CASES[name]).eval(), BATCH, 2, shared=True)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_predict(name: str, shared: bool, caplog: pytest.LogCaptureFixture) -> None:
    if shared and name in UNPLACED:
        return
    network = Behind(CASES[name]).eval()
    with caplog.at_level(logging.WARNING, "dubio"):
        draws = dubio.predict(network, BATCH, draws=5, shared=shared, generator=seeded(3)).draws
    torch.testing.assert_close(draws, expected(network, BATCH, 5, shared=shared))


@pytest.mark.parametrize("name", CASES)
def test_one_draw(name: str) -> None:
    network = Behind(CASES[name]).eval()
    for _ in range(2):
        draws = dubio.predict(network, BATCH, draws=1, generator=seeded(3)).draws
        torch.testing.assert_close(draws, expected(network, BATCH, 1))


@pytest.mark.parametrize("name", CASES)
def test_predictor(name: str) -> None:
    network = Behind(CASES[name]).eval()
    predictor = dubio.Predictor(network, draws=4)
    for scale in (1.0, -2.0, 0.5):
        x = scale * BATCH
        draws = predictor(x, seeded(3)).draws
        torch.testing.assert_close(draws, expected(network, x, 4))


@pytest.mark.parametrize("way", ["predict", "predictor"])
@pytest.mark.parametrize("benign", ["zeros", "no way in", "no way out"])
@pytest.mark.parametrize("name", CASES)
def test_a_call_that_shows_nothing_vouches_for_nothing(name: str, benign: str, way: str) -> None:
    network = Behind(CASES[name]).eval()
    predictor = dubio.Predictor(network, draws=4)

    def draw(x: Tensor) -> Tensor:
        if way == "predictor":
            return predictor(x, seeded(3)).draws
        return dubio.predict(network, x, draws=4, generator=seeded(3)).draws

    network.before.fill_(float(benign != "no way in"))
    network.behind.fill_(float(benign != "no way out"))
    with suppress(dubio.NoSitesError):  # all draws are the same
        draw(torch.zeros(ROWS, WIDTH) if benign == "zeros" else BATCH)
    network.before.fill_(1.0)
    network.behind.fill_(1.0)
    torch.testing.assert_close(draw(BATCH), expected(network, BATCH, 4))
    torch.testing.assert_close(draw(-BATCH), expected(network, -BATCH, 4))


class Keyword(nn.Module):
    """Attention that is called by names."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(query=x, key=x, value=x, need_weights=False)[0]
        return out


@pytest.mark.parametrize("shared", [False, True])
def test_attention_called_by_names(shared: bool) -> None:
    network, x = Keyword(), torch.randn(ROWS, 4, WIDTH, generator=seeded())
    named = {"query": x, "key": x, "value": x, "need_weights": False}
    expect = expected(network, x, 4, shared=shared)
    for model, batch in ((network, x), (network.attention, named)):
        select = None if model is network else 0
        options = {"draws": 4, "shared": shared, "select": select}
        found = dubio.predict(model, batch, generator=seeded(3), **options)  # type: ignore[arg-type]
        torch.testing.assert_close(found.draws, expect)
        predictor = dubio.Predictor(model, **options)  # type: ignore[arg-type]
        for _ in range(2):
            torch.testing.assert_close(predictor(batch, seeded(3)).draws, expect)


class Head(nn.Module):
    """A hidden layer, and a head that writes over it and over its own output."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 96), nn.Linear(96, 96), nn.Linear(96, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        early = self.b(self.drop(torch.relu(self.a(x))))
        hidden = F.relu(early.clone(), inplace=True)
        logits = self.c(self.drop(F.relu(hidden, inplace=True)))
        return {"early": early, "hidden": hidden, "logits": logits, "out": F.tanh(logits).mul_(2)}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("select", ["early", "hidden", "logits", "out"])
def test_an_output_in_front_of_a_head_that_writes_in_place(select: str, shared: bool) -> None:
    torch.manual_seed(0)
    network, x = Head().eval(), torch.randn(300, 16, generator=seeded())
    options = {"draws": 3, "shared": shared, "select": select}
    noise = dubio.Noise(3, shared=shared, generator=seeded(3))
    expect = passes(network, x, noise, select)
    found = dubio.predict(network, x, generator=seeded(3), **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found.draws, expect, rtol=1e-4, atol=1e-5)
    predictor = dubio.Predictor(network, **options)  # type: ignore[arg-type]
    for _ in range(2):
        draws = predictor(x, seeded(3)).draws
        torch.testing.assert_close(draws, expect, rtol=1e-4, atol=1e-5)


class Counted:
    """An object that counts."""

    def __init__(self) -> None:
        self.count, self.shapes = 0, [(0,)]


class Stateful(nn.Module):
    """Keeps a hidden state, a cache and counters; what it computes depends on them."""

    def __init__(self, branch: bool) -> None:
        super().__init__()
        self.cell, self.drop, self.branch = nn.GRUCell(WIDTH, WIDTH), nn.Dropout(0.4), branch
        self.hidden: Tensor | None = None
        self.calls, self.cache, self.counted = 0, {"lengths": [0]}, Counted()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(x)
        self.hidden = self.cell(h, self.hidden)
        self.calls += 1
        self.cache["lengths"].append(len(x))
        self.counted.count += 1
        self.counted.shapes.append(tuple(x.shape))
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
        if self.branch and h.sum() > 0:
            return self.hidden * 2
        return self.hidden + self.steps * self.calls + self.mean


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("branch", [False, True])
def test_a_network_that_keeps_state(branch: bool, shared: bool) -> None:
    """All draws start from the same state, and afterwards it is that of one pass."""
    torch.manual_seed(0)
    network = Stateful(branch).eval()
    assert len(dubio.sites(network, BATCH)) == 1
    assert (network.calls, network.hidden, float(network.steps)) == (0, None, 0.0)
    for calls in range(1, 4):
        noise = dubio.Noise(4, shared=shared, generator=seeded(3))
        expect = torch.cat([passes(copy.deepcopy(network), BATCH, noise[k]) for k in range(4)])
        options = {"draws": 4, "shared": shared, "generator": seeded(3)}
        found = dubio.predict(network, BATCH, **options).draws  # type: ignore[arg-type]
        torch.testing.assert_close(found, expect)
        assert (network.calls, network.counted.count, float(network.steps)) == (calls,) * 3
        assert network.cache["lengths"] == [0] + [ROWS] * calls
        assert network.counted.shapes == [(0,)] + [(ROWS, WIDTH)] * calls
        assert network.hidden is not None
        assert network.hidden.shape == (ROWS, WIDTH)


class BuildsItself(nn.Module):
    """Makes its head in the first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.head, self.built = nn.Dropout(0.4), None, False

    def forward(self, x: Tensor) -> Tensor:
        if not self.built:
            self.head, self.built = nn.Linear(x.shape[1], 3), True
        out: Tensor = self.head(self.drop(x))  # type: ignore[misc]
        return out


@pytest.mark.parametrize("shared", [False, True])
def test_a_network_that_builds_itself_keeps_what_it_has_built(shared: bool) -> None:
    network = BuildsItself()
    first, again = (
        dubio.predict(network, BATCH, draws=4, shared=shared, generator=seeded(3)).draws
        for _ in range(2)
    )
    torch.testing.assert_close(first, again)
    torch.testing.assert_close(again, expected(network, BATCH, 4, shared=shared))


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("shared", [False, True])
def test_dropout_inside_of_vmap_is_refused(shared: bool, randomness: str) -> None:
    drop = nn.Dropout(0.5)

    def model(x: Tensor) -> Any:
        return torch.vmap(lambda row: drop(row) * 2, randomness=randomness)(x)

    with pytest.raises(NotImplementedError, match=r"inside of torch\.vmap.*outside of torch\.vmap"):
        dubio.predict(model, BATCH, draws=3, shared=shared)
    with pytest.raises(NotImplementedError, match=r"inside of torch\.vmap.*outside of torch\.vmap"):
        dubio.Predictor(model, draws=3, shared=shared)(BATCH)


class Unseen(nn.Module):
    """Reads its input in a way that nobody sees."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        seen: Tensor = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x.exp()))
        return self.drop(x) + seen.sum(1, keepdim=True)


@pytest.mark.parametrize("rows", [1, 2, ROWS])
def test_inputs_that_are_read_unseen(rows: int) -> None:
    """Also with one row, which cannot be turned around to make other inputs."""
    network, x = Unseen(), BATCH[:rows]
    predictor = dubio.Predictor(network, draws=4)
    for batch in (torch.zeros_like(x), x, x, -x, 2 * x, x):
        torch.testing.assert_close(predictor(batch, seeded(3)).draws, expected(network, batch, 4))


def test_one_network_does_not_vouch_for_another() -> None:
    """Two networks with the same operations, one of which reads values out of sight."""

    class Copied(nn.Module):
        def __init__(self, unseen: bool) -> None:
            super().__init__()
            self.drop, self.unseen = nn.Dropout(0.4), unseen

        def forward(self, x: Tensor) -> Tensor:
            h = self.drop(x)
            capsule = torch.utils.dlpack.to_dlpack(h if self.unseen else x)
            return h + torch.utils.dlpack.from_dlpack(capsule)

    for unseen in (False, True):
        network = Copied(unseen)
        draws = dubio.predict(network, BATCH, draws=4, generator=seeded(3)).draws
        torch.testing.assert_close(draws, expected(network, BATCH, 4))
        for select in (None, lambda out: out):
            options = {"draws": 4, "generator": seeded(3), "select": select}
            draws = dubio.predict(lambda x, f=network: f(x), BATCH, **options).draws  # type: ignore[arg-type,misc]
            torch.testing.assert_close(draws, expected(network, BATCH, 4))


def test_a_plain_pass_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further calls run the network once in `predict`, and never in a predictor."""
    calls: list[bool] = []
    network = nn.Sequential(nn.Linear(WIDTH, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    call = nn.Module._call_impl

    def counted(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        calls.append(module is network)
        return call(module, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "_call_impl", counted)
    for _ in range(4):
        dubio.predict(network, BATCH, draws=4)
    assert sum(calls) == 2 + 3
    predictor = dubio.Predictor(network, draws=4)
    predictor(BATCH)
    calls.clear()
    for scale in range(4):
        predictor(scale * BATCH)
    assert not calls


class Ordered(nn.Module):
    """Takes rows in order only."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        lengths = [int(length) for length in x[:, 0]]
        packed = nn.utils.rnn.pack_padded_sequence(x[..., None], lengths, batch_first=True)
        return self.drop(x) * packed.data.sum()


def test_rows_that_must_be_in_order() -> None:
    x = torch.arange(5.0, 0.0, -1.0)[:, None].expand(-1, WIDTH) + torch.rand(1, generator=seeded())
    predictor = dubio.Predictor(Ordered(), draws=4)
    for batch in (x, x + 0.1):
        draws = predictor(batch, seeded(3)).draws
        torch.testing.assert_close(draws, expected(Ordered(), batch, 4))
