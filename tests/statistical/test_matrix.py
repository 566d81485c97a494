"""Every kind of network: `predict` spreads as a naive train-mode loop does.

For each network, mean and variance over draws of every output, and of a signed sum of the outputs
of a row, are compared between `predict` and torch's own dropout in train mode, with per-row and
with shared masks. False alarms: below 1e-6 for this whole file (Bonferroni over all comparisons,
by the normal approximation). Power: a variance that is a fifth too large is found with
probability one half, one that is 30 % too large with 0.999 (a third and a half in networks that
run once per draw). All rates of a network off by a fifth change variances by a quarter to a half,
except those of alpha dropout, which is made to preserve variances; the last test shows that such
networks are found.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

import dubio
from networks import CASES, build
from references import seeded, train_mode_loop
from snapshots import snapshot
from two_samples import critical_value, deviations, with_sums

DRAWS = 3000
FEWER_DRAWS = 1200  # where the network runs once per draw
ROWS = 2
COPIES = 100
FALSE_ALARMS = 1e-6


def float64(network: nn.Module) -> nn.Module:
    return network.double()


def bfloat16(network: nn.Module) -> nn.Module:
    return network.bfloat16()


def compiled(network: nn.Module) -> nn.Module:
    return torch.compile(network, backend="eager")  # type: ignore[return-value]


def compiled_in_place(network: nn.Module) -> nn.Module:
    network.compile(backend="eager")
    return network


def compiled_within(network: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Identity(), compiled(network))


def autocast() -> AbstractContextManager[None]:
    return torch.autocast("cpu", torch.bfloat16)


Change = Callable[[nn.Module], nn.Module]
VARIANTS: dict[str, tuple[str, Change, Callable[[], AbstractContextManager[None]]]] = {
    "float64 mlp": ("mlp", float64, nullcontext),
    "float64 residual": ("residual", float64, nullcontext),
    "bfloat16 mlp": ("mlp", bfloat16, nullcontext),
    "autocast mlp": ("mlp", nn.Module.eval, autocast),
    "autocast residual": ("residual", nn.Module.eval, autocast),
    "autocast attention": ("attention", nn.Module.eval, autocast),
    "compiled": ("batch norm", compiled, nullcontext),
    "compiled in place": ("guarded", compiled_in_place, nullcontext),
    "compiled within": ("mlp", compiled_within, nullcontext),
}
NAMES = [*CASES, *VARIANTS]
SHAREABLE = [name for name in NAMES if name in VARIANTS or CASES[name].shareable]
# mean and variance of three outputs and one sum in each row
CRITICAL = critical_value((len(NAMES) + len(SHAREABLE)) * ROWS * 2 * 4, FALSE_ALARMS)


def make(name: str) -> tuple[nn.Module, Tensor, str, AbstractContextManager[None]]:
    """A network, its batch, its name in the zoo, and the context to run it in."""
    base, change, context = VARIANTS.get(name, (name, nn.Module.eval, nullcontext))
    network, x = build(base, ROWS)
    network = change(network)
    return network, x.to(next(network.parameters()).dtype), base, context()


def loop(name: str) -> Tensor:
    """The draws of torch itself, by the uncompiled network."""
    network, x, base, context = make(name)
    if "compiled" in name:
        network, _ = build(base, ROWS)
    case = CASES[base]
    with context:
        if case.rowwise:
            return train_mode_loop(network, x, 4 * DRAWS, select=case.select, copies=COPIES)
        return train_mode_loop(network, x, DRAWS, select=case.select)


@pytest.mark.parametrize("name", NAMES)
def test_spread_is_that_of_a_train_mode_loop(name: str) -> None:
    reference = with_sums(loop(name))
    for shared in (False, True) if name in SHAREABLE else (False,):
        network, x, base, context = make(name)
        with context:
            predictive = dubio.predict(
                network,
                x,
                draws=DRAWS if CASES[base].taped else FEWER_DRAWS,
                shared=shared,
                generator=seeded(1),
                select=CASES[base].select,
            )
        found = deviations(with_sums(predictive.draws), reference)
        assert found.numel() == ROWS * 2 * 4
        assert found.max() < CRITICAL


@pytest.mark.parametrize("mode", ["eval", "train", "mixed"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_changed(name: str, mode: str) -> None:
    network, x, base, context = make(name)
    with context:
        network(x.clone())  # compiles
        network.train(mode != "eval")
        if mode == "mixed":
            list(network.modules())[-1].eval()
        before, batch = snapshot(network), x.clone()
        for shared in (False, True) if name in SHAREABLE else (False,):
            dubio.predict(
                network,
                batch.clone(),
                draws=3,
                shared=shared,
                generator=seeded(),
                select=CASES[base].select,
            )
        assert snapshot(network) == before


WRONG: dict[str, str] = {
    "mlp": "p",
    "dropout2d": "p",
    "lstm": "dropout",
    "attention": "dropout",
    "causal attention": "dropout",
    "residual": "p",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_rate_that_is_wrong_by_a_fifth_is_found(name: str, factor: float) -> None:
    reference = with_sums(loop(name))
    network, x, *_ = make(name)
    for module in network.modules():
        rate = getattr(module, WRONG[name], None)
        if isinstance(rate, float):
            setattr(module, WRONG[name], rate * factor)
    wrong = dubio.predict(network, x, draws=DRAWS, generator=seeded(1)).draws
    assert deviations(with_sums(wrong), reference).max() > CRITICAL
