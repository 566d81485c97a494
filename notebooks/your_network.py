# %% [markdown]
# # Your network
#
# dubio samples dropout wherever it is: in modules, in functions, inside LSTMs and attention. This
# network has all four kinds, and needs no change.

# %%
# %matplotlib inline
import torch
import torch.nn.functional as F
from torch import nn

import dubio
from dubio.metrics import plots

torch.manual_seed(0)
torch.set_num_threads(1)


# %%
class Reader(nn.Module):
    """Words in, one of two labels out."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.read = nn.LSTM(width, width, num_layers=2, dropout=0.3, batch_first=True)
        self.attend = nn.MultiheadAttention(width, 4, dropout=0.2, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.answer = nn.Linear(width, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:  # (B, T) -> (B, 2)
        states, _ = self.read(self.embed(words))
        mixed, _ = self.attend(states, states, states)
        seen = F.dropout(mixed.mean(1), 0.2, training=self.training)
        return self.answer(self.drop(seen))


# %% [markdown]
# The task: does a sentence have more small numbers than large ones? Ties get a random label, so
# some labels cannot be predicted.


# %%
def sentences(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.randint(40, (rows, 8))
    score = (words < 20).sum(1) - (words >= 20).sum(1)
    return words, ((score + torch.rand(rows) - 0.5) > 0).long()


net = Reader()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(50):
    words, labels = sentences(64)
    optimizer.zero_grad()
    F.cross_entropy(net(words), labels).backward()
    optimizer.step()

# %% [markdown]
# ## Where is the noise?

# %%
words, labels = sentences(1000)
print(dubio.sites(net, words[:4]))

# %% [markdown]
# ## What does it not know?
#
# The plot shows all rows, the most certain on the left. Marks are wrong answers.

# %%
p = dubio.predict(net, words, draws=50, likelihood=dubio.likelihoods.Categorical(), generator=0)
plots.draw_doubt(p, labels)

# %% [markdown]
# The uncertainty about ties is noise of the targets: no amount of data removes it.
#
# ## Choose the noise
#
# `where=` takes names, classes or a function. Layers before the first sampled dropout run once.

# %%
for where in ("drop", torch.nn.LSTM, None):
    q = dubio.predict(net, words, likelihood=p.likelihood, where=where, generator=0)
    print(where, f"{q.mutual_information.mean():.4f} nats")
