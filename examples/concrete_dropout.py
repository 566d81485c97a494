"""Learn dropout rates with Concrete dropout: more data, less uncertainty.

A curve is observed with noise. The same network is trained on more and more points with
`dubio.fit`; its dropout rates and its epistemic uncertainty fall.
"""

import torch
from torch import Tensor, nn

import dubio


def observe(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of a curve (B, 1) with noise of standard deviation 0.3."""
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(count, 1, generator=generator) - 2
    return x, (3 * x).sin() + x + 0.3 * torch.randn(count, 1, generator=generator)


def build(num_data: int, width: int = 64) -> dubio.ELBO:
    """Two hidden layers, a learned rate before each weight layer but the first."""
    torch.manual_seed(0)
    concrete = dubio.masks.Concrete
    net = nn.Sequential(
        nn.Linear(1, width),
        nn.Tanh(),
        dubio.Masked(nn.Linear(width, width), concrete(drop=0.1), length_scale=0.1),
        nn.Tanh(),
        dubio.Masked(nn.Linear(width, 1), concrete(drop=0.1), length_scale=0.1),
    )
    return dubio.ELBO(net, dubio.likelihoods.Gaussian(1 / 0.3**2), num_data)


def main() -> None:
    """Train on 50, 500 and 5000 points; print rates and epistemic uncertainty."""
    torch.set_num_threads(1)
    test_x, test_y = observe(500, seed=1)
    for count in (50, 500, 5000):
        elbo = build(count)
        epochs = 15_000 // count
        history = dubio.fit(
            elbo,
            observe(count, seed=0),
            epochs=epochs,
            batch_size=50,
            optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
            schedule=lambda adam, e=epochs: torch.optim.lr_scheduler.CosineAnnealingLR(adam, e),
            clip_norm=5.0,
        )
        p = dubio.predict(elbo.model, test_x, likelihood=elbo.likelihood, keep_draws=False)
        masks = [m for m in elbo.modules() if isinstance(m, dubio.masks.Concrete)]
        rates = ", ".join(f"{float(mask.drop):.3f}" for mask in masks)
        print(
            f"{count:5} points: rates {rates}; loss {history[-1].loss:.2f}; epistemic "
            f"±{p.epistemic.mean().sqrt():.3f}; test log-likelihood {p.log_prob(test_y).mean():.2f}"
        )


if __name__ == "__main__":
    main()
