"""Several threads with one agent, and with agents of their own."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from bandit_runs import context, made, result, run
from dubio import decide


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


def test_threads_with_agents_of_their_own() -> None:
    agents = [made("concrete", keep_log=True) for _ in range(4)]
    alone = result(run(agents.pop(), 12))
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda one: result(run(one, 12)), agents)) == [alone] * 3
