"""Turn four ordinary networks into Bayesian ones, and make a training step with every method."""

import torch
from torch import Tensor, nn

import dubio

MASKS = {
    "MC dropout": dubio.masks.Bernoulli,
    "Concrete dropout": dubio.masks.Concrete,
    "learnable Bernoulli dropout": dubio.masks.LearnableBernoulli,
    "variational dropout": dubio.masks.LearnableGaussian,
}


class Residual(nn.Module):
    """A residual block: dropout, then a convolution, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm2d(width), nn.Dropout(0.3)
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Add the convolution's output to x."""
        return x + self.conv(self.drop(self.norm(x).relu()))


class Reader(nn.Module):
    """Reads tokens with an LSTM or a Transformer, and classifies the last state."""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.embed, self.drop, self.body = nn.Embedding(50, width), nn.Dropout(0.1), body
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, 3)
        """Classify sequences."""
        h = self.body(self.drop(self.embed(tokens)))
        return self.head(self.drop((h[0] if isinstance(h, tuple) else h)[:, -1]))


def networks() -> dict[str, tuple[nn.Module, Tensor]]:
    """Networks in eval mode, each with a batch."""
    mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    resnet = nn.Sequential(nn.Conv2d(3, 8, 3), Residual(8), nn.MaxPool2d(2), Residual(8),
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))  # fmt: skip
    lstm = nn.LSTM(16, 16, num_layers=2, dropout=0.2, batch_first=True)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    tokens = torch.randint(50, (4, 7))
    return {
        "dropout MLP": (mlp.eval(), torch.randn(4, 8)),
        "residual network": (resnet.eval(), torch.randn(4, 3, 12, 12)),
        "LSTM classifier": (Reader(lstm, 16).eval(), tokens),
        "small Transformer": (Reader(nn.TransformerEncoder(layer, 1), 16).eval(), tokens),
    }


def main() -> None:
    """Print each plan, check that the output is unchanged, and train."""
    torch.manual_seed(0)
    for name, (net, x) in networks().items():
        rule = dubio.rules.replace_dropout(dubio.masks.Bernoulli)
        print(f"\n# {name}\n\n{dubio.plan(net, rule, example=x)}\n")
        for method, mask in MASKS.items():
            bayes = dubio.convert(net, dubio.rules.replace_dropout(mask), example=x)
            assert torch.equal(bayes(x), net(x))
            elbo = dubio.ELBO(bayes.train(), dubio.likelihoods.Categorical(), num_data=1000)
            optimizer = torch.optim.Adam(bayes.parameters(), lr=1e-2)
            elbo(x, torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
            print(f"{method:28} nll {elbo.nll:.3f}, kl {elbo.kl:8.2f}")


if __name__ == "__main__":
    main()
