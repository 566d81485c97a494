"""Modules that do something in train mode alone are named in the log."""

import logging

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dubio


class Augment(nn.Module):
    """Masks columns in train mode, by random numbers of numpy, as SpecAugment does."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x * torch.from_numpy(np.random.default_rng(0).integers(0, 2, x.shape[1]))
        return x


def test_a_module_left_in_eval_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 3)
    net = nn.Sequential(Augment(), nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    with caplog.at_level(logging.INFO, logger="dubio"):
        dubio.predict(net, x, draws=2, generator=0)
    assert [r.getMessage() for r in caplog.records if "(Augment)" in r.getMessage()]


def test_networks_of_torch_log_nothing_of_the_kind(caplog: pytest.LogCaptureFixture) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    with caplog.at_level(logging.INFO, logger="dubio"):
        dubio.predict(net, torch.randn(4, 3), draws=2, generator=0)
    assert not [r for r in caplog.records if "self.training" in r.getMessage()]
