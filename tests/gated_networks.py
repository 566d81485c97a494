"""Networks that hide noise behind flags of train mode, or compute in threads of their own."""

import random
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio


class Block(nn.Module):
    """A layer with a dropout behind its flag; what else a flag does is for others to say."""

    def __init__(self, rate: float = 0.4) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)
        self.rate = rate

    def hidden(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        return F.dropout(h, self.rate) if self.training else h

    def forward(self, x: Tensor) -> Any:
        return self.b(self.hidden(x))


class Counting(Block):
    """Counts its steps, in all ways in which one can."""

    def __init__(self, rate: float = 0.4) -> None:
        super().__init__(rate)
        self.steps, self.history, self.seen = 0, [0], {"steps": 0}
        self.register_buffer("tracked", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(20))
        self.cache: Tensor | None = None
        self.own = torch.Generator().manual_seed(0)
        self.norms = [torch.zeros(2)]
        self.array = np.zeros(3)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        if self.training:
            self.steps += 1
            self.history.append(len(x))
            self.seen["steps"] += 1
            self.seen["last"] = 3
            self.tracked += 1
            self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
            self.cache = h
            self.norms[0] += 1
            self.array += 1
            self.own.manual_seed(self.steps)
            self.later = h.sum()
            self.b.weight.data.mul_(1.5).div_(1.5)
        return h


class Rescaled(Block):
    """Divides by a buffer that it writes over in place; what it divides by comes back the same."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(20))

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x) / self.scale
        if self.training:
            self.scale.mul_(1.5)
        return h


class PassesItOn(nn.Module):
    """Tells its parts by an argument, as flax does."""

    rate = 0.4

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)

    def drop(self, x: Tensor, train: bool) -> Tensor:
        return F.dropout(x, self.rate) if train else x

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(self.a(x), self.training))


def drop_if_training(module: "PassesItOn", x: Tensor) -> Tensor:
    return F.dropout(x, module.rate) if module.training else x


class CallsAFunction(PassesItOn):
    """The flag is read by a function elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        return self.b(drop_if_training(self, self.a(x)))


class AsksItsDropout(PassesItOn):
    """Reads the flag of its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.b(self.dropout(h) if self.dropout.training else h)


class ByName(PassesItOn):
    """Reads the flag by its name."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.b(F.dropout(h, self.rate) if getattr(self, "training") else h)  # noqa: B009


class Nested(nn.Module):
    """A gate inside of a gate."""

    rate = 0.2

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Block(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        return self.head(F.dropout(h, self.rate) if self.training else h)


class Merged(nn.Module):
    """A dropout module behind the flag, and one on rows that are merged with another axis."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 3)
        self.first, self.second = nn.Dropout(0.3), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        if self.training:
            h = self.first(h)
        h = self.second(h.reshape(len(x) * 4, 5))
        return self.b(h.reshape(len(x), 20))


class OwnProperty(Block):
    """A class with a property for its flag."""

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self.__dict__["_flag"]

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__["_flag"] = value


class DropPath(nn.Module):
    """Stochastic depth, as timm has it."""

    def __init__(self, drop_prob: float = 0.4, scale_by_keep: bool = True) -> None:
        super().__init__()
        self.drop_prob, self.scale_by_keep = drop_prob, scale_by_keep

    def forward(self, x: Tensor) -> Tensor:
        return drop_path(x, self.drop_prob, self.training, self.scale_by_keep)


def drop_path(x: Tensor, drop_prob: float, training: bool, scale_by_keep: bool) -> Tensor:
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class FloorPath(nn.Module):
    """Stochastic depth, as older vision models have it."""

    def __init__(self, p: float = 0.4) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        random_tensor = 1 - self.p + torch.rand((len(x), 1), dtype=x.dtype, device=x.device)
        random_tensor.floor_()
        return x.div(1 - self.p) * random_tensor


class StochasticDepth(nn.Module):
    """As torchvision has it."""

    def __init__(self, p: float = 0.4, mode: str = "row") -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    if not training or p == 0.0:
        return input
    survival = 1.0 - p
    size = [input.shape[0]] + [1] * (input.ndim - 1) if mode == "row" else [1] * input.ndim
    noise = torch.empty(size, dtype=input.dtype, device=input.device)
    noise = noise.bernoulli_(survival)
    if survival > 0.0:
        noise.div_(survival)
    return input * noise


class DropBlock(nn.Module):
    """Drops neighbours together, and scales by what is left."""

    def __init__(self, p: float = 0.2) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        mask = (torch.rand(len(x), 1, x.shape[-1]) < self.p / 3).float()
        kept = 1 - F.max_pool1d(mask, 3, 1, 1)[:, 0]
        return x * kept * kept.numel() / kept.sum()


class WhereMask(nn.Module):
    """Dropout by hand, with a condition."""

    p = 0.4

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = torch.where(torch.rand_like(x) > self.p, x / (1 - self.p), torch.zeros_like(x))
        return x


class FillMask(nn.Module):
    """Dropout by hand, by filling."""

    p = 0.4

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x.masked_fill(torch.empty_like(x).uniform_() < self.p, 0.0) / (1 - self.p)
        return x


class Jitter(nn.Module):
    """Gaussian noise behind the flag, under a name that says nothing."""

    rate = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + self.rate * torch.randn_like(x)) if self.training else x


class LayerDrop(nn.Module):
    """Skips a layer now and then, without scaling."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rate = nn.Linear(6, 6), 0.3

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            dropout_probability = torch.rand([])
            if dropout_probability < self.rate:
                return x
        return self.layer(x)


PATHS: dict[str, Callable[[], nn.Module]] = {
    "timm": DropPath,
    "floor": FloorPath,
    "row": StochasticDepth,
    "batch": lambda: StochasticDepth(mode="batch"),
    "block": DropBlock,
    "where": WhereMask,
    "fill": FillMask,
    "jitter": Jitter,
    "layer": LayerDrop,
}
CLEAN: dict[str, Callable[[], nn.Module]] = {
    "gate": Block,
    "counting": Counting,
    "rescaled": Rescaled,
    "by argument": PassesItOn,
    "by function": CallsAFunction,
    "by dropout": AsksItsDropout,
    "by name": ByName,
    "nested": Nested,
    "property": OwnProperty,
    "merged": Merged,
    **{f"{name} path": lambda make=make: beside(make()) for name, make in PATHS.items()},
}


def beside(path: nn.Module) -> nn.Sequential:
    """Noise beside an ordinary dropout."""
    return nn.Sequential(path, nn.Linear(6, 6), nn.Dropout(0.1), nn.Linear(6, 3))


# What a flag may change beside the noise.


class Logits(Block):
    """Probabilities in eval mode, scores in train mode."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.hidden(x))
        return y if self.training else y.softmax(-1)


class Auxiliary(Block):
    """Two outputs in train mode."""

    def forward(self, x: Tensor) -> Any:
        y = self.b(self.hidden(x))
        return (y, y**2) if self.training else y


class Narrow(Block):
    """Another shape in train mode."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.hidden(x))
        return y[:, :2] if self.training else y


class OwnNorm(Block):
    """Batch normalisation by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(20))

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        if self.training:
            mean = h.mean(0)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * mean)
        else:
            mean = self.mean
        return h - mean


class Approximate(Block):
    """Another way to compute nearly the same in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.hidden(x)
        return self.b(h) if self.training else self.b(h.half().float().round(decimals=1))


class NeedsTargets(Block):
    """Fails in train mode for want of targets, behind its dropout."""

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        out = self.b(self.hidden(x))
        if self.training:
            return F.mse_loss(out, y)  # type: ignore[arg-type]
        return out


class Unscaled(nn.Module):
    """Dropout as in the first paper: scaled in eval mode, by a random branch in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x[:, :3] + self.a(x) if torch.rand(()) < 0.7 else x[:, :3]
        return x[:, :3] + 0.7 * self.a(x)


class ShakeDrop(nn.Module):
    """A random sign and size in train mode, the mean in eval mode."""

    class Function(torch.autograd.Function):
        """With a derivative of its own."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, training: bool, p_drop: float) -> Tensor:
            if training:
                gate = torch.FloatTensor([0]).bernoulli_(1 - p_drop)
                if gate.item() == 0:
                    alpha = torch.empty(len(x), 1).uniform_(-1, 1)
                    return alpha * x
                return x
            return (1 - p_drop) * x

    def forward(self, x: Tensor) -> Tensor:
        return self.Function.apply(x, self.training, 0.4)


class PythonsRandom(nn.Module):
    """Random numbers of Python behind the flag."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0 if self.training and random.random() < 0.5 else x


class NumpysRandom(nn.Module):
    """Random numbers of numpy behind the flag."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x * torch.from_numpy(np.random.binomial(1, 0.5, x.shape)) / 0.5
        return x.float()


class OutOfSight(nn.Module):
    """Dropout that no interceptor sees."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten.native_dropout(x, 0.5, True)[0] if self.training else x


UNCLEAN: dict[str, Callable[[], nn.Module]] = {
    "logits": Logits,
    "auxiliary": Auxiliary,
    "narrow": Narrow,
    "own norm": OwnNorm,
    "approximate": Approximate,
    "needs targets": NeedsTargets,
    "unscaled": Unscaled,
    "shake drop": ShakeDrop,
    "python": PythonsRandom,
    "numpy": NumpysRandom,
    "out of sight": OutOfSight,
}


class TwoHeads(nn.Module):
    """A further head with a dropout of its own in train mode, as GoogLeNet has it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.a = nn.Dropout(0.3), nn.Linear(6, 3)
        self.further = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.7), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Any:
        y = self.a(self.drop(x))
        return (y, self.further(x)) if self.training else y


class CountsItsCalls(Block):
    """Counts its calls in either mode."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Branches(nn.Module):
    """Computes its branches in threads."""

    def __init__(self, *branches: nn.Module, how: str = "pool") -> None:
        super().__init__()
        self.branches, self.how = nn.ModuleList(branches), how
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(sum(run_in_threads(self.branches, x, self.how)))  # type: ignore[arg-type]


POOL = ThreadPoolExecutor(2)


def run_in_threads(branches: nn.ModuleList, x: Tensor, how: str) -> list[Tensor]:
    if how == "pool":
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda branch: branch(x), branches))
    if how == "kept pool":
        return [future.result() for future in [POOL.submit(branch, x) for branch in branches]]
    if how == "thread":
        found: list[Tensor] = []
        for branch in branches:
            thread = threading.Thread(target=lambda part=branch: found.append(part(x)))
            thread.start()
            thread.join()
        return found
    if how == "fork":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [torch.jit.wait(future) for future in [torch.jit.fork(b, x) for b in branches]]
    return [torch.utils.checkpoint.checkpoint(b, x, use_reentrant=False) for b in branches]


def branch(*further: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), *further)


class FunctionalBranch(nn.Module):
    """A dropout that is no module."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


NOISY_BRANCHES: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Dropout(0.5),
    "function": FunctionalBranch,
    "gate": Jitter,
    "own": lambda: dubio.Masked(nn.Linear(6, 6), dubio.masks.Bernoulli(drop=0.3)),
}
