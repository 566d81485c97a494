"""What `evaluate` finds, against `dubio.metrics` on all data at once."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import dubio
from dubio import metrics
from dubio.calibrate import PrecisionScaling, TemperatureScaling
from dubio.evaluation import Data, EvaluationError, evaluate, parse_likelihood, read_data
from dubio.evaluation.exhibits import plots_of, table_of
from dubio.evaluation.scores import MEASURES, LabelScores, NumberScores
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    Likelihood,
    MultivariateGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from dubio.noise.numbers import mix
from dubio.predictive.predictive import Predictive, StoredDraws

ROWS, DRAWS, SIZE = 50, 7, 16


def net(outputs: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, outputs))


def rows(seed: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(seed))


def all_at_once(model: nn.Module, x: Tensor, likelihood: Likelihood, stream: int) -> Predictive:
    """The draws that `evaluate` sees batch by batch, in one prediction."""
    generator = torch.Generator().manual_seed(mix(0, stream))
    draws = [
        dubio.predict(model, part, draws=DRAWS, generator=generator).draws for part in x.split(SIZE)
    ]
    return Predictive(likelihood, StoredDraws(torch.cat(draws, dim=1)))


def plain(model: nn.Module, x: Tensor, likelihood: Likelihood) -> Predictive:
    with torch.no_grad():
        return Predictive(likelihood, StoredDraws(model.eval()(x)[None]))


def close(found: float, wanted: Any) -> None:
    assert found == pytest.approx(float(wanted), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_labels(likelihood: Likelihood) -> None:
    binary = isinstance(likelihood, Bernoulli)
    model = net(1 if binary else 3)
    x, other, foreign = rows(0), rows(1), rows(2, scale=9)
    torch.manual_seed(0)
    y, other_y = (plain(model, part, likelihood).sample(1)[0].long() for part in (x, other))
    found = evaluate(
        model,
        Data("data", x, y.flatten(), ""),  # (N,) will do for one question
        likelihood,
        draws=DRAWS,
        foreign=Data("foreign", foreign, None, ""),
        validation=Data("validation", other, other_y, ""),
        batch_size=SIZE,
    )
    assert list(found.scores) == ["plain", "draws", "plain_calibrated", "draws_calibrated"]
    for name in ("plain", "draws"):
        p, v, f = (
            plain(model, part, likelihood) if name == "plain"
            else all_at_once(model, part, likelihood, stream)
            for stream, part in ((1, x), (0, other), (2, foreign))
        )  # fmt: skip
        scaling = TemperatureScaling().fit(v, other_y)
        close(found.calibration[name]["temperature"], scaling.temperature)
        cases = {name: (p, v, f), f"{name}_calibrated": tuple(map(scaling, (p, v, f)))}
        for column, (p, v, f) in cases.items():
            numbers = {metric: values.get(column) for metric, values in found.numbers.items()}
            close(numbers["accuracy"], metrics.accuracy(p, y))
            close(numbers["nll"], metrics.nll(p, y))
            close(numbers["brier"], metrics.brier(p, y))
            close(numbers["ece"], metrics.ece(p, y))
            close(numbers["mce"], metrics.mce(p, y))
            close(numbers["classwise_ece"], metrics.classwise_ece(p, y))
            close(numbers["ace"], metrics.ace(p, y))
            bounds = float(v.entropy.min()), float(v.entropy.max())
            wanted = metrics.pavgpu(p, y, bounds=bounds).mean
            assert numbers["pavgpu"] == pytest.approx(float(wanted), abs=1e-3)  # rounded bounds
            close(numbers["aurc"], metrics.aurc(p, y))
            close(numbers["accuracy_at_0.9"], metrics.accuracy_at_coverage(p, y, 0.9))
            apart = metrics.separation(p.entropy, f.entropy)
            close(numbers["foreign_entropy_auroc"], apart.auroc)
            close(numbers["foreign_entropy_aupr"], apart.aupr)
            close(numbers["foreign_entropy_fpr95"], apart.fpr)
            if column == "draws":
                apart = metrics.separation(p.mutual_information, f.mutual_information)
                close(numbers["foreign_mutual_information_auroc"], apart.auroc)
            else:  # of one draw there is none
                assert numbers["foreign_mutual_information_auroc"] is None


@pytest.mark.parametrize("likelihood", [Gaussian(4.0), HeteroscedasticGaussian()])
def test_numbers(likelihood: Likelihood) -> None:
    model = net(2)
    x, other, foreign = rows(0), rows(1), rows(2, scale=9)
    targets = 2 if isinstance(likelihood, Gaussian) else 1
    y, other_y = torch.randn(ROWS, targets), torch.randn(ROWS, targets)
    given = y.squeeze(1) if targets == 1 else y  # (N,) will do for one output
    found = evaluate(
        model,
        Data("data", x, given, ""),
        likelihood,
        draws=DRAWS,
        foreign=Data("foreign", foreign, None, ""),
        validation=Data("validation", other, other_y, ""),
        batch_size=SIZE,
    )
    p, v, f = (
        all_at_once(model, part, likelihood, stream)
        for stream, part in ((1, x), (0, other), (2, foreign))
    )
    scaling = PrecisionScaling().fit(v, other_y)
    close(found.calibration["draws"]["factor"], scaling.factor)
    for column, q in {
        "plain": plain(model, x, likelihood), "draws": p, "draws_calibrated": scaling(p),
    }.items():  # fmt: skip
        numbers = {metric: values[column] for metric, values in found.numbers.items()}
        close(numbers["rmse"], metrics.rmse(q, y))
        close(numbers["lppd"], metrics.lppd(q, y))
        close(numbers["crps"], metrics.crps(q, y))
        close(numbers["coverage_0.9"], metrics.interval_coverage(q, y, level=0.9))
        close(numbers["interval_score_0.95"], metrics.interval_score(q, y, level=0.95))
        close(numbers["quantile_calibration_rmse"], metrics.quantile_calibration_rmse(q, y))
        close(numbers["absolute_aurc"], metrics.risk_coverage_of(q.std, (q.mean - y).abs()).aurc)
    apart = metrics.separation(p.std.mean(1), f.std.mean(1))
    close(found.numbers["foreign_std_auroc"]["draws"], apart.auroc)


def test_numbers_without_a_dimension_of_their_own() -> None:
    x, other, y, other_y = rows(0), rows(1), torch.randn(ROWS), torch.randn(ROWS)
    flat, columns = (
        evaluate(
            model,
            Data("data", x, y, ""),
            Gaussian(4.0),
            draws=DRAWS,
            validation=Data("validation", other, other_y.reshape(-1, *tail), ""),
        )
        for model, tail in ((nn.Sequential(net(1), nn.Flatten(0)), ()), (net(1), (1,)))
    )
    assert flat.calibration == columns.calibration
    for metric, values in flat.numbers.items():
        assert values == pytest.approx(columns.numbers[metric], rel=1e-6), metric


def test_one_pass_of_a_constant_noise_cannot_tell_foreign_inputs() -> None:
    found = evaluate(
        net(1),
        Data("data", rows(0), torch.randn(ROWS), ""),
        Gaussian(1.0),
        draws=DRAWS,
        foreign=Data("foreign", rows(1, scale=50), torch.full((ROWS, 5), torch.nan), ""),
    )
    assert found.numbers["foreign_std_auroc"]["plain"] == 0.5
    assert found.numbers["foreign_std_auroc"]["draws"] > 0.9


def test_seeds_and_modes() -> None:
    data = Data("data", rows(0), torch.randint(3, (ROWS,)), "")
    model = net(3).train()
    one, two, other = (
        evaluate(model, data, Categorical(), draws=DRAWS, seed=seed).numbers["nll"]
        for seed in (0, 0, 1)
    )
    assert one == two
    assert one["plain"] == other["plain"]
    assert one["draws"] != other["draws"]
    close(one["plain"], metrics.nll(plain(model, data.x, Categorical()), data.y))


def test_every_number_has_a_measure_and_every_best_is_marked() -> None:
    data = Data("data", rows(0), torch.randint(3, (ROWS,)), "")
    labels = evaluate(net(3), data, Categorical(), draws=DRAWS, foreign=data)
    numbers = evaluate(
        net(1), Data("data", rows(0), rows(3)[:, 0], ""), Gaussian(1.0), draws=DRAWS, foreign=data
    )
    assert {*labels.numbers, *numbers.numbers} == {*MEASURES}
    assert isinstance(labels.scores["draws"], LabelScores)
    assert isinstance(numbers.scores["draws"], NumberScores)
    for found in (labels, numbers):
        shown = {row[0]: row[1:-1] for row in table_of(found).rows}
        for metric, values in found.numbers.items():
            cells = shown[MEASURES[metric].title]
            wish = {"higher": max, "lower": min}.get(MEASURES[metric].wish)
            texts = [f"{values[column]:.4g}" for column in values]
            if wish and len(set(texts)) > 1:
                best = wish(texts, key=float)
                assert [f"**{t}**" if t == best else t for t in texts] == cells[: len(texts)]
        names = [plot.name for plot in plots_of(found)]
        assert len(names) == len(set(names))
    assert MEASURES["coverage_0.9"].distance(0.85) == pytest.approx(0.05)
    assert MEASURES["coverage_0.9"].wish == "near 0.9"


def test_what_is_not_finite_is_none_for_scripts() -> None:
    sure = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 3))
    nn.init.constant_(sure[1].weight, 0.0)
    sure[1].bias.data = torch.tensor([0.0, -torch.inf, -torch.inf])

    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return sure(x).softmax(-1)

    model = Noisy()
    model.add_module("sure", sure)
    data = Data("data", rows(0), torch.ones(ROWS, dtype=torch.int64), "")
    found = evaluate(model, data, Categorical(outputs="probabilities"), draws=2)
    assert found.numbers["nll"]["plain"] == math.inf
    assert found.as_dict()["metrics"]["nll"]["plain"] is None


@pytest.mark.parametrize(
    ("x", "y", "likelihood", "message"),
    [
        (rows(0), torch.zeros(ROWS), Categorical(), "data: expected integer labels"),
        (rows(0), torch.full((ROWS,), 7), Categorical(), "data: .*labels"),
        (rows(0), torch.zeros(ROWS, 2), Gaussian(1.0), "data: .*shape"),
        (rows(0)[:, :3], torch.zeros(ROWS), Gaussian(1.0), r"data: .*\(50, 3\) and torch.float32"),
        (rows(0).log(), torch.zeros(ROWS, 3), Gaussian(1.0), "data: .*NaN"),
        (rows(0), None, Categorical(), "data: expected targets y"),
        (rows(0), torch.zeros(ROWS, 1).long(), Categorical(), "data: .*shape"),
    ],
)
def test_data_that_do_not_fit(
    x: Tensor, y: Tensor | None, likelihood: Likelihood, message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(net(3), Data("data", x, y, ""), likelihood, draws=2)


def test_networks_that_do_not_fit() -> None:
    data = Data("data", rows(0), torch.zeros(ROWS).long(), "")
    with pytest.raises(EvaluationError, match="no stochastic site"):
        evaluate(nn.Linear(4, 3), data, Categorical(), draws=2)
    maps = nn.Sequential(net(6), nn.Unflatten(1, (3, 2)))
    with pytest.raises(EvaluationError, match="score maps of pixels"):
        evaluate(maps, data, Categorical(), draws=2)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("categorical", Categorical()),
        ("categorical=probabilities", Categorical(outputs="probabilities")),
        ("bernoulli", Bernoulli()),
        ("bernoulli=probabilities", Bernoulli("probabilities")),
        ("heteroscedastic", HeteroscedasticGaussian()),
        ("student-t=4", StudentT(4.0)),
        ("laplace", Laplace()),
        ("multivariate", MultivariateGaussian()),
        ("poisson", Poisson()),
        ("negative-binomial", NegativeBinomial()),
    ],
)
def test_likelihoods_by_name(text: str, wanted: Likelihood) -> None:
    assert parse_likelihood(text) == wanted


@pytest.mark.parametrize(
    ("text", "outputs"),
    [("student-t=4", 4), ("laplace", 4), ("multivariate", 5), ("poisson", 2),
     ("negative-binomial", 4)],
)  # fmt: skip
def test_numbers_by_any_likelihood(text: str, outputs: int) -> None:
    likelihood, model, x = parse_likelihood(text), net(outputs), rows(0)[: SIZE + 4]
    y = plain(model, x, likelihood).sample(1, generator=0)[0]
    found = evaluate(model, Data("data", x, y, ""), likelihood, draws=DRAWS, batch_size=SIZE)
    p = all_at_once(model, x, likelihood, stream=1)
    close(found.numbers["rmse"]["draws"], metrics.rmse(p, y))
    close(found.numbers["crps"]["draws"], metrics.crps(p, y))
    close(found.numbers["lppd"]["draws"], metrics.lppd(p, y))


def test_gaussians_by_name() -> None:
    found = parse_likelihood("gaussian=2.5")
    assert isinstance(found, Gaussian)
    assert found.noise_precision == 2.5
    for text in (
        "gaussian",
        "gaussian=-1",
        "gaussian=nan",
        "poisson=2",
        "student-t",
        "student-t=1",
        "categorical=3",
        "",
    ):
        with pytest.raises(ValueError, match="expected"):
            parse_likelihood(text)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_files_of_data(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    x, y = rows(0), torch.arange(ROWS)
    if suffix == ".npz":
        np.savez(path, x=x.double().numpy().astype(">f8"), y=y.numpy())
    elif suffix == ".pt":
        torch.save({"x": x, "y": y}, path)
    else:
        save_file({"x": x, "y": y}, path)
    data = read_data(str(path))
    batches = list(data.batches(16))
    assert [len(part) for part, _ in batches] == [16, 16, 16, 2]
    torch.testing.assert_close(torch.cat([part for part, _ in batches]).float(), x)
    assert torch.equal(torch.cat([part for _, part in batches if part is not None]), y)


def test_float64_rows_are_asked_about_in_the_type_of_the_network(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=rows(0).double().numpy(), y=np.zeros(ROWS, dtype=np.uint8))
    data = read_data(str(tmp_path / "rows.npz"))
    found = evaluate(net(3), data, Categorical(), draws=2)
    labels = torch.zeros(ROWS, dtype=torch.int64)
    wanted = metrics.nll(plain(net(3), rows(0), Categorical()), labels)
    close(found.numbers["nll"]["plain"], wanted)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.zeros(3)}, "expected tensors x and y"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(4)}, "a target for each of 3 rows"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "at least one row"),
        ({"x": np.array(["a", "b"])}, "refused and not run"),
    ],
)
def test_files_that_are_no_data(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", **arrays)
    with pytest.raises(EvaluationError, match=message):
        read_data(str(tmp_path / "rows.npz"))


def test_parts_of_digits_do_not_overlap() -> None:
    parts = [read_data(name) for name in ("digits:train", "digits:validation", "digits")]
    assert [len(part) for part in parts] == [500, 300, 997]
    seen = torch.cat([part.x.flatten(1) for part in parts])
    assert len(torch.unique(seen, dim=0)) == 1797
    for part in parts:
        assert part.x.shape[1:] == (1, 8, 8)
        assert float(part.x.max()) == 1


def test_pixels_become_numbers() -> None:
    data = Data("images", torch.full((3, 1, 2, 2), 255, dtype=torch.uint8), None, "", pixels=True)
    ((x, _),) = data.batches(10)
    assert torch.equal(x, torch.ones(3, 1, 2, 2))


@pytest.mark.parametrize("name", ["mnits", "digits:test2", "notmnist:train", "nowhere.npz", ""])
def test_data_that_are_not_there(name: str) -> None:
    with pytest.raises(EvaluationError, match="data: expected a file"):
        read_data(name)
