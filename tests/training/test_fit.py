"""The loop against the same loop written out; data, schedules, validation, early stopping."""

import math
from collections import UserDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, TensorDataset

import dubio

ROWS = 22


class Loss(nn.Module):
    """A network with dropout and batch normalisation, and its squared error."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.net(x), y)


class Table(nn.Module):
    """A loss that is read off the data: the mean of y, plus a weight that is 0 times as heavy."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.seen: list[Any] = []

    def forward(self, x: Any, y: Tensor) -> Tensor:
        self.seen.append(x)
        return y.mean() + self.weight - self.weight.detach()


def rows() -> tuple[Tensor, Tensor]:
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1))
    return x, x.prod(1, keepdim=True)


def elbo(**options: Any) -> dubio.ELBO:
    torch.manual_seed(0)
    masked = dubio.Masked(nn.Linear(8, 1), dubio.masks.Concrete(8, drop=0.2))
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), masked)
    return dubio.ELBO(net, dubio.likelihoods.Gaussian(3.0), ROWS, **options)


def by_hand(
    objective: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    batch_size: int,
    schedule: LRScheduler | None = None,
    each_step: bool = False,
    clip_norm: float | None = None,
) -> list[float]:
    """The loop that fit stands for; gives the mean loss of each epoch."""
    x, y = rows()
    objective.train()
    means = []
    for _ in range(epochs):
        total = 0.0
        for part in torch.randperm(len(x)).split(batch_size):
            optimizer.zero_grad()
            loss = objective(x[part], y[part])
            loss.backward()
            if clip_norm is not None:
                nn.utils.clip_grad_norm_(objective.parameters(), clip_norm)
            optimizer.step()
            total += len(part) * loss.item()
            if schedule is not None and each_step:
                schedule.step()
        if schedule is not None and not each_step:
            schedule.step()
        means.append(total / len(x))
    return means


def assert_same(one: nn.Module, other: nn.Module) -> None:
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert torch.equal(value, b[name]) if isinstance(value, Tensor) else value == b[name], name


@pytest.mark.parametrize("build", [Loss, elbo])
def test_it_is_the_loop_written_by_hand(build: Callable[[], nn.Module]) -> None:
    one, other = build(), build()
    torch.manual_seed(5)
    history = dubio.fit(one, rows(), epochs=3, batch_size=5)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    adam = torch.optim.Adam(other.parameters(), fused=True)
    losses = by_hand(other, adam, epochs=3, batch_size=5)
    assert_same(one, other)
    assert [epoch.loss for epoch in history] == losses
    assert torch.equal(after, torch.get_rng_state())


@pytest.mark.parametrize("each_step", [True, False])
def test_schedules_and_clipping_are_those_of_the_loop(each_step: bool) -> None:
    one, other = Loss(), Loss()
    make: Callable[[Any], LRScheduler] = (
        partial(CosineAnnealingLR, T_max=4 * 3) if each_step else partial(StepLR, step_size=2)
    )
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    torch.manual_seed(5)
    history = dubio.fit(
        one,
        rows(),
        epochs=3,
        batch_size=6,
        optimizer=sgd,
        schedule=make,
        schedule_every="step" if each_step else "epoch",
        clip_norm=0.2,
    )
    torch.manual_seed(5)
    optimizer = sgd(other.parameters())
    by_hand(
        other,
        optimizer,
        epochs=3,
        batch_size=6,
        schedule=make(optimizer),
        each_step=each_step,
        clip_norm=0.2,
    )
    assert_same(one, other)
    if each_step:  # of the last step: the eleventh after the first
        expected = 0.05 * (1 + math.cos(math.pi * 11 / 12))
        assert history[-1].learning_rate == pytest.approx(expected)
    else:
        rates = [epoch.learning_rate for epoch in history]
        assert rates == pytest.approx([0.1, 0.1, 0.01])


def test_optimizer_and_schedule_may_be_ready_made() -> None:
    objective = Loss()
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.1)
    schedule = StepLR(optimizer, 1)
    dubio.fit(objective, rows(), epochs=2, optimizer=optimizer, schedule=schedule)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.001)


@pytest.mark.parametrize("with_validation", [True, False])
def test_a_plateau_is_one_of_the_validation_or_else_of_the_loss(with_validation: bool) -> None:
    numbers = iter([1.0, 2.0, 0.5, 0.6])
    x, y = torch.zeros(8, 1), torch.ones(8, 1)  # the loss of the table never changes
    history = dubio.fit(
        Table(),
        (x, y),
        epochs=4,
        schedule=partial(ReduceLROnPlateau, patience=0, factor=0.5),
        optimizer=partial(torch.optim.SGD, lr=1.0),
        validate=(lambda: next(numbers)) if with_validation else None,
    )
    expected = [1.0, 1.0, 0.5, 0.5] if with_validation else [1.0, 1.0, 0.5, 0.25]
    assert [epoch.learning_rate for epoch in history] == expected


def test_losses_are_means_over_rows() -> None:
    y = torch.tensor([1.0, 2.0, 3.0, 4.0, 10.0])
    loader = DataLoader(TensorDataset(torch.zeros(5, 1), y), batch_size=4)
    (epoch,) = dubio.fit(Table(), loader, epochs=1)
    assert epoch.loss == 4.0
    assert epoch.nll is epoch.kl is epoch.validation is None


def test_the_parts_of_an_elbo_are_in_the_history() -> None:
    objective = elbo(kl_weight=0.5)
    (epoch,) = dubio.fit(objective, rows(), epochs=1, batch_size=ROWS)
    assert epoch.nll == pytest.approx(float(objective.nll))
    assert epoch.kl == pytest.approx(float(objective.kl))
    assert epoch.loss == pytest.approx(float(objective.nll + 0.5 * objective.kl / ROWS))


def test_every_row_is_seen_once_an_epoch_in_a_new_order() -> None:
    x = torch.arange(10, dtype=torch.uint8)[:, None]
    table = Table()
    dubio.fit(table, (x, torch.zeros(10)), epochs=2, batch_size=4)
    assert [len(part) for part in table.seen] == [4, 4, 2] * 2
    assert all(part.dtype == torch.uint8 for part in table.seen)
    orders = [torch.cat(table.seen[:3]).flatten(), torch.cat(table.seen[3:]).flatten()]
    assert not torch.equal(*orders)
    for order in orders:
        assert order.sort().values.tolist() == list(range(10))


def test_a_generator_shuffles_alone() -> None:
    state = torch.get_rng_state()
    seen = []
    for _ in range(2):
        table = Table()
        generator = torch.Generator().manual_seed(3)
        x, y = torch.arange(9.0)[:, None], torch.zeros(9)
        dubio.fit(table, (x, y), epochs=1, generator=generator)
        seen.append(table.seen[0])
    assert torch.equal(*seen)
    assert torch.equal(state, torch.get_rng_state())


def test_inputs_may_be_tuples_and_dicts() -> None:
    a, b = torch.arange(6.0), torch.arange(6.0) + 10
    for x in ((a, b), {"a": a, "b": b, "scale": torch.tensor(2.0), "name": "both"}):
        table = Table()
        dubio.fit(table, (x, a), epochs=1, batch_size=4)  # type: ignore[arg-type]
        first = table.seen[0]
        one, two = (first["a"], first["b"]) if isinstance(first, dict) else first
        assert torch.equal(one + 10, two)
        assert len(one) == 4
    assert first["name"] == "both"
    assert float(first["scale"]) == 2.0


def test_mappings_are_as_good_as_dicts() -> None:
    x, y = torch.arange(6.0), torch.zeros(6)
    for data in ((UserDict(x=x), y), [(UserDict(x=x[:4]), y[:4])]):
        table = Table()
        dubio.fit(table, data, epochs=1, batch_size=4 if isinstance(data, tuple) else None)
        assert table.seen[0]["x"].shape == (4,)


def test_a_list_of_batches_is_data() -> None:
    x, y = rows()
    one, other = Loss(), Loss()
    torch.manual_seed(5)
    dubio.fit(one, [(x[:11], y[:11]), (x[11:], y[11:])], epochs=2)
    torch.manual_seed(5)
    dubio.fit(other, DataLoader(TensorDataset(x, y), 11, generator=torch.Generator()), epochs=2)
    assert_same(one, other)


def test_parameters_that_the_optimizer_does_not_have_stay() -> None:
    objective = Loss()
    first, last = objective.net[0], objective.net[4]
    before = first.weight.detach().clone()
    last_before = last.weight.detach().clone()
    dubio.fit(objective, rows(), epochs=2, optimizer=torch.optim.Adam(last.parameters()))
    assert torch.equal(first.weight, before)
    assert not torch.equal(last.weight, last_before)
    first.requires_grad_(False)
    dubio.fit(objective, rows(), epochs=1)
    assert torch.equal(first.weight, before)


def test_embeddings_with_sparse_gradients() -> None:
    class Rating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items = nn.Embedding(7, 2, sparse=True)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(self.items(x).sum(1), y)

    objective = Rating()
    history = dubio.fit(
        objective,
        (torch.arange(7), torch.ones(7)),
        epochs=20,
        optimizer=partial(torch.optim.SparseAdam, lr=0.1),
    )
    assert history[-1].loss < history[0].loss


# Validation and early stopping


def test_validation_sees_eval_mode_and_leaves_training_alone() -> None:
    one, other = Loss(), Loss()
    modes = []

    def validate() -> Tensor:
        modes.append((one.net.training, torch.is_grad_enabled()))
        torch.rand(3)
        return one(*rows())

    torch.manual_seed(5)
    watched = dubio.fit(one, rows(), epochs=2, batch_size=5, validate=validate)
    torch.manual_seed(5)
    dubio.fit(other, rows(), epochs=2, batch_size=5)
    assert modes == [(False, False)] * 2
    assert_same(one, other)
    with torch.no_grad():
        assert watched[-1].validation == float(one.eval()(*rows()))


def test_early_stopping_ends_with_the_best_weights() -> None:
    objective = Loss()
    weights: list[dict[str, Any]] = []
    numbers = iter([3.0, 2.0, math.inf, 1.0, 1.0, 5.0, 4.0])

    def validate() -> float:
        weights.append({k: v.clone() for k, v in objective.state_dict().items()})
        return next(numbers)

    history = dubio.fit(objective, rows(), epochs=50, batch_size=5, validate=validate, patience=3)
    assert [epoch.epoch for epoch in history] == [1, 2, 3, 4, 5, 6, 7]
    assert history.best is history[3]
    assert not torch.equal(weights[3]["net.0.weight"], weights[-1]["net.0.weight"])
    for name, value in objective.state_dict().items():
        assert torch.equal(value, weights[3][name]), name


def test_patience_restores_the_best_weights_when_epochs_run_out_too() -> None:
    objective, numbers, kept = Loss(), iter([1.0, 2.0]), []

    def validate() -> float:
        kept.append(objective.net[0].weight.clone())
        return next(numbers)

    assert len(dubio.fit(objective, rows(), epochs=2, validate=validate, patience=5)) == 2
    assert torch.equal(objective.net[0].weight, kept[0])


def test_validation_alone_only_watches() -> None:
    objective, numbers, kept = Loss(), iter([1.0, 2.0, 3.0]), []

    def validate() -> float:
        kept.append(objective.net[0].weight.clone())
        return next(numbers)

    assert len(dubio.fit(objective, rows(), epochs=3, validate=validate)) == 3
    assert torch.equal(objective.net[0].weight, kept[-1])


@pytest.mark.parametrize("patience", [2, None])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_validation_without_a_number_is_an_error(value: float, patience: int | None) -> None:
    objective, numbers = Loss(), iter([1.0, value])
    with pytest.raises(
        dubio.NonFiniteError, match=f"validate returned {value} in epoch 2"
    ) as caught:
        dubio.fit(objective, rows(), epochs=9, validate=lambda: next(numbers), patience=patience)
    assert (caught.value.epoch, caught.value.step, caught.value.site) == (2, 1, "validate")
    assert not objective.net[0].weight.isnan().any()


# What is left behind


@pytest.mark.parametrize("fails", [True, False])
def test_modes_are_put_back(fails: bool) -> None:
    objective = Loss()
    objective.eval()
    objective.net[3].train()
    before = [module.training for module in objective.modules()]
    if fails:
        with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
            dubio.fit(objective, (torch.zeros(4, 7), torch.zeros(4, 1)), epochs=1)
        assert caught.value.__notes__ == ["dubio.fit was in epoch 1, step 1."]
    else:
        dubio.fit(objective, rows(), epochs=1)
    assert [module.training for module in objective.modules()] == before


def test_a_history_is_compared_without_seconds_and_prints_as_a_table() -> None:
    histories = []
    for _ in range(2):
        torch.manual_seed(0)
        histories.append(dubio.fit(elbo(), rows(), epochs=2))
    assert histories[0] == histories[1]
    seconds = [epoch.seconds for history in histories for epoch in history]
    assert len(set(seconds)) == 4
    lines = str(histories[0]).splitlines()
    assert lines[0].split() == ["epoch", "loss", "nll", "kl", "learning_rate", "seconds"]
    assert len(lines) == 4
    row = histories[0].rows()[1]
    assert row["epoch"] == 2
    assert row["loss"] == histories[0][1].loss
    assert str(dubio.History()) == "no epochs"


# Mistakes


def test_num_data_must_be_the_rows_of_the_data() -> None:
    x, y = rows()
    objective = elbo()
    message = r"objective\.num_data: expected 20, the rows of the data, got 22; assign"
    with pytest.raises(ValueError, match=message):
        dubio.fit(objective, (x[:20], y[:20]), epochs=1)
    few = TensorDataset(x[:20], y[:20])
    with pytest.raises(ValueError, match=message):
        dubio.fit(objective, DataLoader(few, sampler=RandomSampler(few)), epochs=1)
    dubio.fit(objective, DataLoader(few, 5, sampler=SubsetRandomSampler(range(9))), epochs=1)
    objective.num_data = 20
    dubio.fit(objective, DataLoader(few, 5, shuffle=True), epochs=1)


def one_at_a_time() -> Iterator[tuple[Tensor, Tensor]]:
    yield rows()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (one_at_a_time(), TypeError, r"a re-iterable of batches, got an iterator \(generator\)"),
        (TensorDataset(*rows()), TypeError, "got a TensorDataset; make tensors .* DataLoader"),
        (rows()[0], TypeError, "got a Tensor"),
        ((rows()[0].numpy(), rows()[1].numpy()), TypeError, "torch.as_tensor"),
        ((rows()[0], rows()[1][:7]), ValueError, "same number of rows, got 22 and 7"),
        (list(rows()), TypeError, "pairs .inputs, targets., got a Tensor; .* a tuple .x, y."),
        ([(rows()[0],)], TypeError, r"pairs \(inputs, targets\), got a tuple of 1"),
        ([], ValueError, "at least one batch in every epoch, got none"),
    ],
)
def test_data_that_cannot_be_trained_on(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dubio.fit(Loss(), data, epochs=1)


class Vector(Loss):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.net(x) - y).square()


@pytest.mark.parametrize(
    ("objective", "error", "message"),
    [
        (lambda x, y: x.mean(), TypeError, "expected an nn.Module that is called as"),
        (nn.Identity(), ValueError, "expected parameters that require a gradient, got a Identity"),
        (Vector(), TypeError, r"expected a loss of shape \(\), got shape \(22, 1\)"),
        (Loss().net, TypeError, r"as objective\(x, y\), got a Sequential.* such as dubio.ELBO"),
    ],
)
def test_objectives_that_cannot_be_trained(
    objective: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dubio.fit(objective, rows(), epochs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs: expected a positive int, got 0"),
        ({"epochs": 2.5}, "epochs: expected a positive int, got 2.5"),
        ({"batch_size": 0}, "batch_size: expected a positive int"),
        ({"clip_norm": 0.0}, "clip_norm: expected a positive number"),
        ({"save_every": -1.0}, "save_every: expected seconds"),
        ({"patience": 3}, "patience: expected together with validate"),
        ({"schedule_every": "batch"}, "schedule_every: expected 'epoch' or 'step'"),
        ({"schedule": ReduceLROnPlateau, "schedule_every": "step"}, "for ReduceLROnPlateau"),
        (
            {"optimizer": torch.optim.SGD(Loss().parameters())},
            r"optimizer: expected parameters of the objective, got 6 of another module, first "
            r"one of shape \(8, 3\)",
        ),
        (
            {"schedule": StepLR(torch.optim.SGD(Loss().parameters()), 1)},
            "schedule: expected a schedule of the optimizer of this run",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dubio.fit(Loss(), rows(), **{"epochs": 1, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adam"}, "optimizer: expected an optimizer .*got 'adam'; pass partial"),
        ({"optimizer": lambda p: None}, "optimizer: expected an optimizer .*got None; pass"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer: expected one whose step needs no .*LBFGS"),
        ({"schedule": "cosine"}, "schedule: expected a scheduler .*got 'cosine'; pass partial"),
    ],
)
def test_optimizers_and_schedules_are_those_of_torch(options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        dubio.fit(Loss(), rows(), epochs=1, **options)


@pytest.mark.parametrize("option", [{"batch_size": 5}, {"generator": torch.Generator()}])
def test_a_loader_has_its_own_batches_and_generator(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give them to the DataLoader"):
        dubio.fit(Loss(), DataLoader(TensorDataset(*rows())), epochs=1, **option)
