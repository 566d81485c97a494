# %% [markdown]
# # Bayes by Backprop and pruning
#
# Every weight gets a mean and a standard deviation. Weights whose mean is small compared with
# their deviation carry little information and can be removed.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import dubio
from dubio.likelihoods import Categorical

torch.manual_seed(0)
torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)
train, test = slice(0, 1000), slice(1000, None)

# %% [markdown]
# ## Train
#
# The loss contains the KL divergence from the prior. It counts once for all 1,000 rows, so
# `num_data` is 1,000.

# %%
prior = dubio.priors.Gaussian(0.2)
model = nn.Sequential(
    dubio.BayesLinear(64, 100, prior=prior), nn.ReLU(), dubio.BayesLinear(100, 10, prior=prior)
)
elbo = dubio.ELBO(model, Categorical(), num_data=1000, kl_weight=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
history = dubio.fit(
    elbo, (x[train], y[train]), epochs=80, batch_size=100, optimizer=optimizer, progress=False
)
print(f"nll {history[-1].nll:.3f}, KL {history[-1].kl:.0f} nats")


# %%
def accuracy() -> float:
    p = dubio.predict(model, x[test], draws=20, likelihood=Categorical(), generator=0)
    return (p.mean.argmax(1) == y[test]).float().mean().item()


print(f"accuracy {accuracy():.1%}")

# %% [markdown]
# ## The signal-to-noise ratio of the weights

# %%
ratio = (model[0].means()["weight"].abs() / model[0].deviations()["weight"]).flatten().detach()
plt.hist(ratio.log10(), bins=60)
plt.xlabel("log₁₀ |μ|/σ, first layer")
plt.show()

# %% [markdown]
# ## Prune
#
# `dubio.prune` permanently sets the weights with the lowest |μ|/σ to zero.

# %%
shares, found = [0.0, 0.5, 0.75, 0.9, 0.95, 0.98], []
for share in shares:
    if share:
        dubio.prune(model, share, per_layer=True)
    found.append(accuracy())
    print(f"{share:.0%} pruned: accuracy {found[-1]:.1%}")

plt.plot(shares, found, "o-")
plt.xlabel("share of weights removed")
plt.ylabel("accuracy")
plt.show()

# %% [markdown]
# The remaining weights can be stored as sparse rows (CSR). `dubio.freeze` returns plain torch
# layers.

# %%
sparse = dubio.sparse_weights(model)
dense = sum(p.numel() * 4 for p in dubio.freeze(model).parameters())
print(f"{sparse.nbytes:,} bytes; dense float32 takes {dense:,}")
