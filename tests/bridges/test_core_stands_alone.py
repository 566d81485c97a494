"""`import dubio` brings in none of the libraries that bridges lead to."""

import subprocess
import sys

FAR_SIDES = ("botorch", "dask", "gpytorch", "lightning", "peft", "sklearn", "transformers")


def test_import_brings_in_no_bridge() -> None:
    program = f"import sys, dubio; print([name for name in {FAR_SIDES!r} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
