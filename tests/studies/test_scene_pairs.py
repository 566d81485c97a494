"""Rates of scenes that are in a batch twice: the gradient of Concrete dropout, with less noise."""

import math

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.masks import Concrete
from dubio_studies.gal2017.figure_8 import computation as figure_8
from dubio_studies.scenes.augmentation import AugmentedScenes
from dubio_studies.scenes.images import Labelled, load
from dubio_studies.scenes.kinds import drops, with_dropout
from dubio_studies.scenes.likelihood import LIKELIHOOD
from dubio_studies.scenes.networks import SMOKE, Forks
from dubio_studies.scenes.pairs import PairedConcrete, mean_slope
from dubio_studies.scenes.training import SceneTraining, key_of

ROWS = 4000


def gradients(mask: PairedConcrete | Concrete, own: Tensor) -> Tensor:  # (pairs,)
    """Of the rate, pair by pair, for a loss that is not linear in the masks of three channels."""
    torch.manual_seed(1)
    mask.train()
    found = []
    for first in own.split(2):  # a pair at a time, so that gradients are not summed
        mask.zero_grad()
        masked = mask(torch.ones(2, 3, 1, 1), axis=1)[..., 0, 0]
        ((masked @ torch.tensor([1.0, -2.0, 0.5]) + first).square()).sum().backward()
        assert mask.logit.grad is not None
        found.append(mask.logit.grad.clone())
    return torch.cat(found)


@pytest.mark.parametrize("drop", [0.05, 0.4])
@pytest.mark.parametrize("temperature", [0.1, 0.6])
def test_pairs_have_the_gradient_of_concrete_masks_with_less_noise(
    drop: float, temperature: float
) -> None:
    scenes = 10 * torch.randn(ROWS // 2, generator=torch.Generator().manual_seed(0))
    rows = scenes.repeat_interleave(2)
    paired = gradients(PairedConcrete(drop=drop, temperature=temperature), rows)
    plain = gradients(Concrete(drop=drop, temperature=temperature), rows)
    error = math.hypot(*(float(own.std()) / math.sqrt(len(own)) for own in (paired, plain)))
    assert abs(float(paired.mean() - plain.mean())) < 5.5 * error  # false alarms: 4e-8 each
    assert float(paired.std()) < 0.6 * float(plain.std())


@pytest.mark.parametrize("drop", [1e-4, 0.1, 0.5])
@pytest.mark.parametrize("temperature", [0.1, 2 / 3])
def test_the_mean_slope_is_that_of_the_mean(drop: float, temperature: float) -> None:
    """Against differences of the mean mask, by another integral: over uniform noise."""
    logit = torch.tensor([1 - drop], dtype=torch.float64).logit()
    u = (torch.arange(2_000_000, dtype=torch.float64) + 0.5) / 2_000_000
    high, low = (
        float(torch.sigmoid((at + u.logit()) / temperature).mean() / torch.sigmoid(at))
        for at in (logit + 1e-3, logit - 1e-3)
    )
    expected = (high - low) / 2e-3
    assert float(mean_slope(logit, temperature)) == pytest.approx(expected, rel=1e-3, abs=1e-8)


def test_masks_are_those_of_concrete_dropout() -> None:
    x = torch.rand(6, 5, 2, 2)
    masks = [make(drop=0.3).train() for make in (Concrete, PairedConcrete)]
    one, other = (
        dubio.predict(nn.Sequential(mask_of(mask)), x, generator=3).draws for mask in masks
    )
    assert torch.allclose(one, other)
    weights = torch.rand(7, 5)
    assert torch.equal(*(mask.kl(weights, 0.6) for mask in masks))


def mask_of(mask: Concrete | PairedConcrete) -> nn.Module:
    class OfChannels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = mask

        def forward(self, x: Tensor) -> Tensor:
            return mask(x, axis=1)

    return OfChannels()


def test_an_odd_number_of_rows_and_rates_by_channel_are_refused() -> None:
    with pytest.raises(ValueError, match="rows: expected every scene twice, got 3 rows"):
        PairedConcrete().train()(torch.ones(3, 4), axis=1)
    with pytest.raises(ValueError, match="units: expected 1 rate for a layer, got 4"):
        PairedConcrete(4)


def test_every_scene_is_twice_in_its_batch() -> None:
    scenes = load("blocks", "train", 5)
    batches = AugmentedScenes(scenes, 2, copies=2)
    found = list(batches)
    assert [len(seen) for seen, _ in found] == [4, 4, 2]
    assert len(found) == len(batches)
    for seen, named in found:
        assert torch.equal(seen[::2], seen[1::2])
        assert torch.equal(named[::2], named[1::2])
    alone = AugmentedScenes(Labelled(*scenes), 2)
    torch.manual_seed(0)
    once = [seen for seen, _ in alone]
    torch.manual_seed(0)
    assert all(torch.equal(a, b[::2]) for a, (b, _) in zip(once, batches, strict=True))


def test_networks_without_pairs_keep_their_keys() -> None:
    """The keys of networks that were trained before there were pairs."""
    plain = SceneTraining(
        4, 4, 5e-4, drop_learning_rate=0.2, method="one cycle", drop_momentum=0.98
    )
    settings = {"part": "fork"}
    assert key_of(settings, plain) == key_of(
        settings, SceneTraining(**{**vars(plain), "copies": 1})
    )
    assert key_of(settings, plain) != key_of(
        settings, SceneTraining(**{**vars(plain), "copies": 2})
    )


def test_a_network_learns_rates_in_pairs() -> None:
    torch.manual_seed(0)
    network = with_dropout(Forks(**SMOKE).built(), "concrete", 0.3, 0.6, paired=True)
    assert sum(isinstance(module, PairedConcrete) for module in network.modules()) == 15
    assert [round(float(drop), 6) for drop in drops(network)] == [0.3] * 15
    elbo = dubio.ELBO(network.train(), LIKELIHOOD, num_data=2)
    ((images, labels),) = AugmentedScenes(load("blocks", "train", 2), 2, copies=2)
    elbo(images, labels).backward()
    logits = [p for name, p in network.named_parameters() if name.endswith("logit")]
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in logits)


def test_forks_of_figure_8_see_half_as_many_scenes_twice() -> None:
    config = figure_8.scale(SMOKE, starts=(0.1, 0.4), pairs=True)
    assert config.fork_training().batch_size == 1
    assert config.fork_training().copies == 2
    plain = figure_8.scale(SMOKE, starts=(0.1, 0.4))
    assert plain.fork_training().copies == 1
    assert config._first_plan(0) == plain._first_plan(0)
    with pytest.raises(ValueError, match="batch_size: expected an even number with pairs, got 3"):
        figure_8.scale(SMOKE, batch_size=3, pairs=True)
