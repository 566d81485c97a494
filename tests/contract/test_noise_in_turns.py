"""Tasks, threads and generators that take turns inside of noise: each has its own, or an error."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch import Tensor, nn

import dubio
from networks import build
from references import seeded

NOISE = dubio.Noise(4, generator=seeded())


def masked() -> tuple[nn.Module, Tensor]:
    """A network whose noise is dubio's own."""
    torch.manual_seed(0)
    layer = dubio.Masked(nn.Linear(6, 6), dubio.masks.Bernoulli(drop=0.5))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(6, 3)).eval(), torch.randn(4, 6)


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "dropout": lambda: build("mlp"),
    "own": masked,
}


@pytest.fixture(params=NETWORKS)
def case(request: pytest.FixtureRequest) -> Iterator[tuple[nn.Module, Tensor]]:
    network, x = NETWORKS[request.param]()
    network.eval()
    before = network(x)
    yield network, x
    assert torch.equal(network(x), before)  # no noise is left around


def alone(network: nn.Module, x: Tensor, draw: int, calls: int = 1) -> list[Tensor]:
    """What the calls of one context give without anybody else around."""
    with NOISE[draw]:
        return [network(x) for _ in range(calls)]


def same(found: list[Tensor], expected: list[Tensor]) -> bool:
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_tasks_that_take_turns(case: tuple[nn.Module, Tensor], order: tuple[int, ...]) -> None:
    """Each task enters, runs, pauses, runs again and leaves, in an order of its own."""
    network, x = case
    expected = [alone(network, x, draw, calls=3) for draw in range(3)]
    mean = network(x)

    async def work(draw: int, turns: list[asyncio.Event]) -> list[Tensor]:
        found = []
        with NOISE[draw]:
            for turn in turns:
                await turn.wait()
                found.append(network(x))
        assert torch.equal(network(x), mean)
        return found

    async def main() -> list[list[Tensor]]:
        turns = [[asyncio.Event() for _ in range(3)] for _ in range(3)]
        tasks = [asyncio.create_task(work(draw, turns[draw])) for draw in range(3)]
        await asyncio.sleep(0)
        assert torch.equal(network(x), mean)  # the noise of others is not ours
        for step in range(3):
            for draw in order:
                turns[draw][step].set()
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)

    for found, wanted in zip(asyncio.run(main()), expected, strict=True):
        assert same(found, wanted)


def test_one_noise_in_many_tasks(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    noise = NOISE[1]
    expected = alone(network, x, 1, calls=2)

    async def work(naps: int) -> list[Tensor]:
        with noise:
            first = network(x)
            for _ in range(naps):
                await asyncio.sleep(0)
            return [first, network(x)]

    async def main() -> list[list[Tensor]]:
        return await asyncio.gather(*(work(naps) for naps in (3, 1, 2, 5, 1)))

    assert all(same(found, expected) for found in asyncio.run(main()))


def test_a_task_that_fails_or_is_cancelled(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case

    async def fails() -> None:
        with NOISE[0]:
            await asyncio.sleep(0)
            raise KeyError("mine")

    async def waits() -> None:
        with NOISE[2]:
            await asyncio.Event().wait()

    async def works() -> list[Tensor]:
        with NOISE[1]:
            first = network(x)
            for _ in range(4):
                await asyncio.sleep(0)
            return [first, network(x)]

    async def main() -> list[Tensor]:
        waiting = asyncio.create_task(waits())
        tasks = [asyncio.create_task(c) for c in (fails(), works())]
        await asyncio.sleep(0)
        waiting.cancel()
        found = await asyncio.gather(*tasks, waiting, return_exceptions=True)
        assert isinstance(found[0], KeyError)
        assert isinstance(found[2], asyncio.CancelledError)
        assert isinstance(found[1], list)
        return found[1]

    assert same(asyncio.run(main()), alone(network, x, 1, calls=2))


def test_predict_in_one_task_and_noise_in_another(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    wanted = dubio.predict(network, x, draws=3, generator=seeded(5)).draws

    async def holds() -> list[Tensor]:
        with NOISE[0]:
            first = network(x)
            await asyncio.sleep(0)
            return [first, network(x)]

    async def predicts() -> Tensor:
        await asyncio.sleep(0)
        return dubio.predict(network, x, draws=3, generator=seeded(5)).draws

    async def main() -> tuple[list[Tensor], Tensor]:
        return await asyncio.gather(holds(), predicts())

    held, draws = asyncio.run(main())
    assert same(held, alone(network, x, 0, calls=2))
    assert torch.equal(draws, wanted)


def test_threads_that_take_turns(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    found: dict[int, list[Tensor]] = {}
    barrier = threading.Barrier(3)

    def work(draw: int) -> None:
        with NOISE[draw]:
            barrier.wait()
            first = network(x)
            barrier.wait()
            found[draw] = [first, network(x)]
            barrier.wait()

    threads = [threading.Thread(target=work, args=(draw,)) for draw in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for draw in range(3):
        assert same(found[draw], alone(network, x, draw, calls=2))


def paused(network: nn.Module, x: Tensor, draw: int, calls: int) -> Iterator[Tensor]:
    with NOISE[draw]:
        for _ in range(calls):
            yield network(x)


def test_generators_one_after_the_other(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    for draw in range(2):
        assert same(list(paused(network, x, draw, 3)), alone(network, x, draw, calls=3))


def test_generators_that_take_turns_are_an_error(case: tuple[nn.Module, Tensor]) -> None:
    """A generator has no context of its own, so the noise of the other would count."""
    network, x = case
    first, second = paused(network, x, 0, 2), paused(network, x, 1, 2)
    expected = [alone(network, x, draw)[0] for draw in range(2)]
    assert torch.equal(next(first), expected[0])
    assert torch.equal(next(second), expected[1])
    with pytest.raises(RuntimeError, match="got two that take turns; leave a generator's"):
        next(first)
    assert torch.equal(next(second), alone(network, x, 1, calls=2)[1])
    assert list(second) == []


def test_a_generator_inside_of_another(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case

    def outer() -> Iterator[Tensor]:
        with NOISE[0]:
            yield network(x)
            yield from paused(network, x, 1, 2)
            yield network(x)

    def doubled() -> Iterator[Tensor]:
        with NOISE[2], lent(3):
            yield network(x)

    expected = alone(network, x, 0, calls=2)
    assert same(list(outer()), [expected[0], *alone(network, x, 1, calls=2), expected[1]])
    assert same(list(doubled()), alone(network, x, 3))


@contextmanager
def lent(draw: int) -> Iterator[None]:
    with NOISE[draw]:
        yield


def test_a_context_manager_lends_its_noise(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    with lent(0), lent(1):
        inner = network(x)
    assert same([inner], alone(network, x, 1))
    with lent(0):
        first = network(x)
        with NOISE[1]:
            second = network(x)
        third = network(x)
    assert same([first, third], alone(network, x, 0, calls=2))
    assert same([second], alone(network, x, 1))
    with ExitStack() as stack:
        stack.enter_context(NOISE[2])
        assert same([network(x)], alone(network, x, 2))


def test_exits_out_of_order_are_an_error_and_the_later_noise_goes_on(
    case: tuple[nn.Module, Tensor],
) -> None:
    network, x = case
    one, two, three = NOISE[0], NOISE[1], NOISE[2]
    with NOISE[3]:
        outer = [network(x)]
        one.__enter__()
        two.__enter__()
        three.__enter__()
        with pytest.raises(RuntimeError, match="entered last to be left first"):
            one.__exit__(None, None, None)
        found = network(x)
        with pytest.raises(RuntimeError, match="entered last to be left first"):
            two.__exit__(None, None, None)
        later = [found, network(x)]
        three.__exit__(None, None, None)
        outer.append(network(x))
    assert same(later, alone(network, x, 2, calls=2))
    assert same(outer, alone(network, x, 3, calls=2))


def test_a_mode_of_torch_in_between(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    noise = NOISE[0]
    noise.__enter__()
    with torch.device("cpu"):
        found = [network(x)]
        noise.__exit__(None, None, None)
        assert torch.overrides._get_current_function_mode_stack()
        mean = network(x)
    assert not torch.overrides._get_current_function_mode_stack()
    assert same(found, alone(network, x, 0))
    assert torch.equal(mean, network(x))


def test_a_mode_of_torch_that_takes_the_noise_away_is_an_error() -> None:
    device = torch.device("cpu")
    device.__enter__()
    with pytest.raises(RuntimeError, match=r"such as torch\.device, was left"), NOISE[0]:
        device.__exit__(None, None, None)  # takes the last one from the stack, whatever it is
    torch.overrides._pop_mode()
    assert not torch.overrides._get_current_function_mode_stack()


def test_a_noise_is_left_where_it_was_entered(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case
    noise, errors = NOISE[0], list[Exception]()

    def leave() -> None:
        try:
            noise.__exit__(None, None, None)
        except RuntimeError as error:
            errors.append(error)

    with noise:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        found = network(x)
    assert "left by the thread or task that has entered it" in str(errors[0])
    assert same([found], alone(network, x, 0))
    with pytest.raises(RuntimeError, match="left by the thread or task that has entered it"):
        noise.__exit__(None, None, None)


def test_own_noise_does_not_follow_into_another_thread_or_a_later_task() -> None:
    network, x = masked()

    async def in_a_thread() -> None:
        with NOISE[0]:
            await asyncio.to_thread(network, x)

    with pytest.raises(RuntimeError, match="enter the noise where the network is called"):
        asyncio.run(in_a_thread())

    async def outlives() -> None:
        async def late() -> None:
            await asyncio.sleep(0)
            network(x)

        with NOISE[0]:
            task = asyncio.create_task(late())
        await task

    with pytest.raises(RuntimeError, match="enter the noise where the network is called"):
        asyncio.run(outlives())


def test_asynchronous_generators(case: tuple[nn.Module, Tensor]) -> None:
    network, x = case

    async def draws(draw: int) -> AsyncIterator[Tensor]:
        with NOISE[draw]:
            for _ in range(2):
                yield network(x)
                await asyncio.sleep(0)

    async def collect(draw: int) -> list[Tensor]:
        return [y async for y in draws(draw)]

    async def main() -> list[list[Tensor]]:
        return await asyncio.gather(*map(collect, range(3)))

    for draw, found in enumerate(asyncio.run(main())):
        assert same(found, alone(network, x, draw, calls=2))
