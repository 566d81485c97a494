"""Set-up of all tests: small networks run on one thread, and the zoo can be imported."""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import torch


def do_not_wait(file: Any) -> None:
    """In the place of `os.fsync`: no test cuts the power, and the disk is slow."""


def pytest_collection_finish() -> None:
    """Let garbage collections pass over what stays: modules, and thousands of tests."""
    gc.collect()
    gc.freeze()


sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one
torch.set_num_threads(1)
os.fsync = do_not_wait
