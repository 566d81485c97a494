"""States are tensors only: what torch.save and safetensors keep of a model is all of it."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Categorical, GammaPrior, LearnedGaussian

safetensors = pytest.importorskip("safetensors.torch")

Make = Callable[[], nn.Module]


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3)
    )


def masked(kind: type[dubio.masks.Mask]) -> Make:
    return lambda: dubio.convert(plain(), dubio.rules.replace_dropout(kind, per_unit=True))


def bayes(sampler: dubio.rules.Sampler) -> Make:
    prior = dubio.priors.ScaleMixture(0.5, 1.0, 0.1)
    return lambda: dubio.convert(plain(), dubio.rules.bayes(prior, sampler=sampler))


def centred() -> nn.Module:
    def rule(place: dubio.rules.Place) -> nn.Module | None:
        if not isinstance(place.layer, nn.Linear):
            return None
        return dubio.Bayesian(place.layer, prior=dubio.priors.Gaussian.around(place.layer, 0.1))

    return dubio.convert(plain(), rule)


def pruned() -> nn.Module:
    model = bayes("weights")()
    dubio.prune(model, 0.5)
    return model


MODELS: dict[str, Make] = {
    "plain": plain,
    "concrete": masked(dubio.masks.Concrete),
    "learnable-bernoulli": masked(dubio.masks.LearnableBernoulli),
    "learnable-gaussian": masked(dubio.masks.LearnableGaussian),
    "bayes": bayes("weights"),
    "bayes-local": bayes("local"),
    "bayes-centred": centred,
    "bayes-pruned": pruned,
}
Write = Callable[[nn.Module, Path], None]
Read = Callable[[nn.Module, Path], None]
FORMATS: dict[str, tuple[Write, Read]] = {
    "torch": (
        lambda m, path: torch.save(m.state_dict(), path),
        lambda m, path: m.load_state_dict(torch.load(path, weights_only=True)) and None,
    ),
    "save_file": (
        lambda m, path: safetensors.save_file(m.state_dict(), path),
        lambda m, path: m.load_state_dict(safetensors.load_file(path)) and None,
    ),
    "save_model": (
        lambda m, path: safetensors.save_model(m, str(path)),
        lambda m, path: safetensors.load_model(m, str(path)) and None,
    ),
}


def train(elbo: dubio.ELBO, seed: int) -> None:
    """Two steps, so that nothing is as it was built."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 6, generator=generator)
    y = torch.randint(3, (16,), generator=generator)
    if isinstance(elbo.likelihood, LearnedGaussian):
        y = torch.randn(16, 3, generator=generator)
    optimizer = torch.optim.Adam(elbo.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        elbo(x, y).backward()
        optimizer.step()


def assert_equal_states(one: nn.Module, other: nn.Module) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert isinstance(value, Tensor), name
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "likelihood", [Categorical(), LearnedGaussian(prior=GammaPrior(0.1, 0.01))], ids=["labels", "τ"]
)
def test_an_objective_is_loaded_as_it_was_saved(
    name: str, form: str, likelihood: dubio.likelihoods.Likelihood, tmp_path: Path
) -> None:
    write, read = FORMATS[form]
    elbo = dubio.ELBO(MODELS[name](), deepcopy(likelihood), num_data=77)
    train(elbo, 1)
    write(elbo, tmp_path / "state")
    other = dubio.ELBO(MODELS[name](), deepcopy(likelihood), num_data=5)
    train(other, 2)
    train(other, 3)
    assert any(
        not torch.equal(a, b)
        for a, b in zip(elbo.state_dict().values(), other.state_dict().values(), strict=True)
    )
    read(other, tmp_path / "state")
    assert (other.step, other.num_data) == (2, 77)
    assert_equal_states(elbo, other)
    x = torch.randn(4, 6)
    p, q = (dubio.predict(each.model, x, draws=5, generator=0) for each in (elbo, other))
    assert torch.equal(p.draws, q.draws)


def test_states_of_former_versions_have_a_dict_and_still_load() -> None:
    elbo = dubio.ELBO(plain(), Categorical(), num_data=9)
    state = elbo.state_dict() | {"_extra_state": {"step": 3, "num_data": 40, "trunk": True}}
    elbo.load_state_dict(state)
    assert (elbo.step, elbo.num_data) == (3, 40)
    assert elbo.get_extra_state().tolist() == [3, 40, 1]
    assert elbo.get_extra_state().dtype == torch.int64


def test_the_weight_of_a_schedule_goes_on() -> None:
    def objective() -> dubio.ELBO:
        warm_up = dubio.schedules.warm_up(10)
        return dubio.ELBO(
            masked(dubio.masks.Concrete)(), Categorical(), num_data=16, kl_weight=warm_up
        )

    elbo, other = objective(), objective()
    train(elbo, 1)
    other.load_state_dict(elbo.state_dict())
    x, y = torch.randn(8, 6), torch.randint(3, (8,))
    losses = []
    for each in (elbo, other):
        torch.manual_seed(5)
        losses.append(each(x, y))
    assert torch.equal(*losses)
