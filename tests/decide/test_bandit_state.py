"""Agents that are saved, killed and loaded go on to the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import dubio
from bandit_runs import ACTIONS, KINDS, WIDTH, context, made, result, run
from dubio import CheckpointError, decide
from dubio.decide import journal
from dubio.likelihoods import Gaussian

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    alone = result(run(made(kind, keep_log=True), 24))
    run(made(kind, keep_log=True), 13).save(tmp_path / "agent")
    assert [path.name for path in (tmp_path / "agent").iterdir()] == ["agent.pt"]
    assert result(run(decide.Bandit.load(tmp_path / "agent"), 24)) == alone


@pytest.mark.parametrize("kind", KINDS)
def test_kept_call_by_call(kind: str, tmp_path: Path) -> None:
    alone = result(run(made(kind, keep_log=True), 20))
    agent = run(made(kind, keep_log=True), 3).keep_in(tmp_path)  # snapshots only at the beginning
    run(agent, 14)
    again = decide.Bandit.load(tmp_path)
    assert torch.equal(again.pending, agent.pending)
    assert result(run(again, 20)) == alone
    assert result(run(agent, 20)) == alone  # nor does it disturb to be kept


def test_killed_at_ten_moments(tmp_path: Path) -> None:
    source = Path(dubio.__file__).parents[1]
    script = str(TESTS / "killed_bandits.py")
    finished = subprocess.run(
        [sys.executable, "-W", "error", script, str(tmp_path), "bayes", "10"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{TESTS}", "OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert found["kills"] >= 10
    assert found["different"] == 0


def test_a_torn_record_is_dropped(tmp_path: Path) -> None:
    agent = made("plain").keep_in(tmp_path)
    agent.choose(context(2))
    (path,) = tmp_path.glob("journal.*")
    whole = path.read_bytes()
    agent.choose(context(2))
    torn = path.read_bytes()
    assert len(torn) == 2 * len(whole)
    for length in range(len(whole), len(torn), 7):
        path.write_bytes(torn[:length])
        assert decide.Bandit.load(tmp_path).choices == 3
    path.write_bytes(torn[:-1] + bytes([torn[-1] ^ 1]))  # a wrong checksum
    assert decide.Bandit.load(tmp_path).choices == 3
    path.write_bytes(torn)
    assert decide.Bandit.load(tmp_path).choices == 6


def test_events_are_the_same_again() -> None:
    event = {"call": "x", "ids": [1, 2], "none": None, "y": torch.randn(2, 3), "z": torch.ones(0)}
    again = journal.decode(journal.encode(event))
    assert torch.equal(torch.tensor(again["y"]), event["y"])
    assert again["z"].shape == (0,)
    assert (again["call"], again["ids"], again["none"]) == ("x", [1, 2], None)


def test_snapshots_begin_a_new_journal(tmp_path: Path) -> None:
    agent = made("plain").keep_in(tmp_path, save_every=0.0)
    run(agent, 6)
    (only,) = tmp_path.glob("journal.*")
    assert only.stat().st_size == 0
    assert decide.Bandit.load(tmp_path).choices == agent.choices


def test_a_failed_update_is_kept_as_it_is(tmp_path: Path) -> None:
    agent = made("plain", optimizer=diverging).keep_in(tmp_path)
    choice = agent.choose(context(2))
    with pytest.raises(FloatingPointError, match="loss: expected a finite one"):
        agent.update(choice.id, torch.ones(3), steps=20)
    again = decide.Bandit.load(tmp_path)
    assert again.remembered == agent.remembered == 3
    for one, other in zip(_weights(agent), _weights(again), strict=True):
        assert torch.equal(one, other)


def diverging(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e25)  # type: ignore[arg-type]


def _weights(agent: decide.Bandit) -> list[torch.Tensor]:
    return [value for net in agent._parts["net"] for value in net.state_dict().values()]


class TestFolders:
    def test_one_agent_at_a_time(self, tmp_path: Path) -> None:
        agent = made("plain").keep_in(tmp_path)
        with pytest.raises(CheckpointError, match="expected one that no other agent is kept in"):
            decide.Bandit.load(tmp_path).keep_in(tmp_path)
        agent.close()
        decide.Bandit.load(tmp_path).keep_in(tmp_path)

    def test_another_agent_is_not_written_over(self, tmp_path: Path) -> None:
        made("plain").save(tmp_path)
        with pytest.raises(CheckpointError, match=r"expected an empty one.*Bandit.load\(folder\)"):
            made("plain").keep_in(tmp_path)

    def test_an_agent_that_is_gone_lets_go(self, tmp_path: Path) -> None:
        agent = made("plain").keep_in(tmp_path)
        del agent
        decide.Bandit.load(tmp_path).keep_in(tmp_path)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="expected one of a saved agent"):
            decide.Bandit.load(tmp_path)

    def test_damaged(self, tmp_path: Path) -> None:
        made("plain").save(tmp_path)
        path = tmp_path / "agent.pt"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="expected a whole file"):
            decide.Bandit.load(tmp_path)

    def test_something_else(self, tmp_path: Path) -> None:
        torch.save({"weights": torch.ones(2)}, tmp_path / "agent.pt")
        with pytest.raises(CheckpointError, match="with something else in it"):
            decide.Bandit.load(tmp_path)

    def test_a_lost_journal(self, tmp_path: Path) -> None:
        made("plain").keep_in(tmp_path)
        for path in tmp_path.glob("journal.*"):
            path.unlink()
        with pytest.raises(CheckpointError, match="expected the journal"):
            decide.Bandit.load(tmp_path)

    def test_other_choices_than_then(self, tmp_path: Path) -> None:
        agent = made("plain").keep_in(tmp_path)
        choice = agent.choose(context(2))
        (path,) = tmp_path.glob("journal.*")
        (event,) = journal.read(path)
        path.unlink()
        changed = journal.Journal(path)
        changed.append({**event, "action": (choice.action + 1) % ACTIONS})
        changed.close()
        with pytest.raises(CheckpointError, match="expected the same choices as then"):
            decide.Bandit.load(tmp_path)


def test_what_cannot_be_pickled_is_passed(tmp_path: Path) -> None:
    class Local(nn.Linear):
        pass

    def agent(net: nn.Module) -> decide.Bandit:
        return decide.Bandit(
            net, ACTIONS, likelihood=Gaussian(4.0), rule="epsilon", schedule=lambda n: 1.0, seed=1
        )

    original = run(agent(Local(WIDTH, ACTIONS)), 8)
    original.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"net: expected one that could be pickled.*net=…"):
        decide.Bandit.load(tmp_path)
    again = decide.Bandit.load(tmp_path, net=Local(WIDTH, ACTIONS), schedule=lambda n: 1.0)
    assert torch.equal(run(again, 16).expected(context(2)), run(original, 16).expected(context(2)))
