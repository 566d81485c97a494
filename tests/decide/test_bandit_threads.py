"""Several threads with one agent, and with agents of their own."""

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import nn

from bandit_runs import context, made, result, run
from dubio import decide
from dubio.likelihoods import Gaussian


def test_threads_share_an_agent(tmp_path: Path) -> None:
    agent = made("dropout", keep_log=True, memory=1000).keep_in(tmp_path)
    x = context(2)

    def some_rounds(_: int) -> list[int]:
        ids: list[int] = []
        for _ in range(20):
            choice = agent.choose(x)
            ids += choice.id.tolist()
            agent.expected(x)
            agent.update(choice.id, torch.ones(len(x)))
        return ids

    with ThreadPoolExecutor(4) as threads:
        ids = [one for part in threads.map(some_rounds, range(4)) for one in part]
    assert sorted(ids) == list(range(4 * 20 * len(x)))
    assert agent.remembered == len(agent.log) == len(ids)
    assert len(agent.pending) == 0
    again = decide.Bandit.load(tmp_path)
    assert torch.equal(again.choose(x).probabilities, agent.choose(x).probabilities)


def test_threads_share_a_population() -> None:
    nets = [nn.Sequential(nn.Dropout(0.2), nn.Linear(3, 2)) for _ in range(2)]
    agents = decide.BanditPopulation(nets, 2, likelihood=Gaussian(1.0))
    x = torch.ones(4, 3)

    def some_rounds(_: int) -> None:
        for _ in range(20):
            agents.update(x, agents.choose(x).action, torch.ones(2, 4))
            agents.expected(x)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(some_rounds, range(4)))
    assert agents.interactions == 80
    again = copy.deepcopy(agents)
    assert torch.equal(again.choose(x).action, agents.choose(x).action)


def test_threads_with_agents_of_their_own() -> None:
    agents = [made("concrete", keep_log=True) for _ in range(4)]
    alone = result(run(agents.pop(), 12))
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda one: result(run(one, 12)), agents)) == [alone] * 3
