"""Memory: without keeping draws a prediction costs one chunk of them, however many there are.

Peak resident memory is measured in processes of their own, from after a small prediction with all
imports and buffers to after the large one. They are forks of one process, which imports once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dubio

_SCRIPT = """
import json, os, pathlib, re, resource, sys
import torch
import dubio

torch.set_num_threads(1)
x = torch.randn(1000, 16)
targets = torch.zeros(1000, dtype=torch.long)


def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # what follows would count the process that started this one
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text()).group(1)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # in MiB


def growth(draws, outputs, chunk):
    network = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(16, outputs))
    options = dict(chunk=chunk, keep_draws=False)
    if outputs < 100:
        options["likelihood"] = dubio.likelihoods.Categorical()
    dubio.predict(network, x[:2], draws=3, **options).mean
    before = peak()
    predictive = dubio.predict(network, x, draws=draws, **options)
    assert predictive.mean.shape == predictive.std.shape == (1000, outputs)
    if outputs < 100:
        assert predictive.log_prob(targets).shape == predictive.entropy.shape == (1000,)
    return peak() - before


for settings in json.loads(sys.argv[1]):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        print(growth(*settings), flush=True)
        os._exit(0)
"""
SETTINGS = [(4_000, 100, None), (2_000, 40, None), (1_000, 10, 10), (1_000, 10, 999)]


@pytest.fixture(scope="module")
def growths() -> list[float]:
    """By how many MiB predictions of 1,000 rows raise the peak: of draws, outputs and a chunk."""
    path = os.pathsep.join([str(Path(dubio.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    finished = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps(SETTINGS)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [float(line) for line in finished.stdout.splitlines()]


def test_memory_does_not_grow_with_draws(growths: list[float]) -> None:
    """All draws would take 1,530 and 305 MiB; a chunk is 24 MiB, and some copies of it are made.

    Where labels are predicted, log-likelihoods, entropies and votes stream too. How much freed
    memory malloc returns varies: 75 to 160 MiB were seen for labels, 80 to 101 for values.
    """
    values, labels, _, _ = growths
    assert values < 200
    assert labels < 240


def test_chunk_controls_memory(growths: list[float]) -> None:
    """A chunk of 999 draws is 38 MiB, and the masks for its inputs 61."""
    _, _, small, large = growths
    assert small < 30
    assert large > 35
