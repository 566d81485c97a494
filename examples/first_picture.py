"""Plot the uncertainty of your own network: writes doubt.png.

Replace `net`, `x` and `y` with your network, inputs and targets. Takes some seconds.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import dubio
from dubio.metrics import plots
from dubio.report.ink import to_png

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x[:300]), y[:300]).backward()
    optimizer.step()

p = dubio.predict(net, x[300:], likelihood=dubio.likelihoods.Categorical())
figure = plots.draw_doubt(p, y[300:])

path = Path(*sys.argv[1:] or ["doubt.png"])
path.write_bytes(to_png(figure))
wrong = p.mean.argmax(1) != y[300:]
surest = wrong[p.entropy.argsort()][: len(wrong) // 2]
print(f"{wrong.float().mean():.1%} wrong; of the surest half {surest.float().mean():.1%}")
print(f"see {path}")
