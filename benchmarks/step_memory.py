"""What a training step with masks per row keeps for its backward pass.

Bytes of all tensors that automatic differentiation saves in the forward pass of a step, each
storage counted once, without parameters and the batch; and of these, what the same network keeps
without masks. The difference is what masks cost: noise, masks, and what they are made of.
"""

import torch
from arm_step import learned, mlp
from torch import Tensor, nn

from dubio import ELBO
from dubio.likelihoods import Categorical
from dubio.masks import Bernoulli, Concrete, LearnableBernoulli, LearnableGaussian, Mask

WIDTH, ROWS = 1200, 1024


def kept(network: nn.Module, x: Tensor, y: Tensor, estimator: str) -> int:
    """Bytes that a step keeps."""
    elbo = ELBO(network, Categorical(), 60_000, estimator=estimator)  # type: ignore[arg-type]
    elbo(x, y)
    own = {p.untyped_storage().data_ptr() for p in [x, y, *network.parameters()]}
    sizes: dict[int, int] = {}
    alive: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        elbo(x, y)
    return sum(sizes.values())


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.rand(ROWS, 784), torch.randint(10, (ROWS,))
    plain = nn.Sequential(*(part for part in mlp(WIDTH) if not isinstance(part, nn.Dropout)))
    least = kept(plain, x, y, "trapezoid_once")
    print(f"MLP {WIDTH}, {ROWS} rows, megabytes kept for the backward pass")
    print(f"{'no masks':<28} {least / 1e6:7.2f}")
    entries = ROWS * (784 + 2 * WIDTH)
    print(f"{'all masks in float32':<28} {4 * entries / 1e6:7.2f}")
    cases: dict[str, tuple[type[Mask], str]] = {
        "Bernoulli": (Bernoulli, "trapezoid_once"),
        "Concrete": (Concrete, "trapezoid_once"),
        "LearnableGaussian": (LearnableGaussian, "trapezoid_once"),
        "LearnableBernoulli, once": (LearnableBernoulli, "trapezoid_once"),
        "LearnableBernoulli, trapezoid": (LearnableBernoulli, "trapezoid"),
        "LearnableBernoulli, arm": (LearnableBernoulli, "arm"),
    }
    for name, (mask, estimator) in cases.items():
        found = kept(learned(mlp(WIDTH), mask), x, y, estimator)
        print(f"{name:<28} {found / 1e6:7.2f}, {(found - least) / 1e6:7.2f} for masks", flush=True)


if __name__ == "__main__":
    main()
