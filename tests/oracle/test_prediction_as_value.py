"""Rows, joins and files of predictions against the same operations on their draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dubio
from dubio.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    LearnedGaussian,
    Likelihood,
    Multinomial,
    MultivariateGaussian,
    NegativeBinomial,
    Point,
    Poisson,
    StudentT,
)
from dubio.predictive.predictive import Predictive, StoredDraws

EVERY_KIND = [
    (Bernoulli(pos_weight=[1.0, 2.0]), 2),
    (Categorical(void=-100, class_weights=torch.ones(3), smoothing=0.1), 3),
    (Gaussian(4.0), 2),
    (Gaussian(torch.tensor([1.0, 2.0])), 2),
    (HeteroscedasticGaussian(missing="ignore"), 4),
    (HeteroscedasticGaussian(scalar=True), 2),
    (Laplace(), 4),
    (Multinomial(3), 3),
    (MultivariateGaussian(), 5),
    (NegativeBinomial(), 4),
    (Point(), 2),
    (Poisson(), 2),
    (StudentT(5.0), 4),
]


def outputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def prediction(rows: int = 6, draws: int = 5, seed: int = 0) -> Predictive:
    return Predictive.from_draws(Categorical(), outputs(draws, rows, 3, seed=seed))


class OwnLikelihood(dubio.likelihoods.Numeric):
    def mean(self, outputs: Tensor) -> Tensor:
        return outputs

    def variance(self, outputs: Tensor) -> Tensor:
        return torch.ones_like(outputs)

    def log_density(self, outputs: Tensor, y: Tensor) -> Tensor:
        return -0.5 * (outputs - y) ** 2


class TestFromDraws:
    def test_it_is_the_mixture_over_the_draws(self) -> None:
        draws = outputs(7, 4, 3)
        p = Predictive.from_draws(Categorical(), draws)
        assert len(p) == 4
        assert p.draws is draws
        torch.testing.assert_close(p.mean, draws.softmax(-1).mean(0))

    def test_it_is_what_predict_gives(self) -> None:
        net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(), torch.nn.Linear(8, 3))
        x = outputs(4, 2)
        p = dubio.predict(net, x, draws=9, likelihood=Categorical())
        again = Predictive.from_draws(Categorical(), p.draws)
        assert torch.equal(again.mutual_information, p.mutual_information)

    @pytest.mark.parametrize(
        ("likelihood", "draws", "error", "match"),
        [
            (None, outputs(2, 3), TypeError, "likelihood: expected an instance"),
            (Categorical, outputs(2, 3, 4), TypeError, "likelihood: expected an instance"),
            (Point(), [[1.0]], TypeError, "draws: expected a tensor"),
            (Point(), torch.ones(3), ValueError, "expected a non-empty tensor"),
            (Point(), torch.ones(0, 3), ValueError, "expected a non-empty tensor"),
            (Point(), torch.ones(2, 3, dtype=torch.long), ValueError, "floating-point"),
            (HeteroscedasticGaussian(), outputs(2, 3, 5), ValueError, "outputs: expected"),
        ],
    )
    def test_what_cannot_be_draws(
        self, likelihood: Any, draws: Any, error: type[Exception], match: str
    ) -> None:
        with pytest.raises(error, match=match):
            Predictive.from_draws(likelihood, draws)

    def test_broken_rows_are_a_warning(self) -> None:
        draws = outputs(5, 4, 2)
        draws[1, 2, 0] = torch.nan
        with pytest.warns(RuntimeWarning, match="1 of 4 rows"):
            Predictive.from_draws(Point(), draws)


class TestRows:
    @pytest.mark.parametrize(
        "key",
        [
            slice(2, 5),
            slice(None, None, -1),
            slice(-2, None),
            slice(0, 6, 2),
            [0, 3],
            [-1, 0, 0],
            [True, False, False, True, False, False],
            range(1, 4),
            np.array([4, 1]),
            np.arange(6) > 3,
            torch.tensor([5, 2]),
            torch.arange(6) < 2,
            torch.tensor([1], dtype=torch.uint8),
        ],
        ids=str,
    )
    def test_as_numpy_picks_them(self, key: Any) -> None:
        p = prediction()
        array_key = key.numpy() if isinstance(key, Tensor) else key
        part = p[key]
        np.testing.assert_array_equal(part.draws, p.draws.numpy()[:, array_key])
        np.testing.assert_array_equal(part.entropy, p.entropy.numpy()[array_key])
        assert len(part) == part.draws.shape[1]
        assert part.likelihood is p.likelihood

    def test_a_prediction_may_pick_by_its_own_entropy(self) -> None:
        p = prediction()
        doubtful = p[p.entropy > p.entropy.median()]
        assert len(doubtful) == 3
        assert doubtful.entropy.min() > p.entropy.median()

    @pytest.mark.parametrize(
        ("key", "error", "match"),
        [
            (0, TypeError, r"p\[i : i \+ 1\]"),
            (np.int64(1), TypeError, r"p\[i : i \+ 1\]"),
            (torch.tensor(1), TypeError, r"p\[i : i \+ 1\]"),
            (True, TypeError, r"p\[i : i \+ 1\]"),
            ((0, 1), TypeError, "only rows can be picked"),
            (None, TypeError, "only rows can be picked"),
            (..., TypeError, "only rows can be picked"),
            ("0", TypeError, "only rows can be picked"),
            ([0.0], TypeError, "indices of int"),
            (["a"], TypeError, "a mask or indices"),
            (torch.ones(6), TypeError, "mask.bool"),
            ([6], IndexError, "from -6 to 5, got 6"),
            ([-7], IndexError, "from -6 to 5, got -7"),
            (torch.ones(5, dtype=torch.bool), IndexError, "mask for 6 rows, got one for 5"),
            (torch.ones(6, 3, dtype=torch.bool), IndexError, "one dimension"),
            ([], IndexError, "at least one"),
            (slice(4, 2), IndexError, "at least one"),
            (torch.zeros(6, dtype=torch.bool), IndexError, "at least one"),
        ],
        ids=str,
    )
    def test_what_picks_no_rows(self, key: Any, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            prediction()[key]

    def test_it_cannot_be_iterated_over(self) -> None:
        with pytest.raises(TypeError, match="slice"):
            list(prediction())  # type: ignore[call-overload]

    def test_draws_that_are_not_kept(self) -> None:
        net = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 3))
        p = dubio.predict(net, outputs(4, 2), draws=5, keep_draws=False)
        assert len(p) == 4
        with pytest.raises(ValueError, match="keep_draws=True"):
            p[:2]


class TestTo:
    def test_it_moves_the_draws(self) -> None:
        p = prediction()
        assert p.to("cpu") is p
        assert p.to(torch.device("meta")).draws.device.type == "meta"
        assert p.draws.device.type == "cpu"

    def test_it_keeps_the_precision(self) -> None:
        with pytest.raises(TypeError, match=r"device: expected a device such as 'cpu', got torch"):
            prediction().to(torch.float64)  # type: ignore[arg-type]


class TestConcatenate:
    def test_rows_follow_each_other(self) -> None:
        p, q = prediction(4), prediction(3, seed=1)
        joined = Predictive.concatenate([p, q, p[:1]])
        assert len(joined) == 8
        torch.testing.assert_close(joined.mean, torch.cat([p.mean, q.mean, p.mean[:1]]))

    def test_parts_give_the_whole(self) -> None:
        p = prediction()
        assert torch.equal(Predictive.concatenate([p[:2], p[2:]]).draws, p.draws)

    def test_likelihoods_are_compared_by_their_settings(self) -> None:
        one, other = outputs(5, 2, 2), outputs(5, 3, 2, seed=1)
        learned = LearnedGaussian(torch.tensor([1.0, 3.0]))
        p, q = (Predictive(learned, StoredDraws(draws)) for draws in (one, other))
        assert len(Predictive.concatenate([p, q])) == 5
        with torch.no_grad():
            learned.log_noise_precision += 1
        with pytest.raises(ValueError, match="expected one likelihood"):
            Predictive.concatenate([p, Predictive(learned, StoredDraws(other))])

    @pytest.mark.parametrize("others", [Gaussian(2.0), Gaussian(1.0, "ignore"), Point()])
    def test_other_likelihoods(self, others: Likelihood) -> None:
        draws = outputs(5, 2, 2)
        p, q = (Predictive.from_draws(each, draws) for each in (Gaussian(1.0), others))
        with pytest.raises(ValueError, match="expected one likelihood"):
            Predictive.concatenate([p, q])

    @pytest.mark.parametrize(
        "draws", [outputs(4, 2, 3), outputs(5, 2, 4), outputs(5, 2, 3).double()]
    )
    def test_other_draws(self, draws: Tensor) -> None:
        with pytest.raises(ValueError, match="in number 1"):
            Predictive.concatenate([prediction(), Predictive.from_draws(Categorical(), draws)])

    @pytest.mark.parametrize("parts", [[], [torch.ones(2, 3)]])
    def test_no_predictions(self, parts: Any) -> None:
        with pytest.raises(TypeError, match="at least one Predictive"):
            Predictive.concatenate(parts)


class TestFiles:
    @pytest.mark.parametrize(("likelihood", "width"), EVERY_KIND, ids=str)
    def test_what_is_saved_comes_back(
        self, likelihood: Likelihood, width: int, tmp_path: Path
    ) -> None:
        p = Predictive.from_draws(likelihood, outputs(5, 4, width))
        p.save(tmp_path / "p.pt")
        again = Predictive.load(str(tmp_path / "p.pt"))
        assert repr(again.likelihood) == repr(p.likelihood)
        assert torch.equal(again.draws, p.draws)
        assert torch.equal(again.variance, p.variance)
        assert [path.name for path in tmp_path.iterdir()] == ["p.pt"]

    def test_a_learned_likelihood_is_saved_as_it_was(self, tmp_path: Path) -> None:
        learned = LearnedGaussian(3.0)
        p = Predictive.from_draws(learned, outputs(5, 4, 1))
        with torch.no_grad():
            learned.log_noise_precision += 1
        p.save(tmp_path / "p.pt")
        aleatoric = Predictive.load(tmp_path / "p.pt").aleatoric
        torch.testing.assert_close(aleatoric, torch.full((4, 1), 1 / 3))

    def test_some_rows_take_the_room_of_some_rows(self, tmp_path: Path) -> None:
        p = prediction(rows=10_000)
        p[:1].save(tmp_path / "p.pt")
        assert (tmp_path / "p.pt").stat().st_size < 10_000

    def test_graphs_are_left_out(self, tmp_path: Path) -> None:
        Predictive.from_draws(Point(), outputs(5, 4, 1).requires_grad_()).save(tmp_path / "p.pt")
        assert not Predictive.load(tmp_path / "p.pt").draws.requires_grad

    def test_no_likelihood_of_ones_own(self, tmp_path: Path) -> None:
        p = Predictive.from_draws(OwnLikelihood(), outputs(5, 4, 1))
        with pytest.raises(TypeError, match="from_draws"):
            p.save(tmp_path / "p.pt")
        assert not list(tmp_path.iterdir())

    def test_draws_that_are_not_kept(self, tmp_path: Path) -> None:
        net = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 3))
        p = dubio.predict(net, outputs(4, 2), draws=5, keep_draws=False)
        with pytest.raises(ValueError, match="keep_draws=True"):
            p.save(tmp_path / "p.pt")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"version": 2}, "got .* of version 2; load it with the dubio that wrote it"),
            ({"version": None}, "of version None"),
            ({"format": "other"}, "cannot be read"),
            ({"likelihood": "Likelihood"}, "cannot be read"),
            ({"likelihood": "torch.nn.Linear"}, "cannot be read"),
            ({"settings": {"unknown": 1}}, "cannot be read"),
            ({"settings": {"noise_precision": -1.0}}, "finite and > 0"),
            ({"draws": [1.0]}, "expected a tensor"),
            ({"draws": torch.ones(3)}, "non-empty tensor"),
        ],
        ids=str,
    )
    def test_other_contents(self, change: dict[str, Any], match: str, tmp_path: Path) -> None:
        path = tmp_path / "p.pt"
        Predictive.from_draws(Gaussian(1.0), outputs(5, 4, 1)).save(path)
        torch.save(torch.load(path, weights_only=True) | change, path)
        with pytest.raises(ValueError, match=match):
            Predictive.load(path)

    def test_damaged_files(self, tmp_path: Path) -> None:
        path = tmp_path / "p.pt"
        prediction(rows=200).save(path)
        content = path.read_bytes()
        middle = len(content) // 2
        for damaged in (
            b"",
            content[:middle],
            content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        ):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="cannot be read"):
                Predictive.load(path)

    def test_code_is_not_run(self, tmp_path: Path) -> None:
        torch.save({"format": "dubio.Predictive", "draws": OwnLikelihood()}, tmp_path / "p.pt")
        with pytest.raises(ValueError, match="cannot be read"):
            Predictive.load(tmp_path / "p.pt")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="check the path"):
            Predictive.load(tmp_path / "p.pt")
