"""Memory: without keeping draws a prediction costs one chunk of them, however many there are.

Peak resident memory is measured in a process of its own, from after a small prediction with all
imports and buffers to after the large one.
"""

import os
import subprocess
import sys
from pathlib import Path

import dubio

_SCRIPT = """
import pathlib, re, resource, sys
import torch
import dubio

draws, outputs, chunk = (int(argument) for argument in sys.argv[1:])
torch.set_num_threads(1)
network = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(16, outputs))
x = torch.randn(1000, 16)
targets = torch.zeros(1000, dtype=torch.long)


def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # what follows would count the process that started this one
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text()).group(1)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # in MiB


def predict(x, draws):
    options = dict(draws=draws, chunk=chunk or None, keep_draws=False)
    if outputs < 100:
        options["likelihood"] = dubio.likelihoods.Categorical()
    return dubio.predict(network, x, **options)


predict(x[:2], 3).mean
before = peak()
predictive = predict(x, draws)
assert predictive.mean.shape == predictive.std.shape == (1000, outputs)
if outputs < 100:
    assert predictive.log_prob(targets).shape == predictive.entropy.shape == (1000,)
print(peak() - before)
"""


def growth(draws: int, outputs: int, chunk: int = 0) -> float:
    """By how many MiB a prediction for 1,000 rows raises the peak of resident memory."""
    path = os.pathsep.join([str(Path(dubio.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    finished = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *map(str, (draws, outputs, chunk))],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return float(finished.stdout)


def test_four_thousand_draws_cost_one_chunk() -> None:
    """All draws would take 1,530 MiB; a chunk is 24 MiB, and some copies of it are made."""
    assert growth(draws=4_000, outputs=100) < 200


def test_memory_does_not_grow_with_draws() -> None:
    """Log-likelihoods, entropies and votes stream too; all draws would take 305 MiB."""
    assert growth(draws=8_000, outputs=10) < 160


def test_chunk_controls_memory() -> None:
    """A chunk of 999 draws is 38 MiB, and the masks for its inputs 61."""
    assert growth(draws=1_000, outputs=10, chunk=10) < 30
    assert growth(draws=1_000, outputs=10, chunk=999) > 35
