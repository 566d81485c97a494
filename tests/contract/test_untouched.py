"""A prediction leaves nothing changed: flags, statistics, hooks, generators, the batch."""

import copy
import io
import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import dubio
from networks import build, mlp
from references import seeded
from snapshots import snapshot


class Failing(nn.Module):
    """Fails behind its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.drop(self.norm(x))
        raise KeyError("the user's own mistake")


class Remembering(nn.Module):
    """Keeps what it has computed last."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 6), nn.Linear(6, 3), nn.Dropout(0.5)
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.drop(self.a(x))
        return self.b(self.last)


class RunningMean(nn.Module):
    """Assigns to a buffer in forward, and keeps things in places of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(6))
        self._cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(x)
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
        self._cache["h"] = h
        return h - self.mean


class FunctionalNorm(nn.Module):
    """Batch normalisation and dropout, both as functions of ``self.training``."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("variance", torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        h = F.batch_norm(x, self.mean, self.variance, training=self.training)
        return F.dropout(h, 0.5, self.training)


class BranchesInPlace(nn.Module):
    """Writes over its input and cannot be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.a = nn.Dropout(0.5, inplace=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(x)
        return self.a(h) if h.sum() > 0 else self.a(-h)


def sample(model: Callable[..., Tensor], x: Tensor) -> None:
    dubio.predict(model, x, draws=3, generator=seeded())


def list_sites(model: Callable[..., Tensor], x: Tensor) -> None:
    dubio.sites(model, x)


@pytest.mark.parametrize("call", [sample, list_sites])
@pytest.mark.parametrize("training", [False, True])
def test_flags_return_after_an_exception(
    call: Callable[[Callable[..., Tensor], Tensor], None], training: bool
) -> None:
    network = nn.Sequential(nn.Dropout(0.2), Failing()).train(training)
    network[0].eval()
    before = snapshot(network)
    with pytest.raises(KeyError, match="the user's own mistake"):
        call(network, torch.randn(4, 6, generator=seeded()))
    assert snapshot(network) == before


def test_flags_return_when_a_draw_fails_later() -> None:
    class Fragile(nn.Module):
        calls: ClassVar[list[int]] = []

        def forward(self, x: Tensor) -> Tensor:
            self.calls.append(1)
            if len(self.calls) == 5:
                raise OSError("the disk is full")
            h = F.dropout(x)
            return h if h.sum() > 0 else -h

    network = nn.Sequential(nn.BatchNorm1d(6), Fragile()).train()
    flags = [module.training for module in network.modules()]
    with pytest.raises(OSError, match="the disk is full"):
        dubio.predict(network, torch.randn(4, 6), draws=10)
    assert [module.training for module in network.modules()] == flags


def test_hooks_stay_and_see_one_pass() -> None:
    network, x = build("mlp")
    sample(network, x)  # the first time a plain pass is made, to compare with
    seen: list[int] = []
    network.register_forward_hook(lambda module, inputs, output: seen.append(1))
    network[0].register_forward_pre_hook(lambda module, inputs: seen.append(2))
    before = snapshot(network)
    sample(network, x)
    assert snapshot(network) == before
    assert seen == [2, 1]


def test_a_hook_that_changes_the_output_counts() -> None:
    network, x = build("mlp")
    plain = dubio.predict(network, x, draws=3, generator=seeded()).draws
    network.register_forward_hook(lambda module, inputs, output: output + 1)
    torch.testing.assert_close(
        dubio.predict(network, x, draws=3, generator=seeded()).draws, plain + 1
    )


def test_parametrisations_are_not_trained() -> None:
    network = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Dropout(0.5)
    )
    before = snapshot(network.train())
    sample(network, torch.randn(4, 6, generator=seeded()))
    assert snapshot(network) == before


def test_batch_normalisation_as_a_function_is_not_trained() -> None:
    network, x = FunctionalNorm().eval(), 3 + torch.randn(4, 6)
    before = snapshot(network)
    draws = dubio.predict(network, x, draws=20, generator=seeded()).draws
    assert snapshot(network).tensors == before.tensors
    torch.testing.assert_close(draws.amax(0), 2 * x / (1 + 1e-5) ** 0.5)


class Service:
    """Keeps a network."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.network(x)
        return y


@pytest.mark.parametrize(
    "wrap",
    [
        lambda network: network.forward,
        lambda network: lambda x: network(x),
        lambda network: partial(network),
        lambda network: Service(network),
        lambda network: Service(network).__call__,
        lambda network: (lambda service: lambda x: service(x))(Service(network)),
        lambda network: (lambda networks: lambda x: networks[0](x))([network]),
    ],
    ids=["method", "closure", "partial", "object", "method of an object", "nested", "list"],
)
def test_a_function_of_a_network_in_train_mode_does_not_train_it(
    wrap: Callable[[nn.Module], Callable[..., Tensor]],
) -> None:
    network, x = build("batch norm")
    expected = dubio.predict(network, x, draws=3, generator=seeded()).draws
    before = snapshot(network.train())
    draws = dubio.predict(wrap(network), x, draws=3, generator=seeded()).draws
    assert snapshot(network) == before
    torch.testing.assert_close(draws, expected)


@pytest.mark.parametrize("call", [sample, list_sites])
@pytest.mark.parametrize(
    "network",
    [
        mlp(inplace=True),
        nn.Sequential(nn.ReLU(inplace=True), nn.Dropout(0.5)),
        BranchesInPlace(),
    ],
    ids=["dropout", "relu", "branches"],
)
def test_the_batch_is_left_as_it_was(
    network: nn.Module, call: Callable[[nn.Module, Tensor], None]
) -> None:
    x = torch.randn(4, 6, generator=seeded())
    before = x.clone()
    call(network, x)
    assert torch.equal(x, before)


def test_draws_of_a_network_that_writes_over_its_input_start_from_the_same_input() -> None:
    network, x = BranchesInPlace(), torch.randn(4, 6, generator=seeded())
    draws = dubio.predict(network, x.clone(), draws=20, generator=seeded()).draws
    noise = dubio.Noise(20, generator=seeded())
    with torch.no_grad(), noise[19]:
        torch.testing.assert_close(draws[19], network(x.clone()))


@pytest.mark.parametrize("keep_draws", [True, False])
def test_global_randomness_is_left_alone_with_a_loader(keep_draws: bool) -> None:
    network, x = build("mlp", 8)
    loader = DataLoader(TensorDataset(x), batch_size=3)
    before = torch.get_rng_state()
    dubio.predict(network, loader, draws=3, generator=seeded(), keep_draws=keep_draws)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["own noise", "data dependent", "written into"])
def test_global_randomness_is_left_alone_by_networks_that_run_once_per_draw(name: str) -> None:
    network, x = build(name)
    before = torch.get_rng_state()
    dubio.predict(network, x, draws=5, generator=seeded())
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_one_number_is_taken() -> None:
    network, x = build("mlp")
    torch.manual_seed(0)
    dubio.predict(network, x, draws=50)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    torch.randint(2**63 - 1, ())
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("mode", ["eval", "train", "mixed"])
@pytest.mark.parametrize(
    "name", ["batch norm", "guarded", "gated module", "written into", "residual"]
)
def test_two_threads_predict_with_one_network(name: str, mode: str) -> None:
    network, x = build(name)
    network.train(mode != "eval")
    if mode == "mixed":
        list(network.modules())[-1].eval()
    before = snapshot(network)
    expected = [dubio.predict(network, x, draws=4, generator=seeded(i)).draws for i in range(4)]
    wrong: list[object] = []
    start = threading.Barrier(2)

    def work(seed: int) -> None:
        try:
            start.wait()
            for step in range(25):
                index = 2 * seed + step % 2
                draws = dubio.predict(network, x, draws=4, generator=seeded(index)).draws
                if not torch.equal(draws, expected[index]):
                    wrong.append(draws)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    after = snapshot(network)
    assert (after.flags, after.attributes, after.tensors) == (
        before.flags,
        before.attributes,
        before.tensors,
    )


@pytest.mark.parametrize("source", ["tensor", "loader"])
def test_random_numbers_of_another_thread_go_on(source: str) -> None:
    """A network may train in one thread while another one predicts."""
    network, x = build("mlp")
    batch = x if source == "tensor" else DataLoader(TensorDataset(x))
    numbers: list[tuple[float, ...]] = []
    done = threading.Event()

    def draw() -> None:
        while not done.is_set():
            numbers.append(tuple(torch.rand(4).tolist()))

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(60):
            dubio.predict(network, batch, draws=3, shared=True, generator=seeded())
    finally:
        done.set()
        other.join()
    assert len(set(numbers)) == len(numbers) > 0


@pytest.mark.parametrize("shared", [False, True])
def test_threads_without_a_generator_have_noise_of_their_own(shared: bool) -> None:
    masks: list[Tensor] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(60):
                ones = torch.ones(2, 100)
                masks.append(dubio.predict(nn.Dropout(0.5), ones, draws=2, shared=shared).draws)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(torch.unique(torch.stack(masks), dim=0)) == 120


@pytest.mark.parametrize(
    "use",
    [
        copy.deepcopy,
        pickle.dumps,
        lambda network: torch.save(network, io.BytesIO()),
        lambda network: network.load_state_dict(network.state_dict()),
        lambda network: network.last.numpy(),
        lambda network: network.last.tolist(),
        lambda network: network.last.add_(1).sum().item(),
        lambda network: network.b(network.last).sum().backward(),
        lambda network: network(torch.randn(4, 6)),
        lambda network: dubio.predict(nn.Dropout(0.5), network.last, draws=2).mean,
    ],
    ids=["deepcopy", "pickle", "save", "load", "numpy", "tolist", "item", "backward", "call", "x"],
)
def test_what_a_network_keeps_of_a_pass_can_be_used(use: Callable[[Remembering], object]) -> None:
    network, x = Remembering().eval(), torch.randn(4, 6, generator=seeded())
    sample(network, x)
    use(network)


@pytest.mark.parametrize("use", [copy.deepcopy, pickle.dumps, lambda network: network.mean.numpy()])
def test_a_buffer_that_is_assigned_to_can_be_used(use: Callable[[RunningMean], object]) -> None:
    network, x = RunningMean().eval(), torch.randn(4, 6, generator=seeded())
    sample(network, x)
    use(network)


def test_what_a_hook_keeps_of_a_pass_can_be_used() -> None:
    network, x = build("mlp")
    kept: list[Tensor] = []
    network[3].register_forward_hook(lambda module, inputs, output: kept.append(output))
    sample(network, x)
    assert kept[0].numpy().shape == (4, 20)
    assert copy.deepcopy(kept[0]).tolist() == kept[0].tolist()


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["mlp", "residual", "lstm", "transformer", "data dependent"])
def test_grad_mode_does_not_matter(
    name: str, context: Callable[[], AbstractContextManager[None]]
) -> None:
    network, x = build(name)
    expected = dubio.predict(network, x, draws=3, generator=seeded()).draws
    before = snapshot(network)
    with context():
        draws = dubio.predict(network, x, draws=3, generator=seeded()).draws
    assert snapshot(network) == before
    assert not draws.requires_grad
    assert torch.equal(draws, expected)


def test_a_network_made_in_inference_mode_predicts() -> None:
    torch.manual_seed(0)
    with torch.inference_mode():
        network = mlp()
    draws = dubio.predict(network, torch.randn(4, 6), draws=3).draws
    assert len(torch.unique(draws, dim=0)) == 3


def test_inputs_that_require_gradients_are_welcome() -> None:
    network, x = build("mlp")
    expected = dubio.predict(network, x, draws=3, generator=seeded()).draws
    draws = dubio.predict(network, x.requires_grad_(), draws=3, generator=seeded()).draws
    assert torch.equal(draws, expected)
    assert not draws.requires_grad
    assert x.grad is None
