"""Noise behind flags of train mode: it takes part, or is reported, and nothing else changes."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dubio
from gated_networks import (
    CLEAN,
    NOISY_BRANCHES,
    PATHS,
    UNCLEAN,
    Block,
    Branches,
    CountsItsCalls,
    Nested,
    TwoHeads,
    beside,
    branch,
)
from networks import CASES, build
from references import seeded
from snapshots import snapshot


def make(case: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return case().eval(), torch.randn(5, 6)


def draws(network: Callable[..., Any], x: Tensor, count: int = 6, **options: Any) -> Tensor:
    return dubio.predict(network, x, draws=count, generator=seeded(), **options).draws


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("case", CLEAN)
def test_noise_behind_a_flag_takes_part_and_nothing_is_left_changed(
    case: str, training: bool
) -> None:
    network, x = make(CLEAN[case])
    network.train(training)
    if isinstance(network, nn.Sequential):
        network[2].p = 0.0  # what remains is behind the flag
    before = snapshot(network)
    found = draws(network, x, 40)
    assert snapshot(network) == before
    assert len(torch.unique(found, dim=0)) > 1
    rows = draws(network, x, 40, shared=False)
    assert torch.equal(rows, found)


@pytest.mark.parametrize("case", CLEAN)
def test_without_noise_it_is_the_plain_eval_pass(case: str) -> None:
    network, x = make(CLEAN[case])
    with torch.no_grad():
        plain = network(x)
    for module in network.modules():
        for name in ("p", "rate", "drop_prob"):
            if hasattr(module, name):
                setattr(module, name, 0.0)
    with suppress(dubio.NoSitesError):
        torch.testing.assert_close(draws(network, x), plain.expand(6, 5, 3))
    torch.testing.assert_close(network(x), plain)


IN_EVAL_MODE_TOO = {"own noise", "gaussian noise", "made in forward"}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", sorted(CASES.keys() - IN_EVAL_MODE_TOO))
def test_without_noise_every_network_is_its_plain_eval_pass(name: str, training: bool) -> None:
    network, x = build(name)
    select = CASES[name].select
    with torch.no_grad():
        plain = network(x) if select is None else network(x)[select]
    network.train(training)
    loud = nn.Dropout(0.5)

    def both(x: Tensor) -> Tensor:
        y = network(x)
        return torch.stack([y if select is None else y[select], loud(plain)], 1)

    found = draws(both, x, 2, where=loud)[:, :, 0]
    torch.testing.assert_close(found, plain.expand_as(found))


@pytest.mark.parametrize("case", PATHS)
def test_every_noise_beside_a_dropout_is_a_site(case: str) -> None:
    network, x = make(lambda: beside(PATHS[case]()))
    names = [site.name for site in dubio.sites(network, x)]
    assert names[-1] == "2"
    assert any(name.startswith("0") for name in names)


def with_a_dropout(network: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Dropout(0.1), network, nn.LazyLinear(3), nn.Dropout(0.1))


def build_unclean(case: str) -> tuple[nn.Sequential, Tensor]:
    network, x = make(lambda: with_a_dropout(UNCLEAN[case]()))
    network(x)
    return network, x  # type: ignore[return-value]


@pytest.mark.parametrize("call", ["predict", "predictor", "shared", "attack", "elbo"])
@pytest.mark.parametrize("case", UNCLEAN)
def test_noise_that_cannot_be_had_alone_is_an_error(case: str, call: str) -> None:
    network, x = build_unclean(case)
    likelihood = dubio.likelihoods.Gaussian(1.0)
    y = torch.randn(5, 3)
    calls: dict[str, Callable[[], object]] = {
        "predict": lambda: draws(network, x),
        "predictor": lambda: dubio.Predictor(network)(x, seeded()),
        "shared": lambda: draws(network, x, shared=True),
        "attack": lambda: dubio.attack.fgsm(
            network, x, y, 0.1, likelihood=likelihood, bounds=None, generator=seeded()
        ),
        "elbo": lambda: dubio.ELBO(network, likelihood, num_data=5, generator=seeded())(x, y),
    }
    before = snapshot(network)
    for _ in range(2):  # the same whether it was asked before or not
        with pytest.raises(dubio.GateError, match=r"(?s)expected noise that can be.*What to do"):
            calls[call]()
    assert snapshot(network) == before


@pytest.mark.parametrize("case", UNCLEAN)
def test_such_noise_can_be_left_out(case: str) -> None:
    network, x = build_unclean(case)
    with torch.no_grad():
        plain = network(x)
    found = draws(network, x, 300, where="3")
    kept = found != 0
    torch.testing.assert_close(found[kept] * 0.9, plain.expand_as(found)[kept])


@pytest.mark.parametrize("case", UNCLEAN)
def test_sites_warn_about_such_noise(case: str) -> None:
    network, x = build_unclean(case)
    before = snapshot(network)
    with pytest.warns(UserWarning, match="expected noise that can be switched on by itself"):
        sites = dubio.sites(network, x)
    assert [site.name for site in sites] == ["0", "3"]
    assert snapshot(network) == before


@pytest.mark.parametrize("case", UNCLEAN)
def test_clean_gates_open_beside_those_that_stay_shut(case: str) -> None:
    network, x = make(lambda: nn.Sequential(Nested(), nn.Linear(3, 6), UNCLEAN[case](), Nested()))
    if case not in ("python", "numpy", "out of sight", "shake drop"):
        network[3] = nn.Sequential(nn.LazyLinear(6), Nested())
    network.eval()(x)
    with pytest.warns(UserWarning, match="behind a flag of train mode"):
        names = [site.name for site in dubio.sites(network, x)]
    assert [name for name in names if name.startswith("0")] == ["0.inner.dropout", "0.dropout"]
    assert len(names) == 4


def test_noise_that_does_not_act_on_the_output_is_no_error() -> None:
    network, x = make(TwoHeads)
    assert [site.name for site in dubio.sites(network, x)] == ["drop"]
    assert len(torch.unique(draws(network, x), dim=0)) == 6


def test_a_rate_that_is_raised_later_is_seen() -> None:
    network, x = make(lambda: nn.Sequential(Block(0.0), nn.Dropout(0.1)))
    assert [site.name for site in dubio.sites(network, x)] == ["1"]
    draws(network, x)
    network[0].rate = 0.3
    assert [site.name for site in dubio.sites(network, x)] == ["0.dropout", "1"]
    before = draws(network, x)
    fresh, _ = make(lambda: nn.Sequential(Block(0.3), nn.Dropout(0.1)))
    assert torch.equal(draws(fresh, x), before)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("case", ["gate", "nested", "by dropout", "merged", "counting"])
def test_the_first_call_gives_what_the_second_gives(case: str, shared: bool) -> None:
    network, x = make(lambda: nn.Sequential(nn.Dropout(0.1), CLEAN[case](), nn.Dropout(0.1)))
    first, second = (draws(network, x, shared=shared) for _ in range(2))
    prepared = dubio.Predictor(network, draws=6, shared=shared)
    assert torch.equal(first, second)
    torch.testing.assert_close(prepared(x, seeded()).draws, first)
    torch.testing.assert_close(prepared(x, seeded()).draws, first)
    if shared:
        torch.testing.assert_close(draws(network, x[:2], shared=True), first[:, :2])


@pytest.mark.parametrize("case", ["gate", "nested", "counting", "row path"])
def test_objectives_have_all_noise_in_eval_mode(case: str) -> None:
    network, x = make(CLEAN[case])
    y, likelihood = torch.randn(5, 3), dubio.likelihoods.Gaussian(1.0)
    before = snapshot(network)
    objective = dubio.ELBO(network, likelihood, num_data=5, generator=seeded()).eval()
    losses = {float(objective(x, y).detach()) for _ in range(12)}
    assert len(losses) > 4
    assert snapshot(network).tensors == before.tensors
    assert snapshot(network).attributes == before.attributes
    draws(network, x)
    again = dubio.ELBO(network, likelihood, num_data=5, generator=seeded()).eval()
    assert {float(again(x, y).detach()) for _ in range(12)} == losses
    if case == "gate":
        objective(x, y).backward()
        assert network.a.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("case", ["gate", "nested", "by dropout", "row path"])
def test_attacks_see_the_noise_at_once(case: str) -> None:
    network, x = make(CLEAN[case])
    y, likelihood = torch.randn(5, 3), dubio.likelihoods.Gaussian(1.0)

    def attack() -> Tensor:
        return dubio.attack.pgd(
            network, x, y, 0.5, likelihood=likelihood, draws=2, steps=3, bounds=None,
            generator=seeded(), random_start=False,
        )  # fmt: skip

    before = snapshot(network)
    first = attack()
    assert snapshot(network) == before
    draws(network, x)
    assert torch.equal(attack(), first)
    assert not torch.equal(first, attack_of_the_mean(network, x, y, likelihood))


def attack_of_the_mean(
    network: nn.Module, x: Tensor, y: Tensor, likelihood: dubio.likelihoods.Likelihood
) -> Tensor:
    found = x
    for _ in range(3):
        moved = found.clone().requires_grad_()
        log_prob = likelihood.log_prob(network(moved)[None], y)[0]
        (gradient,) = torch.autograd.grad(-log_prob.sum(), moved)
        found = x + (found + 2.5 * 0.5 / 3 * gradient.sign() - x).clamp(-0.5, 0.5)
    return found


def in_threads(work: Callable[[int], None], count: int = 3) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            start.wait()
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "case", ["gate", "nested", "by dropout", "counting", "rescaled", "row path"]
)
def test_threads_that_predict_at_once_have_all_noise(case: str, training: bool) -> None:
    expected_network, x = make(CLEAN[case])
    expected = draws(expected_network, x)
    for _ in range(5):  # the gates are found in the first call
        network, _ = make(CLEAN[case])
        network.train(training)
        before = snapshot(network)
        predictor = dubio.Predictor(network, draws=6)

        def work(index: int, network: nn.Module = network, predictor: Any = predictor) -> None:
            for _ in range(3):
                found = draws(network, x) if index else predictor(x, seeded()).draws
                torch.testing.assert_close(found, expected)

        in_threads(work)
        assert snapshot(network) == before


@pytest.mark.parametrize("case", ["gate", "nested", "by dropout", "row path"])
def test_plain_passes_and_contexts_in_other_threads_see_no_flag(case: str) -> None:
    network, x = make(CLEAN[case])
    with torch.no_grad():
        plain = network(x)
        noise = dubio.Noise(2, generator=seeded())
        with noise[1]:
            noisy = network(x)
    done = threading.Event()

    def work(index: int) -> None:
        with torch.no_grad():
            if index == 0:
                try:
                    for _ in range(20):
                        draws(network, x, 3)
                finally:
                    done.set()
            while not done.is_set():
                assert torch.equal(network(x), plain)
                with noise[1]:
                    assert torch.equal(network(x), noisy)
                assert not network.training

    in_threads(work)


def in_context(network: nn.Module, x: Tensor) -> None:
    with dubio.Noise(generator=seeded())[0], torch.no_grad():
        network(x)


def bound(network: nn.Module, x: Tensor, *, training: bool) -> None:
    network.train(training)
    try:
        likelihood = dubio.likelihoods.Gaussian(1.0)
        objective = dubio.ELBO(network, likelihood, num_data=len(x), generator=seeded())
        objective(x, torch.zeros(len(x), 3)).backward()
    finally:
        network.eval()


@pytest.mark.parametrize("how", ["pool", "kept pool", "thread"])
@pytest.mark.parametrize("kind", NOISY_BRANCHES)
@pytest.mark.parametrize(
    "call",
    [
        draws,
        dubio.sites,
        lambda net, x: dubio.Predictor(net)(x, seeded()),
        in_context,
        partial(bound, training=True),
        partial(bound, training=False),
    ],
)
def test_noise_in_threads_of_the_network_is_an_error(
    call: Callable[..., object], kind: str, how: str
) -> None:
    network, x = make(lambda: Branches(branch(NOISY_BRANCHES[kind]()), branch(), how=how))
    before = snapshot(network)
    with pytest.raises(NotImplementedError, match=r"computes in the thread.*one after the other"):
        call(network, x)
    assert snapshot(network) == before


class Alone(nn.Module):
    """Has one of its modules called by another thread."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.a, self.module, self.b = nn.Linear(6, 8), module, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as pool:
            return cast(Tensor, self.b(pool.submit(self.module, self.a(x)).result()))


@pytest.mark.parametrize("call", [draws, in_context])
def test_a_dropout_alone_in_a_thread_is_an_error(call: Callable[..., object]) -> None:
    network, x = make(lambda: Alone(nn.Dropout(0.5)))
    with pytest.raises(NotImplementedError, match=r"calls Dropout in ThreadPoolExecutor"):
        call(network, x)


@pytest.mark.parametrize("how", ["pool", "kept pool", "thread"])
def test_threads_without_noise_are_welcome(how: str) -> None:
    network, x = make(lambda: Branches(branch(), branch(nn.ReLU()), how=how))
    assert [site.name for site in dubio.sites(network, x)] == ["head.0"]
    assert len(torch.unique(draws(network, x), dim=0)) == 6


@pytest.mark.parametrize("how", ["fork", "checkpoint"])
@pytest.mark.parametrize("kind", NOISY_BRANCHES)
def test_work_that_torch_puts_off_has_its_noise(kind: str, how: str) -> None:
    network, x = make(lambda: Branches(branch(NOISY_BRANCHES[kind]()), branch(), how=how))
    assert len(dubio.sites(network, x)) == 2
    alone = draws(network, x, where=lambda site: site.name != "head.0")
    assert len(torch.unique(alone, dim=0)) == 6


RUNS: list[int] = []  # a global, which is not put back


def test_a_network_is_tried_out_ever_more_rarely() -> None:
    network, x = make(CountsItsCalls)
    network.a.register_forward_hook(lambda module, inputs, output: RUNS.append(1))
    counts = []
    for i in range(16):
        RUNS.clear()
        draws(network, x + i)
        counts.append(len(RUNS))
    assert [i + 1 for i, count in enumerate(counts) if count > 1] == [1, 2, 4, 8, 16]


class ClampsInTraining(nn.Module):
    """Hides dropout, and clamps large inputs, behind one flag."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = F.dropout(x.clamp(-10, 10), 0.5)
        return cast(Tensor, self.b(torch.relu(self.a(x))))


def test_what_a_flag_changes_is_noticed_on_a_later_batch() -> None:
    network, x = make(ClampsInTraining)
    draws(network, x)  # where the flag changes nothing else
    with pytest.raises(RuntimeError, match="changes more than the noise"):
        draws(network, 100 * x)
    with pytest.raises(RuntimeError, match="changes more than the noise"):
        draws(network, x)  # what is known now stays known


def test_populations_have_all_noise() -> None:
    x, likelihood = torch.randn(5, 6, generator=seeded()), dubio.likelihoods.Gaussian(1.0)
    networks = [make(Nested)[0] for _ in range(2)]
    members = [dubio.ELBO(network, likelihood, num_data=5) for network in networks]
    for predictive in dubio.Population(members).predict(x, draws=6, generator=seeded()):
        assert len(torch.unique(predictive.draws, dim=0)) == 6
    unclean = [dubio.ELBO(make(UNCLEAN["logits"])[0], likelihood, num_data=5) for _ in range(2)]
    with pytest.raises(dubio.GateError):
        dubio.Population(unclean).predict(x, draws=6, generator=seeded())
