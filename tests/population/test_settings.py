"""Numbers that are replaced for a call, and values that are never written over."""

from dataclasses import dataclass

import torch
from torch import nn

from alone import objectives
from dubio.population.settings import settings_of, with_numbers


@dataclass(frozen=True)
class Inner:
    rate: float
    name: str = "inner"


@dataclass(frozen=True)
class Outer:
    first: Inner
    second: Inner


def _module() -> nn.Module:
    module, inner = nn.Sequential(nn.Identity()), Inner(0.5)
    module.scale, module[0].nested = 2.0, Outer(inner, inner)
    return module


def test_copies_have_the_numbers_for_the_call_alone() -> None:
    module = _module()
    nested = module[0].nested
    rates = torch.tensor(0.1), torch.tensor(0.2)
    numbers = {
        ":scale": torch.tensor(3.0),
        "0:nested.first.rate": rates[0],
        "0:nested.second.rate": rates[1],
    }
    with with_numbers(module, numbers):
        assert module.scale == 3
        assert module[0].nested.first.rate is rates[0]
        assert module[0].nested.second.rate is rates[1]
        assert module[0].nested.second.name == "inner"
        assert nested == Outer(Inner(0.5), Inner(0.5))
    assert module.scale == 2
    assert module[0].nested is nested


def test_values_of_members_are_not_written_over() -> None:
    member = objectives("bayes mixture")[0]
    settings = dict(settings_of(dict(member.named_modules())))
    numbers = {path: torch.tensor(v) for path, v in settings.items() if type(v) is float}
    prior, likelihood = member.model[0].prior, member.likelihood
    with with_numbers(member, numbers):
        assert member.model[0].prior is not prior
        assert isinstance(member.model[0].prior.sigma1, torch.Tensor)
        assert isinstance(member.likelihood.noise_precision, torch.Tensor)
        assert type(prior.sigma1) is type(likelihood.noise_precision) is float
    assert (member.model[0].prior, member.likelihood) == (prior, likelihood)
