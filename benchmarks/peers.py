"""What dubio is measured against: the loop people write, other libraries, and two limits.

A builder takes a network of `nn.Dropout` modules and a number of draws and returns a sampler: a
function from a batch to its draws (T, B, K). It raises ImportError where the library is missing.
"""

from collections.abc import Callable
from copy import deepcopy
from importlib.metadata import version

import torch
from torch import Tensor, nn

FOLD = 10  # draws that the dense limit computes in one matrix product
ALIGN = 8  # MKL writes rows of results that start elsewhere at two thirds of the speed

Sampler = Callable[[Tensor], Tensor]  # (B, …) -> (T, B, K)


def loop(net: nn.Sequential, draws: int) -> Sampler:
    """What people write themselves: eval mode, dropouts back in train mode, a pass per draw."""
    net = deepcopy(net).eval()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    return lambda x: torch.stack([net(x) for _ in range(draws)])


def torch_uncertainty(net: nn.Sequential, draws: int) -> Sampler:
    """The batch repeated T times, one pass."""
    from torch_uncertainty.methods import mc_dropout

    sampler = mc_dropout(deepcopy(net), draws, on_batch=True).eval()
    return lambda x: sampler(x).unflatten(0, (draws, -1))


def baal(net: nn.Sequential, draws: int) -> Sampler:
    """The batch repeated T times, one pass; the draws come last."""
    from baal.bayesian.dropout import patch_module
    from baal.modelwrapper import ModelWrapper, TrainingArgs

    wrapper = ModelWrapper(patch_module(deepcopy(net)), TrainingArgs(use_cuda=False))
    wrapper.eval()
    return lambda x: wrapper.predict_on_batch(x, draws).movedim(-1, 0)


def lightning_uq_box(net: nn.Sequential, draws: int) -> Sampler:
    """A loop; a class whose result holds the draws, which the one for regression throws away."""
    from lightning_uq_box.uq_methods import MCDropoutClassification

    loss = nn.CrossEntropyLoss()  # neither it nor the task plays a part in prediction
    method = MCDropoutClassification(deepcopy(net), draws, loss, task="binary")
    return lambda x: method.predict_step(x)["logits"].movedim(-1, 0)


PEERS: dict[str, Callable[[nn.Sequential, int], Sampler]] = {
    "torch-uncertainty": torch_uncertainty,
    "baal": baal,
    "lightning-uq-box": lightning_uq_box,
}


def installed() -> dict[str, str]:
    """The versions of the peers that can be imported."""
    versions = {}
    probe = nn.Sequential(nn.Dropout(), nn.Linear(1, 1))
    for name, build in PEERS.items():
        try:
            build(probe, 1)
        except ImportError:
            continue
        versions[name] = version(name)
    return versions


def limit(net: nn.Sequential, draws: int, rows: int, *, gathered: bool) -> Sampler:
    """The part before the first dropout once, then the bare matrix products of all draws.

    Operands and results have their memory beforehand: no masks, no biases, no activations, and no
    draws as a result. Dense products take FOLD draws at a time; gathered ones are cut to the
    expected number of kept inputs and outputs.
    """
    modules = list(net)
    first = next(i for i, module in enumerate(modules) if isinstance(module, nn.Dropout))
    trunk, head = nn.Sequential(*modules[:first]), modules[first:]
    layers = [module for module in head if isinstance(module, nn.Linear)]
    keeps = [1 - module.p if gathered else 1.0 for module in head if isinstance(module, nn.Dropout)]
    fold = 1 if gathered else FOLD
    products = []
    for layer, keep, keep_next in zip(layers, keeps, [*keeps[1:], 1.0], strict=True):
        inputs, outputs = round(keep * layer.in_features), round(keep_next * layer.out_features)
        a, b = torch.randn(fold * rows, inputs), torch.randn(outputs, inputs).t()
        out = torch.empty(len(a), -(-outputs // ALIGN) * ALIGN)[:, :outputs]
        products.append((a, b, out))

    def run(x: Tensor) -> Tensor:
        out: Tensor = trunk(x)
        for _ in range(draws // fold):
            for a, b, out in products:
                torch.mm(a, b, out=out)
        return out

    return run
