"""A run that was killed and is called again ends as if it had not been."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dubio
from alone import BATCH, MEMBERS, N, data, objectives
from dubio.population.identity import described
from dubio.population.run import PopulationRun


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


@pytest.mark.parametrize(("kind", "killed_after"), [("bayes gaussian", 3), ("concrete", 33)])
def test_the_same_bits_after_a_kill(
    kind: str, killed_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = objectives(kind, rows=[40] * MEMBERS)
    outcome = _train(expected)
    assert len(set(outcome.steps.tolist())) > 1  # some have ended, and were left out

    step = PopulationRun.step

    def killed(run: PopulationRun) -> None:
        if run.done == killed_after:
            raise KeyboardInterrupt
        step(run)

    path = tmp_path / "runs" / "population.pt"
    monkeypatch.setattr(PopulationRun, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        _train(objectives(kind, rows=[40] * MEMBERS), checkpoint=path, save_every=0)
    monkeypatch.setattr(PopulationRun, "step", step)
    members = objectives(kind, rows=[40] * MEMBERS)
    resumed = _train(members, checkpoint=path)
    for name, values in vars(outcome).items():
        assert torch.equal(getattr(resumed, name).nan_to_num(), values.nan_to_num()), name
    for one, other in zip(expected, members, strict=True):
        assert one.step == other.step
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)

    again = objectives(kind, rows=[40] * MEMBERS)
    monkeypatch.setattr(PopulationRun, "step", lambda run: pytest.fail("nothing is left to do"))
    _train(again, checkpoint=path)
    assert torch.equal(next(again[0].parameters()), next(expected[0].parameters()))


def _other_weight(members: list[nn.Module]) -> None:
    members[1]._kl_weight = 0.6


def _other_precision(members: list[nn.Module]) -> None:
    members[1].likelihood = dubio.likelihoods.Gaussian(5.0)


def _other_rate(members: list[nn.Module]) -> None:
    members[1].model[0].mask._keep.fill_(0.7)


def _other_layer(members: list[nn.Module]) -> None:
    for member in members:
        member.model[1] = nn.Tanh()


def _other_slope(members: list[nn.Module]) -> None:
    for member in members:
        member.model[1].inplace = True


def _scheduled(members: list[nn.Module]) -> None:
    for member in members:
        member._kl_weight = dubio.schedules.warm_up(10)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_other_weight, "_kl_weight"),
        (_other_precision, r"likelihood\S*precision"),
        (_other_rate, r"model\.0\.mask\._keep"),
        (_other_layer, r"model\.1 \(module\) torch\S*ReLU there and torch\S*Tanh here"),
        (_other_slope, r"model\.1\.inplace False there and True here"),
        (_scheduled, r"step None there and 0 here, _kl_weight"),
    ],
)
def test_a_checkpoint_of_other_members(
    change: Callable[[list[nn.Module]], None], named: str, tmp_path: Path
) -> None:
    path = tmp_path / "population.pt"
    x, y = data()
    members = objectives("bernoulli")
    dubio.Population(members, range(MEMBERS)).fit(x, y, steps=2, checkpoint=path)
    members = objectives("bernoulli")
    change(members)
    with pytest.raises(dubio.CheckpointError, match=f"got another in .*: {named}"):
        dubio.Population(members, range(MEMBERS)).fit(x, y, steps=2, checkpoint=path)


def test_a_checkpoint_of_the_same_rows_dealt_out_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "population.pt"
    x, y = data()
    for lengths in ((20, 20, 20), (20, 30, 10)):
        rows = list(torch.arange(60).split(lengths))
        population = dubio.Population(objectives("plain", rows=[20] * 3), range(MEMBERS))
        for member, own in zip(population.members, rows, strict=True):
            member._num_data = len(own)
        if lengths[1] == 20:
            population.fit(x, y, rows=rows, steps=2, batch_size=8, checkpoint=path)
        else:
            with pytest.raises(dubio.CheckpointError, match="checksum of rows"):
                population.fit(x, y, rows=rows, steps=2, batch_size=8, checkpoint=path)


def test_functions_are_described_by_their_name_and_what_they_hold() -> None:
    def scaled(by: list[float]) -> Callable[[float], float]:
        return lambda value: by[0] * value

    first, same, other = (described(scaled([by])) for by in (1.0, 1.0, 2.0))
    assert first == same != other


def test_a_checkpoint_of_another_run(tmp_path: Path) -> None:
    path = tmp_path / "population.pt"
    x, y = data()
    dubio.Population(objectives("plain"), range(MEMBERS)).fit(x, y, steps=2, checkpoint=path)
    with pytest.raises(dubio.CheckpointError, match="expected the run that was called for"):
        dubio.Population(objectives("plain"), [5, 6, 7]).fit(x, y, steps=2, checkpoint=path)
