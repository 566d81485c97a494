"""Every metric against its reference: as a function, as a class, and in two processes."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torchmetrics import Metric

from dubio import metrics
from metric_cases import CASES, Case, numbers

RANKS = 2
each = pytest.mark.parametrize("case", CASES, ids=str)


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(numbers(found), numbers(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9, equal_nan=True)


@pytest.fixture(scope="module")
def references() -> dict[str, Any]:
    return {case.name: case.reference() for case in CASES}


@each
def test_functions(case: Case, references: dict[str, Any]) -> None:
    [(args, kwargs), *_] = case.part(slice(None))
    assert_same(case.function(*args, **kwargs), references[case.name])


@each
def test_classes_add_up_over_batches_and_forget(case: Case, references: dict[str, Any]) -> None:
    third = case.rows // 3
    pieces = slice(0, third), slice(third, third + 1), slice(third + 1, None)
    metric = case.feed(case.metric(), pieces[0])
    metric.compute()
    metric.reset()
    for _ in range(2):
        case.feed(metric, *pieces)
        assert_same(metric.compute(), references[case.name])
        metric.reset()


@pytest.mark.parametrize("case", [case for case in CASES if len(case.part(slice(1))) == 1], ids=str)
def test_forward_gives_the_batch_and_keeps_the_rest(case: Case, references: dict[str, Any]) -> None:
    half, metric = case.rows // 2, case.metric()
    metric(*case.part(slice(0, half))[0][0], **case.part(slice(0, half))[0][1])
    args, kwargs = case.part(slice(half, None))[0]
    assert_same(metric(*args, **kwargs), case.feed(case.metric(), slice(half, None)).compute())
    assert_same(metric.compute(), references[case.name])


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS
    )
    found = []
    for case in CASES:
        cut, both, one = case.rows // 3, case.metric(), case.metric()
        mine = slice(0, cut) if rank == 0 else slice(cut, None)
        case.feed(both, mine)
        if rank == 0:  # the other has no data at all
            case.feed(one, slice(0, cut), slice(cut, None))
        found.append([numbers(both.compute()), numbers(one.compute())])
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("metrics")
    torch.multiprocessing.spawn(work, (str(folder),), nprocs=RANKS)
    return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(RANKS)]


@each
def test_two_processes(case: Case, references: dict[str, Any], distributed: list[Any]) -> None:
    for rank in range(RANKS):
        for found in distributed[rank][CASES.index(case)]:
            assert_same(tuple(found), tuple(numbers(references[case.name])))


def test_no_metric_lacks_a_case() -> None:
    classes = {
        value
        for name in metrics.__all__
        if inspect.isclass(value := getattr(metrics, name)) and issubclass(value, Metric)
    }
    assert classes == {type(case.metric()) for case in CASES}
