"""Check an installed wheel: its kernels load, and give the numbers that torch gives without them.

cibuildwheel runs this for every wheel that is published.
"""

import os
import subprocess
import sys

PROGRAM = """
import torch, dubio
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(64, 3)
)
p = dubio.predict(net, torch.randn(8, 16), draws=5, generator=0)
print(dubio.kernels().native, *(f"{value:.4f}" for value in p.std.flatten().tolist()))
"""


def run(native: str) -> list[str]:
    """What the program prints, with kernels or without."""
    environment = {name: value for name, value in os.environ.items() if name != "DUBIO_NATIVE"}
    if native:
        environment["DUBIO_NATIVE"] = native
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, env=environment
    )
    return finished.stdout.split()


if __name__ == "__main__":
    with_kernels, without = run(""), run("0")
    if with_kernels[0] != "True":
        sys.exit("expected compiled kernels in the wheel, got none; dubio.kernels() says why")
    if with_kernels[1:] != without[1:]:
        sys.exit(f"expected the numbers of torch, {without[1:]}, got {with_kernels[1:]}")
    print("kernels load and give the numbers of torch")
