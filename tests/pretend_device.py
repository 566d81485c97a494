"""A device called "pretend": its memory is the CPU's, and it mixes with nothing.

It computes real numbers, so that networks, training and scores run as on a GPU, whatever they read:
tensors of the CPU are refused beside its own, it takes random numbers from generators of its own
only, and it can refuse float64, as Apple's MPS does. It is compiled by torch's own means, which
takes a C++ compiler and half a minute, and belongs to the whole process.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.cpp_extension import load


def start(folder: Path) -> Any:
    """Compile the device and make it known to torch.

    Args:
        folder: Where to compile.

    Returns:
        What has ``refuse_float64(bool)``.
    """
    compiled = load(
        "pretend_device",
        [str(Path(__file__).with_suffix(".cpp"))],
        extra_cflags=["-O0", "-g0"],
        build_directory=str(folder),
    )
    compiled.start()
    torch.utils.rename_privateuse1_backend("pretend")
    torch._register_device_module("pretend", _module(compiled.default_generator()))
    torch.utils.generate_methods_for_privateuse1_backend()
    return compiled


def _module(generator: torch.Generator) -> ModuleType:
    """What torch expects as ``torch.pretend``."""
    module = ModuleType("torch.pretend")
    found: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
        "default_generators": (generator,),
        "manual_seed_all": generator.manual_seed,
        "get_rng_state": lambda device=None: generator.get_state(),
        "set_rng_state": lambda state, device=None: generator.set_state(state),
    }
    for name, value in found.items():
        setattr(module, name, value)
    return module
