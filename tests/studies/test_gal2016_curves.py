"""Gal & Ghahramani 2016's curves: Caffe by hand, the process by its equations, rules that fail."""

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dubio
from dubio_studies.framework.rows import Rows
from dubio_studies.framework.study import Measurement, Piece
from dubio_studies.gal2016.courses import STOPS, course, course_pieces
from dubio_studies.gal2016.curves import (
    CO2_KINDS,
    Config,
    PublishedNetwork,
    cyclic_batches,
    drop_at,
    make_schedule,
    mc_dropout,
    network,
    stages,
    standard_dropout,
    train,
)
from dubio_studies.gal2016.figure_2.page import (
    course_table,
    rates_do_not_matter,
    relu_grows_tanh_is_bounded,
    tanh_is_uncertain,
    uncertain_at_x_star,
)
from dubio_studies.gal2016.figure_3.page import few_draws_suffice
from dubio_studies.gal2016.gaussian_process import SquaredExponential
from dubio_studies.gal2016.muon import Muon, orthogonal
from dubio_studies.gal2016.solar.page import better_density, wider_in_gaps
from verdicts import said

QUIET = PublishedNetwork(nn.ReLU, drop=0.0, learning_rate=0.05, weight_decay=0.1, hidden=2)
X = torch.linspace(-1.5, 1.5, 7)[:, None]
Y = X.sin()


def test_four_hidden_layers_have_dropout_and_the_input_has_none() -> None:
    model = network(CO2_KINDS["relu"], 1024)
    found = dubio.sites(model, X)
    assert [site.rate for site in found] == pytest.approx([0.1] * 4)
    first, second = model[0], model[3]
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    for layer, fan_in in ((first, 1), (second, 1024)):
        limit = math.sqrt(3 / fan_in)
        assert 0.98 * limit < float(layer.weight.detach().abs().max()) <= limit
        assert not layer.bias.any()


@pytest.mark.parametrize("width", [16, 128, 1024])
def test_rates_keep_the_noise_of_a_layer(width: int) -> None:
    drop = drop_at(0.2, width)
    assert drop / (1 - drop) / width == pytest.approx(0.25 / 1024)


def test_batches_go_round_and_round() -> None:
    rows = torch.cat([x for x, _ in cyclic_batches(X, Y, 4)])
    torch.testing.assert_close(rows, X.repeat(4, 1))
    assert len(cyclic_batches(X, Y, 7)) == 1


def test_caffe_is_the_update_of_caffe() -> None:
    """V ← 0.9·V + rate·(∇ + wd·w), w ← w − V; biases have twice the rate, the loss is halved."""
    config = Config(width=5, iterations=7, batch_size=4)
    torch.manual_seed(3)
    trained, losses = train(config, QUIET, X, Y)
    torch.manual_seed(3)
    model = network(QUIET, 5)
    moved = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    expected = []
    for step, (x, y) in enumerate(cyclic_batches(X, Y, 4)):
        loss = (model(x) - y).square().sum() / (2 * len(x))
        expected.append(float(loss.detach()))
        model.zero_grad()
        loss.backward()
        base = 0.05 * (1 + 1e-4 * step) ** -0.25
        for name, p in model.named_parameters():
            assert p.grad is not None
            rate = 2 * base if name.endswith("bias") else base
            with torch.no_grad():
                moved[name] = 0.9 * moved[name] + rate * (p.grad + 0.1 * p)
                p -= moved[name]
    assert losses == pytest.approx([sum(expected) / len(expected)], rel=1e-4)
    for ours, theirs in zip(trained.parameters(), model.parameters(), strict=True):
        # torch has the rate outside of the velocity, which matters only as fast as it falls
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("optimizer", ["caffe", "muon"])
def test_training_in_stages_is_training(optimizer: Literal["caffe", "muon"]) -> None:
    config = Config(width=5, iterations=10, batch_size=7, optimizer=optimizer)
    torch.manual_seed(3)
    at_once, losses = train(config, QUIET, X, Y)
    torch.manual_seed(3)
    found = list(stages(config, QUIET, X, Y, 4))
    assert [stage.iteration for stage in found] == [2, 5, 7, 10]
    assert [loss for stage in found for loss in stage.losses] == losses
    for ours, theirs in zip(found[-1].model.parameters(), at_once.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def walked(
    steps: Generator[Measurement, None, nn.Sequential | None],
) -> tuple[list[Measurement], nn.Sequential | None]:
    """All rows of a course, and what it returns."""
    rows = []
    while True:
        try:
            rows.append(next(steps))
        except StopIteration as end:
            return rows, end.value


def test_courses_are_of_caffe_at_a_rate_for_their_width() -> None:
    muon = Config(width=8, iterations=10, batch_size=7, optimizer="muon", spread=True)
    (piece,) = course_pieces(muon, {"tanh": {2: 0.1}})
    assert piece == {"model": "tanh", "restart": 1, "width": 16, "iterations": 1}
    assert not course_pieces(Config(), {"tanh": {2: 0.1}})
    torch.manual_seed(1)
    rows, found = walked(course(muon, piece, CO2_KINDS["tanh"], (X, Y), X + 9))
    torch.manual_seed(1)
    faster = replace(CO2_KINDS["tanh"], learning_rate=5e-3 * 64)
    expected, losses = train(Config(width=16, iterations=1, batch_size=7), faster, X, Y)
    assert [(row["iteration"], row["value"]) for row in rows] == [(1, losses[0])]
    assert found is not None
    assert [site.rate for site in dubio.sites(found, X)] == pytest.approx([drop_at(0.1, 16)] * 4)
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(("rate", "stops", "ends"), [(1e-3, STOPS, True), (1e3, 1, False)])
def test_a_course_ends_where_it_diverges(rate: float, stops: int, *, ends: bool) -> None:
    torch.manual_seed(0)
    kind = PublishedNetwork(nn.ReLU, drop=0.1, learning_rate=rate, weight_decay=0.0)
    piece: Piece = {"model": "relu", "restart": 1, "width": 8, "iterations": 40}
    rows, found = walked(course(Config(batch_size=7, draws=20), piece, kind, (X, Y), X))
    assert len(rows) == stops
    assert (rows[-1]["metric"] == "course") == ends == (found is not None)


def test_schedules() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    caffe = make_schedule(Config(), CO2_KINDS["relu"], optimizer, 10)
    assert caffe.lr_lambdas[0](30_000) == pytest.approx(4**-0.25)
    muon = make_schedule(Config(optimizer="muon"), CO2_KINDS["relu"], optimizer, 100)
    assert muon.lr_lambdas[0](0) == pytest.approx(0.2)
    assert muon.lr_lambdas[0](50) == pytest.approx(0.5)
    assert muon.lr_lambdas[0](100) == pytest.approx(0.0)


def test_muon_turns_momentum_into_a_rotation() -> None:
    torch.manual_seed(0)
    gradient = torch.randn(12, 12)
    u, _, v = torch.linalg.svd(gradient)
    found = u.T @ orthogonal(gradient, {}) @ v.T
    values = found.diagonal()
    assert 0.4 < float(values.min()) <= float(values.max()) < 1.3  # the authors' polynomial
    torch.testing.assert_close(found - values.diag(), torch.zeros(12, 12), atol=1e-4, rtol=0)


def test_muon_moves_vectors_as_adam_with_half_the_rate() -> None:
    target = torch.tensor([1.0, -2.0, 3.0])
    ours, theirs = (nn.Parameter(torch.ones(3)) for _ in range(2))
    pairs = [
        (ours, Muon([ours], lr=0.1, weight_decay=0.3)),
        (theirs, torch.optim.Adam([theirs], lr=0.05, weight_decay=0.3)),
    ]
    for _ in range(5):
        for parameter, optimizer in pairs:
            optimizer.zero_grad()
            F.mse_loss(parameter, target).backward()
            optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_muon_and_spread_bends_train() -> None:
    config = Config(width=32, iterations=200, batch_size=7, optimizer="muon", spread=True)
    torch.manual_seed(0)
    model, losses = train(config, CO2_KINDS["tanh"], X, Y)
    assert losses[-1] < 0.02 < losses[0]
    assert mc_dropout(model, X, 20).std.min() > 1e5**-0.5
    torch.testing.assert_close(standard_dropout(model, X), standard_dropout(model, X))


def test_the_process_has_the_equations_of_a_gaussian_process() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(-2, 2, (40, 1)))
    y = torch.sin(3 * x) + 0.1 * torch.from_numpy(rng.normal(size=(40, 1)))
    process = SquaredExponential.fit(x, y)
    found = process.settings
    new = torch.tensor([[0.3], [5.0]], dtype=torch.float64)

    def covariance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        square = (a - b.T).square() / (2 * found["length_scale"] ** 2)
        return found["amplitude"] ** 2 * torch.exp(-square)

    noisy = covariance(x, x) + found["noise_variance"] * torch.eye(40, dtype=torch.float64)
    gain = torch.linalg.solve(noisy, covariance(x, new)).T
    variance = found["amplitude"] ** 2 - (gain * covariance(new, x)).sum(1)
    mean, std = process.predict(new)
    torch.testing.assert_close(mean, (gain @ y).flatten())
    torch.testing.assert_close(std, (variance + found["noise_variance"]).sqrt())
    evidence = torch.distributions.MultivariateNormal(torch.zeros(40, dtype=torch.float64), noisy)
    assert float(evidence.log_prob(y.flatten())) == pytest.approx(found["log_evidence"])
    assert 0.05 < found["noise_variance"] ** 0.5 < 0.2


def co2_rows(relu: float, tanh: float, *, growth: float, spread: float = 0.0) -> Rows:
    """Deviations at x* with one on the data, growing so many times from 100 to 1000 with ReLU."""
    rows: list[dict[str, object]] = []

    def add(model: str, method: str, star: float, far: float, restart: int) -> None:
        row = {"model": model, "method": method, "restart": restart}
        rows.append({**row, "metric": "std-on-data", "value": 1.0})
        for x, std in ((3.0, star), (10.0, star), (100.0, star), (1000.0, far)):
            rows.append({**row, "metric": "far", "x": x, "value": 0.0, "std": std})

    for restart in (1, 2):
        add("relu", "mc", relu, growth * relu, restart)
        add("relu", "standard", spread, spread, restart)
        add("tanh", "mc", tanh, tanh, restart)
        add("tanh-0.2", "mc", 1.1, 1.1, restart)
    add("gp", "gp", 8.0, 8.0, 1)
    return Rows(rows)


@pytest.mark.parametrize(
    ("rows", "verdicts"),
    [
        (co2_rows(3.0, 1.2, growth=10.0), "aaaa"),
        (co2_rows(1.5, 0.9, growth=10.0), "fafa"),
        (co2_rows(3.0, 2.0, growth=1.0), "afaf"),
        (co2_rows(3.0, 1.2, growth=10.0, spread=0.1), "faaa"),
    ],
)
def test_rules_of_figure_2_can_fail(rows: Rows, verdicts: str) -> None:
    judges = (
        *(uncertain_at_x_star, relu_grows_tanh_is_bounded),
        *(tanh_is_uncertain, rates_do_not_matter),
    )
    assert "".join(said(judge(rows))[0] for judge in judges) == verdicts


@pytest.mark.parametrize(("error", "verdict"), [(0.3, "agrees"), (0.6, "fails")])
def test_rule_of_figure_3_can_fail(error: float, verdict: str) -> None:
    values = {"mean-error": 0.3, "std-error": error, "std-ratio": 0.9}
    rows = Rows([{"metric": metric, "value": value} for metric, value in values.items()])
    assert said(few_draws_suffice(rows)) == verdict


@pytest.mark.parametrize(("gap", "verdict"), [(2.0, "agrees"), (1.0, "fails")])
def test_rules_of_solar_can_fail(gap: float, verdict: str) -> None:
    rows: list[dict[str, object]] = []
    methods = (("relu", "mc"), ("relu", "standard"), ("tanh", "mc"), ("tanh", "standard"))
    for model, method in (*methods, ("gp", "gp")):
        row = {"model": model, "method": method, "restart": 1}
        density = gap - 1.5 if method == "mc" else 0.0
        rows.append({**row, "metric": "std-on-data", "value": 1.0})
        rows.append({**row, "metric": "std", "gap": "all", "value": gap})
        rows.append({**row, "metric": "lppd", "gap": "all", "value": density})
    assert said(wider_in_gaps(Rows(rows))) == verdict
    assert said(better_density(Rows(rows))) == verdict


def test_ends_of_courses_are_in_a_table() -> None:
    end = {"scale": "small", "piece": "a", "model": "tanh", "width": 256, "iterations": 20_000}
    far = [
        {**end, "method": "caffe", "metric": "far", "x": x, "value": 0.0, "std": std}
        for x, std in ((3.0, 0.1), (100.0, 0.3), (1000.0, 0.4))
    ]
    fit = {**end, "method": "caffe", "metric": "rmse", "value": 0.5}
    spread = {**end, "method": "caffe", "metric": "std-on-data", "value": 0.2}
    table = course_table(Rows([fit, spread, *far]))
    assert [list(row) for row in table.rows] == [
        ["TanH, 0.1", "256", "20,000", "0.500", "0.200", "0.100", "0.300", "0.400", "0.50"]
    ]
