"""Folders of agents: what others write there, what is damaged or deleted, and odd numbers."""

import copy
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bandit_runs import ACTIONS, KINDS, context, made, run, with_dropout
from dubio import CheckpointError, decide
from dubio.likelihoods import Gaussian

X = context(2)


def test_save_does_not_write_over_an_agent_that_is_kept(tmp_path: Path) -> None:
    kept = made("plain").keep_in(tmp_path)
    kept.choose(X)
    with pytest.raises(CheckpointError, match="expected one that no other agent is kept in"):
        made("plain").save(tmp_path)
    kept.choose(X)
    assert decide.Bandit.load(tmp_path).choices == kept.choices


def test_an_agent_that_was_overtaken_is_not_kept(tmp_path: Path) -> None:
    made("plain").save(tmp_path)
    first, second = decide.Bandit.load(tmp_path), decide.Bandit.load(tmp_path)
    second.keep_in(tmp_path).choose(X)
    second.close()
    with pytest.raises(CheckpointError, match="or with more of this one; continue with"):
        first.keep_in(tmp_path)
    assert decide.Bandit.load(tmp_path).choices == 3
    second.keep_in(tmp_path)  # it knows what is there


def test_calls_after_loading_an_agent_that_goes_on_are_not_lost(tmp_path: Path) -> None:
    agent = made("plain").keep_in(tmp_path)
    again = decide.Bandit.load(tmp_path)
    agent.choose(X)
    agent._kept.close()  # type: ignore[union-attr] # as if it were killed
    with pytest.raises(CheckpointError, match="with more of this one"):
        again.keep_in(tmp_path)


def test_an_agent_may_be_kept_where_it_was_saved(tmp_path: Path) -> None:
    agent = made("plain")
    agent.save(tmp_path)
    agent.keep_in(tmp_path).choose(X)
    assert decide.Bandit.load(tmp_path).choices == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_is_not_kept_and_goes_its_own_way(
    copied: Callable[[decide.Bandit], decide.Bandit], tmp_path: Path
) -> None:
    agent = run(made("plain"), 5).keep_in(tmp_path)
    twin = copied(agent)
    twin.choose(X)
    twin.close()
    agent.choose(X[:1])
    assert decide.Bandit.load(tmp_path).choices == agent.choices == twin.choices - 2
    assert not torch.equal(agent.pending, twin.pending)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_does_not_write_to_the_folder(tmp_path: Path) -> None:
    """Its choices would get the ids of the first process' choices."""
    agent = made("plain").keep_in(tmp_path)
    agent.choose(X)
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            agent.choose(X)
        except CheckpointError:
            copy.deepcopy(agent).choose(X)
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    agent.choose(X)
    assert torch.equal(decide.Bandit.load(tmp_path).pending, agent.pending)


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_of_the_agent_looks_like_a_change_by_hand(kind: str, tmp_path: Path) -> None:
    agent = made(kind).keep_in(tmp_path)
    for _ in range(3):
        run(agent, agent.choices + 2)
        agent.expected(X)
        agent.train(1)
    assert [path.name for path in tmp_path.glob("journal.*")] == ["journal.0"]  # no new snapshot


@pytest.mark.parametrize("call", ["choose", "update"])
def test_weights_that_are_changed_by_hand_are_kept(call: str, tmp_path: Path) -> None:
    agent = made("dropout").keep_in(tmp_path)
    choice = agent.choose(X)
    net = agent._parts["net"][0]
    net.load_state_dict({name: value.flip(0) for name, value in net.state_dict().items()})
    if call == "update":
        agent.update(choice.id, torch.ones(3))
    agent.choose(X)
    agent.choose(X)
    again = decide.Bandit.load(tmp_path)
    assert torch.equal(again.expected(X), agent.expected(X))
    assert torch.equal(again.pending, agent.pending)


@pytest.mark.parametrize("where", ["length", "checksum", "body"])
def test_a_damaged_record_before_others(where: str, tmp_path: Path) -> None:
    agent = made("plain").keep_in(tmp_path)
    for _ in range(3):
        agent.choose(X)
    (path,) = tmp_path.glob("journal.*")
    content = bytearray(path.read_bytes())
    content[len(content) // 3 + {"length": 3, "checksum": 5, "body": 50}[where]] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"expected a whole journal, got .* damaged record"):
        decide.Bandit.load(tmp_path)


def test_a_folder_that_is_deleted_is_made_again(tmp_path: Path) -> None:
    agent = made("plain").keep_in(tmp_path / "agent")
    agent.choose(X)
    shutil.rmtree(tmp_path / "agent")
    agent.choose(X)
    agent.choose(X)
    assert decide.Bandit.load(tmp_path / "agent").choices == 9


def falling(updates: int) -> Any:
    return np.exp(-np.float64(updates))


def test_numbers_of_numpy_can_be_loaded(tmp_path: Path) -> None:
    agent = decide.Bandit(
        with_dropout(),
        np.int64(ACTIONS),  # type: ignore[arg-type]
        likelihood=Gaussian(1.0),
        floor=np.float64(0.1),
        seed=np.int64(3),  # type: ignore[arg-type]
        schedule=falling,
        optimizer=partial(torch.optim.SGD, lr=np.float32(0.01), momentum=np.float64(0.5)),
    )
    agent.update(agent.choose(X).id, torch.ones(3))
    agent.save(tmp_path)
    again = decide.Bandit.load(tmp_path)
    for one in (agent, again):
        one.update(one.choose(X).id, torch.ones(3))
    assert torch.equal(agent.expected(X), again.expected(X))


def test_half_precision_is_kept(tmp_path: Path) -> None:
    net = with_dropout().bfloat16()
    agent = decide.Bandit(net, ACTIONS, likelihood=Gaussian(1.0)).keep_in(tmp_path)
    agent.update(agent.choose(X).id, torch.ones(3))
    again = decide.Bandit.load(tmp_path)
    assert torch.equal(again.choose(X).probabilities, agent.choose(X).probabilities)
