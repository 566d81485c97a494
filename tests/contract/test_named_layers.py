"""Layers by the names of torch's are classes, and share their draws with `Bayesian`."""

import copy

import pytest
import torch
from torch import nn

import dubio
from dubio import masks
from dubio.recommend.masks_by_name import mask_of_setting

KINDS = {
    dubio.BayesLinear: (3, 2),
    dubio.BayesConv1d: (3, 2, 1),
    dubio.BayesConv2d: (3, 2, 1),
    dubio.BayesConv3d: (3, 2, 1),
    dubio.BayesConvTranspose1d: (3, 2, 1),
    dubio.BayesConvTranspose2d: (3, 2, 1),
    dubio.BayesConvTranspose3d: (3, 2, 1),
    dubio.BayesEmbedding: (5, 2),
    dubio.BayesLSTM: (3, 2),
    dubio.BayesGRU: (3, 2),
    dubio.BayesRNN: (3, 2),
    dubio.BayesMultiheadAttention: (4, 2),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_is_a_class(kind: type[dubio.Bayesian]) -> None:
    layer = kind(*KINDS[kind], prior=dubio.priors.Laplace(2.0), deviation=0.1)  # type: ignore[arg-type]
    assert isinstance(layer, kind)
    assert isinstance(layer, dubio.Bayesian)
    assert type(layer.layer).__name__ == kind.__name__.removeprefix("Bayes")
    assert repr(layer).startswith(kind.__name__)
    again = copy.deepcopy(layer)
    assert type(again) is kind
    plain = dubio.Bayesian(copy.deepcopy(layer.layer), prior=layer.prior, deviation=0.1)
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(plain.kl(), layer.kl())


def test_layers_of_both_spellings_have_noise_of_their_own() -> None:
    """Small layers draw together: each has its part of the numbers, whatever its class."""
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    for layer in (first, second):
        nn.init.zeros_(layer.weight)
    one = dubio.BayesLinear(4, 4, bias=False, deviation=1.0)
    nn.init.zeros_(one.layer.weight)
    seen: list[torch.Tensor] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = one, dubio.BayesLinear(4, 4, bias=False, deviation=1.0)
            self.c = dubio.Bayesian(first, deviation=1.0)
            self.d = dubio.Bayesian(second, deviation=1.0)
            nn.init.zeros_(self.b.layer.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            eye = torch.eye(4)
            seen.extend(layer(eye).detach() for layer in (self.a, self.b, self.c, self.d))
            return x

    elbo = dubio.ELBO(Net(), dubio.likelihoods.Gaussian(1.0), num_data=4)
    elbo(torch.zeros(4, 1), torch.zeros(4, 1))
    for i, weights in enumerate(seen):
        assert weights.abs().sum() > 0
        for other in seen[i + 1 :]:
            assert not torch.equal(weights, other)


def test_a_learned_gaussian_mask_is_a_class_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"learn: expected masks\.LearnableGaussian .*got masks"):
        masks.Gaussian(3, learn=True)
    with pytest.raises(TypeError, match="expected units and drop, got rate as well"):
        masks.Gaussian(3, rate=0.1)
    learned = masks.LearnableGaussian(3, drop=0.2)
    assert isinstance(learned.logit, nn.Parameter)
    fixed = masks.Gaussian(3, drop=0.5)
    fixed.load_state_dict(learned.state_dict())
    assert torch.equal(fixed.drop, learned.drop)


def test_files_of_recommenders_know_the_old_name() -> None:
    made = mask_of_setting({"name": "Gaussian", "options": {"learn": True}})
    assert made is masks.LearnableGaussian
    assert mask_of_setting({"name": "Gaussian", "options": {}}) is masks.Gaussian
