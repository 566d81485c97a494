"""Draw docs/images/blind-spots.png: two gaps in the data, of which dropout sees one.

The same network and the same places of data. On the left the curve is steep in the gap, on the
right it is level there. Below are the standard deviations of the functions, with those of an
ensemble of five networks. ``python tools/pictures/blind_spots.py`` takes a minute or two.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import dubio
from dubio.report.ink import BLUE, GREEN, INK, RULE, house_style, to_png

STRETCHES = ((-3.0, -1.0), (1.0, 3.0))
NOISE = 0.1


def observe(curve: Callable[[Tensor], Tensor], rows: int = 100) -> tuple[Tensor, Tensor]:
    """Half of the rows in either stretch, (B, 1) each."""
    parts = [low + (high - low) * torch.rand(rows // 2, 1) for low, high in STRETCHES]
    x = torch.cat(parts)
    return x, curve(x) + NOISE * torch.randn_like(x)


def trained(x: Tensor, y: Tensor, drop: float, seed: int) -> nn.Module:
    """A network with dropout behind its hidden layers."""
    torch.manual_seed(seed)
    width = 64
    layers: list[nn.Module] = [nn.Linear(1, width)]
    for out in (width, 1):
        layers += [nn.ReLU(), nn.Dropout(drop), nn.Linear(width, out)]
    net = nn.Sequential(*layers)
    steps = 1500
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        schedule.step()
    return net.eval()


@house_style()
def drawn() -> Figure:
    """Train, predict and draw."""
    curves = {
        "steep in the gap": lambda x: (2.2 * x).sin() + 0.35 * x,
        "level in the gap": lambda x: 0.6 * x * (1.6 * x).sin(),
    }
    grid = torch.linspace(-4.5, 4.5, 181)[:, None]
    place = grid[:, 0].numpy()
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=[3, 2])
    for (title, curve), (above, below) in zip(curves.items(), panels.T, strict=True):
        torch.manual_seed(1)
        x, y = observe(curve)
        p = dubio.predict(trained(x, y, 0.1, 0), grid, draws=300, shared=True, generator=0)
        mean, std = p.mean[:, 0].numpy(), p.std[:, 0].numpy()
        networks = [trained(x, y, 0.0, seed) for seed in range(5)]
        members = torch.stack([net(grid).detach() for net in networks])
        for reach in (2, 1):
            above.fill_between(
                place, mean - reach * std, mean + reach * std, color=BLUE, alpha=0.25, linewidth=0
            )
        above.plot(place, mean, color=BLUE)
        above.plot(place, curve(grid)[:, 0], color=INK, linestyle=(0, (2, 3)), linewidth=1.2)
        above.plot(x, y, ".", color=INK, markersize=4)
        above.set_title(title)
        above.set_ylim(-4, 4)
        below.plot(place, std, color=BLUE, label="MC dropout")
        below.plot(place, members.std(0)[:, 0], color=GREEN, label="five networks")
        below.set_ylim(0, 0.95)
        for axes in (above, below):
            axes.axvspan(-1, 1, color=RULE, alpha=0.35, linewidth=0)
        gap, data = (grid[:, 0].abs() < 0.7), ((grid[:, 0].abs() > 1.3) & (grid[:, 0].abs() < 2.7))
        print(f"{title}: std of dropout in the gap {std[gap].mean():.3f}, at the data "
              f"{std[data].mean():.3f}; of five networks {members.std(0)[gap].mean():.3f}, "
              f"{members.std(0)[data].mean():.3f}")  # fmt: skip
    panels[0, 0].set_ylabel("y")
    panels[1, 0].set_ylabel("standard deviation")
    panels[1, 0].legend(frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(*sys.argv[1:] or ["docs/images/blind-spots.png"])
    target.write_bytes(to_png(drawn(), 120))
