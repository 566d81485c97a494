"""A run that was killed and is called again ends as if it had not been."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dubio
from alone import BATCH, MEMBERS, N, data, objectives
from dubio.population.run import Run


def _train(members: list[nn.Module], **options: Any) -> Any:
    x, y = data()
    return dubio.Population(members, range(MEMBERS)).fit(
        x,
        y,
        rows=[torch.arange(40)] * MEMBERS,
        steps=70,
        batch_size=BATCH,
        learning_rate=[1e-3, 0.2, 0.05],
        validation_rows=[torch.arange(40, N)] * MEMBERS,
        validate_every=5,
        patience=2,
        **options,
    )


@pytest.mark.parametrize(("kind", "killed_after"), [("bayes", 3), ("concrete", 33)])
def test_the_same_bits_after_a_kill(
    kind: str, killed_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = objectives(kind, rows=[40] * MEMBERS)
    outcome = _train(expected)
    assert len(set(outcome.steps.tolist())) > 1  # some have ended, and were left out

    step = Run.step

    def killed(run: Run) -> None:
        if run.done == killed_after:
            raise KeyboardInterrupt
        step(run)

    path = tmp_path / "runs" / "population.pt"
    monkeypatch.setattr(Run, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        _train(objectives(kind, rows=[40] * MEMBERS), checkpoint=path, save_every=0)
    monkeypatch.setattr(Run, "step", step)
    members = objectives(kind, rows=[40] * MEMBERS)
    resumed = _train(members, checkpoint=path)
    for name, values in vars(outcome).items():
        assert torch.equal(getattr(resumed, name).nan_to_num(), values.nan_to_num()), name
    for one, other in zip(expected, members, strict=True):
        assert one.step == other.step
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)

    again = objectives(kind, rows=[40] * MEMBERS)
    monkeypatch.setattr(Run, "step", lambda run: pytest.fail("nothing is left to do"))
    _train(again, checkpoint=path)
    assert torch.equal(next(again[0].parameters()), next(expected[0].parameters()))


def test_a_checkpoint_of_another_run(tmp_path: Path) -> None:
    path = tmp_path / "population.pt"
    x, y = data()
    dubio.Population(objectives("plain"), range(MEMBERS)).fit(x, y, steps=2, checkpoint=path)
    with pytest.raises(dubio.CheckpointError, match="expected the run that was called for"):
        dubio.Population(objectives("plain"), [5, 6, 7]).fit(x, y, steps=2, checkpoint=path)
