"""One mask per sequence: recurrent layers and attention, in every way of calling them."""

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio import Masked
from dubio.masks import Bernoulli


def mask_of(masked: Tensor, x: Tensor) -> Tensor:
    return masked / x


class Seen(nn.Module):
    """What a layer was called with."""

    @staticmethod
    def of(layer: nn.Module) -> list[Tensor]:
        seen: list[Tensor] = []
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: seen.extend([*args, *kwargs.values()]), with_kwargs=True
        )
        return seen


@pytest.mark.parametrize("noisy", [False, True], ids=["train mode", "noise"])
def test_attention_masks_query_key_and_value_alike(noisy: bool) -> None:
    """Cross-attention: other tensors and lengths, one mask for the features of a row."""
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    seen = Seen.of(attention)
    masked = Masked(attention, Bernoulli(1, drop=0.5))
    query, key, value = torch.rand(3, 2, 8) + 1, torch.rand(3, 5, 8) + 1, torch.rand(3, 5, 8) + 1
    with dubio.Noise() if noisy else torch.enable_grad():
        masked(query=query, key=key, value=value)
    masks = [mask_of(m, x) for m, x in zip(seen, (query, key, value), strict=True)]
    for mask in masks:
        torch.testing.assert_close(mask, masks[0][:, :1].expand_as(mask))
    assert not torch.equal(masks[0][0], masks[0][1])


def test_attention_on_one_tensor_stays_attention_on_one_tensor() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    seen = Seen.of(attention)
    x = torch.rand(3, 4, 8)
    Masked(attention, Bernoulli(1))(x, x, x)
    assert seen[0] is seen[1]
    assert seen[1] is seen[2]


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_sequence_without_a_batch_has_one_mask(batch_first: bool) -> None:
    rnn = nn.GRU(8, 3, batch_first=batch_first)
    seen = Seen.of(rnn)
    x = torch.rand(5, 8) + 1
    Masked(rnn, Bernoulli(1, drop=0.5))(x)
    mask = mask_of(seen[0], x)
    torch.testing.assert_close(mask, mask[:1].expand_as(mask))
    attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    seen = Seen.of(attention)
    Masked(attention, Bernoulli(1, drop=0.5))(x, x, x)
    mask = mask_of(seen[0], x)
    torch.testing.assert_close(mask, mask[:1].expand_as(mask))


@pytest.mark.parametrize("batch_first", [False, True])
def test_rows_have_masks_of_their_own_and_time_steps_share_them(batch_first: bool) -> None:
    rnn = nn.LSTM(8, 3, batch_first=batch_first)
    seen = Seen.of(rnn)
    x = torch.rand(4, 4, 8) + 1
    Masked(rnn, Bernoulli(1, drop=0.5))(x)
    mask = mask_of(seen[0], x)
    time, row = (1, 0) if batch_first else (0, 1)
    first = mask.select(time, 0).unsqueeze(time)
    torch.testing.assert_close(mask, first.expand_as(mask))
    assert not torch.equal(mask.select(row, 0), mask.select(row, 1))


def test_one_shared_draw_serves_batches_of_two_sizes() -> None:
    layer = Masked(nn.Linear(4, 2), Bernoulli(1, drop=0.5))
    x = torch.rand(6, 4)
    with dubio.Noise(shared=True, generator=torch.Generator().manual_seed(0)):
        whole, part = layer(x), layer(x[:2])
    torch.testing.assert_close(whole[:2], part)
    with (
        pytest.raises(ValueError, match="one mask is used for tensors of different shapes"),
        dubio.Noise(),
    ):
        layer(x), layer(x[:2])


def test_sites_are_named_after_their_masks_and_chosen_by_them() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = Masked(nn.GRU(8, 4, batch_first=True), Bernoulli(1))
            self.last = dubio.DropConnect(nn.Linear(4, 2), Bernoulli(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.rnn(x)[0])

    net, x = Net(), torch.rand(3, 5, 8)
    assert [site.name for site in dubio.sites(net, x)] == ["rnn.mask", "last.mask"]
    assert [site.module for site in dubio.sites(net, x)] == [net.rnn.mask, net.last.mask]
    found = dubio.predict(net, x, draws=3, where=net.last.mask)
    assert found.variance.sum() > 0
    with pytest.raises(dubio.NoSitesError):
        dubio.predict(net, x, draws=3, where=dubio.masks.Concrete)
