# %% [markdown]
# # Learned rates
#
# How much dropout does a network need? Concrete and learnable Bernoulli masks learn the rate.
# Rates are high with few data, and fall with more.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import dubio

torch.manual_seed(0)
torch.set_num_threads(1)


def observe(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = 4 * torch.rand(rows, 1) - 2
    return x, (3 * x).sin() + x + 0.3 * torch.randn(rows, 1)


# %% [markdown]
# ## From a plain network to one that learns its rates
#
# `convert` replaces dropout with masks and keeps the weights. `ELBO` is the loss; set the
# prior and `num_data` once.


# %%
def learned(rows: int, mask: type[dubio.masks.Mask]) -> nn.Module:
    net = nn.Sequential(
        nn.Linear(1, 32), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1),
    )  # fmt: skip
    net = dubio.convert(net, dubio.rules.replace_dropout(mask, length_scale=0.01))
    elbo = dubio.ELBO(net, dubio.likelihoods.Gaussian(1 / 0.3**2), num_data=rows)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    batch = min(rows, 100)
    dubio.fit(
        elbo, observe(rows), epochs=300 * batch // rows,
        batch_size=batch, optimizer=optimizer, progress=False,
    )  # fmt: skip
    return net


# %%
sizes = [10, 100, 1000]
grid = torch.linspace(-2, 2, 50)[:, None]
rates, doubts = {}, {}
for mask in (dubio.masks.Concrete, dubio.masks.LearnableBernoulli):
    nets = [learned(rows, mask) for rows in sizes]
    rates[mask.__name__] = [[site.rate for site in dubio.sites(net, grid)] for net in nets]
    doubts[mask.__name__] = [
        dubio.predict(net, grid, generator=0).epistemic.mean().sqrt().item() for net in nets
    ]
print(dubio.sites(nets[-1], grid))

# %% [markdown]
# ## Rates and uncertainty against the number of rows

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
for name, style in zip(rates, ("o-", "s--"), strict=True):
    for layer, curve in enumerate(zip(*rates[name], strict=True)):
        left.plot(
            sizes,
            [float(rate) for rate in curve],
            style,
            color=f"C{layer}",
            label=f"{name}, layer {layer + 1}",
        )
    right.plot(sizes, doubts[name], style, label=name)
left.set_title("dropout rate")
right.set_title("epistemic standard deviation")
for axes in (left, right):
    axes.set_xscale("log")
    axes.set_xlabel("rows")
    axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# With both methods, rates fall with more data. The pages on
# [Concrete](../docs/method-concrete.md) and
# [learnable Bernoulli](../docs/method-learnable-bernoulli.md) dropout explain the gradient that
# each of them uses, and its cost.
