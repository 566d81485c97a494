"""Uncertainty of an ordinary network with five forms of dropout.

The network estimates the height of a noisy wave. Nothing in it is written for dubio.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio


class WaveReader(nn.Module):
    """Convolution, LSTM and attention; the output is a mean and a log variance."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.look = nn.Conv1d(1, width, kernel_size=5, padding=2)
        self.drop = nn.Dropout1d(0.1)
        self.read = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.attend = nn.MultiheadAttention(width, num_heads=4, dropout=0.1, batch_first=True)
        self.answer = nn.Linear(width, 2)

    def forward(self, wave: Tensor) -> Tensor:  # (B, T) -> (B, 2)
        """Read the wave."""
        seen = self.drop(self.look(wave.unsqueeze(1)).relu()).transpose(1, 2)  # (B, T, width)
        steps, _ = self.read(seen)
        mixed, _ = self.attend(steps, steps, steps)
        mixed = nn.Dropout(0.1).train(self.training)(steps + mixed)  # created in forward
        return self.answer(F.dropout(mixed.mean(1), 0.2, training=self.training))


def waves(count: int, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Waves of random phase (B, T) with heights (B, 1) in [low, high]; high ones are noisier."""
    height = low + (high - low) * torch.rand(count, 1)
    time = torch.linspace(0, 12, 24) + 6.3 * torch.rand(count, 1)
    return height * time.sin() + 0.2 * height * torch.randn(count, 24), height


def main() -> None:
    """Train, list the sites, and compare familiar waves with waves of unseen heights."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = WaveReader()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(200):
        wave, height = waves(64, 0.5, 1.5)
        mean, log_variance = net(wave).chunk(2, dim=-1)
        loss = (log_variance + (height - mean) ** 2 / log_variance.exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()

    familiar, _ = waves(100, 0.5, 1.5)
    strange, _ = waves(100, 3.0, 4.0)
    print(dubio.sites(net, familiar), end="\n\n")

    likelihood = dubio.likelihoods.HeteroscedasticGaussian()
    for name, batch in (("familiar", familiar), ("strange", strange)):
        p = dubio.predict(net, batch, draws=100, likelihood=likelihood)
        epistemic, aleatoric = p.epistemic.mean().sqrt(), p.aleatoric.mean().sqrt()
        print(f"{name:9} waves: epistemic ±{epistemic:.3f}, aleatoric ±{aleatoric:.3f}")


if __name__ == "__main__":
    main()
