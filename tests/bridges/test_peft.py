"""Distributions on the low-rank adapters of PEFT."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import dubio
from dubio.likelihoods import Categorical

pytest.importorskip("peft")

from peft import LoraConfig, get_peft_model

WIDTH, RANK, DRAWS = 64, 2, 16


def adapted(dropout: float = 0.0, start: float = 0.0) -> nn.Module:
    """A network with adapters; B of the first is drawn with a deviation, instead of zero."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
    config = LoraConfig(r=RANK, lora_alpha=6, target_modules=["0", "2"], lora_dropout=dropout)
    lora = get_peft_model(net, config).eval()
    if start > 0:
        with torch.no_grad():
            layer(lora).lora_B["default"].weight.normal_(std=start)
    return lora


def layer(lora: nn.Module) -> Any:
    return lora.base_model.model[0]


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([0, 2])


@pytest.mark.parametrize("factor", ["A", "B", "both"])
def test_every_draw_has_the_weights_of_its_factors(factor: Any) -> None:
    lora = adapted(start=0.1)
    bayes = dubio.convert(lora, dubio.rules.lora(factor, deviation=0.3))
    x, _ = data()
    assert torch.equal(bayes(x), lora(x))
    predictor = dubio.Predictor(bayes, draws=DRAWS, shared=True)
    draws = predictor(x, 0).draws
    noise = predictor.noise(x, 0)
    base, _, last = bayes.base_model.model

    def weight(of: Any, number: int, draw: int) -> Tensor:
        """W + s·B·A, with noise on the factors that have some."""
        factors = {}
        for name, module in (("A", of.lora_A["default"]), ("B", of.lora_B["default"])):
            factors[name] = module.weight.detach()
            if factor in (name, "both"):
                site = f"base_model.model.{number}.lora_{name}.default"
                factors[name] = factors[name] + 0.3 * noise[site][draw].view_as(module.weight)
        return of.base_layer.weight + 6 / RANK * factors["B"] @ factors["A"]

    for k in range(DRAWS):
        hidden = torch.tanh(x @ weight(base, 0, k).T + base.base_layer.bias)
        expected = hidden @ weight(last, 2, k).T + last.base_layer.bias
        torch.testing.assert_close(draws[k], expected, atol=1e-5, rtol=1e-5)
    assert draws.std(0).min() > 0.01


def test_while_b_is_zero_every_draw_is_the_network_as_it_was() -> None:
    lora = adapted()
    x, _ = data()
    draws = dubio.predict(dubio.convert(lora, dubio.rules.lora()), x, draws=DRAWS).draws
    torch.testing.assert_close(draws, lora(x).detach().expand_as(draws))


def test_the_prior_has_the_variance_that_peft_draws_a_with() -> None:
    bayes = dubio.convert(adapted(), dubio.rules.lora("both"))
    a, b = layer(bayes).lora_A["default"], layer(bayes).lora_B["default"]
    assert a.prior.sigma == pytest.approx(1 / math.sqrt(3 * WIDTH))
    assert b.prior.sigma == pytest.approx(1 / math.sqrt(3 * RANK))
    # 128 uniform numbers: their root mean square is within a fifth of it
    assert float(a.weight.detach().square().mean().sqrt()) == pytest.approx(a.prior.sigma, rel=0.2)
    sigma = torch.full_like(b.weight, 0.1 * b.prior.sigma)
    q = torch.distributions.Normal(b.weight, sigma)
    p = torch.distributions.Normal(torch.zeros_like(sigma), torch.full_like(sigma, b.prior.sigma))
    expected = torch.distributions.kl_divergence(q, p).sum()
    torch.testing.assert_close(b.kl(), expected, rtol=1e-4, atol=1e-4)


def test_training_moves_adapters_alone() -> None:
    bayes = dubio.convert(adapted(), dubio.rules.lora())
    before = {name: p.detach().clone() for name, p in bayes.named_parameters()}
    x, y = data()
    elbo = dubio.ELBO(bayes.train(), Categorical(), num_data=2)
    dubio.fit(elbo, (x, y), epochs=5)
    moved = {n for n, p in bayes.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {n for n in before if "lora_" in n}
    assert sum("rho" in name for name in moved) == 2


def test_a_learned_rate_takes_the_place_of_the_adapters_dropout() -> None:
    lora = adapted(dropout=0.25, start=0.1)
    x, y = data()
    rule = dubio.rules.replace_dropout(dubio.masks.Concrete, where="*.lora_A.*")
    learned = dubio.convert(lora, rule, example=x)
    assert torch.equal(learned(x), lora(x))
    assert [site.rate for site in dubio.sites(learned, x)] == pytest.approx([0.25, 0.25])
    dubio.ELBO(learned.train(), Categorical(), num_data=2)(x, y).backward()
    assert layer(learned).lora_A["default"].mask.logit.grad.abs() > 0


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that is made."""

    numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            home = result.untyped_storage().nbytes() // result.element_size()
            self.numbers = max(self.numbers, home)
        return result


@pytest.mark.parametrize("shared", [True, False])
def test_all_draws_share_the_weights_of_the_base(shared: bool) -> None:
    bayes = dubio.convert(adapted(start=0.1), dubio.rules.lora())
    x, _ = data()
    with Largest() as largest:
        dubio.predict(bayes, x, draws=DRAWS, shared=shared)
    of_base = layer(bayes).base_layer.weight.numel()
    assert 0 < largest.numbers <= of_base < DRAWS * of_base


def test_a_network_without_adapters_is_an_error() -> None:
    with pytest.raises(ValueError, match="factor: expected 'A', 'B' or 'both', got 'C'"):
        dubio.rules.lora("C")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lora"):
        dubio.convert(nn.Sequential(nn.Linear(2, 2)), dubio.rules.lora())
