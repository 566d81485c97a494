"""Random networks: all draws at once against a loop of plain passes under the same noise.

``DUBIO_FUZZ`` is the number of programs, ``DUBIO_FUZZ_SEED`` the first seed. A failure prints the
seed and the program.
"""

import os
import re
from collections import Counter

import pytest
import torch
from torch import Tensor

import dubio
from fuzz.grammar import Program, program
from references import chosen, gates_open, passes, seeded

PROGRAMS = int(os.environ.get("DUBIO_FUZZ", "24"))
FIRST = int(os.environ.get("DUBIO_FUZZ_SEED", "0"))
BLOCKS = 8
ROWS, DRAWS = 7, 3  # rows differ from every length in the grammar, and divide none
ALMOST_NEVER = 1e-12  # a dropout rate
MOST_REFUSED = 0.1
REFUSED = (dubio.GateError, dubio.NoSitesError, NotImplementedError)
_MESSAGES = ("shared=True:",)
_SAVED_IS_WRITTEN = re.compile(r"^ +s\d+(\.mul_|\[| \+=)", re.MULTILINE)


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, REFUSED) or str(error).startswith(_MESSAGES)


def _batch(made: Program, rows: int, seed: int) -> Tensor:
    return torch.randn(rows, *made.row, generator=seeded(seed))


def _expected(made: Program, x: Tensor, *, shared: bool, seed: int) -> Tensor:
    noise = dubio.Noise(DRAWS, shared=shared, generator=seeded(seed))
    return passes(made.build(), x, noise, made.select)


def _check(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(
        found,
        expected,
        rtol=1e-3,
        atol=1e-3 * (1 + float(expected[expected.isfinite()].abs().max())),
        equal_nan=True,
        msg=lambda message: f"{what}: {message}",
    )


def _try_out(made: Program) -> None:
    """Everything that must hold for a program."""
    x = _batch(made, ROWS, 1)
    for shared in (False, True):
        expected = _expected(made, x, shared=shared, seed=3)
        network = made.build()
        options = {"draws": DRAWS, "shared": shared, "select": made.select}
        for chunk in (None, 1, 2):
            found = dubio.predict(network, x, chunk=chunk, generator=seeded(3), **options)  # type: ignore[arg-type]
            _check(found.draws, expected, f"predict, shared={shared}, chunk={chunk}")
        predictor = dubio.Predictor(network, chunk=2 if shared else None, **options)  # type: ignore[arg-type]
        for call, (rows, seed) in enumerate([(ROWS, 1), (ROWS, 2), (3 * ROWS, 3), (ROWS, 4)]):
            batch = _batch(made, rows, seed)
            expected = _expected(made, batch, shared=shared, seed=seed)
            found = predictor(batch, seeded(seed))
            _check(found.draws, expected, f"predictor, shared={shared}, call {call}")
    _try_out_without_noise(made, x)


def _try_out_without_noise(made: Program, x: Tensor) -> None:
    """Dropouts that never drop anything: torch's train mode gives the same, and its eval mode."""
    if "AlphaDropout" in made.source:  # which rounds more
        return
    quiet = made.build(ALMOST_NEVER)
    found = dubio.predict(quiet, x, draws=2, select=made.select, generator=seeded(3)).draws
    quiet.train()
    for module in quiet.modules():
        module.training = "Norm" not in type(module).__name__
    with torch.no_grad(), torch.random.fork_rng():
        plain = chosen(quiet(x.clone()), made.select)
    _check(found, plain.expand_as(found), "train mode without noise")
    if _SAVED_IS_WRITTEN.search(made.source):  # and in eval mode a dropout gives its input back
        return
    still = made.build(0.0)
    with torch.no_grad(), gates_open(still):
        plain = chosen(still(x.clone()), made.select)
    _check(found, plain.expand_as(found), "eval mode without noise")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs(block: int, caplog: pytest.LogCaptureFixture) -> None:
    refused: Counter[str] = Counter()
    seeds = range(FIRST + block, FIRST + PROGRAMS, BLOCKS)
    for seed in seeds:
        made = program(seed)
        try:
            _try_out(made)
            assert not caplog.messages  # a recorded pass that did not repeat
        except Exception as error:
            if not _is_refusal(error):
                pytest.fail(f"seed {seed}: {error!r}\nselect={made.select!r}\n{made.source}")
            refused[str(error).split("\n", 1)[0][:60]] += 1
    assert refused.total() <= MOST_REFUSED * max(10, len(seeds)), refused
