"""Numbers by dubio that a browser must find as well."""

from typing import Any, cast

import torch
from torch import Tensor, nn

import dubio
from dubio.likelihoods import Gaussian
from dubio.masks import Bernoulli, Concrete, Mask
from dubio.noise.noise import Noise
from dubio.noise.numbers import Numbers

SEED = 7
DRAWS = 4
ROWS = 2
DROP, PRECISION, LENGTH_SCALE, LEARNING_RATE = 0.2, 50.0, 0.3, 0.01  # of curves


def noise_fixture(size: int = 300) -> dict[str, Any]:
    """Random numbers of a site, by draw."""
    seed, site, shape = 2**62 + 12345, (3, 1), torch.Size([size])
    numbers = Numbers(seed, range(2, 2 + DRAWS), shared=False)
    single, double = torch.empty(0), torch.empty(0, dtype=torch.float64)
    return {
        "seed": str(seed),
        "site": site,
        "first": 2,
        "keep": 0.3,
        "uniform": numbers.uniform(site, shape, single).tolist(),
        "uniform64": numbers.uniform(site, shape, double).tolist(),
        "bernoulli": numbers.bernoulli(site, 0.3, shape, single).tolist(),
        "normal": numbers.normal(site, shape, single).tolist(),
    }


def network_fixture(network: nn.Module, width: int, *, functions: bool = True) -> dict[str, Any]:
    """Draws of a network for made-up rows.

    Args:
        network: The network, as it was exported.
        width: Numbers of a row.
        functions: Whether its draws can be functions, one noise for all rows.
    """
    x = rows_of_bytes(width)

    def draws(shared: bool) -> list[Any]:
        found = dubio.predict(network, x / 255, draws=DRAWS, shared=shared, generator=SEED)
        return found.draws.tolist()

    return {
        "seed": seed_of(SEED),
        "draws": DRAWS,
        "x": x.int().tolist(),
        "apart": draws(shared=False),
        "shared": draws(shared=True) if functions else None,
    }


def rows_of_bytes(width: int) -> Tensor:  # (ROWS, width)
    """Numbers from 0 to 255, many of them zero, as those of a drawing are."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(-300, 256, (ROWS, width), generator=generator).clamp(min=0).float()


def seed_of(generator: int | torch.Generator) -> str:
    """The seed that a `Noise` takes from a generator, as text: JSON has no such integers."""
    return str(cast(Numbers, Noise(1, generator=generator).numbers).seed)


def curve_fixture(hidden: int = 12, points: int = 9, steps: int = 30) -> dict[str, Any]:
    """Curves that dubio learns, step by step, and what it then draws."""
    generator = torch.Generator().manual_seed(SEED)
    x = torch.linspace(-2, 2, points, dtype=torch.float64)[:, None]
    y = x.sin() + 0.1 * torch.randn(points, 1, generator=generator, dtype=torch.float64)
    masks: dict[str, type[Bernoulli | Concrete]] = {"dropout": Bernoulli, "concrete": Concrete}
    return {
        "hidden": hidden,
        "precision": PRECISION,
        "length_scale": LENGTH_SCALE,
        "learning_rate": LEARNING_RATE,
        "drop": DROP,
        "x": x.flatten().tolist(),
        "y": y.flatten().tolist(),
        "methods": {name: _learned(mask, x, y, hidden, steps) for name, mask in masks.items()},
    }


def _learned(
    mask: type[Bernoulli | Concrete], x: Tensor, y: Tensor, hidden: int, steps: int
) -> dict[str, Any]:
    def masked(outputs: int) -> nn.Module:
        linear = nn.Linear(hidden, outputs)
        return dubio.Masked(linear, mask(drop=DROP), length_scale=LENGTH_SCALE)

    torch.manual_seed(SEED)
    net = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), masked(hidden), nn.ReLU(), masked(1))
    net = net.double()
    start = _state(net)
    generator = torch.Generator().manual_seed(SEED)
    elbo = dubio.ELBO(net, Gaussian(PRECISION), num_data=len(x), generator=generator)
    optimizer = torch.optim.Adam(elbo.parameters(), lr=LEARNING_RATE)
    seeds, losses = [], []
    for _ in range(steps):
        state = generator.get_state()
        seeds.append(seed_of(generator))
        generator.set_state(state)
        optimizer.zero_grad()
        loss = elbo(x, y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    apart, shared = (
        dubio.predict(net, x, draws=DRAWS, shared=shared, generator=SEED).draws[..., 0].tolist()
        for shared in (False, True)
    )
    return {
        "start": start,
        "seeds": seeds,
        "losses": losses,
        "end": _state(net),
        "seed": seed_of(SEED),
        "apart": apart,
        "shared": shared,
    }


def _state(net: nn.Module) -> dict[str, list[Any]]:
    """Weights and biases by layer, and logits of rates."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    masks = [module for module in net.modules() if isinstance(module, Mask)]
    return {
        "weights": [layer.weight.flatten().tolist() for layer in layers],
        "biases": [layer.bias.tolist() for layer in layers],
        "logits": [float(torch.logit(mask.keep.detach())) for mask in masks],
    }
