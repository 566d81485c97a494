"""Set-up of all tests: small networks run on one thread, and the zoo can be imported."""

import gc
import os
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch


def do_not_wait(file: Any) -> None:
    """In the place of `os.fsync`: no test cuts the power, and the disk is slow."""


def pytest_collection_finish() -> None:
    """Let garbage collections pass over what stays: modules, and thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give every test its own random numbers, the same in every run."""
    seed = zlib.crc32(item.nodeid.encode())
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one
torch.set_num_threads(1)
os.fsync = do_not_wait
