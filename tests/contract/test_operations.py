"""Operations behind a dropout: all draws at once give what one pass per draw gives."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import dubio
from references import passes, seeded

Function = Callable[[Tensor, Tensor], Tensor]  # the batch and its dropout -> the output
OPERATIONS: dict[str, tuple[Function, tuple[int, ...]]] = {}


def operation(*row: int) -> Callable[[Function], Function]:
    """Enter an operation on rows of this shape."""

    def enter(function: Function) -> Function:
        OPERATIONS[function.__name__.strip("_").replace("_", " ")] = (function, row)
        return function

    return enter


def frozen(module: nn.Module) -> nn.Module:
    """A module with parameters that do not depend on which tests run."""
    for index, parameter in enumerate(module.parameters()):
        nn.init.normal_(parameter, 0.0, 0.5, generator=seeded(index))
    return module.requires_grad_(False).eval()


class Behind(nn.Module):
    """An operation behind a dropout."""

    def __init__(self, function: Function, rate: float = 0.4) -> None:
        super().__init__()
        self.function, self.drop = function, nn.Dropout(rate)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.drop(x))


# Products of matrices


@operation(5, 4)
def product_with_fixed_matrices(x: Tensor, h: Tensor) -> Tensor:
    return torch.bmm(h, x.mT)


@operation(5, 4)
def product_of_fixed_matrices(x: Tensor, h: Tensor) -> Tensor:
    return torch.bmm(x, h.mT)


@operation(5, 4)
def product_of_both(x: Tensor, h: Tensor) -> Tensor:
    return torch.bmm(h, h.mT)


# Reading values


@operation(6)
def item(x: Tensor, h: Tensor) -> Tensor:
    return x * h.sum().item()


@operation(6)
def tolist(x: Tensor, h: Tensor) -> Tensor:
    return h + torch.tensor(h.tolist())


@operation(6)
def numpy(x: Tensor, h: Tensor) -> Tensor:
    return torch.from_numpy(h.numpy() * 2)


@operation(6)
def comparison(x: Tensor, h: Tensor) -> Tensor:
    return h if bool((h > 1).any()) else -h


@operation(6)
def number_of_zeros(x: Tensor, h: Tensor) -> Tensor:
    return h + len((h == 0).nonzero())


@operation(6)
def chosen_entries(x: Tensor, h: Tensor) -> Tensor:
    return h + h[h > 0].sum()


# Indexing


@operation(6)
def gather_by_argmax(x: Tensor, h: Tensor) -> Tensor:
    return x.gather(1, h.argmax(-1, keepdim=True))


@operation(6)
def embedding_of_argmax(x: Tensor, h: Tensor) -> Tensor:
    return F.embedding(h.argmax(-1), torch.arange(18.0).view(6, 3))


@operation(6)
def one_hot(x: Tensor, h: Tensor) -> Tensor:
    return F.one_hot(h.argmax(-1), 6).float()


@operation(6)
def sorted_and_summed(x: Tensor, h: Tensor) -> Tensor:
    return h.softmax(-1).sort(-1).values.cumsum(-1)


@operation(6)
def topk(x: Tensor, h: Tensor) -> Tensor:
    values, indices = h.topk(3)
    return torch.cat([values, indices.float()], -1)


@operation(6)
def scatter(x: Tensor, h: Tensor) -> Tensor:
    return torch.zeros_like(x).scatter(1, h.argsort(-1), h)


@operation(6)
def where(x: Tensor, h: Tensor) -> Tensor:
    return torch.where(h > 0, h, x)


# Writing in place


@operation(6)
def masked_assignment(x: Tensor, h: Tensor) -> Tensor:
    h[h < 0] = 0
    return h


@operation(6)
def masked_fill_(x: Tensor, h: Tensor) -> Tensor:
    h.masked_fill_(h < 0, -1)
    return h


@operation(6)
def write_into_a_part(x: Tensor, h: Tensor) -> Tensor:
    first, _ = h.chunk(2, -1)
    first.mul_(2)
    return h


@operation(6)
def write_into_the_transpose(x: Tensor, h: Tensor) -> Tensor:
    t = h.t()
    t += 1
    return h


@operation(6)
def assign_a_column(x: Tensor, h: Tensor) -> Tensor:
    h[:, 0] = h[:, 1] * 2
    return h


@operation(6)
def add_to_a_plain_tensor(x: Tensor, h: Tensor) -> Tensor:
    plain = x.clone()
    plain.add_(h)
    return plain


@operation(6)
def add_to_a_plain_tensor_that_has_another_name(x: Tensor, h: Tensor) -> Tensor:
    plain = x.clone()
    other = plain[:, :3]
    plain += h
    return torch.cat([plain, other], 1)


@operation(6)
def overwrite_a_plain_tensor_after_use(x: Tensor, h: Tensor) -> Tensor:
    plain = x.clone()
    y = h * plain
    plain.add_(1)
    return y + plain


@operation(6)
def scatter_into_a_plain_tensor(x: Tensor, h: Tensor) -> Tensor:
    plain = torch.zeros_like(x)
    plain.scatter_add_(1, torch.zeros_like(x).long(), h)
    return plain


@operation(6)
def copy_into_a_part_of_a_plain_tensor(x: Tensor, h: Tensor) -> Tensor:
    plain = torch.zeros_like(x)
    plain[:, :3].copy_(h[:, :3])
    return plain


@operation(6)
def out_argument(x: Tensor, h: Tensor) -> Tensor:
    plain = torch.empty_like(x)
    torch.mul(h, 2, out=plain)
    return plain


@operation(6)
def drop_a_part_in_place(x: Tensor, h: Tensor) -> Tensor:
    F.dropout(h[:, :3], 0.5, inplace=True)
    return h


@operation(6)
def drop_a_part_of_a_plain_tensor_in_place(x: Tensor, h: Tensor) -> Tensor:
    plain = x.clone()
    F.dropout(plain[:, :3], 0.5, inplace=True)
    return plain


@operation(6)
def residual_in_a_loop(x: Tensor, h: Tensor) -> Tensor:
    for _ in range(3):
        h += F.dropout(torch.tanh(h), 0.3)
    return h


# Arithmetic


@operation(6)
def norm(x: Tensor, h: Tensor) -> Tensor:
    return h / h.norm()


@operation(6)
def einsum(x: Tensor, h: Tensor) -> Tensor:
    return torch.einsum("bi,bj->bij", h, x)


@operation(5, 6)
def products_of_matrices(x: Tensor, h: Tensor) -> Tensor:
    return torch.ones(2, 5) @ h @ h.transpose(1, 2) @ x


@operation(6)
def solve(x: Tensor, h: Tensor) -> Tensor:
    matrix = torch.eye(6) + 0.1 * torch.einsum("bi,bj->bij", h, h)
    return torch.linalg.solve(matrix, x)


@operation(6)
def fourier(x: Tensor, h: Tensor) -> Tensor:
    return F.dropout(torch.fft.rfft(h), 0.3).abs()


@operation(6)
def sampled_weight(x: Tensor, h: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, 18).view(3, 6)
    return F.linear(h, F.dropout(weight, 0.3), F.dropout(torch.ones(3), 0.3))


@operation(6)
def named_arguments(x: Tensor, h: Tensor) -> Tensor:
    return F.linear(input=h, weight=torch.linspace(-1, 1, 18).view(3, 6))


@operation(6)
def bilinear(x: Tensor, h: Tensor) -> Tensor:
    return F.bilinear(h, h, torch.linspace(-1, 1, 108).view(3, 6, 6))


@operation(4, 6, 6)
def unpooling(x: Tensor, h: Tensor) -> Tensor:
    values, indices = F.max_pool2d(h, 2, return_indices=True)
    return F.max_unpool2d(values, indices, 2)


@operation(6)
def tanh_between_dropouts(x: Tensor, h: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, 36).view(6, 6)
    h = F.linear(torch.cos(h), weight, torch.ones(6))
    return F.linear(torch.tanh(F.dropout(F.dropout(h, 0.3), 0.3)), weight)


@operation(6)
def hidden_layer_that_is_read_twice(x: Tensor, h: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, 36).view(6, 6)
    hidden = F.linear(h, weight)
    early = hidden * x
    return early + F.linear(F.dropout(hidden.relu(), 0.3), weight, torch.ones(6))


@operation(6)
def types(x: Tensor, h: Tensor) -> Tensor:
    return (h.double() * 2).half().float()


@operation(6)
def scalars_of_another_type(x: Tensor, h: Tensor) -> Tensor:
    half = h.bfloat16()
    return half / (1 + half.float().norm())


@operation(6)
def special_values(x: Tensor, h: Tensor) -> Tensor:
    return (h / 0).nan_to_num(0, 1, -1).clamp(min=-0.5) + h.pow(2) + 2**h


@operation(6)
def views(x: Tensor, h: Tensor) -> Tensor:
    h = h.unsqueeze(1).expand(-1, 3, -1).reshape(len(x), -1).unflatten(1, (6, 3))
    return h.permute(0, 2, 1).flip(1).roll(1, 2)[:, ::2, 1:]


@operation(6)
def rows_one_by_one(x: Tensor, h: Tensor) -> Tensor:
    return torch.stack([row * 2 for row in h])


@operation(6)
def vmap(x: Tensor, h: Tensor) -> Tensor:
    doubled: Tensor = torch.vmap(lambda row: row * 2)(h)
    return doubled


@operation(6)
def checkpointed(x: Tensor, h: Tensor) -> Tensor:
    out: Tensor = checkpoint(lambda h: F.dropout(h.sin(), 0.3), h, use_reentrant=False)
    return out


@operation(6)
def gradient_through_a_dropout(x: Tensor, h: Tensor) -> Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad((F.dropout(x, 0.3) * x).sum(), x)
    return slope + h


@operation(6)
def gradient_of_a_weight(x: Tensor, h: Tensor) -> Tensor:
    with torch.enable_grad():
        weight = torch.linspace(-1, 1, 18).view(3, 6).requires_grad_()
        energy = F.linear(h, weight).square().sum() + F.linear(x, weight).sum()
        (slope,) = torch.autograd.grad(energy, weight)
    return F.linear(x, slope)


# Layers

_LAYERS: list[tuple[str, nn.Module, tuple[int, ...]]] = [
    ("layer norm", nn.LayerNorm(6), (6,)),
    ("group norm", nn.GroupNorm(2, 4), (4, 7)),
    ("instance norm", nn.InstanceNorm1d(4, affine=True), (4, 7)),
    ("instance norm with statistics", nn.InstanceNorm1d(4, track_running_stats=True), (4, 7)),
    ("batch norm", nn.BatchNorm2d(4), (4, 5, 5)),
    ("batch norm of the batch", nn.BatchNorm1d(6, track_running_stats=False), (6,)),
    ("rms norm", nn.RMSNorm(6), (6,)),
    ("convolution", nn.Conv1d(4, 3, 2, stride=2, padding=1), (4, 7)),
    ("grouped convolution", nn.Conv2d(4, 4, 3, groups=4, dilation=2), (4, 7, 7)),
    ("circular convolution", nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), (4, 5, 5)),
    ("transposed convolution", nn.ConvTranspose2d(4, 3, 2), (4, 5, 5)),
    ("convolution of volumes", nn.Conv3d(2, 3, 2), (2, 4, 4, 4)),
    ("max pooling", nn.MaxPool2d(3, 2, 1), (4, 7, 7)),
    ("average pooling", nn.AvgPool2d(2), (4, 7, 7)),
    ("adaptive pooling", nn.AdaptiveAvgPool2d(3), (4, 7, 7)),
    ("adaptive max pooling", nn.AdaptiveMaxPool1d(2), (4, 7)),
    ("upsampling", nn.Upsample(scale_factor=2, mode="bilinear"), (4, 5, 5)),
    ("nearest upsampling", nn.Upsample(scale_factor=2), (4, 5, 5)),
    ("pixel shuffle", nn.PixelShuffle(2), (4, 5, 5)),
    ("unfold", nn.Unfold(2), (4, 5, 5)),
    ("parametric relu", nn.PReLU(4), (4, 7)),
    ("local response", nn.LocalResponseNorm(2), (4, 7)),
    ("softmax", nn.Softmax(1), (4, 7)),
]
for _name, _module, _row in _LAYERS:
    OPERATIONS[_name] = ((lambda module: lambda x, h: module(h))(frozen(_module)), _row)


_LSTM = frozen(nn.LSTM(6, 4, 2, dropout=0.3, batch_first=True, bidirectional=True, proj_size=3))
_PLAIN_LSTM = frozen(nn.LSTM(6, 4, batch_first=True))
_GRU = frozen(nn.GRU(6, 4, 2, dropout=0.3))
_CELL = frozen(nn.GRUCell(6, 4))
_ATTENTION = frozen(nn.MultiheadAttention(6, 2, dropout=0.3, batch_first=True))


@operation(5, 6)
def all_outputs_of_an_lstm(x: Tensor, h: Tensor) -> Tensor:
    out, (hidden, cell) = _LSTM(h)
    return torch.cat([out[:, -1], hidden.sum(0), cell.sum(0)], -1)


@operation(5, 6)
def lstm_of_one_layer(x: Tensor, h: Tensor) -> Tensor:
    out, (hidden, cell) = _PLAIN_LSTM(h)
    return torch.cat([out[:, -1], hidden[0], cell[0]], -1)


@operation(5, 6)
def sampled_hidden_state(x: Tensor, h: Tensor) -> Tensor:
    start = F.dropout(torch.ones(2, len(x), 4), 0.3)
    out, end = _GRU(h.transpose(0, 1), start)
    return torch.cat([out[-1], end[0]], -1)


@operation(5, 6)
def cells(x: Tensor, h: Tensor) -> Tensor:
    state = torch.zeros(len(x), 4)
    for step in h.unbind(1):
        state = _CELL(step, F.dropout(state + 1, 0.3))
    return state


@operation(5, 6)
def packed(x: Tensor, h: Tensor) -> Tensor:
    lengths = torch.arange(len(x)) % 5 + 1
    sequence = pack_padded_sequence(h, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(_LSTM(sequence)[0], batch_first=True)[0].sum(1)


@operation(5, 6)
def attention_with_masks(x: Tensor, h: Tensor) -> Tensor:
    padding = torch.zeros(len(x), 5, dtype=torch.bool)
    padding[:, 3:] = True
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    out, weights = _ATTENTION(h, x, h, key_padding_mask=padding, attn_mask=causal)
    return torch.cat([out, weights], -1)


def _heads(h: Tensor) -> Tensor:
    return h.unflatten(-1, (2, 3)).transpose(1, 2)  # (B, H, L, D)


@operation(5, 6)
def attention_with_a_mask_per_row(x: Tensor, h: Tensor) -> Tensor:
    mask = torch.linspace(-3, 3, len(x) * 50).view(len(x), 2, 5, 5)
    return F.scaled_dot_product_attention(_heads(h), _heads(x), _heads(h), mask)


@operation(5, 6)
def attention_with_a_mask_for_all_rows(x: Tensor, h: Tensor) -> Tensor:
    mask = torch.ones(1, 1, 5, 5).tril().bool()
    return F.scaled_dot_product_attention(_heads(h), _heads(h), _heads(h), attn_mask=mask)


@operation(5, 6)
def attention_with_a_sampled_mask(x: Tensor, h: Tensor) -> Tensor:
    mask = F.dropout(torch.ones(1, 1, 5, 5), 0.3)
    return F.scaled_dot_product_attention(_heads(x), _heads(x), _heads(x), attn_mask=mask)


@operation(5, 6)
def attention_to_sampled_values_only(x: Tensor, h: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(_heads(x), _heads(x), _heads(h))


@operation(5, 6)
def attention_with_named_arguments(x: Tensor, h: Tensor) -> Tensor:
    q = _heads(h)
    return F.scaled_dot_product_attention(query=q, key=q, value=q, dropout_p=0.2, is_causal=True)


@operation(5, 6)
def attention_without_heads(x: Tensor, h: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(h, h, h, is_causal=True, scale=0.5)


@operation(5, 6)
def attention_with_fewer_keys(x: Tensor, h: Tensor) -> Tensor:
    key = h[:, None, :, :3]
    return F.scaled_dot_product_attention(_heads(h), key, key, dropout_p=0.2, enable_gqa=True)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str, shared: bool, caplog: pytest.LogCaptureFixture) -> None:
    function, row = OPERATIONS[name]
    network, x = Behind(function).eval(), torch.randn(7, *row, generator=seeded())
    with caplog.at_level(logging.WARNING, "dubio"):
        draws = dubio.predict(network, x, draws=5, shared=shared, generator=seeded(3)).draws
    noise = dubio.Noise(5, shared=shared, generator=seeded(3))
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if draws.dtype == torch.bfloat16 else {}
    torch.testing.assert_close(draws, passes(network, x, noise), **tolerance)
    assert len(torch.unique(draws, dim=0)) > 1
    assert not caplog.records  # a recorded pass that did not repeat


CALLS: list[int] = []  # a global, which is not put back


@pytest.mark.parametrize("name", ["named arguments", "attention with named arguments", "views"])
def test_the_operation_is_recorded(name: str) -> None:
    """However its arguments are passed, it runs once for all draws."""
    function, row = OPERATIONS[name]

    def counted(x: Tensor, h: Tensor) -> Tensor:
        CALLS.append(1)
        return function(x, h + h.roll(1, -1))  # so that most entries differ among draws

    network, x = Behind(counted), torch.randn(7, *row, generator=seeded())
    dubio.predict(network, x, draws=30)
    CALLS.clear()
    dubio.predict(network, x, draws=30)
    assert len(CALLS) == 2  # the second prediction tries the network out once more
    dubio.predict(network, x, draws=30)
    assert len(CALLS) == 3


CONTEXT = torch.randn(7, 2, 5, 3, generator=seeded(1))
ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "flags": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril(-1)},
    "flags for every row": {"attn_mask": torch.arange(5) <= torch.arange(7).view(7, 1, 1, 1)},
    "biases": {"attn_mask": torch.linspace(-3, 3, 25).view(5, 5)},
    "forbidding biases": {"attn_mask": torch.zeros(5, 5).fill_diagonal_(float("-inf"))},
    "fewer keys": {"enable_gqa": True, "key": CONTEXT[:, :1], "value": 2 * CONTEXT[:, :1]},
    "other length": {"key": CONTEXT[:, :, :2], "value": CONTEXT[:, :, :2], "is_causal": True},
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_a_vanishing_rate_is_the_attention_of_torch(name: str) -> None:
    arguments = {"key": CONTEXT, "value": 2 * CONTEXT, **ATTENTION[name]}
    x = torch.randn(7, 2, 5, 3, generator=seeded())
    expected = F.scaled_dot_product_attention(x, **arguments)
    draws = dubio.predict(
        lambda x: F.scaled_dot_product_attention(x, dropout_p=1e-9, **arguments), x, draws=2
    ).draws
    torch.testing.assert_close(draws, expected.expand_as(draws))


RANDOM: dict[str, Function] = {
    "randn": lambda x, h: h + torch.randn(6),
    "rand": lambda x, h: h * (torch.rand_like(x) < 0.5),
    "rand by name": lambda x, h: h * (torch.rand_like(input=x) < 0.5),
    "randint": lambda x, h: h * torch.randint(3, x.shape),
    "randint_like": lambda x, h: h * torch.randint_like(x, 3),
    "bernoulli_": lambda x, h: h * torch.empty_like(x).bernoulli_(0.5),
    "bernoulli": lambda x, h: h * torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x, h: h.gather(1, x.softmax(-1).multinomial(3)),
    "multinomial of sampled": lambda x, h: x.gather(1, h.softmax(-1).multinomial(3)),
    "normal": lambda x, h: torch.distributions.Normal(h, 1.0).rsample(),
    "gamma": lambda x, h: h + torch.distributions.Gamma(x.exp(), 1.0).rsample(),
    "gumbel softmax": lambda x, h: h + F.gumbel_softmax(x),
    "gumbel softmax of sampled": lambda x, h: F.gumbel_softmax(h),
    "randomised relu": lambda x, h: h + F.rrelu(x, training=True),
    "native dropout": lambda x, h: h + torch.native_dropout(x, 0.5, True)[0],
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_attention_behind_dropout(shared: bool, need_weights: bool) -> None:
    """Attention for all draws has other strides than for one, and what follows must not mind."""
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    network = Behind(lambda _, h: attention(h, h, h, need_weights=need_weights)[0])
    x = torch.randn(3, 5, 6, generator=seeded())
    found = dubio.predict(network, x, draws=4, shared=shared, generator=seeded(3)).draws
    noise = dubio.Noise(4, shared=shared, generator=seeded(3))
    for k in range(4):
        with torch.no_grad(), noise[k]:
            torch.testing.assert_close(network(x), found[k])


@pytest.mark.parametrize("with_dropout", [True, False], ids=["and dropout", "alone"])
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_of_the_network_itself(name: str, with_dropout: bool) -> None:
    """They come from the seed, are fresh in every draw, and leave the global generator alone."""
    function = RANDOM[name]
    network = Behind(function, 1e-9) if with_dropout else Behind(lambda x, h: function(x, x))
    x = torch.randn(7, 6, generator=seeded())
    before = torch.get_rng_state()
    first, again, other = (
        dubio.predict(network, x, draws=5, generator=seeded(seed)).draws for seed in (3, 3, 4)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(torch.unique(first, dim=0)) == 5
