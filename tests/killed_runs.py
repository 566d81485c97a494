"""Training runs that are killed and called again: `python killed_runs.py FOLDER`.

This process imports torch once and forks a child for every attempt, so that each can be killed as a
process of its own. It prints for every scenario how many children were killed, and what came out
differently from a run that was left alone.
"""

import json
import os
import random
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR
from torch.utils.data import DataLoader, Dataset

import dubio

ROWS, BATCH, EPOCHS = 26, 4, 3  # seven steps an epoch, the last with two rows
STEPS = EPOCHS * -(-ROWS // BATCH)

Result = dict[str, Any]


class SquaredError(nn.Module):
    """A network with noise from the global generator, running statistics, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(self.net(x), y)


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Rows with noise of torch, numpy and Python on them."""

    def __init__(self) -> None:
        self.x, self.y = rows()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        scale = 1 + 0.1 * torch.rand(5) + 0.1 * np.random.rand() + 0.1 * random.random()
        return (self.x[index] * scale).float(), self.y[index]


def rows() -> tuple[Tensor, Tensor]:
    seed = torch.Generator().manual_seed(7)
    x = torch.randn(ROWS, 5, generator=seed)
    return x, x.sin().sum(1, keepdim=True)


def elbo(path: Path | None, seed: int) -> Result:
    """Tensors; noise from a generator of its own; everything that fit can do at once."""
    x, y = rows()
    mask = dubio.masks.LearnableBernoulli(8)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), dubio.Masked(nn.Linear(8, 1), mask))
    likelihood = dubio.likelihoods.Gaussian(4.0)
    objective = dubio.ELBO(
        net,
        likelihood,
        ROWS,
        kl_weight=dubio.schedules.warm_up(STEPS),
        generator=torch.Generator().manual_seed(seed),
    )

    def validate() -> Tensor:
        return -dubio.predict(net, x, likelihood=likelihood, draws=5).log_prob(y).mean()

    return trained(
        objective,
        (x, y),
        path,
        batch_size=BATCH,
        schedule=partial(CosineAnnealingLR, T_max=STEPS),
        schedule_every="step",
        clip_norm=1.0,
        validate=validate,
        patience=EPOCHS,
        generator=torch.Generator().manual_seed(seed + 1),
    )


def global_noise(path: Path | None, seed: int) -> Result:
    """Shuffled by a loader, dropped out and validated, all from the global generator."""
    x, y = rows()
    loader: DataLoader[Any] = DataLoader(list(zip(x, y, strict=True)), BATCH, shuffle=True)
    objective = SquaredError()

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    return trained(
        objective,
        loader,
        path,
        optimizer=optimizer,
        schedule=partial(StepLR, step_size=1, gamma=0.5),
        validate=lambda: float(objective(x, y)) + float(torch.rand(())),
    )


def augmented(path: Path | None, seed: int, **options: Any) -> Result:
    """A loader with a generator of its own, and random rows."""
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(Augmented(), BATCH, shuffle=True, generator=generator, **options)
    return trained(SquaredError(), loader, path)


SCENARIOS: dict[str, Callable[[Path | None, int], Result]] = {
    "elbo": elbo,
    "global_noise": global_noise,
    "augmented": augmented,
    "workers": partial(augmented, num_workers=2),
    "at_random": elbo,
}


def trained(objective: nn.Module, data: Any, path: Path | None, **options: Any) -> Result:
    """Everything that must be the same in the end."""
    history = dubio.fit(objective, data, epochs=EPOCHS, checkpoint=path, save_every=0, **options)
    numbers = [{**row, "seconds": None} for row in history.rows()]
    return {
        "objective": dict(objective.state_dict()),
        "history": numbers,
        "random": [torch.get_rng_state(), torch.tensor(random.random()), np.random.rand()],
    }


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(moment: str, count: int) -> None:
    """Have this process killed when something happens for the count-th time."""
    calls = 0

    def is_time() -> bool:
        nonlocal calls
        calls += 1
        return calls == count

    backward, fsync, replace = Tensor.backward, os.fsync, os.replace

    def deadly_backward(self: Tensor) -> None:
        if is_time():
            kill()
        backward(self)

    def deadly_fsync(file: int) -> None:
        if stat.S_ISREG(os.fstat(file).st_mode) and is_time():
            os.truncate(file, os.fstat(file).st_size // 2)  # the other half was not written yet
            kill()
        fsync(file)

    def deadly_replace(old: Path, new: Path) -> None:
        now = is_time()
        if now and moment == "rename":
            kill()
        replace(old, new)
        if now:
            kill()

    if moment == "backward":
        Tensor.backward = deadly_backward  # type: ignore[assignment]
    elif moment == "write":
        os.fsync = deadly_fsync  # type: ignore[assignment]
    else:
        os.replace = deadly_replace  # type: ignore[assignment]


def attempt(
    run: Callable[[Path | None, int], Result],
    path: Path | None,
    output: Path,
    prepare: Callable[[], None],
    delay: float | None = None,
) -> bool:
    """One call in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        status = 1
        try:
            prepare()
            # All state is in the checkpoint, if there is one: other seeds then change nothing.
            seed = 100 if path is None or not path.exists() else os.getpid()
            torch.manual_seed(seed)
            np.random.seed(seed)
            random.seed(seed)
            torch.save(run(path, seed), output)
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # workers that have lost their parent may stay for good
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the run failed"
    return False


def moments() -> Iterator[tuple[str, int]]:
    """In the middle of steps and of saves, in every epoch and at the very beginning."""
    yield from [("write", 1), ("rename", 1), ("renamed", 1), ("backward", 1), ("backward", 3)]
    yield from [("write", 2), ("rename", 3), ("renamed", 2), ("backward", 1), ("renamed", 4)]
    yield from [("backward", 2), ("rename", 2), ("write", 2)]


def differences(one: Any, other: Any, name: str = "result") -> Iterator[str]:
    if isinstance(one, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{name}.{key}")
    elif isinstance(one, list):
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{name}.{index}")
    elif not (torch.equal(one, other) if isinstance(one, Tensor) else one == other):
        yield name


def killed_and_whole(name: str, folder: Path) -> tuple[int, list[str]]:
    """How often a scenario was killed, and what came out differently."""
    folder.mkdir()
    run, path = SCENARIOS[name], folder / "run.pt"
    start = time.monotonic()
    attempt(run, None, folder / "whole.pt", lambda: None)
    took = time.monotonic() - start
    killed = 0
    if name == "at_random":
        chance = random.Random(0)
        for _ in range(8):
            delay = chance.uniform(0, 0.7 * took)
            killed += attempt(run, path, folder / "parts.pt", lambda: None, delay)
    else:
        for moment, count in moments():
            killed += attempt(run, path, folder / "parts.pt", partial(kill_at, moment, count))
    attempt(run, path, folder / "parts.pt", lambda: None)
    whole = torch.load(folder / "whole.pt", weights_only=False)
    parts = torch.load(folder / "parts.pt", weights_only=False)
    return killed, sorted(differences(whole, parts))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1)])  # imports much, once for all children
    print(json.dumps({name: killed_and_whole(name, folder / name) for name in SCENARIOS}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
