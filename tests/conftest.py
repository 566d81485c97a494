"""Set-up of all tests: small networks run on one thread, and the zoo can be imported."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one
torch.set_num_threads(1)
