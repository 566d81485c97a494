"""Small networks that concatenate what depends on the noise with what does not."""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from references import seeded


class Weight(Protocol):
    """Gives the next weight of a network, of a shape."""

    def __call__(self, *shape: int) -> Tensor: ...


Body = Callable[[Tensor, Tensor, Weight], Tensor]
SPLIT: dict[str, Body] = {}  # those in which a convolution or linear layer is split
JOINED: dict[str, Body] = {}  # those in which parts have to be put together first


def _enter(cases: dict[str, Body]) -> Callable[[Body], Body]:
    def enter(body: Body) -> Body:
        cases[body.__name__.replace("_", " ").strip()] = body
        return body

    return enter


split, joined = _enter(SPLIT), _enter(JOINED)


class Concatenating(nn.Module):
    """A convolution, and another one with dropout behind it; then the body on what both give.

    The skip connection has 4 channels and comes from the input alone; the other has 3.
    """

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)
        self.drop = nn.Dropout(0.4)
        self.weights = nn.ParameterList()
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        known: Iterator[Tensor] = iter(list(self.weights))

        def weight(*shape: int) -> Tensor:
            found = next(known, None)
            if found is None:
                found = nn.Parameter(torch.randn(*shape, dtype=x.dtype) / 3)
                self.weights.append(found)
            return found

        skip = self.first(x)
        return self.body(skip, self.drop(torch.tanh(self.second(skip))), weight)


def build(body: Body, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor]:
    """A network with all its weights, and a batch."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        network = Concatenating(body).to(dtype)
        x = torch.randn(3, 2, 8, 6, generator=seeded(2), dtype=dtype)
        network(x)
    return network, x


def norm(x: Tensor, w: Weight) -> Tensor:
    """BatchNorm in eval mode, with statistics of some training."""
    channels = x.shape[1]
    mean, variance = w(channels).detach(), w(channels).detach().square() + 0.5
    return F.batch_norm(x, mean, variance, w(channels), w(channels))


@split
def u_net(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1), w(5, 7, 3, 3), w(5), padding=1)


@split
def dense_block(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([h, s], 1)
    for _ in range(3):
        y = F.conv2d(F.relu(norm(x, w)), w(2, x.shape[1], 3, 3), w(2), padding=1)
        x = torch.cat([x, y], 1)
    return F.conv2d(x, w(3, 13, 1, 1))


@split
def lists_of_features(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    features = [s, h]
    for _ in range(2):
        x = torch.cat(features, -3)
        features.append(F.conv2d(F.elu(x), w(2, x.shape[1], 3, 3), padding=1))
    return torch.cat(features, 1)


@split
def relu_in_place(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.relu_(norm(torch.cat([s, h], 1), w))
    y = F.conv2d(F.relu_(torch.cat([s, h], 1)), w(2, 7, 3, 3))
    return F.conv2d(x, w(2, 7, 3, 3)) + y


@split
def many_pieces(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s[:, :1], h, s[:, 1:], h * 2, s[:, 2:3]], 1)
    return F.conv2d(F.silu(x), w(3, 11, 3, 3), w(3))


@split
def the_same_piece_twice(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([h, s, h, s], 1), w(3, 14, 1, 1))


@split
def transposed(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.relu(torch.cat([s, h], 1))
    return F.conv_transpose2d(x, w(7, 5, 3, 3), w(5), stride=2, padding=1, output_padding=1)


@split
def strided_and_dilated(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    a = F.conv2d(x, w(3, 7, 3, 3), w(3), stride=2, padding=1)
    return torch.cat([a, F.conv2d(x, w(3, 7, 3, 3), padding=2, dilation=2)[..., ::2, ::2]], 1)


@split
def transposed_and_dilated(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv_transpose2d(torch.cat([h, s], 1), w(7, 2, 3, 3), dilation=2)


@split
def max_pooled(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(F.max_pool2d(torch.cat([s, h], 1), 2), w(3, 7, 3, 3))


@split
def pooled_and_resampled(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.avg_pool2d(torch.cat([s, h], 1), 2)
    x = F.interpolate(x, scale_factor=2.0)
    x = F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True)
    return F.conv2d(F.adaptive_avg_pool2d(x, (3, 4)), w(3, 7, 2, 2))


@split
def padded_and_cropped(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.pad(F.pad(torch.cat([s, h], 1), (1, 2, 0, 1), mode="reflect"), (-1, 2, 1, 1), value=0.5)
    return F.conv2d(x[..., 1:-1, :-1], w(3, 7, 3, 3), w(3))


@split
def skip_used_twice(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    y = F.conv2d(torch.cat([x, s], 1), w(4, 11, 3, 3), padding=1)
    return F.conv2d(x, w(4, 7, 3, 3), padding=1) * y + s


@split
def used_whole_as_well(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.relu(torch.cat([s, h], 1))
    return torch.cat([F.conv2d(x, w(2, 7, 3, 3), padding=1), x.softmax(1)], 1)


@split
def part_of_the_channels(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.relu(torch.cat([s, h], 1))
    return F.conv2d(x[:, 2:6], w(2, 4, 3, 3)) + F.conv2d(x[:, -3:], w(2, 3, 3, 3))


@split
def fixed_channels_taken_out_again(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    y = F.relu(norm(F.conv2d(F.relu(x[:, :4]), w(3, 4, 3, 3), w(3), padding=1), w))
    return F.conv2d(torch.cat([y, x], 1), w(2, 10, 3, 3)) + y[:, :2, 1:-1, 1:-1]


@split
def numbers_by_channel_and_by_pixel(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1) * w(7, 1, 1) + w(1, 7, 8, 6) + w(6) - 0.1
    x = torch.where(x > 0, x, w(8, 1)) * w(1)
    return F.conv2d(F.prelu(torch.clamp(x, max=2.0), w(7)), w(2, 7, 3, 3))


@split
def two_concatenations_alike(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1) * torch.cat([s + 1, h.exp()], 1), w(2, 7, 3, 3))


@split
def linear(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    features = torch.cat([h.flatten(1), s.mean((2, 3))], 1)
    return F.linear(F.relu(features), w(5, 148), w(5))


@split
def linear_along_the_last_axis(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.linear(torch.cat([s[:, :3], h], dim=-1), w(5, 12), bias=w(5))


@split
def averages_of_channels(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.relu(norm(torch.cat([s, h], 1), w))
    return F.linear(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1), w(3, 7), w(3))


@split
def one_dimension(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = norm(torch.cat([s[..., 0], h[..., 1]], 1), w)
    return F.conv1d(F.relu(x), w(3, 7, 3), w(3), padding=1)


@split
def three_dimensions(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s.unflatten(2, (2, 4)), h.unflatten(2, (2, 4))], 1)
    return F.conv3d(F.max_pool3d(x, (1, 2, 1)), w(3, 7, 1, 2, 2), w(3))


@split
def a_weight_that_is_computed(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    kernel = torch.tanh(w(3, 7, 3, 3)) * w(3, 1, 1, 1)
    return F.conv2d(torch.cat([s, h], 1), kernel, w(3))


@joined
def grouped(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h, h[:, :1]], 1), w(6, 4, 3, 3), w(6), groups=2)


@joined
def depthwise(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1), w(14, 1, 3, 3), groups=7)


@joined
def transposed_and_grouped(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv_transpose2d(torch.cat([s, h, h[:, :1]], 1), w(8, 2, 3, 3), groups=4)


@joined
def along_the_width(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(F.relu(torch.cat([s[:, :3], h], 3)), w(3, 3, 3, 3), w(3))


@joined
def along_the_rows(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    y = F.conv2d(norm(torch.cat([s[:, :3], h]), w), w(3, 3, 3, 3), w(3))
    return y[:3] - y[3:]


@joined
def along_two_axes(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([torch.cat([s, h], 1), torch.cat([h, s], 1)], 2)
    return F.conv2d(F.relu(x), w(2, 7, 3, 3))


@joined
def statistics_of_the_batch(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.batch_norm(torch.cat([s, h], 1), None, None, w(7), w(7), training=True)
    return F.conv2d(x, w(2, 7, 3, 3))


@joined
def channels_that_meet(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = F.group_norm(torch.cat([s, h, h[:, :1]], 1), 2, w(8), w(8))
    shuffled = x.unflatten(1, (2, 4)).transpose(1, 2).flatten(1, 2)
    return F.conv2d(shuffled.softmax(1), w(2, 8, 3, 3)) + x.cumsum(1)[:, -2:, 1:-1, 1:-1]


@joined
def concatenations_that_differ(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1) * torch.cat([h, s], 1), w(2, 7, 3, 3))


@joined
def a_gate_that_varies(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1) * h.mean((1, 2, 3), keepdim=True), w(2, 7, 3, 3))


@joined
def dropped_again(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(F.dropout(F.relu(torch.cat([s, h], 1)), 0.3), w(2, 7, 3, 3))


@joined
def a_weight_that_varies(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1), w(2, 7, 3, 3) * h.mean(), w(2))


@joined
def a_bias_that_varies(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1), w(2, 7, 3, 3), h.mean((0, 2, 3))[:2])


@joined
def a_weight_made_of_parts(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(s, torch.cat([w(3, 4, 3, 3), h.mean() * w(3, 4, 3, 3)], 0))


@joined
def places_of_the_largest(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x, places = F.max_pool2d(torch.cat([s, h], 1), 2, return_indices=True)
    return F.max_unpool2d(x, places, 2)


@joined
def other_types(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s.double(), h.to(torch.float32)], 1)
    return F.conv2d(x, w(2, 7, 3, 3).double()).to(s.dtype)


@joined
def nothing_among_them(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return torch.cat([s.new_empty(0), s, s[:, :0], h], 1) * 2


@joined
def written_into(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    x[:, 2:5] *= 2
    x[:, :1].copy_(h[:, :1])
    return F.conv2d(x, w(2, 7, 3, 3)) + x.view(3, -1).sum()


@split
def written_through_a_view(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    part = x[:, 3:5]
    F.relu_(x)
    return torch.cat([part, F.conv2d(x, w(2, 7, 3, 3), padding=1)], 1)


@split
def pieces_written_over_afterwards(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    y = F.relu(x)
    h.add_(1)
    return F.conv2d(y, w(2, 7, 3, 3)) + h[:, :2, 1:-1, 1:-1]


@joined
def returned(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return torch.cat([h, s, h], 1)


@joined
def one_row_alone(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    rows = [F.conv2d(row, w(2, 7, 3, 3)) for row in x]
    return torch.stack(rows) + x.flip(1)[:, :2, 1:-1, 1:-1]


@joined
def every_other_channel(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(F.relu(torch.cat([s[:, 1:], h], 1))[:, 1::2], w(2, 3, 3, 3))


@joined
def averages_over_channels(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s, h], 1)
    return x.mean(1, keepdim=True) + x.mean((1, 2), keepdim=True) + x.mean()


@joined
def channels_padded(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(F.pad(torch.cat([s, h], 1), (0, 0, 0, 0, 1, 2)), w(2, 10, 3, 3))


@joined
def channels_merged_with_rows(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.conv2d(torch.cat([s, h], 1).view(21, 1, 8, 6), w(2, 1, 3, 3)).view(3, 14, 6, 4)


@joined
def pooled_along_the_width(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    x = torch.cat([s[:, :3, :, 1:], h], 3)
    return F.max_pool2d(x, 2) + F.interpolate(x, size=(4, 5)) + F.avg_pool2d(x, 2)


@joined
def channels_of_a_row_by_linear(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    return F.linear(torch.cat([s, h], 1), w(4, 6), w(4))


@split
def a_branch_on_the_inputs(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    factor = 2.0 if float(s.abs().sum()) > 0 else 3.0
    return F.conv2d(torch.cat([s, h], 1) * factor, w(5, 7, 3, 3), w(5), padding=1)


@joined
def a_weight_with_parts_alike(s: Tensor, h: Tensor, w: Weight) -> Tensor:
    kernel = torch.cat([w(7, 4, 3, 3), h.mean() * w(7, 3, 3, 3)], 1)
    return F.conv_transpose2d(torch.cat([s, h], 1), kernel)
