"""The sparse first layer against the dense one."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.nn import functional as F

from dubio.masks import LearnableBernoulli
from dubio.recommend.masked_input import MaskedInput
from dubio.recommend.memory import SpareMemory
from dubio.recommend.sparse import SparseLinear, SparseRows


def some_rows(users=6, items=9, share=0.4):
    x = (np.random.default_rng(0).random((users, items)) < share).astype(np.float32)
    x[2] = 0  # a user without a history
    x[:, 4] = 0  # an item without a user
    return SparseRows.of(csr_array(x)), torch.from_numpy(x).double()


def layer(items=9, features=5):
    found = SparseLinear(items, features).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        found.weight.normal_(generator=generator)
        found.bias.normal_(generator=generator)
    return found


@pytest.mark.parametrize("stack", [1, 3])
def test_value_and_gradients_are_those_of_the_dense_layer(stack):
    rows, x = some_rows()
    linear = layer()
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(stack, *x.shape, generator=generator, dtype=torch.float64)
    entries = noise[:, rows.row, rows.items].requires_grad_()
    noise = noise.requires_grad_()
    pull = torch.randn(stack, len(rows), 5, generator=generator, dtype=torch.float64)
    ours = linear(rows, entries)
    dense = (x * noise) @ linear.weight + linear.bias
    torch.testing.assert_close(ours, dense)
    parameters = [linear.weight, linear.bias]
    found = torch.autograd.grad((ours * pull).sum(), [entries, *parameters])
    expected = torch.autograd.grad((dense * pull).sum(), [noise, *parameters])
    torch.testing.assert_close(found[0], expected[0][:, rows.row, rows.items])
    torch.testing.assert_close(found[1:], expected[1:])


def test_both_mask_passes_are_those_of_dense_rows():
    rows, x = some_rows()
    mask = LearnableBernoulli(9, drop=0.4)
    module = MaskedInput(9, 5, mask, "trapezoid").double()
    with torch.no_grad():
        module.linear.load_state_dict(layer().state_dict())
        mask.logit.normal_(generator=torch.Generator().manual_seed(2))
    u = torch.rand(2, *x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = module(rows, (u[:, rows.row, rows.items],))  # (2, 2, B, H)
    unit = F.normalize(x)
    dense = torch.stack([(unit * mask.multiplier(2, one)) @ module.weight for one in (u, 1 - u)])
    dense = dense + module.linear.bias
    torch.testing.assert_close(found, dense)
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(4)).double()
    parameters = list(module.parameters())
    torch.testing.assert_close(
        torch.autograd.grad((found * pull).sum(), parameters),
        torch.autograd.grad((dense * pull).sum(), parameters),
    )


def test_rows_of_a_matrix():
    rows, x = some_rows()
    assert len(rows) == 6
    assert rows.lengths.tolist() == x.sum(1).long().tolist()
    torch.testing.assert_close(rows.unit_norm(torch.float64), F.normalize(x)[rows.row, rows.items])
    none = SparseRows.of(csr_array((3, 9), dtype=np.float32))
    assert layer()(none, torch.zeros(1, 0, dtype=torch.float64)).shape == (1, 3, 5)


def test_memory_of_gradients_is_used_again():
    rows, _ = some_rows()
    linear = layer()
    entries = torch.ones(1, len(rows.items), dtype=torch.float64)
    linear(rows, entries).sum().backward()
    first, place = linear.weight.grad.clone(), linear.weight.grad.data_ptr()
    linear.memory.recycle(linear.weight)
    assert linear.weight.grad is None
    linear(rows, entries).sum().backward()
    assert linear.weight.grad.data_ptr() == place
    torch.testing.assert_close(linear.weight.grad, first)
    linear(rows, entries).sum().backward()  # without it gradients add up as ever
    torch.testing.assert_close(linear.weight.grad, 2 * first)


def test_memory_is_lent_to_one_only():
    memory = SpareMemory()
    like = torch.zeros(())
    memory.give(torch.zeros(12))
    one, other = memory.take((3, 4), like), memory.take((3, 4), like)
    assert one.data_ptr() != other.data_ptr()
    memory.give(one)
    assert memory.take((2, 3), like).shape == (2, 3)  # a part of it
    memory.give(one)
    assert memory.take((5, 4), like).shape == (5, 4)  # too small
    memory.give(one)
    assert memory.take((3, 4), like.double()).dtype == torch.float64
