"""The gathered likelihood against the dense one."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.nn import functional as F

from dubio.likelihoods import Multinomial
from dubio.recommend import output
from dubio.recommend.output import Output
from dubio.recommend.sparse import SparseRows


def some_rows():
    x = (np.random.default_rng(0).random((6, 9)) < 0.4).astype(np.float32)
    x[2] = 0
    return SparseRows.of(csr_array(x)), torch.from_numpy(x).double()


def made(likelihood="multinomial"):
    found = Output(5, 9, likelihood).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(generator=generator)
    h = torch.randn(2, 6, 5, generator=generator, dtype=torch.float64)
    return found, h.requires_grad_()


def dense_loss(likelihood, logits, x):
    if likelihood == "multinomial":
        return -(F.log_softmax(logits, -1) * x).sum(-1)
    return F.binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(-1)


@pytest.mark.parametrize("together", [1, 20, 1 << 19])
@pytest.mark.parametrize("likelihood", ["multinomial", "logistic"])
def test_value_and_gradients_are_those_of_the_dense_likelihood(likelihood, together, monkeypatch):
    monkeypatch.setattr(output, "_TOGETHER", together)
    rows, x = some_rows()
    last, h = made(likelihood)
    pull = torch.randn(2, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = last.negative_log_likelihood(h, rows)
    dense = dense_loss(likelihood, last(h), x)
    torch.testing.assert_close(ours, dense)
    wanted = [h, *last.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad((ours * pull).sum(), wanted),
        torch.autograd.grad((dense * pull).sum(), wanted),
    )


def test_narrow_factors_change_values_and_gradients_by_their_rounding():
    rows, x = some_rows()
    last, h = made()
    wanted = [h, *last.parameters()]
    dense = dense_loss("multinomial", last(h), x)
    exact = torch.autograd.grad(dense.sum(), wanted)
    last.precision = "bfloat16"
    ours = last.negative_log_likelihood(h, rows)
    found = torch.autograd.grad(ours.sum(), wanted)
    for a, b in zip((ours, *found), (dense, *exact), strict=True):
        assert a.dtype == b.dtype
        error = (a - b).norm() / b.norm()
        assert 1e-6 < error < 2**-6  # bfloat16 has 8 bits


def test_it_is_the_multinomial_of_the_library():
    rows, x = some_rows()
    last, h = made()
    with torch.no_grad():
        ours = last.negative_log_likelihood(h, rows)
        theirs = -Multinomial(coefficient=False).log_prob(last(h), x)
    torch.testing.assert_close(ours, theirs)


def test_a_user_without_a_history_costs_nothing():
    rows, _ = some_rows()
    last, h = made()
    loss = last.negative_log_likelihood(h, rows)[:, 2]
    assert torch.equal(loss, torch.zeros_like(loss))
    (gradient,) = torch.autograd.grad(loss.sum(), [h])
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_a_shift_of_all_scores_changes_nothing(shift):
    rows, _ = some_rows()
    last, h = made()
    before = last.negative_log_likelihood(h, rows).detach()
    with torch.no_grad():
        last.bias += shift
    torch.testing.assert_close(last.negative_log_likelihood(h, rows).detach(), before)


@pytest.mark.parametrize("likelihood", ["multinomial", "logistic"])
def test_probabilities(likelihood):
    last, h = made(likelihood)
    logits = last(h)[0].detach()
    expected = logits.softmax(1) if likelihood == "multinomial" else logits.sigmoid()
    torch.testing.assert_close(last.probabilities(h[0]), expected)


def test_losses_that_live_at_once_have_their_own_memory():
    rows, x = some_rows()
    last, h = made()
    for _ in range(2):
        one, two = (last.negative_log_likelihood(scale * h, rows) for scale in (1.0, 2.0))
        (gradient,) = torch.autograd.grad(one.sum() + two.sum(), [h])
        dense = sum(dense_loss("multinomial", last(scale * h), x).sum() for scale in (1.0, 2.0))
        torch.testing.assert_close(gradient, torch.autograd.grad(dense, [h])[0])


def test_a_second_backward_is_an_error():
    rows, _ = some_rows()
    last, h = made()
    loss = last.negative_log_likelihood(h, rows).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()
