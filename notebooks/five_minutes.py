# %% [markdown]
# # Uncertainty in five minutes
#
# A network is trained on a curve with data in two intervals. It then predicts inside the gap
# between them, and outside. The network is plain PyTorch.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import dubio

torch.manual_seed(1)
torch.set_num_threads(1)

# %% [markdown]
# ## Data with a gap

# %%
x = torch.cat([-3 + 2 * torch.rand(60, 1), 1 + 2 * torch.rand(60, 1)])
y = (2.2 * x).sin() + 0.35 * x + 0.1 * torch.randn_like(x)

# %% [markdown]
# ## An ordinary dropout network

# %%
net = nn.Sequential(
    nn.Linear(1, 64), nn.ReLU(), nn.Dropout(0.1),
    nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1),
)  # fmt: skip
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for _ in range(800):
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()

# %% [markdown]
# ## Predict with two hundred draws
#
# With `shared=True`, each draw is one function over the whole grid. The likelihood states the
# noise of the observations: a standard deviation of 0.1 is a precision of 100.

# %%
grid = torch.linspace(-5, 5, 201)[:, None]
likelihood = dubio.likelihoods.Gaussian(noise_precision=100.0)
p = dubio.predict(net, grid, draws=200, likelihood=likelihood, shared=True, generator=0)
mean, std = p.mean[:, 0], p.std[:, 0]

# %%
line = grid[:, 0]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
left.fill_between(line, mean - 2 * std, mean + 2 * std, alpha=0.25)
left.plot(line, mean)
left.plot(x, y, "k.", markersize=4)
left.set_title("mean, and two standard deviations")
right.plot(line, p.draws[:20, :, 0].T, color="C0", alpha=0.5, linewidth=0.8)
right.plot(x, y, "k.", markersize=4)
right.set_title("twenty of the functions")
plt.show()

# %% [markdown]
# ## Two kinds of uncertainty
#
# The *epistemic* part is the disagreement between the functions; more data would reduce it. The
# *aleatoric* part is the noise of the observations; more data would not.

# %%
at_data = (line.abs() > 1.2) & (line.abs() < 2.8)
in_gap = line.abs() < 0.8
for name, where in (("at the data", at_data), ("in the gap", in_gap), ("beyond", line.abs() > 4)):
    epistemic = p.epistemic[where].mean().sqrt()
    aleatoric = p.aleatoric[where].mean().sqrt()
    print(f"{name:12} epistemic ±{epistemic:.2f}, aleatoric ±{aleatoric:.2f}")

# %% [markdown]
# The network itself is unchanged. Next: [your network](your_network.py), or
# [what dropout does not see](../docs/gotchas.md#what-dropout-does-not-see).
