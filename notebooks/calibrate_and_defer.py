# %% [markdown]
# # Calibrate and defer
#
# Draws give a network's uncertainty. Validation data show whether it is large enough, and when
# the network should leave the answer to a human.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import dubio
from dubio import calibrate, metrics
from dubio.decide import Deferral
from dubio.likelihoods import Categorical

torch.manual_seed(0)
torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
order = torch.randperm(len(images))
x = (torch.from_numpy(images).float() / 16)[order]
x = x + 0.15 * torch.randn_like(x)  # make the task harder
y = torch.from_numpy(labels)[order]
train, validation, new = slice(0, 500), slice(500, 1100), slice(1100, None)

# %%
net = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.2), nn.Linear(200, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(150):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x[train]), y[train]).backward()
    optimizer.step()


def predict(rows: slice) -> dubio.Predictive:
    return dubio.predict(net, x[rows], draws=100, likelihood=Categorical(), generator=0)


held_out, p = predict(validation), predict(new)

# %% [markdown]
# ## Temperature scaling

# %%
temperature = calibrate.TemperatureScaling().fit(held_out, y[validation])
calibrated = temperature(p)
print(f"temperature {float(temperature.temperature):.2f}")
for name, answer in (("draws", p), ("with a temperature", calibrated)):
    ece, nll = metrics.ece(answer, y[new]), metrics.nll(answer, y[new])
    print(f"{name:20} ECE {ece:.1%}, NLL {nll:.3f}")

# %% [markdown]
# ## Sets that contain the right label
#
# With `alpha=0.05`, the sets contain the label of at least 95 % of new rows on average. This holds
# for any network, if new rows come from the same distribution as the validation rows.

# %%
sets = calibrate.LeastAmbiguousSets(alpha=0.05).fit(held_out, y[validation])
found = sets(p)
print(f"{found.contains(y[new]).float().mean():.1%} contain the label")
print("rows by the size of their set:", torch.bincount(found.sizes).tolist())

# %% [markdown]
# ## Answers with at most 5 % errors
#
# The rule uses the largest threshold for which the validation rows show, with 90 % confidence,
# that at most 5 % of the answers are wrong.

# %%
deferral = Deferral("entropy", confidence=0.9).fit_error_rate(held_out, y[validation], 0.05)
decision = deferral(p)
right = decision.answer == y[new]
answered = right[decision.answered].float().mean()
print(f"answers {decision.coverage:.0%} of the rows, {answered:.1%} right")
print(f"without deferral {(p.mean.argmax(1) == y[new]).float().mean():.1%} right")

# %%
curve = metrics.risk_coverage(p, y[new])
plt.plot(curve.coverage, curve.risk)
plt.axvline(decision.coverage, color="C1", linestyle="--")
plt.xlabel("share of rows answered")
plt.ylabel("error rate of the answers")
plt.show()

# %% [markdown]
# [Calibration](../docs/calibration.md) and [deferral](../docs/deferral.md) state the guarantees.
