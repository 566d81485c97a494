"""Temperature scaling against scipy and scikit-learn, and its edges."""

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import dubio
from dubio.calibrate import TemperatureScaling
from dubio.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from dubio.predictive.predictive import Predictive, StoredDraws


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def prediction(outputs: Tensor, likelihood: Likelihood) -> Predictive:
    return Predictive(likelihood, StoredDraws(outputs))


def bold(draws: int = 5, rows: int = 300, boldness: float = 3.0) -> tuple[Tensor, Tensor]:
    """Outputs (S, B, 4) whose labels were drawn from a less sure distribution."""
    logits = torch.randn(rows, 4, generator=seeded(1), dtype=torch.float64) * 1.5
    y = torch.multinomial(logits.softmax(-1), 1, generator=seeded(2)).squeeze(-1)
    noise = torch.randn(draws, rows, 4, generator=seeded(3), dtype=torch.float64)
    return boldness * logits + noise, y


@pytest.mark.parametrize("boldness", [0.1, 1.0, 3.0, 30.0])
def test_the_optimum_is_scipys(boldness: float) -> None:
    outputs, y = bold(boldness=boldness)
    found = TemperatureScaling().fit(prediction(outputs, Categorical()), y)
    q = scipy.special.softmax(outputs.numpy(), axis=-1).mean(0)

    def loss(log_temperature: float) -> float:
        logs = scipy.special.log_softmax(np.log(q) / math.exp(log_temperature), axis=-1)
        return -float(logs[np.arange(len(y)), y].sum())

    best = scipy.optimize.minimize_scalar(loss, bounds=(-6, 6), options={"xatol": 1e-10})
    assert float(found.temperature) == pytest.approx(math.exp(best.x), rel=1e-6)
    assert -float(found(prediction(outputs, Categorical())).log_prob(y).sum()) == pytest.approx(
        best.fun, rel=1e-9
    )


def test_two_classes_are_a_logistic_regression_on_the_log_odds() -> None:
    outputs = 4 * torch.randn(3, 400, 1, generator=seeded(1), dtype=torch.float64)
    p = prediction(outputs, Bernoulli())
    y = torch.bernoulli((outputs.mean(0) / 3).sigmoid(), generator=seeded(2))
    found = TemperatureScaling().fit(p, y)
    features = p.mean.logit().numpy()
    peer = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12).fit(
        features, y.squeeze(-1).numpy()
    )
    assert 1 / float(found.temperature) == pytest.approx(float(peer.coef_[0, 0]), rel=1e-5)
    torch.testing.assert_close(
        found(p).mean.squeeze(-1), torch.as_tensor(peer.predict_proba(features)[:, 1]), rtol=1e-5,
        atol=1e-9,
    )  # fmt: skip


def test_plain_probabilities_are_a_prediction_of_one_draw() -> None:
    outputs, y = bold()
    p = prediction(outputs, Categorical())
    ours, plain = TemperatureScaling().fit(p, y), TemperatureScaling().fit(p.mean, y)
    assert float(plain.temperature) == pytest.approx(float(ours.temperature), rel=1e-9)
    torch.testing.assert_close(plain(p.mean).mean, ours(p).mean)


def test_pixels_count_alike_and_classes_stay_where_they_were() -> None:
    outputs, y = bold(rows=24)
    flat = TemperatureScaling().fit(prediction(outputs, Categorical()), y)
    image = outputs.reshape(5, 4, 2, 3, 4).movedim(-1, 2)  # (S, B, K, H, W)
    p = prediction(image, Categorical(dim=1))
    found = TemperatureScaling().fit(p, y.reshape(4, 2, 3))
    assert float(found.temperature) == pytest.approx(float(flat.temperature))
    assert found(p).mean.shape == (4, 4, 2, 3)
    torch.testing.assert_close(
        found(p).mean.movedim(1, -1).reshape(24, 4),
        flat(prediction(outputs, Categorical())).mean,
    )


def test_the_order_of_classes_stays_and_half_precision_is_read() -> None:
    outputs, y = bold()
    p = prediction(outputs, Categorical())
    calibrated = TemperatureScaling().fit(p, y)(p)
    assert torch.equal(calibrated.mean.argsort(-1), p.mean.argsort(-1))
    half = prediction(outputs.half(), Categorical())
    assert TemperatureScaling().fit(half, y)(half).mean.dtype == torch.float32


def test_probabilities_that_underflow_have_a_temperature() -> None:
    outputs = torch.tensor([[[0.0, -300.0], [0.0, -300.0], [0.0, -300.0]]])
    y = torch.tensor([0, 0, 1])
    p = prediction(outputs, Categorical())
    assert p.mean[2, 1] == 0
    found = TemperatureScaling().fit(p, y)  # exp(-300 / T) / (1 + exp(-300 / T)) = 1/3
    assert float(found.temperature) == pytest.approx(300 / math.log(2), rel=1e-9)


def test_replayed_draws_and_a_network() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    x, y = torch.randn(40, 6), torch.randint(3, (40,))
    y[:20] = net.eval()(x)[:20].argmax(-1)
    stored, replayed = (
        dubio.predict(net, x, likelihood=Categorical(), generator=seeded(), keep_draws=keep)
        for keep in (True, False)
    )
    temperature = TemperatureScaling().fit(replayed, y)
    expected = TemperatureScaling().fit(stored, y)
    assert float(temperature.temperature) == pytest.approx(float(expected.temperature), rel=1e-5)


def test_it_is_saved_as_plain_tensors(tmp_path: Path) -> None:
    outputs, y = bold()
    p = prediction(outputs, Categorical())
    fitted = TemperatureScaling().fit(p, y)
    torch.save(fitted.state_dict(), tmp_path / "temperature.pt")
    loaded = TemperatureScaling()
    loaded.load_state_dict(torch.load(tmp_path / "temperature.pt", weights_only=True))
    assert torch.equal(loaded(p).mean, fitted(p).mean)


class TestMistakes:
    def test_not_fitted(self) -> None:
        with pytest.raises(RuntimeError, match=r"TemperatureScaling: expected a temperature.*fit"):
            TemperatureScaling()(torch.full((2, 2), 0.5))

    def test_all_right(self) -> None:
        outputs, _ = bold(draws=1)
        with pytest.raises(ValueError, match="likelihood grows as T → 0"):
            TemperatureScaling().fit(prediction(outputs, Categorical()), outputs[0].argmax(-1))

    def test_all_wrong(self) -> None:
        outputs, _ = bold(draws=1)
        with pytest.raises(ValueError, match="likelihood grows as T → ∞"):
            TemperatureScaling().fit(prediction(outputs, Categorical()), outputs[0].argmin(-1))

    def test_uniform(self) -> None:
        with pytest.raises(ValueError, match="y: expected"):
            TemperatureScaling().fit(torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]))

    def test_impossible_labels(self) -> None:
        q = torch.tensor([[1.0, 0.0], [0.6, 0.4]])
        with pytest.raises(ValueError, match="some of probability 0"):
            TemperatureScaling().fit(q, torch.tensor([1, 0]))

    @pytest.mark.parametrize(
        ("q", "y", "message"),
        [
            (torch.ones(0, 3), torch.ones(0).long(), "non-empty"),
            (torch.full((3, 2), math.nan), torch.zeros(3).long(), "p: .*got NaN in 6 of 6 entries"),
            (torch.ones(3, 2), torch.zeros(3).long(), r"p: .*sum to 1.*pass logits.softmax\(-1\)"),
            (-torch.eye(3), torch.zeros(3).long(), r"p: .*from -1 .*pass logits.softmax\(-1\)"),
            (torch.ones(3), torch.zeros(3).long(), r"p: .*got .* of shape \(3,\); .*torch.stack"),
            (torch.ones(3, 2).long(), torch.zeros(3).long(), "p: .*got torch.int64"),
            (torch.full((3, 2), 0.5), torch.zeros(4).long(), "each of 3 rows, got shape"),
            (torch.full((3, 2), 0.5), torch.zeros(3), "integer class labels"),
            (torch.full((3, 2), 0.5), torch.ones(3, 2).long(), r"one-hot"),
            (torch.full((3, 2), 0.5), torch.tensor([0, 1, 2]), "labels from 0 to 1"),
        ],
    )
    def test_data(self, q: Tensor, y: Tensor, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            TemperatureScaling().fit(q, y)

    def test_nan_outputs(self) -> None:
        p = prediction(torch.full((2, 3, 2), math.nan), Categorical())
        with pytest.raises(ValueError, match="probabilities, got NaN"):
            TemperatureScaling().fit(p, torch.zeros(3).long())

    def test_kinds(self) -> None:
        with pytest.raises(TypeError, match="prediction of labels, got one by Gaussian"):
            TemperatureScaling().fit(prediction(torch.ones(2, 3, 1), Gaussian(1.0)), torch.ones(3))
        with pytest.raises(TypeError, match="got ndarray"):
            TemperatureScaling().fit(np.ones((3, 2)), torch.ones(3))  # type: ignore[arg-type]
