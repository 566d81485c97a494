"""Four networks as they come with weights from elsewhere: what people want to convert."""

import torch
from torch import Tensor, nn

from dubio.noise import inputs
from dubio.noise.inputs import Inputs


def dropout_mlp() -> nn.Sequential:
    """Dropout before every layer but the first."""
    return nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(16, 3),
    )  # fmt: skip


class Block(nn.Module):
    """A wide residual block: dropout between its convolutions (Zagoruyko and Komodakis 2016)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1)
        self.norm2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(torch.relu(self.norm1(x)))
        return x + self.conv2(self.drop(torch.relu(self.norm2(h))))


class ResNet(nn.Module):
    """A stem, two residual blocks, and a linear classifier behind dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(Block(8), nn.MaxPool2d(2), Block(8))
        self.pool, self.drop = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.pool(torch.relu(self.blocks(self.stem(x)))).flatten(1)
        return self.head(self.drop(h))


class LSTMClassifier(nn.Module):
    """Tokens, a stacked LSTM with dropout around and inside, and the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(20, 6), nn.Dropout(0.25)
        self.rnn = nn.LSTM(6, 8, num_layers=2, batch_first=True, dropout=0.4)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T)
        h, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.head(self.drop(h)[:, -1])


class SmallTransformer(nn.Module):
    """Tokens, an encoder and a classifier behind dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        h = self.body(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(self.drop(h[:, 0]))


NAMES = ("mlp", "resnet", "lstm", "transformer")


def pretrained(name: str) -> tuple[nn.Module, Inputs]:
    """One of the networks, in eval mode, as if it had been trained, and a batch for it."""
    torch.manual_seed(0)
    tokens = torch.randint(20, (5, 7))
    padding = torch.arange(7) >= torch.tensor([7, 3, 5, 7, 1])[:, None]
    network, x = {
        "mlp": lambda: (dropout_mlp(), torch.randn(5, 6)),
        "resnet": lambda: (ResNet(), torch.randn(5, 3, 8, 8)),
        "lstm": lambda: (LSTMClassifier(), tokens),
        "transformer": lambda: (SmallTransformer(), {"tokens": tokens, "padding": padding}),
    }[name]()
    for buffer_name, buffer in network.named_buffers():
        if buffer_name.endswith("running_mean"):
            buffer.normal_(0, 0.3)
        elif buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    return network.eval(), x


def outputs(network: nn.Module, x: Inputs) -> Tensor:
    """What the network says."""
    out: Tensor = inputs.call(network, x)
    return out
