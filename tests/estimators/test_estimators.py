"""What the estimators predict, and what they say about wrong parameters."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn import functional as F

import dubio
from dubio import DropoutClassifier, DropoutRegressor
from dubio.calibrate import PrecisionScaling
from dubio.estimators.scaling import Scaling
from dubio.estimators.splitting import LabelledRows, split
from dubio.estimators.target_noise import log_noise_factors
from dubio.likelihoods import HeteroscedasticGaussian
from dubio.predictive.predictive import Predictive

SMALL: dict[str, Any] = {
    "hidden_layer_sizes": (16,),
    "learning_rate_init": 0.02,
    "max_iter": 4,
    "draws": 20,
    "random_state": 0,
}
METHODS = ["mc", "concrete", "learnable", "bayes", "ensemble"]


def linear(rows: int = 60, noise: float = 0.5) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.normal(2, 3, size=(rows, 3))
    return X, 10 + X @ [1.0, -2.0, 0.5] + noise * rng.normal(size=rows)


class Own(nn.Module):
    """A network whose dropout is a function."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(features, 8), nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(self.first(x).tanh(), 0.1, self.training)
        outputs: Tensor = self.last(hidden)
        return outputs


def own_modules(features: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, outputs))


class TestRegression:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("noise", ["constant", "varying"])
    def test_predictions_are_those_of_the_networks_in_the_units_of_y(
        self, method: Any, noise: Any
    ) -> None:
        X, y = linear()  # too few rows to hold some out
        model = DropoutRegressor(**SMALL, method=method, noise=noise, members=3).fit(X, y)
        x = torch.from_numpy((X - X.mean(0)) / X.std(0))
        means, variances = [], []
        for member in model.members_:  # each with its draws, or its one output
            seed = dubio.estimators.seeds.stream(
                model.seed_, dubio.estimators.seeds.SeedUse.PREDICTION
            )
            if method == "ensemble":
                outputs = member.network.eval()(x).detach()[None]
            else:
                outputs = dubio.predict(
                    member.network, x, draws=20, shared=True, generator=seed
                ).draws
            means.append(y.mean() + y.std() * outputs[..., 0])
            if noise == "varying":
                variances.append(y.var() * outputs[..., 1].exp())
            else:
                precision = member.likelihood.noise_precision
                variances.append(torch.full_like(means[-1], y.var() / float(precision)))
        mean, variance = torch.cat(means), torch.cat(variances)  # (S, B)
        p = model.predictive(X)
        torch.testing.assert_close(p.mean, mean.mean(0))
        torch.testing.assert_close(p.epistemic, mean.var(0, correction=0))
        torch.testing.assert_close(p.aleatoric, variance.mean(0))
        predicted, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal(predicted, model.predict(X))
        np.testing.assert_allclose(predicted, p.mean)
        np.testing.assert_allclose(std**2, p.epistemic + p.aleatoric)
        expected = torch.distributions.Normal(mean, variance.sqrt()).log_prob(torch.from_numpy(y))
        torch.testing.assert_close(
            p.log_prob(torch.from_numpy(y)), expected.exp().mean(0).log(), rtol=1e-6, atol=1e-6
        )

    @pytest.mark.parametrize("method", METHODS)
    def test_a_linear_model_with_noise(self, method: Any) -> None:
        """The noise is 0.5, and its estimate comes from 40 rows that were held out.

        The error of a standard deviation from 40 rows is 11 %, and 35 % are three of them: a false
        alarm in 500 for a new seed, and none for this one, which is fixed.
        """
        X, y = linear(400)
        model = DropoutRegressor(
            (32,), method=method, drop=0.02, members=2, learning_rate_init=0.01, max_iter=40,
            batch_size=64, draws=30, random_state=0,
        ).fit(X, y)  # fmt: skip
        mean, std = model.predict(X, return_std=True)
        truth = 10 + X @ [1.0, -2.0, 0.5]
        assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.05 * y.std()
        assert 0.5 * 0.65 < np.median(std) < 0.5 * 1.35

    def test_noise_that_varies_is_learned(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(600, 1))
        y = X[:, 0] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
        model = DropoutRegressor(
            (32,), noise="varying", learning_rate_init=0.02, max_iter=30, batch_size=100,
            random_state=0,
        ).fit(X, y)  # fmt: skip
        low, high = model.predictive(np.array([[-0.5], [0.5]])).aleatoric.sqrt().tolist()
        assert 0.05 < low < 0.3
        assert 0.7 < high < 1.3

    def test_several_targets_have_units_of_their_own(self) -> None:
        X, y = linear()
        both = np.stack([y, 1000 * X[:, 0]], axis=1)
        model = DropoutRegressor(**SMALL | {"max_iter": 30}).fit(X, both)
        mean, std = model.predict(X, return_std=True)
        assert mean.shape == std.shape == model.predictive(X).mean.shape == (60, 2)
        assert model.score(X, both) > 0.8
        assert (std[:, 1] > 30 * std[:, 0]).all()

    @pytest.mark.parametrize("noise", ["constant", "varying"])
    def test_units_of_targets_do_not_matter(self, noise: Any) -> None:
        X, y = linear()
        one = DropoutRegressor(**SMALL, noise=noise).fit(X, y).predictive(X)
        two = DropoutRegressor(**SMALL, noise=noise).fit(X, 1000 * y - 7e4).predictive(X)
        torch.testing.assert_close(two.mean, 1000 * one.mean - 7e4, rtol=1e-6, atol=1e-3)
        torch.testing.assert_close(two.epistemic, 1e6 * one.epistemic, rtol=1e-6, atol=0)
        torch.testing.assert_close(two.aleatoric, 1e6 * one.aleatoric, rtol=1e-6, atol=0)

    def test_single_precision_stays(self) -> None:
        X, y = linear()
        model = DropoutRegressor(**SMALL).fit(X.astype(np.float32), y)
        assert model.predict(X).dtype == np.float32

    def test_constant_columns_and_targets(self) -> None:
        X, _ = linear()
        X[:, 1] = 1e9
        model = DropoutRegressor(**SMALL).fit(X, np.full(60, 5.0))
        np.testing.assert_allclose(model.predict(X), 5, atol=1)


class TestClassification:
    @pytest.mark.parametrize("load", [load_iris, load_digits])
    def test_as_accurate_as_a_network_of_scikit_learn(self, load: Any) -> None:
        X, y = load(return_X_y=True)
        train, test, y_train, y_test = train_test_split(
            X[:600], y[:600], stratify=y[:600], random_state=0
        )
        plain = make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=40, random_state=0))
        with pytest.warns(UserWarning, match="converged"):
            plain.fit(train, y_train)
        model = DropoutClassifier((64,), max_iter=40, random_state=0).fit(train, y_train)
        assert model.score(test, y_test) >= plain.score(test, y_test) - 0.04

    @pytest.mark.parametrize("method", METHODS)
    def test_labels_probabilities_and_their_split(self, method: Any) -> None:
        X, y = linear()
        labels = np.array(["low", "middle", "high"], dtype=object)[np.digitize(y, [5, 12])]
        model = DropoutClassifier(**SMALL | {"max_iter": 20}, method=method).fit(X, labels)
        assert list(model.classes_) == ["high", "low", "middle"]
        p = model.predictive(X)
        np.testing.assert_allclose(model.predict_proba(X), p.mean)
        np.testing.assert_array_equal(model.predict(X), model.classes_[p.mean.argmax(1)])
        torch.testing.assert_close(p.mutual_information + p.expected_entropy, p.entropy)
        assert float(p.mutual_information.max()) > 0
        assert model.score(X, labels) > 0.7

    def test_bayes_learns_from_fewer_rows_than_weights(self) -> None:
        X, y = load_iris(return_X_y=True)
        model = DropoutClassifier(method="bayes", max_iter=40, draws=20, random_state=0)
        assert model.fit(X, y).score(X, y) > 0.9

    def test_weights_count_rows(self) -> None:
        X = np.repeat([[0.0], [1.0]], 40, axis=0)
        y = np.tile([0, 1], 40)
        weights = np.where((X[:, 0] == 1) & (y == 1), 1.0, 9.0)
        model = DropoutClassifier(**SMALL | {"max_iter": 60}).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [0.5, 0.1], atol=0.1)


class TestTraining:
    def test_rows_of_weight_zero_are_not_there(self) -> None:
        X, y = linear()
        counts = np.arange(60) % 3 > 0
        one = DropoutRegressor(**SMALL).fit(X, y, sample_weight=np.where(counts, 2.0, 0.0))
        two = DropoutRegressor(**SMALL).fit(X[counts], y[counts], sample_weight=np.full(40, 2.0))
        np.testing.assert_array_equal(one.predict(X), two.predict(X))

    def test_stops_early_with_the_best_weights(self) -> None:
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(120, 3)), rng.normal(size=120)
        settings = SMALL | {"max_iter": 200, "n_iter_no_change": 3}
        model = DropoutRegressor(**settings).fit(X, y)
        (member,) = model.members_
        assert model.n_iter_ == len(member.history) == member.history.best.epoch + 3 < 200
        patient = DropoutRegressor(**settings | {"max_iter": 5}, early_stopping=False).fit(X, y)
        assert patient.n_iter_ == 5
        assert patient.members_[0].history.best is None

    def test_the_split_takes_the_same_share_of_each_class(self) -> None:
        classes = np.repeat([0, 1, 2], [200, 60, 4])
        learned, held_out = split(classes, 0.1, np.random.default_rng(0))
        assert sorted([*learned, *held_out]) == list(range(264))
        assert np.bincount(classes[held_out], minlength=3).tolist() == [20, 6, 0]
        assert len(split(classes[:99], 0.1, np.random.default_rng(0))[1]) == 0
        for fraction in (0.15, 0.3, 0.6):
            held_out = split(np.zeros(100), fraction, np.random.default_rng(0))[1]
            assert len(held_out) == round(100 * fraction)

    def test_weights_scale_as_copies_do(self) -> None:
        table = np.random.default_rng(0).normal(5, 2, size=(4, 2))
        counts = np.array([1, 3, 2, 1])
        weighted = Scaling.of(table, counts)
        copies = np.repeat(table, counts, axis=0)
        np.testing.assert_allclose(weighted.mean, copies.mean(0))
        np.testing.assert_allclose(weighted.scale, copies.std(0))
        np.testing.assert_allclose(weighted.scaled(table), (table - copies.mean(0)) / copies.std(0))

    def test_the_size_of_the_noise_is_that_of_precision_scaling(self) -> None:
        generator = torch.Generator().manual_seed(0)
        draws = torch.randn(7, 30, 2, generator=generator, dtype=torch.float64)
        y = 3 * torch.randn(30, 1, generator=generator, dtype=torch.float64)
        p = Predictive.from_draws(HeteroscedasticGaussian(), draws)
        rows = LabelledRows(torch.zeros(30, 1, dtype=torch.float64), y, None)
        factor = PrecisionScaling().fit(p, y).factor
        expected = -factor.log() + np.log(30 / 28)
        torch.testing.assert_close(log_noise_factors(p, rows)[0], expected, atol=5e-3, rtol=0)

        counts = torch.arange(30) % 3 + 1
        weighted = log_noise_factors(p, LabelledRows(rows.x, y, counts.double()))
        copied = log_noise_factors(
            Predictive.from_draws(p.likelihood, draws.repeat_interleave(counts, 1)),
            LabelledRows(
                torch.zeros(60, 1, dtype=torch.float64), y.repeat_interleave(counts, 0), None
            ),
        )
        known = float(counts.sum() ** 2 / counts.square().sum())  # what they are worth
        wider = np.log(known / (known - 2)) - np.log(60 / 58)
        torch.testing.assert_close(weighted, copied + wider)

    def test_partial_fit_goes_on(self) -> None:
        X, y = linear(300)
        model = DropoutRegressor(**SMALL)
        scores = []
        for start in range(0, 300, 60):
            model.partial_fit(X[start : start + 60], y[start : start + 60])
            scores.append(model.score(X, y))
        assert scores[-1] > max(0.6, scores[0])
        assert model.n_iter_ == 5
        assert model.members_[0].rows_seen == 300
        model.fit(X, y)
        assert model.members_[0].rows_seen == 300
        with pytest.raises(ValueError, match=r"y: expected targets of shape .*got \(300, 2\)"):
            model.partial_fit(X, np.stack([y, y], 1))

    def test_partial_fit_of_a_classifier_knows_all_classes(self) -> None:
        X, y = linear()
        labels = np.where(y > 8, "high", "low")
        model = DropoutClassifier(**SMALL)
        with pytest.raises(ValueError, match="classes: expected all labels in the first call"):
            model.partial_fit(X, labels)
        model.partial_fit(X[:2], ["low", "low"], classes=["low", "high"])
        model.partial_fit(X, labels)
        assert model.predict_proba(X).shape == (60, 2)
        with pytest.raises(ValueError, match=r"y: expected labels among .*got \['none'\]"):
            model.partial_fit(X[:1], ["none"])
        with pytest.raises(ValueError, match=r"classes: expected .* as in the first call"):
            model.partial_fit(X, labels, classes=["low", "none"])


class TestModules:
    @pytest.mark.parametrize("method", METHODS)
    def test_any_network(self, method: Any) -> None:
        X, y = linear(noise=3.0)
        # a learned rate falls to .005: of 8 units none is dropped in 2000 draws with P = e⁻⁸⁰
        settings = SMALL | {"max_iter": 30, "draws": 2000}
        model = DropoutRegressor(**settings, method=method, module=own_modules)
        assert model.fit(X, y).score(X, y) > 0.4
        assert (model.predictive(X).epistemic > 0).all()

    def test_functional_dropout_stays_as_it_is(self) -> None:
        X, y = linear()
        model = DropoutRegressor(**SMALL, method="mc", module=Own).fit(X, y)
        assert type(model.members_[0].network) is Own
        assert (model.predictive(X).epistemic > 0).all()
        with pytest.raises(ValueError, match="module: expected a network with dropout before"):
            DropoutRegressor(**SMALL, method="concrete", module=Own).fit(X, y)

    def test_networks_without_noise_are_refused(self) -> None:
        with pytest.raises(ValueError, match="module: expected a network with dropout"):
            DropoutRegressor(**SMALL | {"hidden_layer_sizes": ()}, method="mc").fit(*linear())
        linear_model = DropoutRegressor(**SMALL | {"hidden_layer_sizes": ()}, method="bayes")
        assert (linear_model.fit(*linear()).predictive(linear()[0]).epistemic > 0).all()


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"method": "magic"}, ValueError, "method: expected one of 'mc'"),
        ({"activation": "sin"}, ValueError, "activation: expected one of 'relu'"),
        ({"noise": "none"}, ValueError, "noise: expected one of 'constant', 'varying'"),
        ({"hidden_layer_sizes": (0,)}, ValueError, "hidden_layer_sizes: expected a whole"),
        ({"hidden_layer_sizes": "big"}, TypeError, "hidden_layer_sizes: expected a whole"),
        ({"drop": 1.0}, ValueError, r"drop: expected a number in \(0, 1\), got 1.0"),
        ({"drop": "0.1"}, TypeError, "drop: expected a number"),
        ({"members": 0}, ValueError, "members: expected a whole number >= 1, got 0"),
        ({"draws": 2.5}, TypeError, "draws: expected a whole number"),
        ({"learning_rate_init": 0}, ValueError, "learning_rate_init: expected a number > 0"),
        ({"batch_size": "all"}, TypeError, "batch_size: expected a whole number"),
        ({"max_iter": 0}, ValueError, "max_iter: expected a whole number"),
        ({"early_stopping": "yes"}, TypeError, "early_stopping: expected True or False"),
        ({"validation_fraction": 1.5}, ValueError, "validation_fraction: expected a number in"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change: expected a whole number"),
        ({"verbose": "yes"}, TypeError, "verbose: expected a whole number"),
        ({"module": nn.Linear(3, 1)}, TypeError, "module: expected a function of .*got Linear"),
        ({"module": lambda i, o: None}, TypeError, "module: expected a function that returns an"),
        (
            {"module": lambda i, o: own_modules(i, 5)},
            ValueError,
            r"module: .*\(2, 1\) .*got \(2, 5",
        ),
    ],
)
def test_bad_parameters(settings: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        DropoutRegressor(**SMALL | settings).fit(*linear())


def test_bad_data() -> None:
    X, y = linear()
    with pytest.raises(ValueError, match="sample_weight: expected counts >= 0"):
        DropoutRegressor(**SMALL).fit(X, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="y: expected at least 2 classes, got 1"):
        DropoutClassifier(**SMALL).fit(X, np.zeros(60, int))


def test_targets_too_large_to_be_scaled_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="expected columns whose variance fits into float64"):
        dubio.DropoutRegressor(max_iter=1, random_state=0).fit(x, 1e300 * x[:, 0])
